package plugin

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"flyball.dev/sdk"
)

// world has Nodes in its cache and on its server, and keeps what is written.
type world struct {
	flyball.World
	nodes   map[string]string
	writes  []flyball.Write
	reads   []flyball.LiveRead
	events  []flyball.Event
	queries int
}

func (world *world) LogEnabled(slog.Level) bool                 { return false }
func (world *world) Log(slog.Level, string, []flyball.LogField) {}
func (world *world) Emit(event flyball.Event)                   { world.events = append(world.events, event) }
func (world *world) ListerGet(kind, _, name string, _ []string) ([]byte, error) {
	if kind != "v1/Node" || world.nodes[name] == "" {
		return nil, nil
	}
	return []byte(world.nodes[name]), nil
}

func (world *world) all() string {
	names := []string{}
	for _, node := range world.nodes {
		names = append(names, node)
	}
	slices.Sort(names)
	return "[" + strings.Join(names, ",") + "]"
}

func (world *world) ListerList(flyball.Query, flyball.Projection, int) (flyball.Page, error) {
	world.queries++
	return flyball.Page{Items: []byte(world.all())}, nil
}

func (world *world) Read(reads []flyball.LiveRead) []flyball.Result {
	world.reads = append(world.reads, reads...)
	switch read := reads[0]; {
	case read.Path != "":
		return []flyball.Result{{JSON: []byte(`{"major": "1", "gitVersion": "` + read.Path + `"}`)}}
	case read.IsList:
		return []flyball.Result{{JSON: []byte(`{"kind": "NodeList", "apiVersion": "v1", "items": ` + world.all() + `}`)}}
	case world.nodes[read.Name] == "":
		return []flyball.Result{{Err: &flyball.APIError{Status: 404, Reason: "NotFound", Message: "no such node"}}}
	default:
		return []flyball.Result{{JSON: []byte(world.nodes[read.Name])}}
	}
}

func (world *world) Write(batch flyball.Batch) []flyball.Result {
	world.writes = append(world.writes, batch.Writes...)
	return []flyball.Result{{JSON: []byte(world.nodes["a"])}}
}

func newWorld() (*world, clients) {
	world := &world{nodes: map[string]string{
		"a": `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "resourceVersion": "7", "labels": {"zone": "x", "old": "1"}}, "spec": {"providerID": "shelf://1"}}`,
		"b": `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}, "spec": {"providerID": "shelf://2"}}`,
	}}
	return world, clients{flyball.NewHost(world)}
}

func TestClientsReadThroughTheHost(t *testing.T) {
	world, clients := newWorld()
	client := clients.ClientOrDie("test")
	ctx := context.Background()
	node, err := client.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{})
	if err != nil || node.Spec.ProviderID != "shelf://1" {
		t.Errorf("the node is %+v, %v", node, err)
	}
	if _, err := client.CoreV1().Nodes().Get(ctx, "c", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the error is %v", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "zone=x"})
	if err != nil || len(nodes.Items) != 2 {
		t.Errorf("the nodes are %v, %v", nodes, err)
	}
	if read := world.reads[2]; !read.IsList || read.Parameters[0] != (flyball.ListParameter{Name: "labelSelector", Value: "zone=x"}) {
		t.Errorf("the list is %+v", read)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil || version.GitVersion != "/version" {
		t.Errorf("the version is %+v, %v", version, err)
	}
	if _, err := client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("a watch: %v", err)
	}
}

