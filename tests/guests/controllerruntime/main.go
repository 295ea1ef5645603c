// The plugin controllerruntime-requests: the controller of controller-runtime's own integration test of controllers
// (pkg/controller/controller_integration_test.go). Where the test reads a request from a channel, the plugin logs it.
package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/plugin"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const testNamespace = "true"

func init() {
	plugin.Export(plugin.Options{
		Name: "controllerruntime-requests", Version: "0.1.0",
		Scheme: []func(*runtime.Scheme) error{appsv1.AddToScheme},
		SetUp:  setUp,
	})
}

func setUp(mgr ctrl.Manager) error {
	instance, err := controller.New("foo-controller", mgr, controller.Options{
		Reconciler: reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			log.FromContext(ctx).Info("reconciled " + request.String())
			return reconcile.Result{}, nil
		}),
	})
	if err != nil {
		return err
	}
	err = instance.Watch(
		source.Kind(mgr.GetCache(), &appsv1.ReplicaSet{},
			handler.TypedEnqueueRequestForOwner[*appsv1.ReplicaSet](mgr.GetScheme(), mgr.GetRESTMapper(), &appsv1.Deployment{}),
			makeNamespacePredicate[*appsv1.ReplicaSet](testNamespace),
		),
	)
	if err != nil {
		return err
	}
	return instance.Watch(
		source.Kind(mgr.GetCache(), &appsv1.Deployment{},
			&handler.TypedEnqueueRequestForObject[*appsv1.Deployment]{},
			makeNamespacePredicate[*appsv1.Deployment](testNamespace),
		),
	)
}

// makeNamespacePredicate is the test's own.
func makeNamespacePredicate[object client.Object](namespace string) predicate.TypedPredicate[object] {
	return predicate.NewTypedPredicateFuncs[object](func(obj object) bool {
		return obj.GetNamespace() == namespace
	})
}

func main() {}
