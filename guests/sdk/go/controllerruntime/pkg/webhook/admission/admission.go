// Package admission has the types of controller-runtime's admission webhooks, so that a package that has webhooks beside
// its controllers compiles. A plugin serves no webhooks.
package admission

import (
	"context"
	"errors"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sigs.k8s.io/controller-runtime/pkg/internal/admission"
)

type (
	Warnings                    = admission.Warnings
	Validator[T runtime.Object] = admission.Validator[T]
	CustomValidator             = admission.CustomValidator
	Defaulter[T runtime.Object] = admission.Defaulter[T]
	CustomDefaulter             = admission.CustomDefaulter
	DefaulterOption             = admission.DefaulterOption
)

// DefaulterRemoveUnknownOrOmitableFields is an option of a defaulter.
var DefaulterRemoveUnknownOrOmitableFields = admission.DefaulterRemoveUnknownOrOmitableFields

// Request is a request for admission.
type Request struct{ admissionv1.AdmissionRequest }

// Response is an answer to a request.
type Response struct{ admissionv1.AdmissionResponse }

// WithWarnings adds warnings.
func (response Response) WithWarnings(warnings ...string) Response {
	response.Warnings = append(response.Warnings, warnings...)
	return response
}

// Handler answers requests.
type Handler interface {
	Handle(context.Context, Request) Response
}

// HandlerFunc is a handler that is a function.
type HandlerFunc func(context.Context, Request) Response

// Handle calls the function.
func (handle HandlerFunc) Handle(ctx context.Context, request Request) Response {
	return handle(ctx, request)
}

// Webhook is a handler for a server, which a plugin doesn't have.
type Webhook struct{ Handler Handler }

// Allowed returns the answer that allows a request.
func Allowed(message string) Response {
	return ValidationResponse(true, message)
}

// Denied returns the answer that denies a request.
func Denied(message string) Response {
	return ValidationResponse(false, message)
}

// Errored returns the answer to a request that can't be handled.
func Errored(code int32, err error) Response {
	response := ValidationResponse(false, err.Error())
	response.Result.Code, response.Result.Reason = code, ""
	return response
}

// ValidationResponse returns the answer that allows or denies a request.
func ValidationResponse(isAllowed bool, message string) Response {
	code, reason := int32(200), metav1.StatusReason("")
	if !isAllowed {
		code, reason = 403, metav1.StatusReasonForbidden
	}
	return Response{admissionv1.AdmissionResponse{
		Allowed: isAllowed, Result: &metav1.Status{Code: code, Reason: reason, Message: message},
	}}
}

type requestKey struct{}

// NewContextWithRequest returns a context with a request.
func NewContextWithRequest(ctx context.Context, request Request) context.Context {
	return context.WithValue(ctx, requestKey{}, request)
}

// RequestFromContext returns the request of a context.
func RequestFromContext(ctx context.Context) (Request, error) {
	if request, isThere := ctx.Value(requestKey{}).(Request); isThere {
		return request, nil
	}
	return Request{}, errors.New("the context has no admission request")
}
