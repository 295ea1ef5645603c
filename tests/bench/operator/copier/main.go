// Command copier does what the benchmark's relay does, in Go and with client-go alone: it copies the values of the
// ConfigMaps of one namespace to those of another. The benchmark `copies` compares what an event and a request cost.
// Its arguments are the path of a kubeconfig and both namespaces.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

// The relay's concurrency, and the rate limits of the benchmark's controllers.
const (
	workers = 4
	qps     = 5000
	burst   = 10000
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, from, to string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// As kube-controller-manager asks.
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.QPS, config.Burst = qps, burst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	maps := factory.Core().V1().ConfigMaps()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	add := func(object any) {
		if each, ok := object.(*corev1.ConfigMap); ok && each.Namespace == from {
			queue.Add(each.Name)
		}
	}
	_, err = maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, object any) { add(object) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	copier := copier{client: client, lister: maps.Lister(), from: from, to: to}
	for range workers {
		go func() {
			for {
				name, shutdown := queue.Get()
				if shutdown {
					return
				}
				if err := copier.copy(ctx, name); err != nil {
					queue.AddRateLimited(name)
				} else {
					queue.Forget(name)
				}
				queue.Done(name)
			}
		}()
	}
	fmt.Println("Starting workers")
	<-ctx.Done()
	return nil
}

type copier struct {
	client   kubernetes.Interface
	lister   listers.ConfigMapLister
	from, to string
}

func (c copier) copy(ctx context.Context, name string) error {
	source, err := c.lister.ConfigMaps(c.from).Get(name)
	if err != nil {
		if errors.IsNotFound(err) {
			return nil
		}
		return err
	}
	value := source.Data["value"]
	target, err := c.lister.ConfigMaps(c.to).Get(name)
	if errors.IsNotFound(err) {
		made := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.to},
			Data:       map[string]string{"value": value},
		}
		_, err = c.client.CoreV1().ConfigMaps(c.to).Create(ctx, made, metav1.CreateOptions{})
		return err
	}
	if err != nil || target.Data["value"] == value {
		return err
	}
	target = target.DeepCopy()
	target.Data = map[string]string{"value": value}
	_, err = c.client.CoreV1().ConfigMaps(c.to).Update(ctx, target, metav1.UpdateOptions{})
	return err
}
