// Package export_flyball_controller_guest contains the functions that the generated exports call. It is written by hand
// and calls the functions that the controller passed to flyball.Export.
package export_flyball_controller_guest

import (
	witTypes "go.bytecodealliance.org/pkg/wit/types"

	guest "greeter/bindings/imports/flyball_controller_guest"
	"greeter/flyball"
)

func Describe() []uint8 {
	return flyball.Describe()
}

func Reconcile(queue string, key string, attempt uint32) guest.Outcome {
	if err := flyball.Reconcile(key); err != nil {
		return guest.MakeOutcomeFailed(err.Error())
	}
	return guest.MakeOutcomeDone()
}

func Route(deltas []guest.Delta) witTypes.Result[[]guest.RoutedKey, string] {
	return witTypes.Ok[[]guest.RoutedKey, string](nil)
}
