// The greeter in Go with faults: see README.md in the folder above.
package main

import (
	"errors"
	"fmt"
	"time"

	"flyball.dev/examples/greeter-go/greeter"
	"flyball.dev/sdk"
)

func init() { flyball.Export(faulty{}) }

func main() {}

var greetings = flyball.KindOf[greeter.Greeting]("greeter.flyball.dev/v1/Greeting")

// counted is the number of calls of this instance that counted.
var counted int

// faulty is the greeter with faults.
type faulty struct{ greeter.Greeter }

func (faulty faulty) Reconcile(host *flyball.Host, request flyball.Request) (flyball.Outcome, error) {
	greeting, err := greetings.GetByKey(host, request.Key)
	if err != nil || greeting == nil {
		return flyball.Done, err
	}
	switch greeting.Spec.Text {
	case "fault: raise":
		return flyball.Done, raise(nil)
	case "fault: loop":
		forever()
	case "fault: recurse":
		return flyball.Done, flyball.Terminalf("reached depth %d", recurse(len(greeting.Spec.Text)))
	case "fault: sleep":
		time.Sleep(time.Minute)
	case "fault: error":
		return flyball.Done, errors.New("asked to fail")
	case "fault: terminal":
		return flyball.Done, flyball.Terminalf("no retry can help")
	case "fault: requeue":
		return flyball.RequeueAfter(50 * time.Millisecond), nil
	case "fault: conflict":
		return flyball.Done, conflict(host, greeting.Meta)
	case "fault: count":
		counted++
		return flyball.Done, flyball.Terminalf("call %d of this instance", counted)
	}
	return faulty.Greeter.Reconcile(host, request)
}

//go:noinline
func raise(greeting *greeter.Greeting) error {
	return errors.New(greeting.Spec.Text) // the bug
}

//go:noinline
func forever() {
	for {
	}
}

//go:noinline
func recurse(depth int) int {
	return recurse(depth+1) + depth
}

func conflict(host *flyball.Host, meta flyball.Meta) error {
	meta.ResourceVersion = "1"
	err := host.Update(greetings.Name, meta, flyball.Object{"spec": flyball.Object{"text": "overwritten"}})
	if !flyball.IsConflict(err) {
		return fmt.Errorf("found no conflict: %w", err)
	}
	return fmt.Errorf("found a conflict: %w", err)
}
