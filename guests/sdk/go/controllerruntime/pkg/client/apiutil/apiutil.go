// Package apiutil finds the kinds of objects.
package apiutil

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// IsObjectNamespaced says whether objects of this kind have a namespace.
func IsObjectNamespaced(object runtime.Object, scheme *runtime.Scheme, mapper meta.RESTMapper) (bool, error) {
	kind, err := GVKForObject(object, scheme)
	if err != nil {
		return false, err
	}
	return IsGVKNamespaced(kind, mapper)
}

// IsGVKNamespaced says whether objects of this kind have a namespace.
func IsGVKNamespaced(kind schema.GroupVersionKind, mapper meta.RESTMapper) (bool, error) {
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return false, fmt.Errorf("can't tell whether %s has a namespace: %w", kind, err)
	}
	return mapping.Scope.Name() != meta.RESTScopeNameRoot, nil
}

// GVKForObject returns the kind of an object: the object's own statement if it has no Go type of its own, or else the
// only kind that the scheme has for its type.
func GVKForObject(object runtime.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	switch object.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		kind := object.GetObjectKind().GroupVersionKind()
		if kind.Kind == "" {
			return kind, runtime.NewMissingKindErr("the metadata names no kind")
		}
		if kind.Version == "" {
			return kind, runtime.NewMissingVersionErr("the metadata names no version")
		}
		return kind, nil
	}
	kinds, isUnversioned, err := scheme.ObjectKinds(object)
	switch {
	case err != nil:
		return schema.GroupVersionKind{}, err
	case isUnversioned:
		return schema.GroupVersionKind{}, fmt.Errorf("the type %T has no version", object)
	case len(kinds) != 1:
		return schema.GroupVersionKind{}, fmt.Errorf("the scheme has several kinds for the type %T: %v", object, kinds)
	}
	return kinds[0], nil
}
