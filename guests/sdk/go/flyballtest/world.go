package flyballtest

import (
	"encoding/json"
	"log/slog"
	"time"

	"flyball.dev/sdk"
)

// world is the host's functions on a cluster.
type world struct{ cluster *Cluster }

// args are the arguments of a call.
type args = map[string]any

func (world world) ListerGet(kind, namespace, name string, fields []string) ([]byte, error) {
	var object json.RawMessage
	err := world.cluster.call("lister.get", args{"kind": kind, "namespace": namespace, "name": name, "fields": list(fields)}, &object)
	return document(object), err
}

// document returns nil for null.
func document(text json.RawMessage) []byte {
	if string(text) == "null" {
		return nil
	}
	return text
}

// page is a part of the result of a query.
type page struct {
	Items json.RawMessage `json:"items"`
	Rest  *int            `json:"rest"`
}

func (world world) page(name string, with args) (flyball.Page, error) {
	var found page
	if err := world.cluster.call(name, with, &found); err != nil {
		return flyball.Page{}, err
	}
	if found.Rest == nil {
		return flyball.Page{Items: found.Items}, nil
	}
	next := func(limit int) (flyball.Page, error) {
		return world.page("lister.next", args{"rest": *found.Rest, "limit": limit})
	}
	return flyball.Page{Items: found.Items, Next: next, Drop: func() {}}, nil
}

func (world world) ListerList(query flyball.Query, projection flyball.Projection, limit int) (flyball.Page, error) {
	var shape any = "all"
	switch {
	case len(projection.Columns) > 0:
		shape = args{"columns": projection.Columns}
	case len(projection.Fields) > 0:
		shape = args{"fields": projection.Fields}
	}
	return world.page("lister.list", args{"query": queryOf(query), "projection": shape, "limit": limit})
}

func queryOf(query flyball.Query) args {
	conditions := [][2]string{}
	for _, condition := range query.Conditions {
		conditions = append(conditions, [2]string{condition.Name, condition.Value})
	}
	return args{"kind": query.Kind, "namespace": query.Namespace, "conditions": conditions}
}

func (world world) ListerCount(query flyball.Query) (count int, err error) {
	err = world.cluster.call("lister.count", args{"query": queryOf(query)}, &count)
	return count, err
}

func (world world) DeletionObserved(object flyball.Reference) (isObserved bool) {
	world.cluster.do("lister.deletion-observed", args{"object": object}, &isObserved)
	return isObserved
}

// results returns the results of live reads or writes.
func (world world) results(name string, with args) []flyball.Result {
	var replies []reply
	world.cluster.do(name, with, &replies)
	results := make([]flyball.Result, len(replies))
	for i, reply := range replies {
		if reply.Error != nil {
			results[i].Err = reply.Error.of()
		} else {
			results[i].JSON = document(reply.OK)
		}
	}
	return results
}

func (world world) Read(reads []flyball.LiveRead) []flyball.Result {
	sent := []args{}
	for _, read := range reads {
		with := args{"kind": read.Kind, "namespace": read.Namespace, "fields": list(read.Fields)}
		switch {
		case read.Path != "":
			with = args{"verb": "raw", "path": read.Path}
		case read.IsList:
			parameters := [][2]string{}
			for _, parameter := range read.Parameters {
				parameters = append(parameters, [2]string{parameter.Name, parameter.Value})
			}
			with["verb"], with["parameters"] = "list", parameters
		default:
			with["verb"], with["name"] = "get", read.Name
		}
		sent = append(sent, with)
	}
	return world.results("reader.run", args{"reads": sent})
}

func (world world) Kinds() (catalogue flyball.Catalogue, err error) {
	var found struct {
		Kinds []struct {
			Kind, Plural          string
			Namespaced, Preferred bool
			Verbs                 []string
			Subresources          []pair[[]string]
		}
		Failures []pair[string]
	}
	err = world.cluster.call("discovery.kinds", nil, &found)
	for _, kind := range found.Kinds {
		served := flyball.ServedKind{Kind: kind.Kind, Plural: kind.Plural, Namespaced: kind.Namespaced, Preferred: kind.Preferred, Verbs: kind.Verbs}
		for _, below := range kind.Subresources {
			served.Subresources = append(served.Subresources, flyball.ServedSubresource{Name: below.name, Verbs: below.value})
		}
		catalogue.Kinds = append(catalogue.Kinds, served)
	}
	for _, failed := range found.Failures {
		catalogue.Failures = append(catalogue.Failures, flyball.DiscoveryFailure{GroupVersion: failed.name, Message: failed.value})
	}
	return catalogue, err
}

// pair is a list of a name and a value.
type pair[T any] struct {
	name  string
	value T
}

func (pair *pair[T]) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&pair.name, &pair.value})
}

func (world world) Write(batch flyball.Batch) []flyball.Result {
	writes := []args{}
	for _, write := range batch.Writes {
		writes = append(writes, args{
			"verb": write.Verb, "kind": write.Kind, "namespace": write.Namespace, "name": write.Name, "subresource": write.Subresource,
			"resourceVersion": write.ResourceVersion, "body": raw(write.Body), "metadata": raw(write.Metadata),
			"patchType": write.PatchType, "labelSelector": write.LabelSelector, "fieldSelector": write.FieldSelector,
			"options": write.Options, "returns": list(write.Returns),
		})
	}
	return world.results("writer.run", args{"writes": writes, "slowStart": batch.SlowStart, "stopOnError": batch.StopOnError})
}

