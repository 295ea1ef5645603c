// Package controllerruntime implements controller-runtime's API on Flyball's world, for reconcilers that are compiled
// into a plugin. The README lists the parts that are copied from controller-runtime, replaced or absent.
package controllerruntime

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

type (
	Builder       = builder.Builder
	Request       = reconcile.Request
	Result        = reconcile.Result
	Manager       = manager.Manager
	SchemeBuilder = scheme.Builder
	GroupVersion  = schema.GroupVersion
	GroupResource = schema.GroupResource
	TypeMeta      = metav1.TypeMeta
	ObjectMeta    = metav1.ObjectMeta
)

var (
	NewControllerManagedBy = builder.ControllerManagedBy
	CreateOrUpdate         = controllerutil.CreateOrUpdate
	SetControllerReference = controllerutil.SetControllerReference
	Log                    = log.Log
	LoggerFrom             = log.FromContext
	LoggerInto             = log.IntoContext
	SetLogger              = log.SetLogger
)
