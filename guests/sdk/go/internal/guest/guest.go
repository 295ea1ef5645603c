//go:build wasip1

// Package guest holds the functions that the generated exports call. The package flyball sets them.
package guest

import (
	guest "flyball.dev/sdk/internal/bindings/flyball_controller_guest"
	"flyball.dev/sdk/internal/wit/types"
)

var (
	Describe  func() []uint8
	Reconcile func(queue, key string, attempt uint32) guest.Outcome
	Route     func(deltas []guest.Delta) types.Result[[]guest.RoutedKey, string]
)
