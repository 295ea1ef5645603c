// Package controller holds the options and sources of controllers, for the plugin.
package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Options are the options of a controller. The options about queues, leaders and caches have no effect, because the
// host has these.
type Options[request comparable] struct {
	Do                      reconcile.TypedReconciler[request]
	RateLimiter             workqueue.TypedRateLimiter[request]
	NewQueue                func(string, workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request]
	MaxConcurrentReconciles int
	CacheSyncTimeout        time.Duration
	Name                    string
	LogConstructor          func(request *request) logr.Logger
	RecoverPanic            *bool
	LeaderElected           *bool
	EnableWarmup            *bool
	ReconciliationTimeout   time.Duration
}

// Controller is a controller that the host runs.
type Controller[request comparable] struct {
	options Options[request]
	Sources []source.TypedSource[request]
}

// New returns a controller.
func New[request comparable](options Options[request]) *Controller[request] {
	return &Controller[request]{options: options}
}

// Name returns the controller's name.
func (controller *Controller[request]) Name() string { return controller.options.Name }

// Concurrency returns how many requests may be reconciled at once.
func (controller *Controller[request]) Concurrency() int {
	return controller.options.MaxConcurrentReconciles
}

// Logger returns the logger of a request.
func (controller *Controller[request]) Logger(of *request) logr.Logger {
	return controller.options.LogConstructor(of)
}

// Watch adds a source.
func (controller *Controller[request]) Watch(source source.TypedSource[request]) error {
	controller.Sources = append(controller.Sources, source)
	return nil
}

// Reconcile reconciles a request, within the controller's time.
func (controller *Controller[request]) Reconcile(ctx context.Context, of request) (reconcile.Result, error) {
	if limit := controller.options.ReconciliationTimeout; limit > 0 {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = limited
	}
	return controller.options.Do.Reconcile(ctx, of)
}

// GetLogger returns the logger outside of requests.
func (controller *Controller[request]) GetLogger() logr.Logger { return controller.Logger(nil) }

// Start fails: the host runs the controller.
func (controller *Controller[request]) Start(context.Context) error {
	return fmt.Errorf("the host runs controller %s: a plugin can't start it", controller.Name())
}

type reconcileIDKey struct{}

// WithReconcileID returns a context with the ID of a reconcile.
func WithReconcileID(ctx context.Context, id types.UID) context.Context {
	return context.WithValue(ctx, reconcileIDKey{}, id)
}

// ReconcileIDFromContext returns the ID of a reconcile; empty outside of one.
func ReconcileIDFromContext(ctx context.Context) types.UID {
	id, _ := ctx.Value(reconcileIDKey{}).(types.UID)
	return id
}
