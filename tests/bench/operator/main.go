// Command operator is the usual form of a controller in Go: an operator that watches what the greeters watch, and does
// nothing. The benchmark `idle-plugins` compares its memory with that of plugins. Its argument is the path of a
// kubeconfig.
package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	greeting := &unstructured.Unstructured{}
	greeting.SetGroupVersionKind(schema.GroupVersionKind{Group: "greeter.flyball.dev", Version: "v1", Kind: "Greeting"})
	err = ctrl.NewControllerManagedBy(mgr).Named("greeter").For(greeting).Owns(&corev1.ConfigMap{}).
		Complete(reader{mgr.GetClient()})
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// reader reads the ConfigMap of a Greeting.
type reader struct{ client client.Client }

func (r reader) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Get(ctx, request.NamespacedName, &corev1.ConfigMap{}))
}
