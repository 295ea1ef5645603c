// The plugin greeter-go: see the package greeter.
package main

import (
	"flyball.dev/examples/greeter-go/greeter"
	"flyball.dev/sdk"
)

func init() { flyball.Export(greeter.Greeter{}) }

func main() {}
