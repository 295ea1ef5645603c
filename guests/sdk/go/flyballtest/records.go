package flyballtest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"flyball.dev/sdk"
)

// Object returns an object; nil if there is none.
func (cluster *Cluster) Object(kind, namespace, name string) (object flyball.Object) {
	cluster.do("object", keyOf(kind, namespace, name), &object)
	return object
}

// Read returns an object as a value of type T; nil if there is none.
func Read[T any](cluster *Cluster, kind, namespace, name string) (value *T) {
	cluster.do("object", keyOf(kind, namespace, name), &value)
	return value
}

// Objects returns all objects of a kind, ordered by namespace and name.
func (cluster *Cluster) Objects(kind string) (objects []flyball.Object) {
	cluster.do("objects", args{"kind": kind}, &objects)
	return objects
}

// Written is a write that reached the server.
type Written struct {
	// Verb is the API's: `create`, `update`, `patch`, `delete`, `deletecollection`.
	Verb            string
	Kind, Namespace string
	// Name may be a name that the server generated.
	Name        string
	Subresource string
	// PatchType is empty for other writes.
	PatchType flyball.PatchType
	// Body is the object, the change or the patch.
	Body    json.RawMessage
	Options flyball.Object
	// Warnings are the server's, such as `unknown field "spec.txt"` for a field that it dropped.
	Warnings []string
	// Err is the error of a write that failed.
	Err  error `json:"-"`
	line string
}

// String returns the write as in `create v1/Pod default/web-1`, `update v1/Pod/status default/web-1: … (409 Conflict)`
// or `create a.b/v1/C d/e: warning: unknown field "spec.txt"`.
func (written Written) String() string { return written.line }

// Writes returns all writes since the last call of Writes or Written, including failed ones.
func (cluster *Cluster) Writes() []Written {
	var found []struct {
		Written
		Line  string
		Error *failure
	}
	cluster.do("writes", nil, &found)
	writes := []Written{}
	for _, one := range found {
		one.Written.line = one.Line
		if one.Error != nil {
			one.Written.Err = one.Error.of()
		}
		writes = append(writes, one.Written)
	}
	return writes
}

// Written returns the same as Writes as lines: `create v1/Pod default/web-1`.
func (cluster *Cluster) Written() []string {
	lines := []string{}
	for _, written := range cluster.Writes() {
		lines = append(lines, written.String())
	}
	return lines
}

// LiveReads returns all live reads since the last call as lines: `list v1/Pod default`.
func (cluster *Cluster) LiveReads() (lines []string) {
	cluster.do("live-reads", nil, &lines)
	return lines
}

// RecordedEvents returns all events since the last call of RecordedEvents or Events.
func (cluster *Cluster) RecordedEvents() []flyball.Event {
	var found []struct {
		About struct {
			flyball.Reference
			ResourceVersion string
		}
		Type            flyball.EventType
		Reason, Message string
		Options         struct {
			Action, ResourceVersion, ReportingController string
			Related                                      *flyball.Reference
			Annotations                                  map[string]string
			Once                                         bool
		}
	}
	cluster.do("events", nil, &found)
	events := []flyball.Event{}
	for _, one := range found {
		about := one.About.Reference
		about.ResourceVersion = one.Options.ResourceVersion
		events = append(events, flyball.Event{About: about, Type: one.Type, Reason: one.Reason, Message: one.Message,
			Action: one.Options.Action, Related: one.Options.Related, Annotations: one.Options.Annotations, ReportingController: one.Options.ReportingController,
			Once: one.Options.Once})
	}
	return events
}

// Events returns the same as RecordedEvents as lines: `Normal Created Created pod: web-1`.
func (cluster *Cluster) Events() []string {
	lines := []string{}
	for _, event := range cluster.RecordedEvents() {
		lines = append(lines, fmt.Sprintf("%s %s %s", event.Type, event.Reason, event.Message))
	}
	return lines
}

// Enqueued is a key that the controller enqueued.
type Enqueued struct {
	Queue, Key string
	Delay      time.Duration
}

// Enqueued returns all keys that the controller enqueued since the last call.
func (cluster *Cluster) Enqueued() []Enqueued {
	var found []struct {
		Queue, Key string
		DelayMS    uint32
	}
	cluster.do("enqueued", nil, &found)
	keys := []Enqueued{}
	for _, one := range found {
		keys = append(keys, Enqueued{one.Queue, one.Key, milliseconds(one.DelayMS)})
	}
	return keys
}

// Logged is a line of the log.
type Logged struct {
	Level   slog.Level
	Message string
	Fields  []flyball.LogField
}

// Logged returns all lines of the log since the last call.
func (cluster *Cluster) Logged() []Logged {
	var found []struct {
		Level, Message string
		Fields         [][2]string
	}
	cluster.do("logs", nil, &found)
	lines := []Logged{}
	for _, one := range found {
		line := Logged{Level: levels[one.Level], Message: one.Message}
		for _, field := range one.Fields {
			line.Fields = append(line.Fields, flyball.LogField{Name: field[0], Value: field[1]})
		}
		lines = append(lines, line)
	}
	return lines
}

// Measured is a change of a metric.
type Measured struct {
	Operation flyball.MetricOperation
	Name      string
	Labels    []string
	Value     float64
}

// Metrics returns all changes of metrics since the last call.
func (cluster *Cluster) Metrics() (changes []Measured) {
	cluster.do("metrics", nil, &changes)
	return changes
}

// Signed is a token that the host signed.
type Signed struct {
	Key, Token string
	Claims     json.RawMessage
}

// Signed returns all tokens that were signed so far.
func (cluster *Cluster) Signed() (tokens []Signed) {
	cluster.do("signed", nil, &tokens)
	return tokens
}
