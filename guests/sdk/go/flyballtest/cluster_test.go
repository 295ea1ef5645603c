package flyballtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"flyball.dev/sdk"
	"flyball.dev/sdk/flyballtest"
)

const configMap = "v1/ConfigMap"

func object(name string, more flyball.Object) flyball.Object {
	found := flyball.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": flyball.Object{"name": name, "namespace": "a"}}
	for field, value := range more {
		found[field] = value
	}
	return found
}

func labelled(name string, labels map[string]string) flyball.Object {
	return object(name, flyball.Object{"metadata": flyball.Object{"name": name, "namespace": "a", "labels": labels}})
}

func TestAnUpdateOfAStaleVersionIsAConflict(t *testing.T) {
	cluster := flyballtest.New(object("x", flyball.Object{"data": flyball.Object{"a": "1"}}))
	host := cluster.Host()
	meta := flyball.MetaOf(cluster.Object(configMap, "a", "x"))
	change := flyball.Object{"data": flyball.Object{"a": nil, "b": "2"}}
	if err := host.Update(configMap, meta, change); err != nil {
		t.Fatal(err)
	}
	if err := host.Update(configMap, meta, change); !flyball.IsConflict(err) {
		t.Errorf("the second update ends with %v", err)
	}
	want := []string{"update v1/ConfigMap a/x", "update v1/ConfigMap a/x: operation cannot be fulfilled on v1/ConfigMap \"x\": " +
		"the object has been modified; please apply your changes to the latest version (409 Conflict)"}
	if written := cluster.Written(); !slices.Equal(written, want) {
		t.Errorf("written is %q", written)
	}
	data := flyballtest.Read[struct{ Data map[string]string }](cluster, configMap, "a", "x").Data
	if len(data) != 1 || data["b"] != "2" {
		t.Errorf("the data is %q", data)
	}
}

func TestAnObjectWithFinalizersIsDeletedWithTheLastOne(t *testing.T) {
	cluster := flyballtest.New(object("x", flyball.Object{"metadata": flyball.Object{"name": "x", "namespace": "a", "finalizers": []string{"f"}}}))
	host := cluster.Host()
	meta := func() flyball.Meta { return flyball.MetaOf(cluster.Object(configMap, "a", "x")) }
	if err := host.Delete(configMap, meta()); err != nil || !meta().IsHeld("f") {
		t.Fatalf("the deletion ends with %v, and the object is %+v", err, meta())
	}
	if err := host.Write(flyball.AddFinalizer(configMap, meta(), "g")).Err; !flyball.IsInvalid(err) {
		t.Errorf("a new finalizer ends with %v", err)
	}
	if err := host.Write(flyball.RemoveFinalizer(configMap, meta(), "f")).Err; err != nil {
		t.Fatal(err)
	}
	if cluster.Object(configMap, "a", "x") != nil {
		t.Error("the object is still there")
	}
}

func TestADeletionIsOfExactlyTheObjectThatWasRead(t *testing.T) {
	cluster := flyballtest.New(object("x", nil))
	other := flyball.MetaOf(cluster.Object(configMap, "a", "x"))
	other.UID = "another"
	if err := cluster.Host().Delete(configMap, other); !flyball.IsConflict(err) {
		t.Errorf("the deletion ends with %v", err)
	}
	cluster.Delete(configMap, "a", "x")
	if err := cluster.Host().Delete(configMap, other); !flyball.IsNotFound(err) {
		t.Errorf("the deletion ends with %v", err)
	}
}

