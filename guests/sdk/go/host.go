package flyball

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"
)

// Host is the host's functions for a controller. [Export] passes one in the sandbox, and flyballtest.Cluster in tests.
type Host struct{ world World }

// NewHost returns a host on these functions.
func NewHost(world World) *Host { return &Host{world} }

// World returns the untyped functions.
func (host *Host) World() World { return host.world }

// Now returns the current time.
func (host *Host) Now() time.Time { return host.world.Now() }

// Random returns random bytes, at most 64 KiB. They are for names and jitter, never for cryptographic keys.
func (host *Host) Random(count int) []byte { return host.world.Random(count) }

// Log returns a logger that writes to the host's log. The host adds the plugin's name and the key.
func (host *Host) Log() *slog.Logger { return slog.New(logHandler{world: host.world}) }

// Config returns the operator's value of a configuration key, or its declared default.
func (host *Host) Config(key string) (value string, found bool) { return host.world.Config(key) }

// ConfigDuration returns the duration in a configuration key, such as `1m30s`, or the default if it has no value. An
// invalid value is a terminal error.
func (host *Host) ConfigDuration(key string, otherwise time.Duration) (time.Duration, error) {
	text, found := host.Config(key)
	if !found {
		return otherwise, nil
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		return 0, Terminalf("invalid value of setting %s: `%s`", key, text)
	}
	return duration, nil
}

// DeletionObserved says whether the deletion of this object was observed; false means unknown.
func (host *Host) DeletionObserved(object Reference) bool { return host.world.DeletionObserved(object) }

// Kinds returns the kinds that the API server serves, at most one second old. Needs the import `discovery`.
func (host *Host) Kinds() (Catalogue, error) { return host.world.Kinds() }

// Emit emits an event. It never fails and never waits.
func (host *Host) Emit(event Event) { host.world.Emit(event) }

// Eventf emits an event about an object. The type is [Normal] or [Warning].
func (host *Host) Eventf(about Reference, eventType EventType, reason, format string, arguments ...any) {
	host.Emit(Event{About: about, Type: eventType, Reason: reason, Message: fmt.Sprintf(format, arguments...)})
}

// EventType is the type of an event.
type EventType string

const (
	// Normal is the type of events about successes.
	Normal EventType = "Normal"
	// Warning is the type of events about problems.
	Warning EventType = "Warning"
)

// Event is an event about an object.
type Event struct {
	About   Reference
	Type    EventType
	Reason  string
	Message string
	// Action is the action, as one CamelCase word; may be empty.
	Action string
	// Related is a second object that the event concerns; may be nil.
	Related     *Reference
	Annotations map[string]string
	// ReportingController makes it an event of events.k8s.io/v1, reported by a controller of this name. If it is empty,
	// the event is one of core/v1, reported by the plugin.
	ReportingController string
	// Once drops the event if the plugin has emitted the same event about the same object within the last hour.
	Once bool
}

// Options returns the optional fields, as in `event-options.schema.json`.
func (event Event) Options() []byte {
	return encode(struct {
		Action              string            `json:"action,omitempty"`
		Related             *Reference        `json:"related,omitempty"`
		Annotations         map[string]string `json:"annotations,omitempty"`
		ResourceVersion     string            `json:"resourceVersion,omitempty"`
		ReportingController string            `json:"reportingController,omitempty"`
		Once                bool              `json:"once,omitempty"`
	}{
		event.Action, event.Related, event.Annotations, event.About.ResourceVersion, event.ReportingController,
		event.Once,
	})
}

// Queue is the plugin's workqueue of this name; the first one if it is empty.
func (host *Host) Queue(name string) Queue { return Queue{host.world, name} }

// Queue is one of the plugin's workqueues.
type Queue struct {
	world World
	name  string
}

// Add adds a key at once.
func (queue Queue) Add(key Key) error { return queue.world.QueueAdd(queue.name, key.String(), 0) }

// AddAfter adds a key later. If several times are pending, the earliest one holds.
func (queue Queue) AddAfter(key Key, delay time.Duration) error {
	return queue.world.QueueAdd(queue.name, key.String(), delay)
}

// Forget ends the backoff of a key.
func (queue Queue) Forget(key Key) error { return queue.world.QueueForget(queue.name, key.String()) }

// Requeues returns how many times a key has been retried since it last succeeded.
func (queue Queue) Requeues(key Key) (int, error) {
	return queue.world.QueueRequeues(queue.name, key.String())
}

// Metrics returns the metrics of the plugin. Labels are values, in the order of the declared names.
func (host *Host) Metrics() Metrics { return Metrics{host.world} }

// Metrics are the metrics that the plugin declares.
type Metrics struct{ world World }

// Add adds to a counter.
func (metrics Metrics) Add(metric string, value float64, labels ...string) {
	metrics.world.Metric(MetricAdd, metric, labels, value)
}

// Set sets a gauge, or the part of the key that is being reconciled in a sum.
func (metrics Metrics) Set(metric string, value float64, labels ...string) {
	metrics.world.Metric(MetricSet, metric, labels, value)
}

// Observe observes a value in a histogram.
func (metrics Metrics) Observe(metric string, value float64, labels ...string) {
	metrics.world.Metric(MetricObserve, metric, labels, value)
}

// Memo returns the plugin's memo: a cache of derived data that all its instances share, and that may be emptied between
// any two calls.
func (host *Host) Memo() Memo { return Memo{host.world} }

// Memo is a cache of derived data.
type Memo struct{ world World }

// Get returns the entry of a key.
func (memo Memo) Get(key string) (entry MemoEntry, found bool) { return memo.world.MemoGet(key) }

// Put puts a value if the version of the key is still the expected one (0: there is no entry), and returns the new
// version. The entry is removed with the object of the UID (empty: no object) and after the time to live (0: no limit).
func (memo Memo) Put(key string, expected uint32, value []byte, objectUID string, ttl time.Duration) (uint32, error) {
	return memo.world.MemoPut(key, expected, value, objectUID, ttl)
}

// Remove removes a key.
func (memo Memo) Remove(key string) { memo.world.MemoRemove(key) }

// SignJWT signs a JSON Web Token with these claims with a key of the host, and returns it in compact form. Needs the
// import `signer`, as do the functions below.
func (host *Host) SignJWT(key string, claims any) (string, error) {
	return host.world.SignJWT(key, encode(claims))
}

// VerifyJWT parses the claims of a token that a key of the host signed. It does not check them, such as the expiry.
func (host *Host) VerifyJWT(key, token string, claims any) error {
	text, err := host.world.VerifyJWT(key, token)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, claims); err != nil {
		return fmt.Errorf("the claims of a token are malformed: %w", err)
	}
	return nil
}

// CertificateAuthority returns the certificates of a signer's authority in DER. The first certificate belongs to the
// key that signs.
func (host *Host) CertificateAuthority(signer string) ([][]byte, error) {
	return host.world.CertificateAuthority(signer)
}

// SignCertificate returns a certificate in DER, signed by a signer's authority.
func (host *Host) SignCertificate(signer string, template CertificateTemplate) ([]byte, error) {
	return host.world.SignCertificate(signer, template)
}
