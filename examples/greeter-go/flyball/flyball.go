// Package flyball contains the functions that a controller in Go needs: cached and live reads of JSON objects, single
// writes, events, and a reconcile that recovers from panics.
package flyball

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"

	witTypes "go.bytecodealliance.org/pkg/wit/types"

	events "greeter/bindings/imports/flyball_controller_events"
	lister "greeter/bindings/imports/flyball_controller_lister"
	reader "greeter/bindings/imports/flyball_controller_reader"
	api "greeter/bindings/imports/flyball_controller_types"
	writer "greeter/bindings/imports/flyball_controller_writer"
)

// Key names an object. Its namespace is empty if it is cluster-scoped.
type Key struct{ Namespace, Name string }

// Meta is the metadata that is always read.
type Meta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	DeletionTimestamp *string           `json:"deletionTimestamp"`
	Annotations       map[string]string `json:"annotations"`
}

// M is a JSON object.
type M = map[string]any

// Error is an error of the API server or the host.
type Error struct{ cause }

type cause = api.Error

func (e Error) Error() string {
	return fmt.Sprintf("%s (%d %s)", e.Message, e.Status, e.Reason)
}

var (
	describe  func() M
	reconcile func(Key) error
)

// Export sets the controller's functions. Call it in an init function.
func Export(describes func() M, reconciles func(Key) error) {
	describe, reconcile = describes, reconciles
}

// Describe returns the controller's description.
func Describe() []byte {
	return encode(describe())
}

// Reconcile reconciles a key. It recovers from panics, which would end the instance.
func Reconcile(key string) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
		}
	}()
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		namespace, name = "", key
	}
	return reconcile(Key{namespace, name})
}

// Get returns the cached object with the declared fields; nil if it does not exist.
func Get[T any](kind, namespace, name string) (*T, error) {
	result := lister.Get(kind, namespace, name, nil)
	if result.IsErr() {
		return nil, Error{result.Err()}
	}
	if result.Ok().IsNone() {
		return nil, nil
	}
	object := new(T)
	return object, json.Unmarshal(result.Ok().Some(), object)
}

// LiveRead is a read from the API server.
type LiveRead func(*reader.Batch)

// LiveObject reads an object. Without fields, it reads all of them.
func LiveObject(kind, namespace, name string, fields ...string) LiveRead {
	return func(batch *reader.Batch) { batch.Get(kind, namespace, name, fields) }
}

// LiveList reads a list object, with these fields of each item. The parameters are the API's, such as `labelSelector`.
func LiveList(kind, namespace string, parameters map[string]string, fields ...string) LiveRead {
	var list []reader.Parameter
	for name, value := range parameters {
		list = append(list, reader.Parameter{Name: name, Value: value})
	}
	return func(batch *reader.Batch) { batch.List(kind, namespace, list, fields) }
}

// LiveResult is the JSON that a live read returned, or its error.
type LiveResult struct {
	JSON []byte
	Err  error
}

// Into parses the JSON. It returns the error of a read that failed.
func (result LiveResult) Into(object any) error {
	if result.Err != nil {
		return result.Err
	}
	return json.Unmarshal(result.JSON, object)
}

// RunLive runs reads concurrently. It returns one result for each, in their order.
func RunLive(reads ...LiveRead) []LiveResult {
	batch := reader.MakeBatch()
	defer batch.Drop()
	for _, read := range reads {
		read(batch)
	}
	var results []LiveResult
	for _, result := range batch.Run() {
		if result.IsErr() {
			results = append(results, LiveResult{Err: Error{result.Err()}})
		} else {
			results = append(results, LiveResult{JSON: result.Ok()})
		}
	}
	return results
}

// Reference names an object that an event concerns.
type Reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Reference returns the reference to the object of this kind that was read with this metadata.
func (meta Meta) Reference(kind string) Reference {
	return Reference{kind, meta.Namespace, meta.Name, meta.UID}
}

// EventOptions are the optional fields of an event.
type EventOptions struct {
	// Action is what was done, as one CamelCase word.
	Action string `json:"action,omitempty"`
	// Related is a second object that the event concerns.
	Related     *Reference        `json:"related,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Emit emits an event about an object. The type is `Normal` or `Warning`.
func Emit(about Reference, eventType, reason, message string, options EventOptions) {
	object := api.ObjectReference{Kind: about.Kind, Namespace: about.Namespace, Name: about.Name, Uid: about.UID}
	events.Emit(object, eventType, reason, message, encode(options))
}

// Create creates an object.
func Create(kind, namespace string, object M) error {
	return write(func(batch *writer.Batch) {
		batch.Create(target(kind, namespace, ""), encode(object), nil, nil)
	})
}

// Update updates the object that was read with this metadata by a JSON merge patch.
func Update(kind string, meta Meta, change M) error {
	return write(func(batch *writer.Batch) {
		batch.Update(target(kind, meta.Namespace, meta.Name), meta.ResourceVersion, encode(change), nil, nil)
	})
}

// Delete deletes the object that was read with this metadata, with its UID as a precondition.
func Delete(kind string, meta Meta) error {
	options := encode(M{"preconditions": M{"uid": meta.UID}})
	return write(func(batch *writer.Batch) {
		batch.Delete(target(kind, meta.Namespace, meta.Name), options, nil)
	})
}

func write(add func(*writer.Batch)) error {
	batch := writer.MakeBatch()
	defer batch.Drop()
	add(batch)
	for _, result := range batch.Run() {
		if result.Tag() == witTypes.ResultErr {
			return Error{result.Err()}
		}
	}
	return nil
}

func target(kind, namespace, name string) writer.Target {
	return writer.Target{Kind: kind, Namespace: namespace, Name: name}
}

func encode(object any) []byte {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return text
}
