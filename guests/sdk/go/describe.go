package flyball

import "time"

// Description is the document that Describe returns, and its builder: `describe.schema.json`.
type Description struct {
	Format      int                  `json:"format"`
	Name        string               `json:"name"`
	Version     string               `json:"version"`
	Watches     []Watch              `json:"watches"`
	Queues      []QueueSettings      `json:"queues"`
	Indexes     []Index              `json:"indexes,omitempty"`
	Tickers     []Ticker             `json:"tickers,omitempty"`
	Permissions []Permission         `json:"permissions,omitempty"`
	Imports     []string             `json:"imports,omitempty"`
	Config      map[string]ConfigKey `json:"config,omitempty"`
	Metrics     []Metric             `json:"metrics,omitempty"`
	Concurrency int                  `json:"concurrency,omitempty"`
	MemoSchema  uint32               `json:"memoSchema,omitempty"`
}

// QueueSettings is a workqueue. Nil fields stand for client-go's defaults.
type QueueSettings struct {
	Name        string   `json:"name"`
	BaseDelayMs *uint32  `json:"baseDelayMs,omitempty"`
	MaxDelayMs  *uint32  `json:"maxDelayMs,omitempty"`
	QPS         *float64 `json:"qps,omitempty"`
	Burst       *uint32  `json:"burst,omitempty"`
	// MaxRetries is the number of retries of a key before it is dropped; nil for no limit.
	MaxRetries *uint32 `json:"maxRetries,omitempty"`
}

// Index is an index of a watched kind by the value of a field.
type Index struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Path string `json:"path"`
}

// Ticker is a key that is enqueued periodically.
type Ticker struct {
	Key string `json:"key"`
	// Queue is empty for the first one.
	Queue    string `json:"queue,omitempty"`
	PeriodMs uint32 `json:"periodMs"`
	// Config is a configuration key whose duration takes precedence.
	Config string `json:"config,omitempty"`
}

// Permission asks for verbs on a kind.
type Permission struct {
	// Kind is a kind, or `*` for all.
	Kind        string   `json:"kind"`
	Subresource string   `json:"subresource,omitempty"`
	Verbs       []string `json:"verbs"`
}

// ConfigKey is a configuration key.
type ConfigKey struct {
	Default *string `json:"default,omitempty"`
	Help    string  `json:"help"`
}

// Metric is a metric of the plugin.
type Metric struct {
	Name   string   `json:"name"`
	Help   string   `json:"help"`
	Labels []string `json:"labels"`
	// Type is `counter`, `gauge`, `sum`, or an object with the bounds of a histogram.
	Type any `json:"type"`
}

// Describe starts a description. The name has lower-case letters, digits and dashes. The plugin's queue is named after
// it.
func Describe(name, version string) *Description {
	return &Description{Format: 1, Name: name, Version: version, Watches: []Watch{}, Queues: []QueueSettings{{Name: name}}}
}

// Watch adds a watch.
func (description *Description) Watch(watch Watch) *Description {
	description.Watches = append(description.Watches, watch)
	return description
}

// WithQueues replaces the plugin's queue by these. The first one is the primary queue.
func (description *Description) WithQueues(queues ...QueueSettings) *Description {
	description.Queues = queues
	return description
}

// Index adds an index of a watched kind by the value of a field.
func (description *Description) Index(name, kind, path string) *Description {
	description.Indexes = append(description.Indexes, Index{name, kind, path})
	return description
}

// Ticker adds a key that is enqueued periodically in the primary queue.
func (description *Description) Ticker(key Key, period time.Duration) *Description {
	return description.TickerWith(Ticker{Key: key.String(), PeriodMs: millis(period)})
}

// TickerWith adds a key that is enqueued periodically, in another queue or with a configurable period.
func (description *Description) TickerWith(ticker Ticker) *Description {
	description.Tickers = append(description.Tickers, ticker)
	return description
}

// Permission asks for verbs on a kind; `*` is all kinds.
func (description *Description) Permission(kind string, verbs ...string) *Description {
	return description.PermissionOn(kind, "", verbs...)
}

// PermissionOn asks for verbs on a subresource of a kind.
func (description *Description) PermissionOn(kind, subresource string, verbs ...string) *Description {
	description.Permissions = append(description.Permissions, Permission{kind, subresource, verbs})
	return description
}

// Import asks for an import that needs a grant: `cloud`, `discovery`, `signer`, `raw`.
func (description *Description) Import(name string) *Description {
	description.Imports = append(description.Imports, name)
	return description
}

// WithConfig declares a configuration key with its default.
func (description *Description) WithConfig(key, otherwise, help string) *Description {
	return description.withConfig(key, &otherwise, help)
}

// WithOptionalConfig declares a configuration key without a default.
func (description *Description) WithOptionalConfig(key, help string) *Description {
	return description.withConfig(key, nil, help)
}

func (description *Description) withConfig(key string, otherwise *string, help string) *Description {
	if description.Config == nil {
		description.Config = map[string]ConfigKey{}
	}
	description.Config[key] = ConfigKey{otherwise, help}
	return description
}

// Counter declares a counter with these labels.
func (description *Description) Counter(name, help string, labels ...string) *Description {
	return description.metric(name, help, "counter", labels)
}

// Gauge declares a gauge with these labels.
func (description *Description) Gauge(name, help string, labels ...string) *Description {
	return description.metric(name, help, "gauge", labels)
}

// Sum declares a gauge that shows the sum of the values that each key has set last, with these labels. Setting 0
// removes the key's part.
func (description *Description) Sum(name, help string, labels ...string) *Description {
	return description.metric(name, help, "sum", labels)
}

// Histogram declares a histogram with these upper bounds and labels.
func (description *Description) Histogram(name, help string, bounds []float64, labels ...string) *Description {
	return description.metric(name, help, Object{"histogram": bounds}, labels)
}

func (description *Description) metric(name, help string, metricType any, labels []string) *Description {
	if labels == nil {
		labels = []string{}
	}
	description.Metrics = append(description.Metrics, Metric{name, help, labels, metricType})
	return description
}

// WithConcurrency sets how many keys are reconciled at once; 1 by default.
func (description *Description) WithConcurrency(keys int) *Description {
	description.Concurrency = keys
	return description
}

// WithMemoSchema sets the version of the memo's schema. A reload with another one empties the memo.
func (description *Description) WithMemoSchema(schema uint32) *Description {
	description.MemoSchema = schema
	return description
}

// JSON returns the document.
func (description *Description) JSON() []byte { return encode(description) }

// millis converts to milliseconds, rounded up, 49 days at most.
func millis(duration time.Duration) uint32 {
	rounded := (max(duration, 0) + time.Millisecond - 1) / time.Millisecond
	return uint32(min(rounded, 1<<32-1))
}
