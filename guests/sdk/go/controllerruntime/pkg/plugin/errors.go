package plugin

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/sdk"
)

// namespaceTerminating is the cause that k8s.io/api/core/v1 names. That package is not imported, because its types alone
// make a plugin several times as large.
const namespaceTerminating metav1.CauseType = "NamespaceTerminating"

// reasons maps reasons of the host to reasons of the API.
var reasons = map[string]metav1.StatusReason{
	"Denied":                metav1.StatusReasonForbidden,
	"NamespaceTerminating":  metav1.StatusReasonForbidden,
	"Full":                  metav1.StatusReasonTooManyRequests,
	"Skipped":               metav1.StatusReasonServiceUnavailable,
	"Fenced":                metav1.StatusReasonServiceUnavailable,
	"Unreachable":           metav1.StatusReasonServiceUnavailable,
	"RequestEntityTooLarge": metav1.StatusReasonRequestEntityTooLarge,
}

// statusError converts an error of the world into an error of the API, about an object of a kind. The code stays the
// same.
func statusError(err error, of kind, name string) error {
	var found *flyball.APIError
	switch {
	case !errors.As(err, &found):
		return err
	case found.Reason == "UnknownKind":
		return &meta.NoKindMatchError{GroupKind: of.GroupKind(), SearchedVersions: []string{of.Version}}
	}
	details := &metav1.StatusDetails{
		Name: name, Group: of.Group, Kind: of.Kind,
		// The time is rounded up, because the API's header is in seconds.
		RetryAfterSeconds: int32((found.RetryAfter.Milliseconds() + 999) / 1000),
	}
	if found.Reason == "NamespaceTerminating" {
		details.Causes = []metav1.StatusCause{{Type: namespaceTerminating, Message: found.Message}}
	}
	reason, isHosts := reasons[found.Reason]
	if !isHosts {
		reason = metav1.StatusReason(found.Reason)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(found.Status), Reason: reason, Message: found.Message, Details: details,
	}}
}

// notFound returns the error of a read that found no object.
func notFound(of kind, key string) error {
	message := fmt.Sprintf("%s %q not found", of.text, key)
	return statusError(&flyball.APIError{Status: 404, Reason: string(metav1.StatusReasonNotFound), Message: message}, of, key)
}
