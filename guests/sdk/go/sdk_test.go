package flyball_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"flyball.dev/sdk"
	"flyball.dev/sdk/flyballtest"
)

type widget struct {
	Meta flyball.Meta `json:"metadata"`
	Spec struct {
		Size  int               `json:"size"`
		Parts []struct{ A int } `json:"parts"`
		Notes map[string]string `json:"notes-x"`
		Inner *struct {
			At time.Time `json:"at"`
		} `json:"inner"`
		Next   *widget `json:"next"`
		hidden int
	} `json:"spec"`
	APIVersion string `json:"apiVersion"`
}

var widgets = flyball.KindOf[widget]("example.com/v1/Widget")

func TestFieldsOfAKindAreThoseOfItsStruct(t *testing.T) {
	want := []string{"metadata", "spec.size", "spec.parts", "spec['notes-x']", "spec.inner.at", "spec.next"}
	if !slices.Equal(widgets.Fields, want) {
		t.Errorf("fields are %q, not %q", widgets.Fields, want)
	}
	if whole := flyball.KindOf[flyball.Object]("v1/Pod").Fields; !slices.Equal(whole, []string{"."}) {
		t.Errorf("fields of an Object are %q", whole)
	}
	if given := flyball.KindOf[widget]("v1/Pod", "spec").Fields; !slices.Equal(given, []string{"spec"}) {
		t.Errorf("given fields are %q", given)
	}
}

func TestADescriptionIsTheDocumentOfTheSchema(t *testing.T) {
	description := flyball.Describe("widgets", "1.0.0").
		Watch(flyball.WatchKind("v1/Pod", "spec.nodeName").InNamespace("a").WithLabels("b=c").WithFields("d=e").
			WhenLabels().WhenAt("spec.nodeName").
			Enqueue(flyball.ToController("apps/v1/ReplicaSet").On(flyball.Added).After(time.Second).In("second"),
				flyball.ToNamedInCluster("spec.nodeName"),
				flyball.ToNamed("spec.claim").OfKind("v1/Secret").Missing().WhileAnyOf("v1/Pod"), flyball.ToMissingOwners().OnlyDeleting(),
				flyball.ToSelecting("v1/Service", "spec.selector").WhoseFieldIs("spec.type", "NodePort").OnlyOrphans(),
				flyball.ToKey(flyball.Key{Name: "all"}).Having("spec.a", "b").HavingAnyOf("spec.c").Unless("spec.d").UnlessHaving("spec.e", "f"))).
		Watch(flyball.WatchDiscovered(time.Minute, flyball.Discovered{Verbs: []string{"delete"}}).OnlyMetadata().Enqueue(flyball.Itself())).
		Index("by-node", "v1/Pod", "spec.nodeName").
		Ticker(flyball.Key{Name: "all"}, 1500*time.Microsecond).
		Permission("v1/Pod", "get", "delete").
		PermissionOn("v1/Pod", "status", "update").
		Import("discovery").
		WithConfig("period", "10s", "How often.").
		WithOptionalConfig("name", "Whose.").
		Counter("widgets_total", "Widgets.", "node").
		Histogram("widgets_seconds", "Time.", []float64{0.1, 1}).
		Sum("widgets", "Widgets.", "colour").
		WithConcurrency(3).
		WithMemoSchema(2)
	want := `{
		"format": 1, "name": "widgets", "version": "1.0.0", "concurrency": 3, "memoSchema": 2,
		"watches": [
			{"kind": "v1/Pod", "namespace": "a", "labelSelector": "b=c", "fieldSelector": "d=e", "fields": ["spec.nodeName"],
			 "changes": ["labels", {"path": "spec.nodeName"}],
			 "map": [{"to": "controller", "kind": "apps/v1/ReplicaSet", "on": ["added"], "delayMs": 1000, "queue": "second"},
			         {"to": "named", "path": "spec.nodeName", "namespaced": false},
			         {"to": "named", "path": "spec.claim", "namespaced": true, "kind": "v1/Secret", "missing": true, "whileAny": ["v1/Pod"]},
			         {"to": "ownerReferences", "which": "missing", "deleting": true},
			         {"to": "selecting", "kind": "v1/Service", "path": "spec.selector", "orphans": true,
			          "whose": [{"path": "spec.type", "value": "NodePort"}]},
			         {"to": "constant", "key": "all", "having": [{"path": "spec.a", "value": "b"}], "havingAny": ["spec.c"],
			          "unless": [{"path": "spec.d"}, {"path": "spec.e", "value": "f"}]}]},
			{"discovered": {"periodMs": 60000, "verbs": ["delete"]}, "metadataOnly": true, "fields": [], "map": [{"to": "itself"}]}
		],
		"queues": [{"name": "widgets"}],
		"indexes": [{"name": "by-node", "kind": "v1/Pod", "path": "spec.nodeName"}],
		"tickers": [{"key": "all", "periodMs": 2}],
		"permissions": [{"kind": "v1/Pod", "verbs": ["get", "delete"]},
		                {"kind": "v1/Pod", "subresource": "status", "verbs": ["update"]}],
		"imports": ["discovery"],
		"config": {"period": {"default": "10s", "help": "How often."}, "name": {"help": "Whose."}},
		"metrics": [{"name": "widgets_total", "help": "Widgets.", "labels": ["node"], "type": "counter"},
		            {"name": "widgets_seconds", "help": "Time.", "labels": [], "type": {"histogram": [0.1, 1]}},
		            {"name": "widgets", "help": "Widgets.", "labels": ["colour"], "type": "sum"}]
	}`
	var got, wanted any
	if err := errors.Join(json.Unmarshal(description.JSON(), &got), json.Unmarshal([]byte(want), &wanted)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("the description is %s", description.JSON())
	}
}

