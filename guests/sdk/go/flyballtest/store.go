package flyballtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"flyball.dev/sdk"
)

// id identifies an object.
type id struct{ kind, namespace, name string }

func (key id) String() string {
	return key.kind + " " + flyball.Key{Namespace: key.namespace, Name: key.name}.String()
}

// store is the objects of the server.
type store struct {
	now     time.Time
	objects map[id]flyball.Object
	// version is the last resource version.
	version int
	// created is the number of objects created so far.
	created int
}

func newStore(now time.Time) store { return store{now: now, objects: map[id]flyball.Object{}} }

// put creates or replaces an object as it is.
func (store *store) put(kind string, object flyball.Object) {
	metadata := metadataOf(object)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	if name == "" {
		panic("flyballtest: an object of " + kind + " has no name")
	}
	key := id{kind, namespace, name}
	if old, found := store.objects[key]; found {
		metadata["uid"], metadata["creationTimestamp"] = metadataOf(old)["uid"], metadataOf(old)["creationTimestamp"]
	} else {
		store.identify(metadata)
	}
	store.touch(metadata)
	store.objects[key] = object
}

// identify sets what the server sets of a new object, if it is not there.
func (store *store) identify(metadata flyball.Object) {
	store.created++
	setDefault(metadata, "uid", fmt.Sprintf("00000000-0000-0000-0000-%012d", store.created))
	setDefault(metadata, "creationTimestamp", store.now.Format(time.RFC3339))
	setDefault(metadata, "generation", float64(1))
}

func (store *store) touch(metadata flyball.Object) {
	store.version++
	metadata["resourceVersion"] = fmt.Sprint(store.version)
}

func (store *store) get(key id) (flyball.Object, error) {
	object, found := store.objects[key]
	if !found {
		return nil, refused(404, "NotFound", key.String()+" not found")
	}
	return plain(object), nil
}

// ofVersion returns the object if it has this resource version.
func (store *store) ofVersion(key id, version string) (flyball.Object, error) {
	object, err := store.get(key)
	if err == nil && metadataOf(object)["resourceVersion"] != version {
		err = refused(409, "Conflict", key.String()+": the object has been modified; please apply your changes to the latest version")
	}
	return object, err
}

// ofKind returns the objects of a kind, ordered by namespace and name.
func (store *store) ofKind(kind, namespace string) []flyball.Object {
	var keys []id
	for key := range store.objects {
		if key.kind == kind && (namespace == "" || key.namespace == namespace) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b id) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	objects := []flyball.Object{}
	for _, key := range keys {
		objects = append(objects, plain(store.objects[key]))
	}
	return objects
}

func (store *store) create(kind, namespace string, object flyball.Object) (flyball.Object, error) {
	metadata := metadataOf(object)
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if prefix, _ := metadata["generateName"].(string); prefix != "" && metadata["name"] == nil {
		metadata["name"] = fmt.Sprintf("%s%05d", prefix, store.version+1)
	}
	name, _ := metadata["name"].(string)
	if name == "" {
		return nil, refused(422, "Invalid", "name or generateName is required")
	}
	key := id{kind, namespace, name}
	if store.isTerminating(namespace) {
		return nil, refused(403, "NamespaceTerminating", key.String()+" is forbidden: its namespace is being terminated")
	}
	if _, found := store.objects[key]; found {
		return nil, refused(409, "AlreadyExists", key.String()+" already exists")
	}
	for _, own := range []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation"} {
		delete(metadata, own)
	}
	version, short := splitKind(kind)
	object["apiVersion"], object["kind"] = version, short
	store.identify(metadata)
	store.touch(metadata)
	store.objects[key] = object
	return plain(object), nil
}

func (store *store) isTerminating(namespace string) bool {
	object, found := store.objects[id{"v1/Namespace", "", namespace}]
	return found && metadataOf(object)["deletionTimestamp"] != nil
}

