// Package flyballtest tests controllers without a cluster or a sandbox: put objects, reconcile a key, and check the writes.
//
//	cluster := flyballtest.New(flyball.Object{
//		"apiVersion": "v1", "kind": "Namespace", "metadata": flyball.Object{"name": "team"},
//	})
//	outcome, err := cluster.Reconcile(Quotas{}, "team")
//
// The controller's own description is enforced: it reads only the kinds and fields that it watches, and writes only with the
// permissions that it asks for. The cache shows every write at once, as the host's cache does for a plugin's own writes.
//
// The server supports resource versions, generations, finalizers, deletion timestamps, preconditions and the subresource
// status. It has no schemas: it neither validates nor defaults objects. A strategic merge patch is treated as a merge patch,
// and so is an apply, which also creates the object; field managers are not tracked. Grace periods are ignored.
package flyballtest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"flyball.dev/sdk"
)

// Cluster is an API server in memory, with the host's other functions.
type Cluster struct {
	store       store
	description *flyball.Description
	faults      []fault
	written     []Written
	events      []flyball.Event
	enqueued    []Enqueued
	logged      []Logged
	metrics     []Measured
	config      map[string]string
	memo        map[string]memoEntry
	observed    []flyball.Reference
	raw         map[string]any
	catalogue   flyball.Catalogue
	keys        map[string]bool
	random      uint64
}

// Written is a write that reached the server.
type Written struct {
	flyball.Write
	Err error
}

// String returns the write as in `create v1/Pod default/web-1` or `update v1/Pod/status default/web-1: … (409 Conflict)`.
func (written Written) String() string {
	verb, subresource := written.Verb, written.Subresource
	if verb == flyball.VerbUpdateStatus {
		verb, subresource = flyball.VerbUpdate, "status"
	}
	kind := written.Kind
	if subresource != "" {
		kind += "/" + subresource
	}
	text := fmt.Sprintf("%s %s %s", verb, kind, flyball.Key{Namespace: written.Namespace, Name: written.Name})
	if written.Err != nil {
		text += ": " + written.Err.Error()
	}
	return text
}

// Enqueued is a key that the controller enqueued.
type Enqueued struct {
	Queue, Key string
	Delay      time.Duration
}

// Logged is a line of the log.
type Logged struct {
	Level   slog.Level
	Message string
	Fields  []flyball.LogField
}

// Measured is a change of a metric.
type Measured struct {
	Operation flyball.MetricOperation
	Name      string
	Labels    []string
	Value     float64
}

type fault struct {
	verb, kind string
	err        error
}