func TestErrorsAreToldApartByTheirReasonThroughWrapping(t *testing.T) {
	api := &flyball.APIError{Status: 409, Reason: "Conflict", Message: "changed", Effect: flyball.EffectUnknown}
	err := fmt.Errorf("can't update: %w", api)
	if !flyball.IsConflict(err) || flyball.IsNotFound(err) || flyball.IsTerminal(err) || !flyball.MayHaveTakenEffect(err) {
		t.Errorf("%v is not told apart", err)
	}
	if want := "can't update: changed (409 Conflict)"; err.Error() != want {
		t.Errorf("the text is %q, not %q", err, want)
	}
	terminal := fmt.Errorf("more: %w", flyball.Terminal(err))
	if !flyball.IsTerminal(terminal) || !flyball.IsConflict(terminal) || flyball.Terminal(nil) != nil {
		t.Errorf("%v is not terminal", terminal)
	}
}

func TestATransitionTimeChangesOnlyWithTheStatus(t *testing.T) {
	var conditions []flyball.Condition
	first := time.Date(2026, 1, 1, 0, 0, 0, 5, time.UTC)
	set := func(status, reason string, now time.Time) bool {
		return flyball.SetCondition(&conditions, flyball.Condition{Type: "Ready", Status: status, Reason: reason}, now)
	}
	later := first.Add(time.Hour)
	if !set("True", "A", first) || set("True", "A", later) || !set("True", "B", later) {
		t.Fatal("it does not say whether anything changed")
	}
	ready := flyball.FindCondition(conditions, "Ready")
	if !ready.LastTransitionTime.Equal(first.Truncate(time.Second)) || ready.Reason != "B" {
		t.Errorf("the condition is %+v", ready)
	}
	if !set("False", "B", later) || !flyball.FindCondition(conditions, "Ready").LastTransitionTime.Equal(later.Truncate(time.Second)) {
		t.Errorf("the conditions are %+v", conditions)
	}
	if !flyball.RemoveCondition(&conditions, "Ready") || flyball.RemoveCondition(&conditions, "Ready") || len(conditions) != 0 {
		t.Errorf("the conditions are %+v", conditions)
	}
}

