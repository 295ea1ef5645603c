// Package cache has the cache that a manager gives to sources. The host holds the cache, and a plugin declares the
// kinds and fields that it reads.
package cache

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cache reads the host's cache of the kinds that the plugin watches.
type Cache interface {
	client.Reader
	client.FieldIndexer
	// WaitForCacheSync returns true: the host calls a plugin when its caches are in sync.
	WaitForCacheSync(ctx context.Context) bool
}
