// Package flyballtest tests controllers without a cluster or a sandbox: put objects, reconcile a key, and check the
// writes.
//
//	cluster := flyballtest.New(flyball.Object{
//		"apiVersion": "v1", "kind": "Namespace", "metadata": flyball.Object{"name": "team"},
//	})
//	outcome, err := cluster.Reconcile(Quotas{}, "team")
//
// The controller runs in the test's process. The cluster is in memory, in a process that the package starts: the
// program flyball, which the variable FLYBALL names or which is on the PATH.
//
// The controller's own description is enforced: it reads only the kinds and fields that it watches, and writes only
// with the permissions that it asks for. The cache shows every write at once, as the host's cache does for a plugin's
// own writes.
//
// The server supports resource versions, generations, finalizers and graceful deletion, subresources, all patch types,
// and server-side apply with field managers and conflicts. Objects of kinds that [Cluster.Define] defines are pruned,
// defaulted and validated by their schemas, except for rules in CEL; objects of other kinds are neither checked nor
// defaulted.
package flyballtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"flyball.dev/sdk"
)

// Cluster is an API server in memory, with the host's other functions. Its clock starts at 2026-01-01T00:00:00Z.
type Cluster struct{ number int }

// New returns a cluster with these objects. Each has its `apiVersion` and `kind`.
func New(objects ...flyball.Object) *Cluster {
	cluster := &Cluster{}
	cluster.do("new", nil, &cluster.number)
	for _, object := range objects {
		cluster.Put(object)
	}
	return cluster
}

// call makes a call on this cluster. It returns the error that a controller would get.
func (cluster *Cluster) call(name string, with, result any) error {
	return start().call(cluster.number, name, with, result)
}

// do makes a call of the test, which never returns such an error.
func (cluster *Cluster) do(name string, with, result any) {
	if err := cluster.call(name, with, result); err != nil {
		panic(err)
	}
}

func keyOf(kind, namespace, name string) args {
	return args{"kind": kind, "namespace": namespace, "name": name}
}

// Define reads CustomResourceDefinitions from a file in YAML, such as the project's crd.yaml. From then on, objects of
// their kinds are pruned, defaulted and validated as by the API server. A field that a write has and the schema lacks is
// a warning in the log and in the line of [Written]. An object that the test puts must fit, and the fields that the
// controller declares must be in the schema.
func (cluster *Cluster) Define(file string) {
	path, err := filepath.Abs(file)
	if err != nil {
		panic(fmt.Sprintf("flyballtest: %v", err))
	}
	cluster.do("define", args{"file": path}, nil)
}

// Put stores an object as it is, and replaces an older one. Absent fields that a server sets (UID, resource version,
// creation time, and for a custom resource the generation) are filled in.
func (cluster *Cluster) Put(object flyball.Object) { cluster.do("put", args{"object": object}, nil) }

// PutAs puts an object of this kind, such as one of a type of k8s.io/api.
func (cluster *Cluster) PutAs(kind string, object any) {
	text, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("flyballtest: %T can't be written as JSON: %v", object, err))
	}
	var copied flyball.Object
	decode(text, &copied)
	at := strings.LastIndexByte(kind, '/')
	if at < 0 {
		panic(fmt.Sprintf("flyballtest: %q is not a kind such as apps/v1/Deployment", kind))
	}
	copied["apiVersion"], copied["kind"] = kind[:at], kind[at+1:]
	cluster.Put(copied)
}

// PutLive makes live reads return this object while the cache has another one or none.
func (cluster *Cluster) PutLive(object flyball.Object) {
	cluster.do("put-live", args{"object": object}, nil)
}

// RemoveLive makes live reads not find this object while the cache still has it.
func (cluster *Cluster) RemoveLive(kind, namespace, name string) {
	cluster.do("remove-live", keyOf(kind, namespace, name), nil)
}

// Edit changes an object by a JSON merge patch of any of its fields, as another client would.
func (cluster *Cluster) Edit(kind, namespace, name string, patch any) {
	with := keyOf(kind, namespace, name)
	with["patch"] = patch
	cluster.do("edit", with, nil)
}

// Delete deletes an object as another client would: with finalizers or a grace period, it only gets a deletion
// timestamp.
func (cluster *Cluster) Delete(kind, namespace, name string) {
	cluster.do("delete", keyOf(kind, namespace, name), nil)
}

// Remove removes an object at once.
func (cluster *Cluster) Remove(kind, namespace, name string) {
	cluster.do("remove", keyOf(kind, namespace, name), nil)
}