func TestStatusAndSpecAreWrittenApart(t *testing.T) {
	const kind = "example.com/v1/Widget"
	cluster := flyballtest.New()
	host := cluster.Host()
	answer := host.Write(flyball.Create(kind, "a", flyball.Object{"metadata": flyball.Object{"generateName": "w-"}, "spec": flyball.Object{"size": 1}}).Returning("."))
	var created struct{ Metadata flyball.Meta }
	if err := answer.Into(&created); err != nil || created.Metadata.Generation != 1 {
		t.Fatalf("created %+v, %v", created, err)
	}
	meta := func() flyball.Meta { return flyball.MetaOf(cluster.Object(kind, "a", created.Metadata.Name)) }
	if err := host.UpdateStatus(kind, meta(), flyball.Object{"ready": true}); err != nil || meta().Generation != 1 {
		t.Errorf("after %v, the metadata is %+v", err, meta())
	}
	if err := host.Update(kind, meta(), flyball.Object{"spec": flyball.Object{"size": 2}, "status": flyball.Object{"ready": false}}); err != nil {
		t.Fatal(err)
	}
	found := flyballtest.Read[struct {
		Metadata flyball.Meta
		Spec     struct{ Size int }
		Status   struct{ Ready bool }
	}](cluster, kind, "a", created.Metadata.Name)
	if found.Metadata.Generation != 2 || found.Spec.Size != 2 || !found.Status.Ready {
		t.Errorf("the object is %+v", found)
	}
}

