package plugin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"flyball.dev/sdk"
)

// newInformers returns a factory whose informers of the watched kinds read the host's cache. `calls` is the number of
// calls of this instance.
func newInformers(host *flyball.Host, clients clients, watches []flyball.Watch, calls *int) (informers.SharedInformerFactory, error) {
	client, err := clients.Client("informers")
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	for _, watch := range watches {
		at := max(strings.LastIndexByte(watch.Kind, '/'), 0)
		kind := schema.FromAPIVersionAndKind(watch.Kind[:at], strings.TrimPrefix(watch.Kind[at:], "/"))
		object, err := scheme.Scheme.New(kind)
		if err != nil {
			return nil, fmt.Errorf("an informer can't read %s, which is no kind of Kubernetes: %w", watch.Kind, err)
		}
		made := newInformer(host, watch.Kind, object, calls)
		factory.InformerFor(object, func(clientset.Interface, time.Duration) cache.SharedIndexInformer { return made })
	}
	return factory, nil
}

// informer reads the host's cache, which is synced whenever a call runs.
type informer struct {
	*store
}

var _ cache.SharedIndexInformer = &informer{}

func newInformer(host *flyball.Host, kind string, object runtime.Object, calls *int) *informer {
	store := &store{
		host: host, kind: kind, object: reflect.TypeOf(object).Elem(), calls: calls,
		indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	}
	return &informer{store}
}

var errNoHandlers = errors.New("an informer of a plugin calls no event handlers, because the plugin's instances come and go: read from its lister in each call")

func (informer *informer) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	informer.host.Log().Warn(errNoHandlers.Error(), "kind", informer.kind)
	return nil, errNoHandlers
}

func (informer *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return informer.AddEventHandler(handler)
}

func (informer *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return informer.AddEventHandler(handler)
}

func (informer *informer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error {
	return nil
}
func (informer *informer) GetStore() cache.Store     { return informer.store }
func (informer *informer) GetIndexer() cache.Indexer { return informer.store }

// GetController returns nil: nobody runs.
func (informer *informer) GetController() cache.Controller { return nil }

func (informer *informer) Run(stop <-chan struct{})            { <-stop }
func (informer *informer) RunWithContext(ctx context.Context)  { <-ctx.Done() }
func (informer *informer) HasSynced() bool                     { return true }
func (informer *informer) HasSyncedChecker() cache.DoneChecker { return synced(informer.kind) }
func (informer *informer) LastSyncResourceVersion() string     { return "" }
func (informer *informer) IsStopped() bool                     { return false }

// Watches are the host's, so their errors never reach a handler.
func (informer *informer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return nil }
func (informer *informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

func (informer *informer) SetTransform(transform cache.TransformFunc) error {
	informer.transform = transform
	return nil
}

// synced is the name of a kind whose objects are there from the beginning.
type synced string

func (kind synced) Name() string          { return string(kind) }
func (kind synced) Done() <-chan struct{} { return closed }

var closed = func() chan struct{} {
	channel := make(chan struct{})
	close(channel)
	return channel
}()
