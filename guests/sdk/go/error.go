package flyball

import (
	"errors"
	"fmt"
	"time"
)

// Effect is the possible effect of a failed call.
type Effect string

const (
	// EffectNone means that no request was sent, or only requests that read.
	EffectNone Effect = "none"
	// EffectRefused means that the API server refused the request.
	EffectRefused Effect = "refused"
	// EffectUnknown means that a request was sent and it is not known whether it took effect.
	EffectUnknown Effect = "unknown"
)

// APIError is an error of the API server or of the host.
type APIError struct {
	// Status is the HTTP status.
	Status int
	// Reason is the API's reason, such as `NotFound`, or one of the host's, such as `Denied`. See the WIT type `error`.
	Reason  string
	Message string
	Effect  Effect
	// RetryAfter is how long the server asks to wait; zero if it does not say.
	RetryAfter time.Duration
}

func (err *APIError) Error() string {
	return fmt.Sprintf("%s (%d %s)", err.Message, err.Status, err.Reason)
}

// ReasonOf returns the reason of an [APIError] in the chain of an error; empty if there is none.
func ReasonOf(err error) string {
	var of *APIError
	if errors.As(err, &of) {
		return of.Reason
	}
	return ""
}

// IsNotFound says whether the object does not exist.
func IsNotFound(err error) bool { return ReasonOf(err) == "NotFound" }

// IsAlreadyExists says whether the object to create exists.
func IsAlreadyExists(err error) bool { return ReasonOf(err) == "AlreadyExists" }

// IsConflict says whether the object has changed since it was read, or a precondition failed.
func IsConflict(err error) bool { return ReasonOf(err) == "Conflict" }

// IsInvalid says whether the API server or the host refused the content of a request.
func IsInvalid(err error) bool { return ReasonOf(err) == "Invalid" }

// IsForbidden says whether the plugin's service account lacks the right.
func IsForbidden(err error) bool { return ReasonOf(err) == "Forbidden" }

// IsDenied says whether the plugin's policy does not grant the call.
func IsDenied(err error) bool { return ReasonOf(err) == "Denied" }

// IsNamespaceTerminating says whether an object was refused because its namespace is being deleted. A controller can
// ignore that.
func IsNamespaceTerminating(err error) bool { return ReasonOf(err) == "NamespaceTerminating" }

// IsTooManyRequests says whether the server asks to slow down.
func IsTooManyRequests(err error) bool { return ReasonOf(err) == "TooManyRequests" }

// IsUnknownKind says whether the server does not serve the kind. It says nothing about the object.
func IsUnknownKind(err error) bool { return ReasonOf(err) == "UnknownKind" }

// IsTimeout says whether no complete answer came in time.
func IsTimeout(err error) bool {
	reason := ReasonOf(err)
	return reason == "Timeout" || reason == "ServerTimeout"
}

// MayHaveTakenEffect says whether the failed call may have taken effect.
func MayHaveTakenEffect(err error) bool {
	var of *APIError
	return errors.As(err, &of) && of.Effect == EffectUnknown
}

type terminal struct{ error }

func (err terminal) Unwrap() error { return err.error }

// Terminal marks an error that no retry can resolve. The host reports it, and does not retry until something changes.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return terminal{err}
}

// Terminalf formats an error that no retry can resolve, as [fmt.Errorf] does.
func Terminalf(format string, arguments ...any) error {
	return terminal{fmt.Errorf(format, arguments...)}
}

// IsTerminal says whether an error was marked by [Terminal].
func IsTerminal(err error) bool {
	var of terminal
	return errors.As(err, &of)
}
