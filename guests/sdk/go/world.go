package flyball

import (
	"log/slog"
	"time"
)

// World has the untyped functions of the host: the imports of the WIT world, whose comments describe them. The sandbox
// has one implementation, and the package flyballtest has another. Controllers use it through the [Host].
type World interface {
	ListerGet(kind, namespace, name string, fields []string) (object []byte, err error)
	ListerList(query Query, projection Projection, limit int) (Page, error)
	ListerCount(query Query) (int, error)
	DeletionObserved(object Reference) bool

	// Read makes live reads, and returns one result for each.
	Read(reads []LiveRead) []Result
	Kinds() (Catalogue, error)

	// Write makes writes, and returns one result for each.
	Write(batch Batch) []Result
	Emit(event Event)

	QueueAdd(queue, key string, delay time.Duration) error
	QueueForget(queue, key string) error
	QueueRequeues(queue, key string) (int, error)

	Now() time.Time
	Random(count int) []byte
	LogEnabled(level slog.Level) bool
	Log(level slog.Level, message string, fields []LogField)
	Metric(operation MetricOperation, name string, labels []string, value float64)
	Config(key string) (value string, found bool)

	MemoGet(key string) (MemoEntry, bool)
	MemoPut(key string, expected uint32, value []byte, objectUID string, ttl time.Duration) (version uint32, err error)
	MemoRemove(key string)

	SignJWT(key string, claims []byte) (string, error)
	VerifyJWT(key, token string) (claims []byte, err error)
	CertificateAuthority(signer string) (certificates [][]byte, err error)
	SignCertificate(signer string, template CertificateTemplate) (certificate []byte, err error)
}

// Result is the result of a live read or a write.
type Result struct {
	// JSON has the requested fields; empty if none were requested.
	JSON []byte
	Err  error
}

// Page is a part of the result of a query.
type Page struct {
	// Items is a JSON array of objects or rows.
	Items []byte
	// Next returns the next page; nil if this is the last one.
	Next func(limit int) (Page, error)
	// Drop releases the rest; nil if this is the last page.
	Drop func()
}

// Projection selects the parts of each object that a query returns: all declared fields if both lists are empty.
type Projection struct {
	// Fields are the paths of an object reduced to them.
	Fields []string
	// Columns are the paths of a row: an array with the value at each of them.
	Columns []string
}

// Catalogue lists the kinds that the API server serves.
type Catalogue struct {
	Kinds []ServedKind
	// Failures are the group versions whose discovery failed.
	Failures []DiscoveryFailure
}

// ServedKind is a kind in one version.
type ServedKind struct {
	// Kind is as in `apps/v1/Deployment`.
	Kind string
	// Plural is the name in paths: `deployments`.
	Plural     string
	Namespaced bool
	// Preferred says whether this is the version that the server prefers.
	Preferred    bool
	Verbs        []string
	Subresources []ServedSubresource
}

// ServedSubresource is a subresource of a kind.
type ServedSubresource struct {
	Name  string
	Verbs []string
}

// DiscoveryFailure is a group version whose discovery failed.
type DiscoveryFailure struct {
	GroupVersion string
	Message      string
}

// MemoEntry is an entry of the memo.
type MemoEntry struct {
	Value []byte
	// Version is raised by each change of the key; never 0.
	Version uint32
}

// LogField is a field of a line of the log.
type LogField struct{ Name, Value string }

// MetricOperation is the change of a metric.
type MetricOperation string

const (
	MetricAdd     MetricOperation = "add"
	MetricSet     MetricOperation = "set"
	MetricObserve MetricOperation = "observe"
)

// CertificateTemplate is the content of a certificate. See the WIT record `certificate-template`.
type CertificateTemplate struct {
	// PublicKey is a SubjectPublicKeyInfo in DER; empty if Request is set.
	PublicKey []byte
	// Request is a PKCS#10 request in DER.
	Request []byte
	// Subject is the subject's relative names, in order; each is a set of attributes.
	Subject           [][]CertificateAttribute
	DNSNames          []string
	EmailAddresses    []string
	IPAddresses       []string
	URIs              []string
	KeyUsages         KeyUsage
	ExtendedKeyUsages []string
	NotBefore         time.Time
	NotAfter          time.Time
}

// CertificateAttribute is an attribute of a subject.
type CertificateAttribute struct {
	// OID is the object identifier of its type: `2.5.4.3` is the common name.
	OID   string
	Value string
}

// KeyUsage is a set of purposes of a key.
type KeyUsage uint16

const (
	KeyUsageDigitalSignature KeyUsage = 1 << iota
	KeyUsageContentCommitment
	KeyUsageKeyEncipherment
	KeyUsageDataEncipherment
	KeyUsageKeyAgreement
	KeyUsageCertSign
	KeyUsageCRLSign
	KeyUsageEncipherOnly
	KeyUsageDecipherOnly
)
