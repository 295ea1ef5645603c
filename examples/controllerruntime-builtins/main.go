// The plugin controllerruntime-builtins: the reconciler of controller-runtime's example `builtins`, which labels
// ReplicaSets. controller.go is copied from that example, unedited.
package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/plugin"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"flyball.dev/sdk"
)

func init() {
	plugin.Export(plugin.Options{
		Name: "controllerruntime-builtins", Version: "0.1.0",
		Scheme:      []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme},
		SetUp:       setUp,
		Permissions: []flyball.Permission{{Kind: "apps/v1/ReplicaSet", Verbs: []string{"get", "update"}}},
	})
}

// setUp does the same with the manager as the example's main, except for the webhooks.
func setUp(mgr ctrl.Manager) error {
	return ctrl.
		NewControllerManagedBy(mgr).
		Named("foo-controller").
		WatchesRawSource(source.Kind(mgr.GetCache(), &appsv1.ReplicaSet{},
			&handler.TypedEnqueueRequestForObject[*appsv1.ReplicaSet]{})).
		WatchesRawSource(source.Kind(mgr.GetCache(), &corev1.Pod{},
			handler.TypedEnqueueRequestForOwner[*corev1.Pod](mgr.GetScheme(), mgr.GetRESTMapper(), &appsv1.ReplicaSet{}, handler.OnlyControllerOwner()))).
		Complete(&reconcileReplicaSet{client: mgr.GetClient()})
}

func main() {}
