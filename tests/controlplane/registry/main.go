// Registry is the reference implementation of an OCI registry, with its storage in a folder.
//
//	registry serve CONFIG
package main

import (
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	// The command prints its errors and exits.
	_ = registry.RootCmd.Execute()
}