// Reconcile reconciles a key of the controller's first queue, under its description. A panic of the controller is an
// error, as in the sandbox.
func (cluster *Cluster) Reconcile(controller flyball.Controller, key string) (flyball.Outcome, error) {
	description := cluster.describe(controller)
	request := flyball.Request{Key: flyball.ParseKey(key), Queue: description.Queues[0].Name}
	return flyball.Call(controller, flyball.NewHost(world{cluster}), request)
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

func (cluster *Cluster) describe(controller flyball.Controller) *flyball.Description {
	description := controller.Describe(cluster.Host())
	cluster.do("restrict", args{"description": raw(description.JSON())}, nil)
	return description
}

// Host returns a host without restrictions, for tests of single steps.
func (cluster *Cluster) Host() *flyball.Host {
	cluster.do("restrict", args{"description": nil}, nil)
	return flyball.NewHost(world{cluster})
}

// Now returns the cluster's time.
func (cluster *Cluster) Now() time.Time { return world{cluster}.Now() }

// SetNow sets the cluster's time.
func (cluster *Cluster) SetNow(now time.Time) {
	cluster.do("set-now", args{"time": instantOf(now)}, nil)
}

// Advance advances the cluster's time, to a millisecond.
func (cluster *Cluster) Advance(by time.Duration) { cluster.do("advance", args{"ms": millis(by)}, nil) }

// SetConfig sets the operator's value of a configuration key.
func (cluster *Cluster) SetConfig(key, value string) {
	cluster.do("set-config", args{"key": key, "value": value}, nil)
}

// Fail lets the next call of this verb on this kind fail with an [flyball.APIError], such as a [Refusal]. The kind of a
// subresource is as in `v1/Pod/status`; the verbs are `create`, `update`, `patch` (also of a server-side apply), `delete`
// and `deletecollection`, and `get` and `list` for live reads. The verb `count` fails a cached count, `discover` with an
// empty kind discovery, and `raw` with a path a raw GET. Another verb fails the test.
func (cluster *Cluster) Fail(verb, kind string, err error) { cluster.FailNth(verb, kind, 1, err) }

// FailNth lets the nth call from now fail; 1 is the next one. See [Cluster.Fail].
func (cluster *Cluster) FailNth(verb, kind string, nth int, err error) {
	var api *flyball.APIError
	if !errors.As(err, &api) {
		panic(fmt.Sprintf("flyballtest: a call fails with an APIError, and this is %T", err))
	}
	failure := failure{api.Status, api.Reason, api.Message, string(api.Effect), millis(api.RetryAfter)}
	cluster.do("fail", args{"verb": verb, "kind": kind, "nth": nth, "error": failure}, nil)
}

// Refusal returns an API error for [Cluster.Fail].
func Refusal(status int, reason string) error {
	effect := flyball.EffectUnknown
	if status < 500 {
		effect = flyball.EffectRefused
	}
	return &flyball.APIError{Status: status, Reason: reason, Message: "the test refuses this: " + reason, Effect: effect}
}

// Answer returns this object to the next create of its kind, which stores nothing: a SubjectAccessReview with its
// status.
func (cluster *Cluster) Answer(kind string, answer any) {
	cluster.do("answer", args{"kind": kind, "answer": answer}, nil)
}

// LimitRate limits writes and live reads to this many in each window of the cluster's time. Others fail with 429.
func (cluster *Cluster) LimitRate(calls int, window time.Duration) {
	cluster.do("limit-rate", args{"calls": calls, "windowMs": millis(window)}, nil)
}

// ObserveDeletion records that the host observed the deletion of an object.
func (cluster *Cluster) ObserveDeletion(object flyball.Reference) {
	cluster.do("observe-deletion", object, nil)
}

// PutRaw sets the body of the answer to a live GET of a path.
func (cluster *Cluster) PutRaw(path string, answer any) {
	cluster.do("put-raw", args{"path": path, "answer": answer}, nil)
}

// Serve adds a kind to the result of discovery. The first version of a group is the preferred one.
func (cluster *Cluster) Serve(kind flyball.ServedKind) {
	subresources := [][2]any{}
	for _, below := range kind.Subresources {
		subresources = append(subresources, [2]any{below.Name, list(below.Verbs)})
	}
	cluster.do("serve", args{"kind": kind.Kind, "plural": kind.Plural, "namespaced": kind.Namespaced, "verbs": list(kind.Verbs),
		"subresources": subresources}, nil)
}

// FailDiscovery adds a group version to the failures of discovery.
func (cluster *Cluster) FailDiscovery(groupVersion, message string) {
	cluster.do("fail-discovery", args{"groupVersion": groupVersion, "message": message}, nil)
}

// AddKey adds a signing key of the host. Its tokens are placeholders.
func (cluster *Cluster) AddKey(name string) { cluster.do("add-key", args{"name": name}, nil) }

// AddAuthority adds an authority for a signer. Its certificates are placeholders.
func (cluster *Cluster) AddAuthority(signer string) {
	cluster.do("add-authority", args{"signer": signer}, nil)
}
