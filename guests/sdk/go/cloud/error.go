package cloud

import (
	"errors"
	"time"
)

// Kind is a kind of error that the controllers distinguish; empty for all others.
type Kind string

const (
	// KindImplementedElsewhere means that something else manages this load balancer.
	KindImplementedElsewhere Kind = "ImplementedElsewhere"
	// KindInstanceNotFound means that the cloud has no such instance. The controllers delete its node.
	KindInstanceNotFound Kind = "InstanceNotFound"
	// KindNotImplemented means that the cloud does not support the method.
	KindNotImplemented Kind = "NotImplemented"
	// KindRetry asks to be called again after a time. It does not count as a failure.
	KindRetry Kind = "Retry"
)

// Error is an error of the cloud.
type Error struct {
	Kind    Kind
	Message string
	// Wrapped says whether the error only wraps one of this kind. Kubernetes recognises some kinds only if they are not
	// wrapped.
	Wrapped bool
	// RetryAfter is the time of an error of the kind Retry.
	RetryAfter time.Duration
}

func (err *Error) Error() string { return err.Message }

// The errors without details, with the messages that they have in k8s.io/cloud-provider.
var (
	ErrImplementedElsewhere = &Error{Kind: KindImplementedElsewhere, Message: "implemented by alternate to cloud provider"}
	ErrInstanceNotFound     = &Error{Kind: KindInstanceNotFound, Message: "instance not found"}
	ErrNotImplemented       = &Error{Kind: KindNotImplemented, Message: "unimplemented"}
)

// Retry returns an error that asks to be called again after a time, such as for a cloud that throttles.
func Retry(message string, after time.Duration) *Error {
	return &Error{Kind: KindRetry, Message: message, RetryAfter: after}
}

// AsError returns the error as the controllers get it: one that wraps an [Error] has its kind.
func AsError(err error) *Error {
	if of, isOne := err.(*Error); isOne {
		return of
	}
	found := &Error{}
	if !errors.As(err, &found) {
		return &Error{Message: err.Error()}
	}
	return &Error{found.Kind, err.Error(), found.Kind != "", found.RetryAfter}
}
