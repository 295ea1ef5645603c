package plugin

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"

	"flyball.dev/sdk"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Route passes changes to the predicates and handlers that the host's mappings don't replace.
func (plugin *Plugin) Route(host *flyball.Host, deltas []flyball.Delta) ([]flyball.RoutedKey, error) {
	if err := plugin.enter(host); err != nil {
		return nil, err
	}
	var keys []flyball.RoutedKey
	for _, delta := range deltas {
		for _, watch := range plugin.manager.watches {
			if _, isDeclared := plugin.mapping(watch); isDeclared || watch.kind != delta.Watch {
				continue
			}
			old, err := plugin.objectOf(watch, delta.Old)
			if err != nil {
				return nil, err
			}
			new, err := plugin.objectOf(watch, delta.New)
			if err != nil {
				return nil, err
			}
			queue := &routed{name: watch.queue}
			ctx := log.IntoContext(context.Background(), plugin.logger.WithValues("controller", watch.queue))
			if old != nil || new != nil {
				watch.Handle(ctx, old, new, delta.Initial, queue)
			}
			keys = append(keys, queue.keys...)
		}
	}
	return keys, nil
}

// objectOf parses an object into the type of a watch; nil if there is none.
func (plugin *Plugin) objectOf(watch watch, text []byte) (client.Object, error) {
	if text == nil {
		return nil, nil
	}
	of, err := plugin.manager.kindOf(watch.Object())
	if err != nil {
		return nil, err
	}
	object := watch.Object().DeepCopyObject().(client.Object)
	return object, decode(text, object, of)
}

// routed is a queue that collects keys for the host's queue.
type routed struct {
	name string
	keys []flyball.RoutedKey
}

var _ workqueue.TypedRateLimitingInterface[reconcile.Request] = (*routed)(nil)

func (queue *routed) Add(request reconcile.Request) { queue.AddAfter(request, 0) }

func (queue *routed) AddAfter(request reconcile.Request, delay time.Duration) {
	key := flyball.Key{Namespace: request.Namespace, Name: request.Name}
	queue.keys = append(queue.keys, flyball.RoutedKey{Key: key, Queue: queue.name, Delay: delay})
}

// AddRateLimited adds the key at once: the host limits the rate of failed keys.
func (queue *routed) AddRateLimited(request reconcile.Request) { queue.Add(request) }

func (queue *routed) Len() int                                     { return len(queue.keys) }
func (queue *routed) Get() (request reconcile.Request, isEnd bool) { return request, true }
func (queue *routed) Done(reconcile.Request)                       {}
func (queue *routed) Forget(reconcile.Request)                     {}
func (queue *routed) NumRequeues(reconcile.Request) int            { return 0 }
func (queue *routed) ShutDown()                                    {}
func (queue *routed) ShutDownWithDrain()                           {}
func (queue *routed) ShuttingDown() bool                           { return false }
