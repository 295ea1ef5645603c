// Package cacheapi has the types that caches and clients share.
package cacheapi

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is an object of the API, with metadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// IndexerFunc returns the values of an index for an object.
type IndexerFunc func(Object) []string

// FieldIndexer adds indexes, by which lists with field selectors find objects.
type FieldIndexer interface {
	IndexField(ctx context.Context, object Object, field string, values IndexerFunc) error
}
