package flyball

import (
	"log/slog"
	"time"

	"flyball.dev/sdk/internal/bindings/flyball_controller_clock"
	"flyball.dev/sdk/internal/bindings/flyball_controller_config"
	"flyball.dev/sdk/internal/bindings/flyball_controller_discovery"
	"flyball.dev/sdk/internal/bindings/flyball_controller_events"
	"flyball.dev/sdk/internal/bindings/flyball_controller_lister"
	"flyball.dev/sdk/internal/bindings/flyball_controller_log"
	"flyball.dev/sdk/internal/bindings/flyball_controller_memo"
	"flyball.dev/sdk/internal/bindings/flyball_controller_metrics"
	"flyball.dev/sdk/internal/bindings/flyball_controller_queue"
	"flyball.dev/sdk/internal/bindings/flyball_controller_random"
	"flyball.dev/sdk/internal/bindings/flyball_controller_reader"
	"flyball.dev/sdk/internal/bindings/flyball_controller_signer"
	api "flyball.dev/sdk/internal/bindings/flyball_controller_types"
	"flyball.dev/sdk/internal/bindings/flyball_controller_writer"
	"flyball.dev/sdk/internal/wit/types"
)

// sandbox is the world of a guest.
type sandbox struct{}

// Sandbox returns the world of a guest. Controllers get a [Host] on it, and other modules of the SDK make one.
func Sandbox() World { return sandbox{} }

var effects = map[uint8]Effect{
	api.EffectNone:    EffectNone,
	api.EffectRefused: EffectRefused,
	api.EffectUnknown: EffectUnknown,
}

// result turns a result of the bindings into a value and an error.
func result[T any](of types.Result[T, api.Error]) (value T, err error) {
	if of.IsOk() {
		return of.Ok(), nil
	}
	found := of.Err()
	failure := &APIError{Status: int(found.Status), Reason: found.Reason, Message: found.Message, Effect: effects[found.Effect]}
	if found.RetryAfterMs.IsSome() {
		failure.RetryAfter = time.Duration(found.RetryAfterMs.Some()) * time.Millisecond
	}
	return value, failure
}

func results(of []types.Result[[]uint8, api.Error]) []Result {
	all := make([]Result, len(of))
	for i := range of {
		all[i].JSON, all[i].Err = result(of[i])
	}
	return all
}

func (sandbox) ListerGet(kind, namespace, name string, fields []string) ([]byte, error) {
	found, err := result(flyball_controller_lister.Get(kind, namespace, name, fields))
	if err != nil || found.IsNone() {
		return nil, err
	}
	return found.Some(), nil
}

func boundQuery(query Query) flyball_controller_lister.Query {
	conditions := make([]flyball_controller_lister.Condition, len(query.Conditions))
	for i, condition := range query.Conditions {
		conditions[i] = flyball_controller_lister.Condition(condition)
	}
	return flyball_controller_lister.Query{Kind: query.Kind, Namespace: query.Namespace, Conditions: conditions}
}

func (sandbox) ListerList(query Query, projection Projection, limit int) (Page, error) {
	bound := flyball_controller_lister.MakeProjectionAll()
	switch {
	case len(projection.Columns) > 0:
		bound = flyball_controller_lister.MakeProjectionColumns(projection.Columns)
	case len(projection.Fields) > 0:
		bound = flyball_controller_lister.MakeProjectionFields(projection.Fields)
	}
	return page(flyball_controller_lister.List(boundQuery(query), bound, uint32(limit)))
}

func page(of types.Result[flyball_controller_lister.Page, api.Error]) (Page, error) {
	found, err := result(of)
	if err != nil || found.Rest.IsNone() {
		return Page{Items: found.Items}, err
	}
	rest := found.Rest.Some()
	next := func(limit int) (Page, error) { return page(flyball_controller_lister.Next(rest, uint32(limit))) }
	return Page{Items: found.Items, Next: next, Drop: rest.Drop}, nil
}

func (sandbox) ListerCount(query Query) (int, error) {
	count, err := result(flyball_controller_lister.Count(boundQuery(query)))
	return int(count), err
}

