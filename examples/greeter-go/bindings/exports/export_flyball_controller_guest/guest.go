// Package export_flyball_controller_guest is where the generated exports look for the guest's functions. It is written by
// hand, and hands them on to those that the controller gave to flyball.Export.
package export_flyball_controller_guest

import (
	witTypes "go.bytecodealliance.org/pkg/wit/types"

	guest "greeter/bindings/imports/flyball_controller_guest"
	"greeter/flyball"
)

func Describe() string {
	return flyball.Describe()
}

func Reconcile(queue string, key string, attempt uint32) guest.Outcome {
	if err := flyball.Reconcile(key); err != nil {
		return guest.MakeOutcomeFailed(err.Error())
	}
	return guest.MakeOutcomeDone()
}

func Route(deltas []uint8) witTypes.Result[[]guest.Routed, string] {
	return witTypes.Ok[[]guest.Routed, string](nil)
}
