// The plugin namespace-defaults: see the package defaults.
package main

import (
	"flyball.dev/examples/namespace-defaults/defaults"
	"flyball.dev/sdk"
)

func init() { flyball.Export(defaults.Controller{}) }

func main() {}
