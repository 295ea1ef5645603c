package flyballtest

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"flyball.dev/sdk"
)

// world is the host's functions on a cluster.
type world struct{ cluster *Cluster }

type memoEntry struct {
	flyball.MemoEntry
	objectUID string
	// expires is the zero time for no limit.
	expires time.Time
}

func (world world) ListerGet(kind, namespace, name string, fields []string) ([]byte, error) {
	declared, err := world.cluster.watched(kind)
	if err != nil {
		return nil, err
	}
	object := world.cluster.Object(kind, namespace, name)
	if object == nil {
		return nil, nil
	}
	return text(reduce(object, declared, fields)), nil
}

// reduce reduces an object to the declared fields, and then to the requested ones, if there are any.
func reduce(object flyball.Object, declared, requested []string) flyball.Object {
	object = prune(object, declared)
	if len(requested) > 0 {
		object = prune(object, requested)
	}
	return object
}

func (world world) ListerList(query flyball.Query, projection flyball.Projection, _ int) (flyball.Page, error) {
	objects, declared, err := world.query(query)
	if err != nil {
		return flyball.Page{}, err
	}
	items := []any{}
	for _, object := range objects {
		object = reduce(object, declared, projection.Fields)
		if len(projection.Columns) == 0 {
			items = append(items, object)
			continue
		}
		row := []any{}
		for _, column := range projection.Columns {
			row = append(row, valueAt(object, column))
		}
		items = append(items, row)
	}
	return flyball.Page{Items: text(items)}, nil
}

func valueAt(object any, path string) any {
	for _, name := range segments(path) {
		parent, _ := object.(map[string]any)
		object = parent[name]
	}
	return object
}

func (world world) ListerCount(query flyball.Query) (int, error) {
	objects, _, err := world.query(query)
	return len(objects), err
}

func (world world) query(query flyball.Query) (objects []flyball.Object, declared []string, err error) {
	declared, err = world.cluster.watched(query.Kind)
	if err != nil {
		return nil, nil, err
	}
	for _, object := range world.cluster.store.ofKind(query.Kind, query.Namespace) {
		isWanted := true
		for _, condition := range query.Conditions {
			matches, err := world.cluster.matches(query.Kind, object, condition)
			if err != nil {
				return nil, nil, err
			}
			isWanted = isWanted && matches
		}
		if isWanted {
			objects = append(objects, object)
		}
	}
	return objects, declared, nil
}

func (world world) DeletionObserved(object flyball.Reference) bool {
	return slices.ContainsFunc(world.cluster.observed, func(deletion flyball.Reference) bool {
		return deletion.Kind == object.Kind && deletion.UID == object.UID
	})
}

func (world world) Read(reads []flyball.LiveRead) []flyball.Result {
	results := make([]flyball.Result, len(reads))
	for i, read := range reads {
		found, err := world.read(read)
		results[i] = flyball.Result{Err: err}
		if err == nil {
			results[i].JSON = text(found)
		}
	}
	return results
}

func (world world) read(read flyball.LiveRead) (any, error) {
	cluster := world.cluster
	switch {
	case read.Path != "":
		if body, found := cluster.raw[read.Path]; found {
			return body, nil
		}
		return nil, refused(404, "NotFound", read.Path+" not found")
	case !read.IsList:
		if err := cluster.admit("get", read.Kind, ""); err != nil {
			return nil, err
		}
		object, err := cluster.store.get(id{read.Kind, read.Namespace, read.Name})
		if err == nil && len(read.Fields) > 0 {
			object = prune(object, read.Fields)
		}
		return object, err
	}
	if err := cluster.admit("list", read.Kind, ""); err != nil {
		return nil, err
	}
	items := []any{}
	for _, object := range cluster.store.ofKind(read.Kind, read.Namespace) {
		isWanted := true
		for _, parameter := range read.Parameters {
			if parameter.Name == "labelSelector" {
				matches, err := matchesLabels(flyball.MetaOf(object).Labels, parameter.Value)
				if err != nil {
					return nil, err
				}
				isWanted = isWanted && matches
			}
		}
		if len(read.Fields) > 0 {
			object = prune(object, read.Fields)
		}
		if isWanted {
			items = append(items, object)
		}
	}
	return flyball.Object{"metadata": flyball.Object{}, "items": items}, nil
}

func (world world) Kinds() (flyball.Catalogue, error) { return world.cluster.catalogue, nil }

