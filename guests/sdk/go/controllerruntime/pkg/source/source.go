// Package source describes the objects that a controller watches.
package source

import (
	"context"
	"fmt"

	"k8s.io/client-go/util/workqueue"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Source is the source of a controller's events. A plugin can have only sources that [Kind] returns.
type Source = TypedSource[reconcile.Request]

// TypedSource is a [Source] of a controller whose requests are of another type.
type TypedSource[request comparable] interface {
	// Start is not called: the host delivers changes.
	Start(context.Context, workqueue.TypedRateLimitingInterface[request]) error
}

// SyncingSource is a source that is a kind.
type SyncingSource = TypedSyncingSource[reconcile.Request]

// TypedSyncingSource is a [SyncingSource] of a controller whose requests are of another type.
type TypedSyncingSource[request comparable] interface {
	TypedSource[request]
	WaitForSync(ctx context.Context) error
}

// Watched is a source whose events come from a kind.
type Watched[request comparable] interface {
	// Object is an empty object of the kind.
	Object() client.Object
	// Handler is the handler of the events.
	Handler() any
	// IsFiltered says whether there are predicates.
	IsFiltered() bool
	// Handle passes a change to the handler, unless a predicate filters it. old is nil for an added object, and new is
	// nil for a deleted one.
	Handle(ctx context.Context, old, new client.Object, isInitial bool, queue workqueue.TypedRateLimitingInterface[request])
}

// Kind returns the source of a kind's events.
func Kind[object client.Object](
	cache cache.Cache,
	of object,
	handler handler.TypedEventHandler[object, reconcile.Request],
	predicates ...predicate.TypedPredicate[object],
) SyncingSource {
	return TypedKind(cache, of, handler, predicates...)
}

// TypedKind returns the source of a kind's events for a controller whose requests are of another type.
func TypedKind[object client.Object, request comparable](
	_ cache.Cache,
	of object,
	handler handler.TypedEventHandler[object, request],
	predicates ...predicate.TypedPredicate[object],
) TypedSyncingSource[request] {
	return &kind[object, request]{of, handler, predicates}
}

type kind[object client.Object, request comparable] struct {
	object     object
	handler    handler.TypedEventHandler[object, request]
	predicates []predicate.TypedPredicate[object]
}

func (source *kind[object, request]) Object() client.Object { return source.object }
func (source *kind[object, request]) Handler() any          { return source.handler }
func (source *kind[object, request]) IsFiltered() bool      { return len(source.predicates) > 0 }

func (source *kind[object, request]) WaitForSync(context.Context) error { return nil }

func (source *kind[object, request]) Start(context.Context, workqueue.TypedRateLimitingInterface[request]) error {
	return fmt.Errorf("the host delivers the changes of %T: a plugin can't start their source", source.object)
}

func (source *kind[object, request]) Handle(
	ctx context.Context, old, new client.Object, isInitial bool, queue workqueue.TypedRateLimitingInterface[request],
) {
	switch {
	case old == nil:
		created := event.TypedCreateEvent[object]{Object: new.(object), IsInInitialList: isInitial}
		if passes(source.predicates, func(of predicate.TypedPredicate[object]) bool { return of.Create(created) }) {
			source.handler.Create(ctx, created, queue)
		}
	case new == nil:
		deleted := event.TypedDeleteEvent[object]{Object: old.(object)}
		if passes(source.predicates, func(of predicate.TypedPredicate[object]) bool { return of.Delete(deleted) }) {
			source.handler.Delete(ctx, deleted, queue)
		}
	default:
		updated := event.TypedUpdateEvent[object]{ObjectOld: old.(object), ObjectNew: new.(object)}
		if passes(source.predicates, func(of predicate.TypedPredicate[object]) bool { return of.Update(updated) }) {
			source.handler.Update(ctx, updated, queue)
		}
	}
}

func passes[object client.Object](
	predicates []predicate.TypedPredicate[object], of func(predicate.TypedPredicate[object]) bool,
) bool {
	for _, predicate := range predicates {
		if !of(predicate) {
			return false
		}
	}
	return true
}
