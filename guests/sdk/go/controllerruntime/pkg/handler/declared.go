package handler

import "k8s.io/apimachinery/pkg/runtime/schema"

// Owner is the owner that a handler enqueues.
type Owner struct {
	schema.GroupKind
	// IsController says whether only an owner that is the controller is enqueued.
	IsController bool
}

// declared is implemented by handlers that a mapping of the host can replace.
type declared interface{ owner() *Owner }

// owner returns nil: the object itself is enqueued.
func (*TypedEnqueueRequestForObject[object]) owner() *Owner { return nil }

func (e *enqueueRequestForOwner[object]) owner() *Owner { return &Owner{e.groupKind, e.isController} }

// Declared says whether a mapping of the host can replace a handler, and which owner it enqueues: nil for the object
// itself.
func Declared(handler any) (owner *Owner, isDeclared bool) {
	of, isDeclared := handler.(declared)
	if !isDeclared {
		return nil, false
	}
	return of.owner(), true
}