func TestClientsWriteThroughTheHost(t *testing.T) {
	world, clients := newWorld()
	nodes := clients.ClientOrDie("test").CoreV1().Nodes()
	ctx := context.Background()
	if _, err := nodes.Patch(ctx, "a", types.StrategicMergePatchType, []byte(`{"spec": {}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	node, err := nodes.Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(node.Labels, "old")
	node.Labels["zone"] = "y"
	if _, err := nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := nodes.Delete(ctx, "a", *metav1.NewPreconditionDeleteOptions("u1")); err != nil {
		t.Fatal(err)
	}
	patch, update, deletion := world.writes[0], world.writes[1], world.writes[2]
	if patch.Verb != flyball.VerbPatch || patch.PatchType != flyball.StrategicPatch || patch.Subresource != "status" || patch.Kind != "v1/Node" {
		t.Errorf("the patch is %+v", patch)
	}
	var change struct {
		Metadata struct{ Labels map[string]any }
	}
	if err := json.Unmarshal(update.Body, &change); err != nil {
		t.Fatal(err)
	}
	old, isThere := change.Metadata.Labels["old"]
	if update.Verb != flyball.VerbUpdate || update.ResourceVersion != "7" || !isThere || old != nil || change.Metadata.Labels["zone"] != "y" {
		t.Errorf("the update is %+v of %s", update, update.Body)
	}
	preconditions, _ := deletion.Options["preconditions"].(map[string]any)
	if deletion.Verb != flyball.VerbDelete || deletion.Name != "a" || preconditions["uid"] != "u1" {
		t.Errorf("the deletion is %+v", deletion)
	}
}

func TestEventsGoToTheHostBeforeTheCallEnds(t *testing.T) {
	world, clients := newWorld()
	client := clients.ClientOrDie("test")
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	emitted := make(chan struct{}, 2)
	sink := &typedv1.EventSinkImpl{Interface: client.CoreV1().Events("")}
	broadcaster.StartRecordingToSink(notifying{sink, emitted})
	recorder := broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "shelf"})
	service := &v1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "u1"},
	}
	for range 2 {
		recorder.Event(service, v1.EventTypeWarning, "Full", "the shelf is full")
		select {
		case <-emitted:
		case <-time.After(time.Minute):
			t.Fatal("no event arrives")
		}
	}
	for _, event := range world.events {
		if event.About.Kind != "v1/Service" || event.About.UID != "u1" || event.Type != flyball.Warning || event.Reason != "Full" || event.Message != "the shelf is full" {
			t.Errorf("the event is %+v", event)
		}
	}
	if len(world.events) != 2 {
		t.Errorf("the events are %+v", world.events)
	}
}

// notifying tells when an event was created, be it at first or after a patch that found none.
type notifying struct {
	record.EventSink
	emitted chan<- struct{}
}

func (sink notifying) Create(event *v1.Event) (*v1.Event, error) {
	created, err := sink.EventSink.Create(event)
	sink.emitted <- struct{}{}
	return created, err
}

func TestInformersShowTheHostsCache(t *testing.T) {
	world, clients := newWorld()
	calls := 1
	factory, err := newInformers(clients.host, clients, []flyball.Watch{{Kind: "v1/Node"}}, &calls)
	if err != nil {
		t.Fatal(err)
	}
	nodes := factory.Core().V1().Nodes()
	if !nodes.Informer().HasSynced() || !cache.IsDone(nodes.Informer().HasSyncedChecker()) {
		t.Error("the informer has not synced")
	}
	node, err := nodes.Lister().Get("a")
	if err != nil || node.Spec.ProviderID != "shelf://1" {
		t.Errorf("the node is %+v, %v", node, err)
	}
	if _, err := nodes.Lister().Get("c"); !apierrors.IsNotFound(err) {
		t.Errorf("the error is %v", err)
	}
	byID := cache.Indexers{"id": func(object any) ([]string, error) { return []string{object.(*v1.Node).Spec.ProviderID}, nil }}
	if err := nodes.Informer().AddIndexers(byID); err != nil {
		t.Fatal(err)
	}
	indexer := nodes.Informer().GetIndexer()
	for range 3 {
		keys, err := indexer.IndexKeys("id", "shelf://2")
		if err != nil || !slices.Equal(keys, []string{"b"}) {
			t.Errorf("the keys are %v, %v", keys, err)
		}
	}
	if world.queries != 1 {
		t.Errorf("one call made %d queries", world.queries)
	}
	world.nodes["c"] = strings.ReplaceAll(world.nodes["b"], `"b"`, `"c"`)
	calls++
	keys, err := indexer.IndexKeys("id", "shelf://2")
	if err != nil || !slices.Equal(keys, []string{"b", "c"}) {
		t.Errorf("in the next call, the keys are %v, %v", keys, err)
	}
	if _, err := indexer.ByIndex("none", "x"); err == nil {
		t.Error("an index that is not there is no error")
	}
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{}); err == nil {
		t.Error("a handler that is never called is no error")
	}
	if err := indexer.Add(node); err == nil {
		t.Error("the cache can be written")
	}
}
