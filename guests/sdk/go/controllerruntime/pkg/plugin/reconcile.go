package plugin

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/sdk"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/internal/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Reconcile calls the reconciler of the controller that the queue belongs to.
func (plugin *Plugin) Reconcile(host *flyball.Host, request flyball.Request) (flyball.Outcome, error) {
	if err := plugin.enter(host); err != nil {
		return flyball.Done, err
	}
	controllers := plugin.manager.controllers
	name := request.Queue
	if name == "" && len(controllers) > 0 {
		name = controllers[0].Name()
	}
	called, err := plugin.manager.controller(name)
	if err != nil {
		return flyball.Done, flyball.Terminal(err)
	}
	of := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: request.Namespace, Name: request.Name}}
	id := types.UID(hex.EncodeToString(host.Random(8)))
	ctx := controller.WithReconcileID(context.Background(), id)
	ctx = log.IntoContext(ctx, called.Logger(&of).WithValues("reconcileID", id))
	result, err := called.Reconcile(ctx, of)
	counted := flyball.Request{Key: request.Key, Queue: name}
	if err == nil && result.Requeue && result.RequeueAfter == 0 {
		plugin.requeued[counted]++
		return flyball.RequeueAfter(backoff(plugin.requeued[counted])), nil
	}
	delete(plugin.requeued, counted)
	switch {
	case errors.Is(err, reconcile.TerminalError(nil)):
		return flyball.Done, flyball.Terminal(err)
	case err != nil:
		return flyball.Done, err
	case result.RequeueAfter > 0:
		return flyball.RequeueAfter(result.RequeueAfter), nil
	}
	return flyball.Done, nil
}

// backoff returns the delay of a request that has asked this many times in a row to be called again at once. The host
// counts only failures, and such a request is not a failure.
func backoff(times int) time.Duration {
	return min(5*time.Millisecond<<min(times, 18), 1000*time.Second)
}