func TestAFinalizerIsAddedLastAndRemovedAlone(t *testing.T) {
	cluster := flyballtest.New(flyball.Object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": flyball.Object{"name": "a", "namespace": "b", "finalizers": []string{"x.io/other"}}})
	meta := func() flyball.Meta { return flyball.MetaOf(cluster.Object("v1/ConfigMap", "b", "a")) }
	stale := meta()
	host := cluster.Host()
	if err := host.Write(flyball.AddFinalizer("v1/ConfigMap", stale, "x.io/ours")).Err; err != nil {
		t.Fatal(err)
	}
	if held := meta(); !slices.Equal(held.Finalizers, []string{"x.io/other", "x.io/ours"}) || held.IsHeld("x.io/ours") {
		t.Errorf("the finalizers are %q", held.Finalizers)
	}
	if err := host.Write(flyball.RemoveFinalizer("v1/ConfigMap", stale, "x.io/ours")).Err; !flyball.IsConflict(err) {
		t.Errorf("a stale removal ends with %v", err)
	}
	if err := host.Write(flyball.RemoveFinalizer("v1/ConfigMap", meta(), "x.io/ours")).Err; err != nil {
		t.Fatal(err)
	}
	if left := meta().Finalizers; !slices.Equal(left, []string{"x.io/other"}) {
		t.Errorf("the finalizers are %q", left)
	}
}

func TestOwnersAreFoundByUID(t *testing.T) {
	owner := flyball.Meta{Name: "a", UID: "1"}
	reference := owner.ControllerReference("apps/v1/ReplicaSet")
	if reference.APIVersion != "apps/v1" || reference.Kind != "ReplicaSet" || !*reference.Controller || !*reference.BlockOwnerDeletion {
		t.Errorf("the reference is %+v", reference)
	}
	owned := flyball.Meta{OwnerReferences: []flyball.OwnerReference{{UID: "0"}, reference}}
	if !owned.IsControlledBy(owner) || owned.IsControlledBy(flyball.Meta{UID: "0"}) || !owned.IsOwnedBy(flyball.Meta{UID: "0"}) {
		t.Errorf("the owners are not found in %+v", owned)
	}
}

// broken is a controller that panics.
type broken struct{}

func (broken) Describe(*flyball.Host) *flyball.Description { return flyball.Describe("broken", "1") }

func (broken) Reconcile(_ *flyball.Host, request flyball.Request) (flyball.Outcome, error) {
	switch request.Name {
	case "nil":
		return flyball.Done, crash(nil)
	case "library":
		_ = strings.Repeat("a", -1)
	}
	return flyball.RequeueAfter(time.Minute), nil
}

func crash(object *widget) error { return errors.New(object.Meta.Name) }

func TestAPanicIsAnErrorWithItsFileAndLine(t *testing.T) {
	cluster := flyballtest.New()
	_, err := cluster.Reconcile(broken{}, "nil")
	if err == nil {
		t.Fatal("the panic is no error")
	}
	text := err.Error()
	first, _, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(first, "panic: ") || !strings.HasSuffix(first, " in flyball.dev/sdk_test.crash)") || !strings.Contains(first, "sdk_test.go:") {
		t.Errorf("the first line is %s", first)
	}
	if !strings.Contains(text, "nil pointer dereference") || !strings.Contains(text, "at flyball.dev/sdk_test.crash (") ||
		!strings.Contains(text, "sdk_test.go:") || strings.Contains(text, "runtime/panic.go") || strings.Contains(text, "sdk.Call") {
		t.Errorf("the error is %s", text)
	}
	_, err = cluster.Reconcile(broken{}, "library")
	if first, _, _ := strings.Cut(fmt.Sprint(err), "\n"); !strings.HasPrefix(first, "panic: strings: negative Repeat count (") ||
		!strings.HasSuffix(first, " in flyball.dev/sdk_test.broken.Reconcile)") {
		t.Errorf("the first line of a panic in the standard library is %s", first)
	}
	if outcome, err := cluster.Reconcile(broken{}, "other"); err != nil || outcome.RequeueAfter != time.Minute {
		t.Errorf("the next call ends with %v, %v", outcome, err)
	}
	if _, err := cluster.Route(broken{}); err == nil {
		t.Error("a controller without Route routes")
	}
}

func TestTheLoggerWritesFieldsAndGroups(t *testing.T) {
	cluster := flyballtest.New()
	logger := cluster.Host().Log().With("a", 1).WithGroup("g").With("b", "x")
	logger.Warn("careful", "err", errors.New("broken"), slog.Group("h", "d", time.Second))
	logged := cluster.Logged()
	want := []flyball.LogField{{Name: "a", Value: "1"}, {Name: "g.b", Value: "x"}, {Name: "g.err", Value: "broken"}, {Name: "g.h.d", Value: "1s"}}
	if len(logged) != 1 || logged[0].Level != slog.LevelWarn || logged[0].Message != "careful" || !slices.Equal(logged[0].Fields, want) {
		t.Errorf("the log has %+v", logged)
	}
}

func TestASelectorIsWrittenAsTheAPIsParameter(t *testing.T) {
	selector := flyball.LabelSelector{MatchLabels: map[string]string{"b": "2", "a": "1"}, MatchExpressions: []flyball.LabelRequirement{
		{Key: "c", Operator: "NotIn", Values: []string{"x", "y"}}, {Key: "d", Operator: "Exists"}, {Key: "e", Operator: "DoesNotExist"}}}
	text, err := selector.Text()
	if want := "a=1,b=2,c notin (x,y),d,!e"; err != nil || text != want {
		t.Errorf("the selector is %q, %v", text, err)
	}
	selector.MatchExpressions[0].Operator = "Near"
	if _, err := selector.Text(); err == nil {
		t.Error("an unknown operator is valid")
	}
}

func TestTheEventOptionsAreThoseOfTheSchema(t *testing.T) {
	related := flyball.Reference{Kind: "v1/Pod", Namespace: "a", Name: "b"}
	event := flyball.Event{About: flyball.Reference{ResourceVersion: "7"}, Action: "Greeting", Related: &related}
	want := `{"action":"Greeting","related":{"kind":"v1/Pod","namespace":"a","name":"b"},"resourceVersion":"7"}`
	if got := string(event.Options()); got != want {
		t.Errorf("the options are %s", got)
	}
}
