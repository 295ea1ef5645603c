package flyball

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
)

// Call reconciles a request, as the host and flyballtest do. A panic becomes an error with the place where it happened.
func Call(controller Controller, host *Host, request Request) (outcome Outcome, err error) {
	defer func() {
		if panicked := Recovered(recover()); panicked != nil {
			outcome, err = Done, panicked
		}
	}()
	return controller.Reconcile(host, request)
}

// CallRoute routes deltas, as Call reconciles. A panic becomes an error with the place where it happened.
func CallRoute(controller Controller, host *Host, deltas []Delta) (keys []RoutedKey, err error) {
	defer func() {
		if panicked := Recovered(recover()); panicked != nil {
			keys, err = nil, panicked
		}
	}()
	router, routes := controller.(Router)
	if !routes {
		return nil, errors.New("a watch maps to route, and the controller has no function Route")
	}
	return router.Route(host, deltas)
}

// Recovered turns the reason of a panic, as recover returns it, into an error with the place of the panic; nil if there
// was none. Other modules of the SDK use it where they call an author's code.
func Recovered(reason any) error {
	if reason == nil {
		return nil
	}
	return fmt.Errorf("panic: %v%s", reason, trace(string(debug.Stack())))
}

// trace returns the functions and lines below the panic in a stack, down to the SDK's own.
func trace(stack string) string {
	_, below, found := strings.Cut(stack, "\npanic(")
	if !found {
		below = stack
	}
	var text strings.Builder
	lines := strings.Split(below, "\n")
	// The rest of the line of `panic`, and its file. Then each function has two lines: its call and its file.
	for i := 2; i+1 < len(lines); i += 2 {
		function, place := lines[i], strings.TrimSpace(lines[i+1])
		if isCaller(function) {
			break
		}
		if strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "panic(") {
			continue
		}
		if at := strings.LastIndexByte(function, '('); at > 0 {
			function = function[:at]
		}
		place, _, _ = strings.Cut(place, " +0x")
		fmt.Fprintf(&text, "\n    at %s (%s)", function, place)
	}
	return text.String()
}

// isCaller says whether a function is the SDK's own, below an author's code.
func isCaller(function string) bool {
	return strings.HasPrefix(function, "flyball.dev/sdk.Call") || strings.HasPrefix(function, "flyball.dev/sdk.Export") ||
		strings.HasPrefix(function, "flyball.dev/sdk/cloud.Answer")
}