// New returns a cluster with these objects. Each has its `apiVersion` and `kind`.
func New(objects ...flyball.Object) *Cluster {
	cluster := &Cluster{
		store:  newStore(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		config: map[string]string{},
		memo:   map[string]memoEntry{},
		raw:    map[string]any{},
		keys:   map[string]bool{},
		random: 0x9e3779b97f4a7c15,
	}
	for _, object := range objects {
		cluster.Put(object)
	}
	return cluster
}

// Put creates or replaces an object, with all that it holds: its status, finalizers and owners too. The server sets the UID,
// the resource version and the creation timestamp.
func (cluster *Cluster) Put(object flyball.Object) {
	copied := plain(object)
	version, _ := copied["apiVersion"].(string)
	kind, _ := copied["kind"].(string)
	if version == "" || kind == "" {
		panic("flyballtest: an object has no apiVersion or kind; see PutAs")
	}
	cluster.store.put(version+"/"+kind, copied)
}

// PutAs puts an object of this kind, such as one of a type of k8s.io/api.
func (cluster *Cluster) PutAs(kind string, object any) {
	copied := plain(object)
	copied["apiVersion"], copied["kind"] = splitKind(kind)
	cluster.Put(copied)
}

// Object returns an object; nil if there is none.
func (cluster *Cluster) Object(kind, namespace, name string) flyball.Object {
	object := cluster.store.objects[id{kind, namespace, name}]
	if object == nil {
		return nil
	}
	return plain(object)
}

// Read returns an object as a value of type T; nil if there is none.
func Read[T any](cluster *Cluster, kind, namespace, name string) *T {
	object := cluster.Object(kind, namespace, name)
	if object == nil {
		return nil
	}
	value := new(T)
	if err := json.Unmarshal(text(object), value); err != nil {
		panic(fmt.Sprintf("flyballtest: %s %s/%s: %v", kind, namespace, name, err))
	}
	return value
}

// Objects returns all objects of a kind, ordered by namespace and name.
func (cluster *Cluster) Objects(kind string) []flyball.Object {
	return cluster.store.ofKind(kind, "")
}

// Change changes an object by a JSON merge patch, as another client would.
func (cluster *Cluster) Change(kind, namespace, name string, change any) {
	key := id{kind, namespace, name}
	object, found := cluster.store.objects[key]
	if !found {
		panic(fmt.Sprintf("flyballtest: there is no %s %s/%s", kind, namespace, name))
	}
	merged, _ := merge(plain(object), plainAny(change)).(map[string]any)
	if _, err := cluster.store.replace(key, merged, true); err != nil {
		panic(err)
	}
}

// Delete deletes an object as another client would: one with finalizers gets a deletion timestamp.
func (cluster *Cluster) Delete(kind, namespace, name string) {
	if _, err := cluster.store.delete(id{kind, namespace, name}, nil); err != nil {
		panic(err)
	}
}

// Reconcile reconciles a key of the controller's first queue, under its description. A panic of the controller is an error, as
// in the sandbox.
func (cluster *Cluster) Reconcile(controller flyball.Controller, key string) (flyball.Outcome, error) {
	cluster.describe(controller)
	queue := cluster.description.Queues[0].Name
	return cluster.ReconcileRequest(controller, flyball.Request{Key: flyball.ParseKey(key), Queue: queue})
}

// ReconcileRequest reconciles a request, under the controller's description.
func (cluster *Cluster) ReconcileRequest(controller flyball.Controller, request flyball.Request) (flyball.Outcome, error) {
	cluster.describe(controller)
	return flyball.Call(controller, flyball.NewHost(world{cluster}), request)
}

// Route routes deltas, under the controller's description.
func (cluster *Cluster) Route(controller flyball.Controller, deltas ...flyball.Delta) ([]flyball.RoutedKey, error) {
	cluster.describe(controller)
	return flyball.CallRoute(controller, flyball.NewHost(world{cluster}), deltas)
}

func (cluster *Cluster) describe(controller flyball.Controller) {
	cluster.description = nil
	cluster.description = controller.Describe(flyball.NewHost(world{cluster}))
}

// Host returns a host without restrictions, for tests of single steps.
func (cluster *Cluster) Host() *flyball.Host {
	cluster.description = nil
	return flyball.NewHost(world{cluster})
}

// Now returns the cluster's time.
func (cluster *Cluster) Now() time.Time { return cluster.store.now }

// Advance advances the cluster's time.
func (cluster *Cluster) Advance(by time.Duration) { cluster.store.now = cluster.store.now.Add(by) }

// SetConfig sets the operator's value of a configuration key.
func (cluster *Cluster) SetConfig(key, value string) { cluster.config[key] = value }

// Fail lets the next call of this verb on this kind fail. The kind of a subresource is as in `v1/Pod/status`; the verbs are the
// API's, such as `create` or `update`, and `get` and `list` for live reads.
func (cluster *Cluster) Fail(verb, kind string, err error) {
	cluster.faults = append(cluster.faults, fault{verb, kind, err})
}

// Refusal returns an API error for [Cluster.Fail].
func Refusal(status int, reason string) error {
	return &flyball.APIError{Status: status, Reason: reason, Message: "the test refuses this", Effect: flyball.EffectRefused}
}

// Observe records that the host observed the deletion of an object.
func (cluster *Cluster) Observe(deletion flyball.Reference) {
	cluster.observed = append(cluster.observed, deletion)
}

// SetRaw sets the body of the answer to a live GET of a path.
func (cluster *Cluster) SetRaw(path string, body any) { cluster.raw[path] = body }

// Serve sets what discovery returns.
func (cluster *Cluster) Serve(catalogue flyball.Catalogue) { cluster.catalogue = catalogue }

// AddKey adds a signing key of the host.
func (cluster *Cluster) AddKey(name string) { cluster.keys[name] = true }

// Writes returns all writes since the last call of Writes or Written, those that failed too.
func (cluster *Cluster) Writes() []Written { return take(&cluster.written) }

// Written returns the same as Writes as lines: `create v1/Pod default/web-1`.
func (cluster *Cluster) Written() []string {
	lines := []string{}
	for _, written := range cluster.Writes() {
		lines = append(lines, written.String())
	}
	return lines
}

// RecordedEvents returns all events since the last call.
func (cluster *Cluster) RecordedEvents() []flyball.Event { return take(&cluster.events) }

// Events returns the same as RecordedEvents as lines: `Normal Created Created pod: web-1`.
func (cluster *Cluster) Events() []string {
	lines := []string{}
	for _, event := range cluster.RecordedEvents() {
		lines = append(lines, fmt.Sprintf("%s %s %s", event.Type, event.Reason, event.Message))
	}
	return lines
}

// Enqueued returns all keys that the controller enqueued since the last call.
func (cluster *Cluster) Enqueued() []Enqueued { return take(&cluster.enqueued) }

// Logged returns all lines of the log since the last call.
func (cluster *Cluster) Logged() []Logged { return take(&cluster.logged) }

// Metrics returns all changes of metrics since the last call.
func (cluster *Cluster) Metrics() []Measured { return take(&cluster.metrics) }

func take[T any](list *[]T) []T {
	taken := *list
	*list = nil
	return taken
}

// admit fails if the controller does not ask for this verb, or if a failure is due.
func (cluster *Cluster) admit(verb, kind, subresource string) error {
	whole := kind
	if subresource != "" {
		whole += "/" + subresource
	}
	if cluster.description != nil && !cluster.allows(verb, kind, subresource) {
		return denied(fmt.Sprintf("the plugin does not ask to %s %s", verb, whole))
	}
	for i, fault := range cluster.faults {
		if fault.verb == verb && fault.kind == whole {
			cluster.faults = slices.Delete(cluster.faults, i, i+1)
			return fault.err
		}
	}
	return nil
}

func (cluster *Cluster) allows(verb, kind, subresource string) bool {
	return slices.ContainsFunc(cluster.description.Permissions, func(permission flyball.Permission) bool {
		return (permission.Kind == kind || permission.Kind == "*") && permission.Subresource == subresource &&
			(slices.Contains(permission.Verbs, verb) || slices.Contains(permission.Verbs, "*"))
	})
}

// watched returns the fields of a kind that the controller watches; an error if it does not watch it.
func (cluster *Cluster) watched(kind string) ([]string, error) {
	if cluster.description == nil {
		return []string{"."}, nil
	}
	for _, watch := range cluster.description.Watches {
		switch {
		case watch.Kind == kind && watch.MetadataOnly:
			return []string{"metadata"}, nil
		case watch.Kind == kind:
			return watch.Fields, nil
		case watch.Discovered != nil && !slices.Contains(watch.Discovered.Except, kind):
			return []string{"metadata"}, nil
		}
	}
	return nil, denied("the plugin does not watch " + kind)
}

func denied(message string) error {
	return &flyball.APIError{Status: 403, Reason: "Denied", Message: message, Effect: flyball.EffectNone}
}

func invalid(message string) error {
	return &flyball.APIError{Status: 400, Reason: "Invalid", Message: message, Effect: flyball.EffectNone}
}

func refused(status int, reason, message string) error {
	return &flyball.APIError{Status: status, Reason: reason, Message: message, Effect: flyball.EffectRefused}
}