func boundReference(object Reference) api.ObjectReference {
	return api.ObjectReference{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name, Uid: object.UID}
}

func (sandbox) DeletionObserved(object Reference) bool {
	return flyball_controller_lister.DeletionObserved(boundReference(object))
}

func (sandbox) Read(reads []LiveRead) []Result {
	batch := flyball_controller_reader.MakeBatch()
	defer batch.Drop()
	for _, read := range reads {
		switch {
		case read.Path != "":
			batch.Raw(read.Path)
		case read.IsList:
			parameters := make([]flyball_controller_reader.Parameter, len(read.Parameters))
			for i, parameter := range read.Parameters {
				parameters[i] = flyball_controller_reader.Parameter(parameter)
			}
			batch.List(read.Kind, read.Namespace, parameters, read.Fields)
		default:
			batch.Get(read.Kind, read.Namespace, read.Name, read.Fields)
		}
	}
	return results(batch.Run())
}

func (sandbox) Kinds() (Catalogue, error) {
	found, err := result(flyball_controller_discovery.Kinds())
	if err != nil {
		return Catalogue{}, err
	}
	var catalogue Catalogue
	for _, kind := range found.Kinds {
		served := ServedKind{Kind: kind.Kind, Plural: kind.Plural, Namespaced: kind.Namespaced, Preferred: kind.Preferred, Verbs: kind.Verbs}
		for _, subresource := range kind.Subresources {
			served.Subresources = append(served.Subresources, ServedSubresource(subresource))
		}
		catalogue.Kinds = append(catalogue.Kinds, served)
	}
	for _, failure := range found.Failures {
		catalogue.Failures = append(catalogue.Failures, DiscoveryFailure(failure))
	}
	return catalogue, nil
}

func (sandbox) Write(of Batch) []Result {
	batch := flyball_controller_writer.MakeBatch()
	defer batch.Drop()
	for _, write := range of.Writes {
		add(batch, write)
	}
	if of.SlowStart > 0 {
		batch.SlowStart(uint32(of.SlowStart))
	}
	if of.StopOnError {
		batch.StopOnError()
	}
	return results(batch.Run())
}

func add(batch *flyball_controller_writer.Batch, write Write) {
	target := flyball_controller_writer.Target{Kind: write.Kind, Namespace: write.Namespace, Name: write.Name, Subresource: write.Subresource}
	var options []byte
	if len(write.Options) > 0 {
		options = encode(write.Options)
	}
	switch write.Verb {
	case VerbCreate:
		batch.Create(target, write.Body, options, write.Returns)
	case VerbUpdate:
		batch.Update(target, write.ResourceVersion, write.Body, options, write.Returns)
	case VerbUpdateStatus:
		batch.UpdateStatus(target, write.ResourceVersion, write.Body, write.Metadata, options, write.Returns)
	case VerbPatch:
		batch.Patch(target, string(write.PatchType), write.Body, options, write.Returns)
	case VerbDelete:
		batch.Delete(target, options, write.Returns)
	case VerbDeleteCollection:
		batch.DeleteCollection(target, write.LabelSelector, write.FieldSelector, options, write.Returns)
	default:
		panic("flyball: a write has no verb: make it with Create, Update and the like")
	}
}

func (sandbox) Emit(event Event) {
	flyball_controller_events.Emit(boundReference(event.About), string(event.Type), event.Reason, event.Message, event.Options())
}

func (sandbox) QueueAdd(queue, key string, delay time.Duration) error {
	if delay > 0 {
		_, err := result(flyball_controller_queue.AddAfter(queue, key, millis(delay)))
		return err
	}
	_, err := result(flyball_controller_queue.Add(queue, key))
	return err
}

func (sandbox) QueueForget(queue, key string) error {
	_, err := result(flyball_controller_queue.Forget(queue, key))
	return err
}

func (sandbox) QueueRequeues(queue, key string) (int, error) {
	count, err := result(flyball_controller_queue.Requeues(queue, key))
	return int(count), err
}

