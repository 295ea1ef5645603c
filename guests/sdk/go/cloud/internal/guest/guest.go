//go:build wasip1

// Package guest holds the functions that the generated exports call. The package cloud sets them.
package guest

import (
	"flyball.dev/sdk/cloud/internal/bindings/flyball_cloud_types"
	"flyball.dev/sdk/internal/wit/types"
)

var (
	Capabilities func() types.Result[[]uint8, flyball_cloud_types.Error]
	Call         func(method string, arguments, nodes []uint8) types.Result[[]uint8, flyball_cloud_types.Error]
)
