package flyball

import (
	"log/slog"
	"os"
	"time"

	bindings "flyball.dev/sdk/internal/bindings/flyball_controller_guest"
	_ "flyball.dev/sdk/internal/bindings/wit_exports"
	"flyball.dev/sdk/internal/guest"
	"flyball.dev/sdk/internal/wit/types"
)

// Export makes the controller this plugin's controller. Call it in an init function of the main package, because the
// host does not run main. Natively it does nothing.
func Export(controller Controller) {
	host := NewHost(sandbox{})
	slog.SetDefault(host.Log())
	guest.Describe = func() []uint8 {
		// The call can't return an error, but the host shows the last line of the log.
		defer func() {
			if err := Recovered(recover()); err != nil {
				host.Log().Error("Describe failed: " + err.Error())
				os.Exit(2)
			}
		}()
		return controller.Describe(host).JSON()
	}
	guest.Reconcile = func(queue, key string, attempt uint32) bindings.Outcome {
		defer startClock(host)()
		outcome, err := Call(controller, host, Request{ParseKey(key), queue, int(attempt)})
		switch {
		case IsTerminal(err):
			return bindings.MakeOutcomeTerminal(err.Error())
		case err != nil:
			return bindings.MakeOutcomeFailed(err.Error())
		case outcome.RequeueAfter > 0:
			return bindings.MakeOutcomeRequeueAfter(millis(outcome.RequeueAfter))
		}
		return bindings.MakeOutcomeDone()
	}
	guest.Route = func(bound []bindings.Delta) types.Result[[]bindings.RoutedKey, string] {
		defer startClock(host)()
		keys, err := CallRoute(controller, host, deltas(bound))
		if err != nil {
			return types.Err[[]bindings.RoutedKey](err.Error())
		}
		routed := make([]bindings.RoutedKey, len(keys))
		for i, key := range keys {
			routed[i] = bindings.RoutedKey{Queue: key.Queue, Key: key.Key.String(), DelayMs: millis(key.Delay)}
		}
		return types.Ok[[]bindings.RoutedKey, string](routed)
	}
}

var deltaTypes = map[uint8]DeltaType{
	bindings.DeltaTypeAdded:    Added,
	bindings.DeltaTypeModified: Modified,
	bindings.DeltaTypeDeleted:  Deleted,
}

func deltas(bound []bindings.Delta) []Delta {
	all := make([]Delta, len(bound))
	for i, delta := range bound {
		all[i] = Delta{Watch: delta.Watch, Type: deltaTypes[delta.DeltaType], Initial: delta.Initial}
		if delta.Old.IsSome() {
			all[i].Old = delta.Old.Some()
		}
		if delta.New.IsSome() {
			all[i].New = delta.New.Some()
		}
	}
	return all
}

// A guest has no files of time zones, so its time zone is UTC.
func init() { time.Local = time.UTC }