func TestPatchesOfEachTypeAreApplied(t *testing.T) {
	cluster := flyballtest.New(object("x", flyball.Object{"data": flyball.Object{"a": "1", "l": []string{"p", "q"}}}))
	host := cluster.Host()
	patch := []flyball.Object{{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/l/1", "value": "n"},
		{"op": "remove", "path": "/data/a"}, {"op": "replace", "path": "/data/l/0", "value": "o"}, {"op": "add", "path": "/data/l/-", "value": "z"}}
	if err := host.Patch(configMap, "a", "x", flyball.JSONPatch, patch); err != nil {
		t.Fatal(err)
	}
	if err := host.Patch(configMap, "a", "x", flyball.JSONPatch, patch); !flyball.IsInvalid(err) {
		t.Errorf("a failed test ends with %v", err)
	}
	data := cluster.Object(configMap, "a", "x")["data"].(map[string]any)
	if l := data["l"].([]any); !slices.Equal(l, []any{"o", "n", "q", "z"}) || data["a"] != nil {
		t.Errorf("the data is %v", data)
	}
	for range 2 {
		if err := host.Apply(configMap, "a", "y", object("y", flyball.Object{"data": flyball.Object{"b": "2"}}), "me", true); err != nil {
			t.Fatal(err)
		}
	}
	if cluster.Object(configMap, "a", "y") == nil {
		t.Error("an apply creates nothing")
	}
}

// reader is a controller that runs a function.
type reader struct {
	description *flyball.Description
	run         func(*flyball.Host) error
}

func (reader reader) Describe(*flyball.Host) *flyball.Description { return reader.description }

func (reader reader) Reconcile(host *flyball.Host, _ flyball.Request) (flyball.Outcome, error) {
	return flyball.Done, reader.run(host)
}

func TestTheDescriptionIsEnforced(t *testing.T) {
	cluster := flyballtest.New(object("x", flyball.Object{"data": flyball.Object{"a": "1", "b": "2"}}))
	description := flyball.Describe("reader", "1").Watch(flyball.WatchKind(configMap, "data.a")).Permission(configMap, "update")
	run := func(run func(host *flyball.Host) error) error {
		_, err := cluster.Reconcile(reader{description, run}, "x")
		return err
	}
	err := run(func(host *flyball.Host) error {
		found, err := flyball.Get[struct{ Data map[string]string }](host, configMap, "a", "x")
		if err == nil && (len(found.Data) != 1 || found.Data["a"] != "1") {
			t.Errorf("the declared fields are %v", found.Data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	meta := flyball.MetaOf(cluster.Object(configMap, "a", "x"))
	for _, denied := range []func(host *flyball.Host) error{
		func(host *flyball.Host) error {
			_, err := flyball.Get[flyball.Object](host, "v1/Pod", "a", "x")
			return err
		},
		func(host *flyball.Host) error { return host.Create(configMap, "a", object("y", nil)) },
		func(host *flyball.Host) error { return host.Update(configMap, meta, flyball.Object{}) },
		func(host *flyball.Host) error { return host.Read(flyball.LiveObject(configMap, "a", "x"))[0].Err },
	} {
		if err := run(denied); !flyball.IsDenied(err) {
			t.Errorf("the call ends with %v", err)
		}
	}
}

func TestQueriesSelectByLabelsOwnersAndIndexes(t *testing.T) {
	owner := flyball.Meta{Name: "o", UID: "1"}
	owned := labelled("owned", map[string]string{"app": "web", "tier": "b"})
	owned["metadata"].(flyball.Object)["ownerReferences"] = []flyball.OwnerReference{owner.ControllerReference("v1/Pod")}
	cluster := flyballtest.New(owned, labelled("free", map[string]string{"app": "web", "canary": ""}), labelled("bare", nil))
	kind := flyball.KindOf[struct {
		Meta flyball.Meta `json:"metadata"`
	}](configMap)
	description := flyball.Describe("reader", "1").Watch(kind.Watch()).Index("by-app", configMap, "metadata.labels.app")
	names := func(conditions ...flyball.Where) (names []string) {
		_, err := cluster.Reconcile(reader{description, func(host *flyball.Host) error {
			for found, err := range kind.Each(host, conditions...) {
				if err != nil {
					return err
				}
				names = append(names, found.Meta.Name)
			}
			count, err := kind.Count(host, conditions...)
			if count != len(names) {
				t.Errorf("%d objects are counted, and %q listed", count, names)
			}
			return err
		}}, "x")
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	for want, conditions := range map[string][]flyball.Where{
		"bare,free,owned": {flyball.InNamespace("a")},
		"":                {flyball.InNamespace("b")},
		"owned":           {flyball.WithLabels("app=web,!canary")},
		"free":            {flyball.WithLabels("app in (api,web),tier notin (b)")},
		"bare,free":       {flyball.Orphans()},
		"free,owned":      {flyball.Indexed("by-app", "web")},
	} {
		if got := join(names(conditions...)); got != want {
			t.Errorf("the query selects %q, not %q", got, want)
		}
	}
	if got := join(names(flyball.ControlledBy("1"), flyball.OwnedBy("1"), flyball.WithLabels("tier!=c"))); got != "owned" {
		t.Errorf("the query by owner selects %q", got)
	}
}

func join(names []string) (text string) {
	for i, name := range names {
		if i > 0 {
			text += ","
		}
		text += name
	}
	return text
}

func TestAFailureIsInjectedOnceAndStopsABatch(t *testing.T) {
	cluster := flyballtest.New()
	cluster.Fail("create", configMap, flyballtest.Refusal(500, "InternalError"))
	create := func(name string) flyball.Write { return flyball.Create(configMap, "a", object(name, nil)) }
	batch := flyball.Batch{Writes: []flyball.Write{create("x"), create("y")}, StopOnError: true}
	results := cluster.Host().Batch(batch)
	if flyball.ReasonOf(results[0].Err) != "InternalError" || flyball.ReasonOf(results[1].Err) != "Skipped" {
		t.Errorf("the results are %v", results)
	}
	for _, result := range cluster.Host().Batch(batch) {
		if result.Err != nil {
			t.Error(result.Err)
		}
	}
}

func TestLivePagesReturnAllObjects(t *testing.T) {
	cluster := flyballtest.New(object("x", nil), labelled("y", map[string]string{"app": "web"}))
	count := 0
	for _, err := range flyball.LivePages[flyball.Object](cluster.Host(), flyball.LiveList(configMap, "a").With("labelSelector", "app"), 10) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	if count != 1 {
		t.Errorf("%d objects are listed", count)
	}
}

func TestMemoEntriesExpireAndGoWithTheirObject(t *testing.T) {
	cluster := flyballtest.New(object("x", nil))
	memo := cluster.Host().Memo()
	uid := flyball.MetaOf(cluster.Object(configMap, "a", "x")).UID
	put := func(key string, expected uint32, uid string, ttl time.Duration) error {
		_, err := memo.Put(key, expected, []byte("v"), uid, ttl)
		return err
	}
	if put("a", 0, "", time.Minute) != nil || put("b", 0, uid, 0) != nil || !flyball.IsConflict(put("a", 0, "", 0)) || put("a", 1, "", time.Minute) != nil {
		t.Fatal("the versions are not compared")
	}
	cluster.Advance(time.Minute)
	if _, found := memo.Get("a"); found {
		t.Error("the entry has not expired")
	}
	if entry, found := memo.Get("b"); !found || string(entry.Value) != "v" {
		t.Error("the entry is missing")
	}
	cluster.Delete(configMap, "a", "x")
	if _, found := memo.Get("b"); found {
		t.Error("the entry outlives its object")
	}
}

func TestTokensAreVerifiedByTheirKey(t *testing.T) {
	cluster := flyballtest.New()
	cluster.AddKey("a")
	cluster.AddKey("b")
	host := cluster.Host()
	token, err := host.SignJWT("a", flyball.Object{"sub": "me"})
	if err != nil {
		t.Fatal(err)
	}
	var claims struct{ Sub string }
	if err := host.VerifyJWT("a", token, &claims); err != nil || claims.Sub != "me" {
		t.Errorf("the claims are %+v, %v", claims, err)
	}
	if err := host.VerifyJWT("b", token, &claims); flyball.ReasonOf(err) != "Unauthorized" {
		t.Errorf("another key ends with %v", err)
	}
}

func TestSettingsHaveTheOperatorsValueOrTheDefault(t *testing.T) {
	cluster := flyballtest.New()
	description := flyball.Describe("reader", "1").WithConfig("period", "10s", "")
	period := func() (found time.Duration, err error) {
		_, err = cluster.Reconcile(reader{description, func(host *flyball.Host) error {
			found, err = host.ConfigDuration("period", time.Hour)
			return err
		}}, "x")
		return found, err
	}
	if found, err := period(); found != 10*time.Second || err != nil {
		t.Errorf("the period is %v, %v", found, err)
	}
	cluster.SetConfig("period", "soon")
	if _, err := period(); !flyball.IsTerminal(err) {
		t.Errorf("an invalid period ends with %v", err)
	}
}

const webs = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: webs.a.b}
spec:
  group: a.b
  scope: Namespaced
  names: {kind: Web, plural: webs}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                host: {type: string}
                replicas: {type: integer, default: 1}
`

// defined returns a cluster with the definition of Webs.
func defined(t *testing.T) *flyballtest.Cluster {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(file, []byte(webs), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := flyballtest.New()
	cluster.Define(file)
	return cluster
}

// web returns a Web with this spec.
func web(spec flyball.Object) flyball.Object {
	return flyball.Object{"apiVersion": "a.b/v1", "kind": "Web", "metadata": flyball.Object{"name": "w", "namespace": "a"}, "spec": spec}
}

func TestAFieldThatTheDefinitionLacksIsDroppedWithAWarning(t *testing.T) {
	cluster := defined(t)
	if err := cluster.Host().Create("a.b/v1/Web", "a", web(flyball.Object{"host": "x", "replica": 2})); err != nil {
		t.Fatal(err)
	}
	stored := flyballtest.Read[struct{ Spec map[string]any }](cluster, "a.b/v1/Web", "a", "w").Spec
	if len(stored) != 2 || stored["host"] != "x" || stored["replicas"] != 1.0 {
		t.Errorf("the spec is %v", stored)
	}
	writes := cluster.Writes()
	if len(writes) != 1 || !slices.Equal(writes[0].Warnings, []string{`unknown field "spec.replica"`}) ||
		writes[0].String() != `create a.b/v1/Web a/w: warning: unknown field "spec.replica"` {
		t.Errorf("the writes are %q", writes)
	}
	if logged := cluster.Logged(); len(logged) != 1 || !strings.Contains(fmt.Sprint(logged[0]), "the API server warns") {
		t.Errorf("logged is %v", logged)
	}
	err := cluster.Host().Create("a.b/v1/Web", "a", web(flyball.Object{"host": 1}))
	if !flyball.IsInvalid(err) || !strings.Contains(err.Error(), "spec.host in body must be of type string") {
		t.Errorf("the create ends with %v", err)
	}
}

func TestAnObjectOfTheTestFitsItsDefinition(t *testing.T) {
	cluster := defined(t)
	defer func() {
		if mistake := fmt.Sprint(recover()); !strings.Contains(mistake, `unknown field "spec.replica"`) {
			t.Errorf("the mistake is %s", mistake)
		}
	}()
	cluster.Put(web(flyball.Object{"replica": 2}))
}