// replace stores a new version of an object. A write without changes keeps the version. Only a write with the status changes
// it. Removing the last finalizer of an object that is being deleted removes the object.
func (store *store) replace(key id, object flyball.Object, withStatus bool) (flyball.Object, error) {
	old, err := store.get(key)
	if err != nil {
		return nil, err
	}
	if !withStatus {
		set(object, "status", old["status"])
	}
	metadata, before := metadataOf(object), metadataOf(old)
	for _, own := range []string{"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "resourceVersion", "generation"} {
		set(metadata, own, before[own])
	}
	finalizers := list(metadata, "finalizers")
	isDeleting := metadata["deletionTimestamp"] != nil
	for _, finalizer := range finalizers {
		if isDeleting && !slices.Contains(list(before, "finalizers"), finalizer) {
			return nil, refused(422, "Invalid", key.String()+": no new finalizers can be added if the object is being deleted")
		}
	}
	object = plain(object)
	metadata = metadataOf(object)
	if reflect.DeepEqual(object, old) {
		return old, nil
	}
	if !reflect.DeepEqual(object["spec"], old["spec"]) {
		generation, _ := before["generation"].(float64)
		metadata["generation"] = generation + 1
	}
	store.touch(metadata)
	if isDeleting && len(finalizers) == 0 {
		delete(store.objects, key)
	} else {
		store.objects[key] = object
	}
	return plain(object), nil
}

// replaceStatus stores a new status. The rest stays.
func (store *store) replaceStatus(key id, status any) (flyball.Object, error) {
	object, err := store.get(key)
	if err != nil {
		return nil, err
	}
	set(object, "status", status)
	return store.replace(key, object, true)
}

// delete deletes an object that matches the options' preconditions. One with finalizers gets a deletion timestamp.
func (store *store) delete(key id, options flyball.Object) (flyball.Object, error) {
	object, err := store.get(key)
	if err != nil {
		return nil, err
	}
	metadata := metadataOf(object)
	preconditions, _ := options["preconditions"].(map[string]any)
	for name, wanted := range preconditions {
		if metadata[name] != wanted {
			return nil, refused(409, "Conflict", fmt.Sprintf("%s: the precondition on %s failed", key, name))
		}
	}
	if len(list(metadata, "finalizers")) == 0 {
		delete(store.objects, key)
		return object, nil
	}
	if metadata["deletionTimestamp"] == nil {
		metadata["deletionTimestamp"] = store.now.Format(time.RFC3339)
		store.touch(metadata)
		store.objects[key] = object
	}
	return plain(object), nil
}

// plain returns an object as JSON has it, without a common part with the original.
func plain(object any) flyball.Object {
	copied, isObject := plainAny(object).(map[string]any)
	if !isObject {
		panic(fmt.Sprintf("flyballtest: %T is not a JSON object", object))
	}
	return copied
}

func plainAny(value any) any {
	var copied any
	if err := json.Unmarshal(text(value), &copied); err != nil {
		panic(err)
	}
	return copied
}

func text(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("flyballtest: %T can't be written as JSON: %v", value, err))
	}
	return encoded
}

// metadataOf returns the metadata of an object, which is created if it is missing.
func metadataOf(object flyball.Object) flyball.Object {
	metadata, found := object["metadata"].(map[string]any)
	if !found {
		metadata = flyball.Object{}
		object["metadata"] = metadata
	}
	return metadata
}

func list(object flyball.Object, field string) []any {
	found, _ := object[field].([]any)
	return found
}

// set sets a field, or removes it if the value is nil.
func set(object flyball.Object, field string, value any) {
	if value == nil {
		delete(object, field)
	} else {
		object[field] = value
	}
}

func setDefault(object flyball.Object, field string, value any) {
	if object[field] == nil {
		object[field] = value
	}
}

// splitKind splits `apps/v1/Deployment` into `apps/v1` and `Deployment`.
func splitKind(kind string) (apiVersion, name string) {
	at := strings.LastIndexByte(kind, '/')
	return kind[:at], kind[at+1:]
}
