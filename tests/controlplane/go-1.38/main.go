// Eviction-controllers runs the two controllers that Kubernetes 1.38 adds, with Kubernetes' own code, for tests that compare
// them with those of Flyball.
//
// It stands beside the kube-controller-manager of the current release, whose API server has the API of these controllers
// behind a feature gate. newController and the clients are those of cmd/kube-controller-manager/app.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/evictionrequest"
	"k8s.io/kubernetes/pkg/controller/imperativeevictionresponder"
)

// The lower bound of the resync period, as --min-resync-period has it.
const minResyncPeriod = 12 * time.Hour

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of kube-controller-manager")
	controllers := flag.String("controllers", "", "names of the controllers to run, separated by commas")
	workers := flag.Int("workers", 5, "number of keys that each controller reconciles at once")
	qps := flag.Float64("kube-api-qps", 20, "requests per second of each client")
	burst := flag.Int("kube-api-burst", 30, "burst of requests of each client")
	klog.InitFlags(nil)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// client-go derives its User-Agent, and that the managers of fields, from os.Args[0].
	os.Args[0] = "kube-controller-manager"
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatalf("can't read the kubeconfig %q: %v", *kubeconfig, err)
	}
	config.QPS, config.Burst = float32(*qps), *burst
	if err := run(ctx, config, strings.Split(*controllers, ","), *workers); err != nil {
		klog.Fatalf("can't run the controllers %q: %v", *controllers, err)
	}
}

// run runs the named controllers until ctx is done.
func run(ctx context.Context, config *restclient.Config, names []string, workers int) error {
	root, err := kubernetes.NewForConfig(restclient.AddUserAgent(config, "shared-informers"))
	if err != nil {
		return err
	}
	// As with --use-service-account-credentials.
	clients := clientbuilder.NewDynamicClientBuilder(
		restclient.AnonymousClientConfig(config), root.CoreV1(), metav1.NamespaceSystem)
	resync := time.Duration(float64(minResyncPeriod) * (rand.Float64() + 1))
	factory := informers.NewSharedInformerFactory(root, resync)
	var runs []func(context.Context, int)
	for _, name := range names {
		client, err := clients.Client(name)
		if err != nil {
			return fmt.Errorf("can't create the client of %s: %w", name, err)
		}
		run, err := newController(ctx, name, factory, client)
		if err != nil {
			return fmt.Errorf("can't create %s: %w", name, err)
		}
		runs = append(runs, run)
	}
	factory.Start(ctx.Done())
	var running sync.WaitGroup
	for _, run := range runs {
		running.Go(func() { run(ctx, workers) })
	}
	running.Wait()
	return nil
}

// newController returns the function that runs a controller.
func newController(ctx context.Context, name string, factory informers.SharedInformerFactory, client kubernetes.Interface) (func(context.Context, int), error) {
	lifecycle, pods := factory.Lifecycle().V1alpha1(), factory.Core().V1().Pods()
	switch name {
	case "evictionrequest-controller":
		controller, err := evictionrequest.NewController(ctx, name, lifecycle.Evictions(), lifecycle.EvictionRequests(), pods, client)
		if err != nil {
			return nil, err
		}
		return controller.Run, nil
	case "imperative-eviction-responder-controller":
		controller, err := imperativeevictionresponder.NewController(ctx, name, lifecycle.Evictions(), pods, client)
		if err != nil {
			return nil, err
		}
		return controller.Run, nil
	}
	return nil, fmt.Errorf("there is no such controller in this binary")
}