// raw returns a document; null if it is empty.
func raw(document []byte) json.RawMessage {
	if len(document) == 0 {
		return nil
	}
	return document
}

// list returns a list that is never null.
func list[T any](of []T) []T { return append([]T{}, of...) }

func (world world) Emit(event flyball.Event) {
	about := args{"kind": event.About.Kind, "namespace": event.About.Namespace, "name": event.About.Name, "uid": event.About.UID}
	world.cluster.do("events.emit", args{"about": about, "type": event.Type, "reason": event.Reason, "message": event.Message,
		"options": raw(event.Options())}, nil)
}

func (world world) QueueAdd(queue, key string, delay time.Duration) error {
	return world.cluster.call("queue.add", args{"queue": queue, "key": key, "delayMs": millis(delay)}, nil)
}

func (world world) QueueForget(queue, key string) error {
	return world.cluster.call("queue.forget", args{"queue": queue, "key": key}, nil)
}

func (world world) QueueRequeues(queue, key string) (count int, err error) {
	err = world.cluster.call("queue.requeues", args{"queue": queue, "key": key}, &count)
	return count, err
}

// instant is a point in time.
type instant struct {
	Seconds     int64 `json:"seconds"`
	Nanoseconds int   `json:"nanoseconds"`
}

func instantOf(at time.Time) instant { return instant{at.Unix(), at.Nanosecond()} }

func (world world) Now() time.Time {
	var now instant
	world.cluster.do("clock.now", nil, &now)
	return time.Unix(now.Seconds, int64(now.Nanoseconds)).UTC()
}

// millis rounds up.
func millis(duration time.Duration) uint32 {
	return uint32((duration + time.Millisecond - 1) / time.Millisecond)
}

func milliseconds(count uint32) time.Duration { return time.Duration(count) * time.Millisecond }

func (world world) Random(count int) (bytes []byte) {
	world.cluster.do("random.bytes", args{"count": count}, &bytes)
	return bytes
}

func (world world) LogEnabled(slog.Level) bool { return true }

// levels are the names of the log's levels.
var levels = map[string]slog.Level{"trace": slog.LevelDebug - 4, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelDebug:
		return "trace"
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warn"
	}
	return "error"
}

func (world world) Log(level slog.Level, message string, fields []flyball.LogField) {
	sent := [][2]string{}
	for _, field := range fields {
		sent = append(sent, [2]string{field.Name, field.Value})
	}
	world.cluster.do("log.write", args{"level": levelName(level), "message": message, "fields": sent}, nil)
}

func (world world) Metric(operation flyball.MetricOperation, name string, labels []string, value float64) {
	world.cluster.do("metrics.record", args{"operation": operation, "name": name, "labels": list(labels), "value": value}, nil)
}

func (world world) Config(key string) (string, bool) {
	var value *string
	world.cluster.do("config.get", args{"key": key}, &value)
	if value == nil {
		return "", false
	}
	return *value, true
}

func (world world) MemoGet(key string) (flyball.MemoEntry, bool) {
	var entry *flyball.MemoEntry
	world.cluster.do("memo.get", args{"key": key}, &entry)
	if entry == nil {
		return flyball.MemoEntry{}, false
	}
	return *entry, true
}

func (world world) MemoPut(key string, expected uint32, value []byte, objectUID string, ttl time.Duration) (version uint32, err error) {
	err = world.cluster.call("memo.put", args{"key": key, "expected": expected, "value": list(value), "objectUid": objectUID, "ttlMs": millis(ttl)}, &version)
	return version, err
}

func (world world) MemoRemove(key string) { world.cluster.do("memo.remove", args{"key": key}, nil) }

func (world world) SignJWT(key string, claims []byte) (token string, err error) {
	err = world.cluster.call("signer.sign-jwt", args{"key": key, "claims": raw(claims)}, &token)
	return token, err
}

func (world world) VerifyJWT(key, token string) ([]byte, error) {
	var claims json.RawMessage
	err := world.cluster.call("signer.verify-jwt", args{"key": key, "token": token}, &claims)
	return claims, err
}

func (world world) CertificateAuthority(signer string) (certificates [][]byte, err error) {
	err = world.cluster.call("signer.certificate-authority", args{"signer": signer}, &certificates)
	return certificates, err
}

func (world world) SignCertificate(signer string, template flyball.CertificateTemplate) (certificate []byte, err error) {
	key := args{"publicKey": template.PublicKey}
	if len(template.Request) > 0 {
		key = args{"request": template.Request}
	}
	subject := [][][2]string{}
	for _, names := range template.Subject {
		set := [][2]string{}
		for _, attribute := range names {
			set = append(set, [2]string{attribute.OID, attribute.Value})
		}
		subject = append(subject, set)
	}
	err = world.cluster.call("signer.sign-certificate", args{"signer": signer, "template": args{
		"key": key, "subject": subject, "dnsNames": list(template.DNSNames), "emailAddresses": list(template.EmailAddresses),
		"ipAddresses": list(template.IPAddresses), "uris": list(template.URIs), "keyUsages": template.KeyUsages,
		"extendedKeyUsages": list(template.ExtendedKeyUsages), "notBefore": instantOf(template.NotBefore), "notAfter": instantOf(template.NotAfter),
	}}, &certificate)
	return certificate, err
}
