// Package flyball is the SDK for controllers written in Go.
//
// A controller is a type with two functions. Describe declares what the controller watches, which keys a change
// enqueues and which writes it needs. Reconcile brings the cluster to the state that the object of a key asks for. A
// controller reaches everything else through the [Host]. It must not depend on state between calls: the host runs many
// instances at once, and creates and drops them at any time.
//
// A controller can't wait: time.Sleep returns at once, and moves only the plugin's own clock. That clock begins at the
// host's time in each call. Return [RequeueAfter] to be called again later.
//
// The same code runs in the sandbox, exported by [Export], and natively in tests, against the API server in memory of
// the package flyballtest.
package flyball

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Controller is the interface of the type that a plugin exports.
type Controller interface {
	// Describe returns the controller's watches and needs. Only the configuration and the log of the host are
	// available.
	Describe(host *Host) *Description

	// Reconcile brings the cluster to the state that the key's object asks for. The host retries errors with backoff,
	// except errors marked by [Terminal].
	Reconcile(host *Host, request Request) (Outcome, error)
}

// Router is a [Controller] with watches that map to Route, for rules that no declared mapping can express.
type Router interface {
	// Route turns changes into keys. After an error, the deltas are given again one at a time, with backoff.
	Route(host *Host, deltas []Delta) ([]RoutedKey, error)
}

// Request is a key to reconcile.
type Request struct {
	Key
	// Queue is the queue that the key came from.
	Queue string
	// Attempt is the number of failures of this key since it last succeeded.
	Attempt int
}

// Key names an object.
type Key struct {
	// Namespace is empty if the object is cluster-scoped.
	Namespace string
	// Name is the object's name, or the whole key if it does not name an object.
	Name string
}

// ParseKey parses `namespace/name`. A text without a slash is only a name.
func ParseKey(text string) Key {
	if namespace, name, found := strings.Cut(text, "/"); found {
		return Key{namespace, name}
	}
	return Key{Name: text}
}

// String returns `namespace/name`, or the name of a cluster-scoped object.
func (key Key) String() string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// Outcome is the result of a successful reconcile. The zero value is [Done].
type Outcome struct {
	// RequeueAfter is the time after which the key is reconciled again; zero for not at all.
	RequeueAfter time.Duration
}

// Done says that nothing is left to do. It ends the key's backoff.
var Done = Outcome{}

// RequeueAfter is like [Done], and reconciles the key again after this time.
func RequeueAfter(delay time.Duration) Outcome {
	return Outcome{RequeueAfter: max(delay, time.Millisecond)}
}

// DeltaType is the type of a change of an object.
type DeltaType string

const (
	Added    DeltaType = "added"
	Modified DeltaType = "modified"
	Deleted  DeltaType = "deleted"
)

// Delta is a change of an object, reduced to the fields that the watch declares.
type Delta struct {
	// Watch is the watch's kind; for a discovery watch, the object's own kind.
	Watch string
	Type  DeltaType
	// Old is the object before the change as JSON; nil if it was added. If the object was added and deleted since the
	// last call, Old is its last version.
	Old []byte
	// New is the object after the change; nil if it was deleted.
	New []byte
	// Initial says whether the object was there when the watch began.
	Initial bool
}

// Decode parses the object after the change or, if it was deleted, the one before it.
func (delta Delta) Decode(object any) error {
	text := delta.New
	if text == nil {
		text = delta.Old
	}
	if err := json.Unmarshal(text, object); err != nil {
		return fmt.Errorf("a delta of %s is malformed: %w", delta.Watch, err)
	}
	return nil
}

// RoutedKey is a key that Route enqueues.
type RoutedKey struct {
	Key Key
	// Queue is the queue; empty for the first one.
	Queue string
	// Delay is the time before the key is enqueued.
	Delay time.Duration
}
