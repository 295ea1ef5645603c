// Registry is the reference implementation of an OCI registry, which holds what it is given in a folder.
//
//	registry serve CONFIG
package main

import (
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	// It prints its own errors, and ends with them.
	_ = registry.RootCmd.Execute()
}