func (sandbox) Now() time.Time {
	now := flyball_controller_clock.Now()
	return time.Unix(int64(now.Seconds), int64(now.Nanoseconds)).UTC()
}

func (sandbox) Random(count int) []byte { return flyball_controller_random.Bytes(uint32(count)) }

func boundLevel(level slog.Level) uint8 {
	switch {
	case level < slog.LevelDebug:
		return flyball_controller_log.LevelTrace
	case level < slog.LevelInfo:
		return flyball_controller_log.LevelDebug
	case level < slog.LevelWarn:
		return flyball_controller_log.LevelInfo
	case level < slog.LevelError:
		return flyball_controller_log.LevelWarn
	default:
		return flyball_controller_log.LevelError
	}
}

func (sandbox) LogEnabled(level slog.Level) bool {
	return flyball_controller_log.Enabled(boundLevel(level))
}

func (sandbox) Log(level slog.Level, message string, fields []LogField) {
	bound := make([]flyball_controller_log.Field, len(fields))
	for i, field := range fields {
		bound[i] = flyball_controller_log.Field(field)
	}
	flyball_controller_log.Write(boundLevel(level), message, bound)
}

func (sandbox) Metric(operation MetricOperation, name string, labels []string, value float64) {
	switch operation {
	case MetricAdd:
		flyball_controller_metrics.Add(name, labels, value)
	case MetricSet:
		flyball_controller_metrics.Set(name, labels, value)
	case MetricObserve:
		flyball_controller_metrics.Observe(name, labels, value)
	}
}

func (sandbox) Config(key string) (string, bool) {
	found := flyball_controller_config.Get(key)
	if found.IsNone() {
		return "", false
	}
	return found.Some(), true
}

func (sandbox) MemoGet(key string) (MemoEntry, bool) {
	found := flyball_controller_memo.Get(key)
	if found.IsNone() {
		return MemoEntry{}, false
	}
	return MemoEntry(found.Some()), true
}

func (sandbox) MemoPut(key string, expected uint32, value []byte, objectUID string, ttl time.Duration) (uint32, error) {
	return result(flyball_controller_memo.Put(key, expected, value, objectUID, millis(ttl)))
}

func (sandbox) MemoRemove(key string) { flyball_controller_memo.Remove(key) }

func (sandbox) SignJWT(key string, claims []byte) (string, error) {
	return result(flyball_controller_signer.SignJwt(key, claims))
}

func (sandbox) VerifyJWT(key, token string) ([]byte, error) {
	return result(flyball_controller_signer.VerifyJwt(key, token))
}

func (sandbox) CertificateAuthority(signer string) ([][]byte, error) {
	return result(flyball_controller_signer.CertificateAuthority(signer))
}

func (sandbox) SignCertificate(signer string, template CertificateTemplate) ([]byte, error) {
	key := flyball_controller_signer.MakeSubjectKeyPublicKey(template.PublicKey)
	if len(template.Request) > 0 {
		key = flyball_controller_signer.MakeSubjectKeyRequest(template.Request)
	}
	subject := make([][]flyball_controller_signer.Attribute, len(template.Subject))
	for i, attributes := range template.Subject {
		for _, attribute := range attributes {
			subject[i] = append(subject[i], flyball_controller_signer.Attribute{Oid: attribute.OID, Value: attribute.Value})
		}
	}
	return result(flyball_controller_signer.SignCertificate(signer, flyball_controller_signer.CertificateTemplate{
		Key:               key,
		Subject:           subject,
		DnsNames:          template.DNSNames,
		EmailAddresses:    template.EmailAddresses,
		IpAddresses:       template.IPAddresses,
		Uris:              template.URIs,
		KeyUsages:         uint16(template.KeyUsages),
		ExtendedKeyUsages: template.ExtendedKeyUsages,
		NotBefore:         boundTime(template.NotBefore),
		NotAfter:          boundTime(template.NotAfter),
	}))
}

func boundTime(at time.Time) api.Time {
	return api.Time{Seconds: uint32(at.Unix()), Nanoseconds: uint32(at.Nanosecond())}
}
