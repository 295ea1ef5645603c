package flyballtest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"flyball.dev/sdk"
)

// Replay repeats the calls of a recording, which `flyball record` has written, in the test's process. Each is a subtest. It
// fails where the controller asks or writes something else than it did then, or ends in another way. Calls that were
// stopped at a limit are left out, because nothing stops them here.
//
//	func TestItRepeatsWhatItDidOnTheCluster(t *testing.T) {
//		flyballtest.Replay(t, Greeter{}, "testdata/calls.fbrec")
//	}
func Replay(t *testing.T, controller flyball.Controller, file string) {
	t.Helper()
	replayAll(t, controller, file, false)
}

// ReplayFixed repeats the calls of a recording as [Replay] does, but those that failed must no longer fail: a regression
// test of a fixed bug. Such a call must end well, or ask all that the failed call asked and then more, to which the
// recording has no answer. A recording without a failed call is a mistake.
func ReplayFixed(t *testing.T, controller flyball.Controller, file string) {
	t.Helper()
	replayAll(t, controller, file, true)
}

func replayAll(t *testing.T, controller flyball.Controller, file string, fixed bool) {
	t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	var calls []recorded
	if err := start().call(0, "recording", args{"file": path, "fixed": fixed}, &calls); err != nil {
		t.Fatal(err)
	}
	if len(calls) == 0 {
		t.Fatalf("%s: the recording has no call to repeat", file)
	}
	for _, call := range calls {
		t.Run(fmt.Sprintf("line %d, %s", call.Line, call.Label), func(t *testing.T) {
			call.replay(t, controller, path, fixed)
		})
	}
}

// recorded is a call of a recording.
type recorded struct {
	Line  int    `json:"line"`
	Label string `json:"label"`
	Call  struct {
		Describe  *struct{}        `json:"describe"`
		Reconcile *recordedRequest `json:"reconcile"`
		Route     *recordedRouting `json:"route"`
	} `json:"call"`
}

type recordedRequest struct {
	Queue   string `json:"queue"`
	Key     string `json:"key"`
	Attempt int    `json:"attempt"`
}

type recordedRouting struct {
	Deltas []struct {
		Watch   string            `json:"watch"`
		Type    flyball.DeltaType `json:"type"`
		Old     json.RawMessage   `json:"old"`
		New     json.RawMessage   `json:"new"`
		Initial bool              `json:"initial"`
	} `json:"deltas"`
}

func (call recorded) replay(t *testing.T, controller flyball.Controller, path string, fixed bool) {
	cluster := &Cluster{}
	if err := start().call(0, "replay", args{"file": path, "line": call.Line}, &cluster.number); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if mistake := recover(); mistake != nil {
			t.Fatal(mistake)
		}
	}()
	ended := call.run(controller, flyball.NewHost(world{cluster}))
	cluster.do("replayed", args{"ended": ended, "fixed": fixed}, nil)
}

// run calls the controller, and returns how the call ended, as a recording has it.
func (call recorded) run(controller flyball.Controller, host *flyball.Host) args {
	switch {
	case call.Call.Reconcile != nil:
		request := call.Call.Reconcile
		outcome, err := flyball.Call(controller, host,
			flyball.Request{Key: flyball.ParseKey(request.Key), Queue: request.Queue, Attempt: request.Attempt})
		switch {
		case flyball.IsTerminal(err):
			return args{"terminal": args{"message": err.Error()}}
		case err != nil:
			return args{"failed": args{"message": err.Error()}}
		case outcome.RequeueAfter > 0:
			return args{"requeueAfter": args{"ms": millis(outcome.RequeueAfter)}}
		}
		return args{"done": args{}}
	case call.Call.Route != nil:
		keys, err := flyball.CallRoute(controller, host, call.Call.Route.deltas())
		if err != nil {
			return args{"notRouted": args{"message": err.Error()}}
		}
		routed := make([]args, len(keys))
		for i, key := range keys {
			routed[i] = args{"queue": key.Queue, "key": key.Key.String(), "delayMs": millis(key.Delay)}
		}
		return args{"routed": args{"keys": routed}}
	case call.Call.Describe != nil:
		return args{"described": args{"description": raw(controller.Describe(host).JSON())}}
	}
	panic("flyballtest: a call of this kind is repeated by `flyball replay` alone")
}

func (routing recordedRouting) deltas() []flyball.Delta {
	deltas := make([]flyball.Delta, len(routing.Deltas))
	for i, delta := range routing.Deltas {
		deltas[i] = flyball.Delta{Watch: delta.Watch, Type: delta.Type, Old: delta.Old, New: delta.New, Initial: delta.Initial}
	}
	return deltas
}
