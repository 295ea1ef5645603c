package flyball

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
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

// Recovered turns the reason of a panic, as recover returns it, into an error; nil if there was none. The error has the
// reason and the place in the author's code on its first line, as in all languages, and the other functions below. Other
// modules of the SDK use it where they call an author's code.
func Recovered(reason any) error {
	if reason == nil {
		return nil
	}
	frames := frames(string(debug.Stack()))
	var text strings.Builder
	fmt.Fprintf(&text, "panic: %v", reason)
	if own := ownFrame(frames); own != nil {
		fmt.Fprintf(&text, " (%s in %s)", own.place, own.function)
	}
	for _, frame := range frames {
		fmt.Fprintf(&text, "\n    at %s (%s)", frame.function, frame.place)
	}
	return errors.New(text.String())
}

// frame is a function in a stack, and its file and line.
type frame struct{ function, place string }

// frames returns the functions below the panic in a stack, the innermost first, down to the SDK's own.
func frames(stack string) []frame {
	_, below, found := strings.Cut(stack, "\npanic(")
	if !found {
		below = stack
	}
	var frames []frame
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
		frames = append(frames, frame{function, place})
	}
	return frames
}

// ownFrame returns the innermost frame that is neither the SDK's nor the standard library's. If there is none, it is the
// innermost one of all; nil if there are no frames.
func ownFrame(frames []frame) *frame {
	for i := range frames {
		if frames[i].isOwn() {
			return &frames[i]
		}
	}
	if len(frames) > 0 {
		return &frames[0]
	}
	return nil
}

func (f frame) isOwn() bool {
	if strings.HasPrefix(f.function, "flyball.dev/sdk.") || strings.HasPrefix(f.function, "flyball.dev/sdk/") {
		return false
	}
	first, _, _ := strings.Cut(f.function, ".")
	first, _, _ = strings.Cut(first, "/")
	return !slices.Contains(standard, first)
}

// standard has the first elements of the paths of the standard library's packages.
var standard = strings.Fields("archive bufio bytes cmp compress container context crypto database debug embed encoding errors " +
	"expvar flag fmt go hash html image index internal io iter log maps math mime net os path reflect regexp runtime slices " +
	"sort strconv strings structs sync syscall testing text time unicode unique unsafe vendor weak")

// isCaller says whether a function is the SDK's own, below an author's code.
func isCaller(function string) bool {
	return strings.HasPrefix(function, "flyball.dev/sdk.Call") || strings.HasPrefix(function, "flyball.dev/sdk.Export") ||
		strings.HasPrefix(function, "flyball.dev/sdk/cloud.Answer")
}
