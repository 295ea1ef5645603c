// Package openapi has the types of k8s.io/kube-openapi that the copied package strategicpatch names. They have no
// implementation: strategic merge patches are made from the tags of Go's types. The original package holds the parsers
// of two versions of OpenAPI, which are twice as large as everything else in a guest.
package openapi

// Schema describes a type.
type Schema interface {
	Accept(SchemaVisitor)
	GetPath() *Path
	GetExtensions() map[string]any
	GetName() string
}

// SchemaVisitor visits the types of a schema.
type SchemaVisitor interface {
	VisitArray(*Array)
	VisitMap(*Map)
	VisitPrimitive(*Primitive)
	VisitKind(*Kind)
	VisitReference(Reference)
}

// Path is the place of a schema.
type Path struct{}

func (*Path) String() string { return "" }

// Array is a list.
type Array struct {
	Schema
	SubType Schema
}

// Map is a map from strings.
type Map struct{ Schema }

// Primitive is a scalar.
type Primitive struct{ Schema }

// Kind is a structure.
type Kind struct {
	Schema
	Fields map[string]Schema
}

// Reference is a reference to a schema.
type Reference interface {
	Schema
	SubSchema() Schema
}
