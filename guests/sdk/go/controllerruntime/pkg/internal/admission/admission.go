// Package admission has the types of webhooks that the builder names. They are apart from the public package, because
// the types of requests make a plugin larger.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// Warnings are messages for the client.
type Warnings []string

// Validator validates objects of a type.
type Validator[T runtime.Object] interface {
	ValidateCreate(ctx context.Context, object T) (warnings Warnings, err error)
	ValidateUpdate(ctx context.Context, old, new T) (warnings Warnings, err error)
	ValidateDelete(ctx context.Context, object T) (warnings Warnings, err error)
}

// CustomValidator is a [Validator] of any type.
type CustomValidator = Validator[runtime.Object]

// Defaulter sets the defaults of objects of a type.
type Defaulter[T runtime.Object] interface {
	Default(ctx context.Context, object T) error
}

// CustomDefaulter is a [Defaulter] of any type.
type CustomDefaulter = Defaulter[runtime.Object]

// DefaulterOption is an option of a defaulter.
type DefaulterOption func()

// DefaulterRemoveUnknownOrOmitableFields is an option of a defaulter.
var DefaulterRemoveUnknownOrOmitableFields DefaulterOption = func() {}
