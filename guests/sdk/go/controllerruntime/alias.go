// Package controllerruntime implements controller-runtime's API on Flyball's world, for reconcilers that are compiled
// into a plugin. The README lists the parts that are copied from controller-runtime, replaced or absent.
package controllerruntime

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	CreateOrPatch          = controllerutil.CreateOrPatch
	CreateOrUpdate         = controllerutil.CreateOrUpdate
	SetControllerReference = controllerutil.SetControllerReference
	Log                    = log.Log
	LoggerFrom             = log.FromContext
	LoggerInto             = log.IntoContext
	SetLogger              = log.SetLogger
)

// NewWebhookManagedBy returns a builder of webhooks, which fails: a plugin has none.
func NewWebhookManagedBy[T runtime.Object](mgr manager.Manager, object T) *builder.WebhookBuilder[T] {
	return builder.WebhookManagedBy(mgr, object)
}
