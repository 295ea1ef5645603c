// Package priorityqueue has the types of controller-runtime's queue with priorities. A plugin's queues are the host's,
// which have their own priorities, and don't implement these types.
package priorityqueue

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
)

// AddOpts says how items are added.
type AddOpts struct {
	After       time.Duration
	RateLimited bool
	Priority    *int
}

// PriorityQueue is a queue with priorities.
type PriorityQueue[T comparable] interface {
	workqueue.TypedRateLimitingInterface[T]
	AddWithOpts(options AddOpts, items ...T)
	GetWithPriority() (item T, priority int, isShutDown bool)
}

// Opts is the options of a queue.
type Opts[T comparable] struct {
	RateLimiter    workqueue.TypedRateLimiter[T]
	MetricProvider workqueue.MetricsProvider
	Log            logr.Logger
}

// Opt is an option of a queue.
type Opt[T comparable] func(*Opts[T])

// New panics: the host has the queues.
func New[T comparable](name string, _ ...Opt[T]) PriorityQueue[T] {
	panic("flyball: the queue of controller " + name + " is the host's: a plugin can't create one")
}