func (world world) Write(batch flyball.Batch) []flyball.Result {
	results := make([]flyball.Result, len(batch.Writes))
	failed := false
	for i, write := range batch.Writes {
		if failed && (batch.StopOnError || batch.SlowStart > 0) {
			results[i].Err = &flyball.APIError{Status: 424, Reason: "Skipped", Message: "an earlier write failed", Effect: flyball.EffectNone}
			continue
		}
		object, err := world.write(write)
		if err == nil && write.Name == "" {
			write.Name = flyball.MetaOf(object).Name
		}
		if err != nil && write.Name == "" && len(write.Body) > 0 {
			write.Name = flyball.MetaOf(plain(rawJSON(write.Body))).Name
		}
		world.cluster.written = append(world.cluster.written, Written{write, err})
		failed = failed || err != nil
		results[i].Err = err
		if err == nil && len(write.Returns) > 0 {
			results[i].JSON = text(prune(object, write.Returns))
		}
	}
	return results
}

// rawJSON is JSON that is written as it is.
type rawJSON []byte

func (raw rawJSON) MarshalJSON() ([]byte, error) { return raw, nil }

func (world world) write(write flyball.Write) (flyball.Object, error) {
	verb, subresource := string(write.Verb), write.Subresource
	switch write.Verb {
	case flyball.VerbUpdateStatus:
		verb, subresource = "update", "status"
	case flyball.VerbDeleteCollection:
		verb = "deletecollection"
	case flyball.VerbUpdate:
		if subresource == "status" {
			return nil, invalid("an update does not write a status: use UpdateStatus")
		}
	}
	cluster := world.cluster
	if err := cluster.admit(verb, write.Kind, subresource); err != nil {
		return nil, err
	}
	if err := cluster.admitBase(write); err != nil {
		return nil, err
	}
	var body any
	if len(write.Body) > 0 {
		body = plainAny(rawJSON(write.Body))
	}
	store, key := &cluster.store, id{write.Kind, write.Namespace, write.Name}
	options := plain(rawOptions(write.Options))
	switch write.Verb {
	case flyball.VerbCreate:
		object := plain(body)
		switch {
		case subresource == "eviction":
			return store.delete(key, nil)
		case subresource != "":
			return object, nil
		}
		return store.create(write.Kind, write.Namespace, object)
	case flyball.VerbUpdate:
		object, err := store.ofVersion(key, write.ResourceVersion)
		if err != nil {
			return nil, err
		}
		return store.replace(key, plain(merge(object, body)), false)
	case flyball.VerbUpdateStatus:
		if _, err := store.ofVersion(key, write.ResourceVersion); err != nil {
			return nil, err
		}
		return store.replaceStatus(key, body)
	case flyball.VerbPatch:
		return world.patch(key, write, body)
	case flyball.VerbDelete:
		return store.delete(key, options)
	case flyball.VerbDeleteCollection:
		return flyball.Object{}, world.deleteCollection(write, options)
	}
	return nil, invalid(fmt.Sprintf("a write has the verb %q", write.Verb))
}

func rawOptions(options flyball.Object) flyball.Object {
	if options == nil {
		return flyball.Object{}
	}
	return options
}

func (world world) patch(key id, write flyball.Write, patch any) (flyball.Object, error) {
	store := &world.cluster.store
	object, err := store.get(key)
	if flyball.IsNotFound(err) && write.PatchType == flyball.ApplyPatch && write.Subresource == "" {
		created := plain(patch)
		metadataOf(created)["name"] = key.name
		return store.create(key.kind, key.namespace, created)
	}
	if err != nil {
		return nil, err
	}
	var patched any
	if write.PatchType == flyball.JSONPatch {
		patched, err = applyJSON(object, patch)
	} else {
		patched = merge(object, patch)
	}
	if err != nil {
		return nil, err
	}
	if write.Subresource == "status" {
		return store.replaceStatus(key, plain(patched)["status"])
	}
	return store.replace(key, plain(patched), false)
}

func (world world) deleteCollection(write flyball.Write, options flyball.Object) error {
	store := &world.cluster.store
	if write.FieldSelector != "" {
		return invalid("flyballtest has no field selectors")
	}
	for _, object := range store.ofKind(write.Kind, write.Namespace) {
		meta := flyball.MetaOf(object)
		matches, err := matchesLabels(meta.Labels, write.LabelSelector)
		if err != nil {
			return err
		}
		if matches {
			if _, err := store.delete(id{write.Kind, meta.Namespace, meta.Name}, options); err != nil {
				return err
			}
		}
	}
	return nil
}

