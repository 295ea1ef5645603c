// Package spec has the types of k8s.io/kube-openapi/pkg/validation/spec that the copied package strategicpatch names.
package spec

// Schema describes a type.
type Schema struct {
	AllOf      []Schema
	Extensions map[string]any
	Items      *struct{ Schema *Schema }
	Properties map[string]Schema
	Ref        Ref
	Type       []string
}

// Ref names a schema.
type Ref string

func (ref *Ref) String() string { return string(*ref) }