// admitBase fails if the host could not build the whole object of an update: the cache does not hold enough of it, and the
// plugin may not get it.
func (cluster *Cluster) admitBase(write flyball.Write) error {
	isUpdate := write.Verb == flyball.VerbUpdate || write.Verb == flyball.VerbUpdateStatus
	if !isUpdate || cluster.description == nil || cluster.allows("get", write.Kind, "") {
		return nil
	}
	fields, _ := cluster.watched(write.Kind)
	isStatus := write.Verb == flyball.VerbUpdateStatus
	if slices.Contains(fields, ".") || isStatus && slices.Contains(fields, "metadata") {
		return nil
	}
	return denied(fmt.Sprintf("the plugin neither watches all of %s that an update needs nor asks to get it", write.Kind))
}

func (world world) Emit(event flyball.Event) {
	world.cluster.events = append(world.cluster.events, event)
}

func (world world) QueueAdd(queue, key string, delay time.Duration) error {
	world.cluster.enqueued = append(world.cluster.enqueued, Enqueued{queue, key, delay})
	return nil
}

func (world world) QueueForget(string, string) error          { return nil }
func (world world) QueueRequeues(string, string) (int, error) { return 0, nil }
func (world world) Now() time.Time                            { return world.cluster.store.now }

// Random returns bytes of an xorshift, the same in each run.
func (world world) Random(count int) []byte {
	bytes := make([]byte, count)
	for i := range bytes {
		random := &world.cluster.random
		*random ^= *random << 13
		*random ^= *random >> 7
		*random ^= *random << 17
		bytes[i] = byte(*random)
	}
	return bytes
}

func (world world) LogEnabled(slog.Level) bool { return true }

func (world world) Log(level slog.Level, message string, fields []flyball.LogField) {
	world.cluster.logged = append(world.cluster.logged, Logged{level, message, fields})
}

func (world world) Metric(operation flyball.MetricOperation, name string, labels []string, value float64) {
	world.cluster.metrics = append(world.cluster.metrics, Measured{operation, name, labels, value})
}

func (world world) Config(key string) (string, bool) {
	value, found := world.cluster.config[key]
	if !found && world.cluster.description != nil {
		if declared := world.cluster.description.Config[key]; declared.Default != nil {
			return *declared.Default, true
		}
	}
	return value, found
}

func (world world) MemoGet(key string) (flyball.MemoEntry, bool) {
	entry, found := world.cluster.memo[key]
	isExpired := !entry.expires.IsZero() && !entry.expires.After(world.Now())
	isOrphaned := entry.objectUID != "" && !world.cluster.store.holds(entry.objectUID)
	if !found || isExpired || isOrphaned {
		delete(world.cluster.memo, key)
		return flyball.MemoEntry{}, false
	}
	return entry.MemoEntry, true
}

func (store *store) holds(uid string) bool {
	for _, object := range store.objects {
		if metadataOf(object)["uid"] == uid {
			return true
		}
	}
	return false
}

func (world world) MemoPut(key string, expected uint32, value []byte, objectUID string, ttl time.Duration) (uint32, error) {
	old, _ := world.MemoGet(key)
	if old.Version != expected {
		return 0, &flyball.APIError{Status: 409, Reason: "Conflict", Message: "the entry has another version", Effect: flyball.EffectNone}
	}
	entry := memoEntry{MemoEntry: flyball.MemoEntry{Value: slices.Clone(value), Version: expected + 1}, objectUID: objectUID}
	if ttl > 0 {
		entry.expires = world.Now().Add(ttl)
	}
	world.cluster.memo[key] = entry
	return entry.Version, nil
}

func (world world) MemoRemove(key string) { delete(world.cluster.memo, key) }

// SignJWT returns a token that only this cluster verifies: the key's name and the claims.
func (world world) SignJWT(key string, claims []byte) (string, error) {
	if !world.cluster.keys[key] {
		return "", refused(404, "NotFound", "the host holds no key "+key)
	}
	return key + "." + base64.RawURLEncoding.EncodeToString(claims), nil
}

func (world world) VerifyJWT(key, token string) ([]byte, error) {
	if !world.cluster.keys[key] {
		return nil, refused(404, "NotFound", "the host holds no key "+key)
	}
	claims, isOfKey := strings.CutPrefix(token, key+".")
	decoded, err := base64.RawURLEncoding.DecodeString(claims)
	if !isOfKey || err != nil {
		return nil, refused(401, "Unauthorized", "the key did not sign the token")
	}
	return decoded, nil
}

func (world world) CertificateAuthority(signer string) ([][]byte, error) {
	return nil, refused(404, "NotFound", "flyballtest has no authorities of signers")
}

func (world world) SignCertificate(signer string, _ flyball.CertificateTemplate) ([]byte, error) {
	return nil, refused(404, "NotFound", "flyballtest has no authorities of signers")
}
