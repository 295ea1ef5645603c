package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/sdk"
	"flyball.dev/sdk/flyballtest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/plugin"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// everything is a role that allows all writes of the tests.
const everything = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
rules:
- apiGroups: [""]
  resources: [configmaps, services, secrets, pods]
  verbs: ["*"]
- apiGroups: [batch]
  resources: [jobs, jobs/status]
  verbs: ["*"]
`

// run reconciles one ConfigMap by a function, with Jobs and Services watched.
func run(t *testing.T, cluster *flyballtest.Cluster, do func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error)) (flyball.Outcome, error) {
	t.Helper()
	return cluster.Reconcile(configMaps(do, nil), "default/it")
}

func configMaps(do func(context.Context, ctrl.Manager) (ctrl.Result, error), setUp func(ctrl.Manager) error) *plugin.Plugin {
	return plugin.New(plugin.Options{
		Name: "test", Version: "1.0.0",
		Scheme: []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme},
		Role:   []byte(everything),
		SetUp: func(mgr manager.Manager) error {
			if setUp != nil {
				if err := setUp(mgr); err != nil {
					return err
				}
			}
			return ctrl.NewControllerManagedBy(mgr).
				For(&corev1.ConfigMap{}).
				Owns(&batchv1.Job{}).
				Complete(reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
					if request.Namespace != "default" || request.Name != "it" {
						return ctrl.Result{}, errors.New("another request: " + request.String())
					}
					return do(ctx, mgr)
				}))
		},
	})
}

func job(name string, labels map[string]string) flyball.Object {
	return flyball.Object{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": flyball.Object{"name": name, "namespace": "default", "labels": labels, "annotations": flyball.Object{"note": name}},
		"spec":     flyball.Object{"parallelism": 2, "fieldOfTheFuture": "kept"},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBuildersBecomeMappingsOfTheHostWhereTheyCan(t *testing.T) {
	description := plugin.New(plugin.Options{
		Name: "mappings", Version: "1.0.0",
		Scheme: []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme},
		Reads:  []client.Object{&corev1.Node{}},
		Fields: map[string][]string{"v1/Service": {"metadata", "spec.selector"}},
		SetUp: func(mgr manager.Manager) error {
			nothing := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
			one := func(context.Context, client.Object) []ctrl.Request { return nil }
			err := ctrl.NewControllerManagedBy(mgr).
				For(&corev1.ConfigMap{}).
				Owns(&batchv1.Job{}).
				Owns(&corev1.Secret{}, builder.MatchEveryOwner).
				Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(one)).
				WatchesMetadata(&corev1.Pod{}, &handler.EnqueueRequestForObject{}).
				WithOptions(controller.Options{MaxConcurrentReconciles: 3}).
				Complete(nothing)
			if err != nil {
				return err
			}
			return ctrl.NewControllerManagedBy(mgr).Named("jobs").
				For(&batchv1.Job{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
				Complete(nothing)
		},
	}).Describe(flyballtest.New().Host())
	text, err := json.Marshal(description.Watches)
	must(t, err)
	want := `[` +
		`{"kind":"batch/v1/Job","fields":["."],"map":[{"to":"controller","kind":"v1/ConfigMap","queue":"configmap"},{"to":"route"}]},` +
		`{"kind":"v1/ConfigMap","fields":["."],"map":[{"to":"itself","queue":"configmap"}]},` +
		`{"kind":"v1/Node","fields":["."]},` +
		`{"kind":"v1/Pod","fields":["metadata"],"map":[{"to":"itself","queue":"configmap"}]},` +
		`{"kind":"v1/Secret","fields":["."],"map":[{"to":"owner","kind":"v1/ConfigMap","queue":"configmap"}]},` +
		`{"kind":"v1/Service","fields":["metadata","spec.selector"],"map":[{"to":"route"}]}]`
	if string(text) != want {
		t.Errorf("the watches are\n%s, not\n%s", text, want)
	}
	if description.Concurrency != 4 || len(description.Queues) != 2 || description.Queues[1].Name != "jobs" {
		t.Errorf("the concurrency is %d, the queues are %v", description.Concurrency, description.Queues)
	}
}

func TestARoleBecomesPermissionsOnKindsOfTheScheme(t *testing.T) {
	role := `
rules:
- apiGroups: [batch, unknown.io]
  resources: [jobs, jobs/status, widgets]
  verbs: [get, watch, update, impersonate]
---
rules:
- apiGroups: [core]
  resources: [services]
  verbs: [create]
`
	description := plugin.New(plugin.Options{
		Name: "role", Version: "1.0.0", Role: []byte(role),
		Scheme: []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme},
		SetUp:  func(manager.Manager) error { return nil },
	}).Describe(flyballtest.New().Host())
	text, err := json.Marshal(description.Permissions)
	must(t, err)
	want := `[{"kind":"batch/v1/Job","verbs":["get","update"]},` +
		`{"kind":"batch/v1/Job","subresource":"status","verbs":["get","update"]},` +
		`{"kind":"v1/Service","verbs":["create"]}]`
	if string(text) != want {
		t.Errorf("the permissions are\n%s, not\n%s", text, want)
	}
}

func TestPredicatesAndMappingFunctionsRouteChanges(t *testing.T) {
	nothing := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
	routing := plugin.New(plugin.Options{
		Name: "routing", Version: "1.0.0",
		Scheme: []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme},
		SetUp: func(mgr manager.Manager) error {
			toApp := func(_ context.Context, object client.Object) []ctrl.Request {
				key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetLabels()["app"]}
				return []ctrl.Request{{NamespacedName: key}}
			}
			return ctrl.NewControllerManagedBy(mgr).
				For(&corev1.ConfigMap{}, builder.WithPredicates(predicate.LabelChangedPredicate{})).
				Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(toApp)).
				Complete(nothing)
		},
	})
	cluster := flyballtest.New()
	encoded := func(object flyball.Object) []byte {
		text, err := json.Marshal(object)
		must(t, err)
		return text
	}
	route := func(delta flyball.Delta) (keys []string) {
		t.Helper()
		routed, err := cluster.Route(routing, delta)
		must(t, err)
		for _, key := range routed {
			keys = append(keys, key.Queue+":"+key.Key.String())
		}
		slices.Sort(keys)
		return keys
	}
	old, changed := job("a", map[string]string{"app": "web"}), job("a", map[string]string{"app": "db"})
	got := route(flyball.Delta{Watch: "batch/v1/Job", Type: flyball.Modified, Old: encoded(old), New: encoded(changed)})
	if !slices.Equal(got, []string{"configmap:default/db", "configmap:default/web"}) {
		t.Errorf("a changed label enqueues %v", got)
	}
	if got := route(flyball.Delta{Watch: "batch/v1/Job", Type: flyball.Deleted, Old: encoded(old)}); !slices.Equal(got, []string{"configmap:default/web"}) {
		t.Errorf("a deletion enqueues %v", got)
	}
	it := flyball.Object{"metadata": flyball.Object{"name": "it", "namespace": "default"}, "data": flyball.Object{"a": "1"}}
	if got := route(flyball.Delta{Watch: "v1/ConfigMap", Type: flyball.Modified, Old: encoded(it), New: encoded(it)}); got != nil {
		t.Errorf("a change that the predicate filters enqueues %v", got)
	}
	if got := route(flyball.Delta{Watch: "v1/ConfigMap", Type: flyball.Added, New: encoded(it)}); !slices.Equal(got, []string{"configmap:default/it"}) {
		t.Errorf("an addition enqueues %v", got)
	}
}

func TestReadsAreOfTheCacheAndSelect(t *testing.T) {
	cluster := flyballtest.New(job("a", map[string]string{"app": "web"}), job("b", map[string]string{"app": "db"}),
		flyball.Object{"apiVersion": "v1", "kind": "Service", "metadata": flyball.Object{"name": "live", "namespace": "default"}})
	note := func(object client.Object) []string { return []string{object.GetAnnotations()["note"]} }
	setUp := func(mgr ctrl.Manager) error {
		return mgr.GetFieldIndexer().IndexField(context.Background(), &batchv1.Job{}, "note", note)
	}
	reads := func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error) {
		reader := mgr.GetClient()
		var one batchv1.Job
		must(t, reader.Get(ctx, client.ObjectKey{Namespace: "default", Name: "a"}, &one))
		if one.Name != "a" || *one.Spec.Parallelism != 2 || one.Kind != "Job" {
			t.Errorf("get returns %+v", one)
		}
		err := reader.Get(ctx, client.ObjectKey{Namespace: "default", Name: "c"}, &one)
		if !apierrors.IsNotFound(err) || client.IgnoreNotFound(err) != nil {
			t.Errorf("a missing object is %v", err)
		}
		for name, options := range map[string][]client.ListOption{
			"a": {client.MatchingLabels{"app": "web"}, client.InNamespace("default")},
			"b": {client.MatchingFields{"note": "b"}},
			"":  {client.InNamespace("other")},
		} {
			var jobs batchv1.JobList
			must(t, reader.List(ctx, &jobs, options...))
			if name == "" && len(jobs.Items) == 0 {
				continue
			}
			if len(jobs.Items) != 1 || jobs.Items[0].Name != name {
				t.Errorf("a list for %q returns %+v", name, jobs.Items)
			}
		}
		if err := reader.List(ctx, &batchv1.JobList{}, client.MatchingFields{"spec.x": "1"}); err == nil {
			t.Error("a list by a field without an index succeeds")
		}
		// No controller watches Services: they are read from the server.
		var service corev1.Service
		must(t, reader.Get(ctx, client.ObjectKey{Namespace: "default", Name: "live"}, &service))
		var services corev1.ServiceList
		must(t, mgr.GetAPIReader().List(ctx, &services))
		if service.Name != "live" || len(services.Items) != 1 {
			t.Errorf("live reads return %q and %d services", service.Name, len(services.Items))
		}
		return ctrl.Result{}, nil
	}
	_, err := cluster.Reconcile(configMaps(reads, setUp), "default/it")
	must(t, err)
}

func TestWritesReachTheServer(t *testing.T) {
	cluster := flyballtest.New(job("a", map[string]string{"app": "web"}), job("b", nil), job("c", map[string]string{"app": "old"}))
	_, err := run(t, cluster, func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error) {
		writer := mgr.GetClient()
		var a batchv1.Job
		must(t, writer.Get(ctx, client.ObjectKey{Namespace: "default", Name: "a"}, &a))
		stale := a.DeepCopy()
		a.Labels["tier"], a.Annotations = "front", nil
		must(t, writer.Update(ctx, &a))
		if a.ResourceVersion == stale.ResourceVersion {
			t.Error("an update does not return the new version")
		}
		if err := writer.Update(ctx, stale); !apierrors.IsConflict(err) {
			t.Errorf("an update of an old version is %v", err)
		}
		a.Status.Active = 2
		must(t, writer.Status().Update(ctx, &a))
		before := a.DeepCopy()
		a.Labels["patched"] = "yes"
		must(t, writer.Patch(ctx, &a, client.MergeFrom(before)))

		created := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}}
		must(t, writer.Create(ctx, created))
		if created.UID == "" {
			t.Error("a creation does not return the object")
		}
		if err := writer.Create(ctx, created.DeepCopy()); !apierrors.IsAlreadyExists(err) {
			t.Errorf("a second creation is %v", err)
		}
		must(t, writer.Delete(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}))
		must(t, writer.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace("default"), client.MatchingLabels{"app": "old"}))
		return ctrl.Result{}, nil
	})
	must(t, err)
	a := cluster.Object("batch/v1/Job", "default", "a")
	text, err := json.Marshal([]any{a["metadata"].(map[string]any)["labels"], a["metadata"].(map[string]any)["annotations"], a["spec"], a["status"]})
	must(t, err)
	want := `[{"app":"web","patched":"yes","tier":"front"},null,{"fieldOfTheFuture":"kept","parallelism":2},{"active":2}]`
	if string(text) != want {
		t.Errorf("the Job is %s, not %s", text, want)
	}
	for _, name := range []string{"b", "c"} {
		if cluster.Object("batch/v1/Job", "default", name) != nil {
			t.Errorf("%s is not deleted", name)
		}
	}
}

func TestObjectsWithoutTypesAreReadAndWritten(t *testing.T) {
	cluster := flyballtest.New(job("a", nil))
	_, err := run(t, cluster, func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error) {
		both := mgr.GetClient()
		jobs := &unstructured.UnstructuredList{}
		jobs.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
		must(t, both.List(ctx, jobs))
		if len(jobs.Items) != 1 || jobs.Items[0].GetKind() != "Job" {
			t.Fatalf("the list is %+v", jobs)
		}
		job := &jobs.Items[0]
		must(t, unstructured.SetNestedField(job.Object, int64(3), "spec", "parallelism"))
		unstructured.RemoveNestedField(job.Object, "spec", "fieldOfTheFuture")
		must(t, both.Update(ctx, job))

		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
		must(t, both.Get(ctx, client.ObjectKeyFromObject(job), metadata))
		if metadata.Annotations["note"] != "a" || metadata.Kind != "Job" {
			t.Errorf("the metadata is %+v", metadata)
		}
		return ctrl.Result{}, nil
	})
	must(t, err)
	text, err := json.Marshal(cluster.Object("batch/v1/Job", "default", "a")["spec"])
	must(t, err)
	if string(text) != `{"parallelism":3}` {
		t.Errorf("the spec is %s", text)
	}
}

func TestCreateOrUpdateWritesOnce(t *testing.T) {
	cluster := flyballtest.New(job("a", nil))
	_, err := run(t, cluster, func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error) {
		for range 2 {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "made"}}
			_, err := ctrl.CreateOrUpdate(ctx, mgr.GetClient(), job, func() error {
				job.Labels = map[string]string{"made": "yes"}
				owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "it", UID: "1"}}
				return ctrl.SetControllerReference(owner, job, mgr.GetScheme())
			})
			must(t, err)
		}
		return ctrl.Result{}, nil
	})
	must(t, err)
	if written := cluster.Written(); len(written) != 1 {
		t.Errorf("the writes are %v", written)
	}
	owner := flyball.MetaOf(cluster.Object("batch/v1/Job", "default", "made")).Controller()
	if owner == nil || owner.Kind != "ConfigMap" || owner.APIVersion != "v1" {
		t.Errorf("the owner is %+v", owner)
	}
}

func TestStrategicPatchesAndAppliesCarryTheirTypes(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "one", Image: "1"}, {Name: "two", Image: "2"}}},
	}
	changed := pod.DeepCopy()
	changed.Spec.Containers[1].Image = "3"
	text, err := client.StrategicMergeFrom(pod).Data(changed)
	must(t, err)
	want := `{"spec":{"$setElementOrder/containers":[{"name":"one"},{"name":"two"}],"containers":[{"image":"3","name":"two"}]}}`
	if string(text) != want {
		t.Errorf("the patch is %s, not %s", text, want)
	}
	cluster := flyballtest.New(job("a", nil))
	_, err = run(t, cluster, func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error) {
		job := &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}}
		job.Namespace, job.Name = "default", "applied"
		return ctrl.Result{}, mgr.GetClient().Patch(ctx, job, client.Apply, client.FieldOwner("me"), client.ForceOwnership)
	})
	must(t, err)
	writes := cluster.Writes()
	if len(writes) != 1 || writes[0].PatchType != flyball.ApplyPatch || writes[0].Options["fieldManager"] != "me" || writes[0].Options["force"] != true {
		t.Errorf("the writes are %+v", writes)
	}
}

func TestAConfigurationIsAppliedToASubresource(t *testing.T) {
	cluster := flyballtest.New(job("a", nil))
	_, err := run(t, cluster, func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error) {
		status := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "batch/v1", "kind": "Job",
			"metadata": map[string]any{"namespace": "default", "name": "a"},
			"status":   map[string]any{"active": int64(3)},
		}}
		applied := client.ApplyConfigurationFromUnstructured(status)
		return ctrl.Result{}, mgr.GetClient().Status().Apply(ctx, applied, client.FieldOwner("me"), client.ForceOwnership)
	})
	must(t, err)
	writes := cluster.Writes()
	if len(writes) != 1 || writes[0].Subresource != "status" || writes[0].PatchType != flyball.ApplyPatch || writes[0].Options["fieldManager"] != "me" {
		t.Errorf("the writes are %+v", writes)
	}
}

func TestResultsAndErrorsBecomeOutcomes(t *testing.T) {
	for _, test := range []struct {
		result     ctrl.Result
		err        error
		after      time.Duration
		isTerminal bool
	}{
		{},
		{result: ctrl.Result{RequeueAfter: time.Minute}, after: time.Minute},
		{result: ctrl.Result{Requeue: true}, after: 10 * time.Millisecond},
		{err: errors.New("no")},
		{err: reconcile.TerminalError(errors.New("never")), isTerminal: true},
	} {
		outcome, err := run(t, flyballtest.New(), func(context.Context, ctrl.Manager) (ctrl.Result, error) { return test.result, test.err })
		if outcome.RequeueAfter != test.after || (err != nil) != (test.err != nil) || flyball.IsTerminal(err) != test.isTerminal {
			t.Errorf("%+v and %v become %v and %v", test.result, test.err, outcome, err)
		}
	}
}

func TestEventsAndLogsAreTheHosts(t *testing.T) {
	cluster := flyballtest.New(job("a", nil))
	_, err := run(t, cluster, func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error) {
		var a batchv1.Job
		must(t, mgr.GetClient().Get(ctx, client.ObjectKey{Namespace: "default", Name: "a"}, &a))
		mgr.GetEventRecorderFor("x").Eventf(&a, corev1.EventTypeNormal, "Seen", "saw %d", 1)
		related := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}
		mgr.GetEventRecorder("jobs.example.com").Eventf(&a, related, corev1.EventTypeWarning, "Failed", "Copying", "failed %d times", 2)
		ctrl.LoggerFrom(ctx).Info("looked", "job", "a")
		return ctrl.Result{}, nil
	})
	must(t, err)
	events := cluster.RecordedEvents()
	if len(events) != 2 || events[0].Message != "saw 1" || events[0].About.Kind != "batch/v1/Job" || events[0].About.Name != "a" || events[0].ReportingController != "" {
		t.Fatalf("the events are %+v", events)
	}
	reported := events[1]
	if reported.ReportingController != "jobs.example.com" || reported.Action != "Copying" || reported.Message != "failed 2 times" ||
		reported.Related == nil || reported.Related.Name != "b" {
		t.Errorf("the event of events.k8s.io is %+v", reported)
	}
	isLine := func(line flyballtest.Logged) bool {
		return line.Message == "looked" && slices.Contains(line.Fields, flyball.LogField{Name: "job", Value: "a"}) &&
			slices.Contains(line.Fields, flyball.LogField{Name: "name", Value: "it"})
	}
	if logged := cluster.Logged(); !slices.ContainsFunc(logged, isLine) {
		t.Errorf("the log is %+v", logged)
	}
}

func TestWhatAPluginCannotRunIsRefused(t *testing.T) {
	refused := plugin.New(plugin.Options{
		Name: "refused", Version: "1.0.0", Scheme: []func(*runtime.Scheme) error{corev1.AddToScheme},
		SetUp: func(mgr manager.Manager) error {
			return mgr.Add(manager.RunnableFunc(func(context.Context) error { return nil }))
		},
	})
	_, err := refused.Reconcile(flyballtest.New().Host(), flyball.Request{})
	if err == nil {
		t.Error("a runnable is accepted")
	}
}

func TestAPackageWithWebhooksCompilesAndTheirSetUpFails(t *testing.T) {
	defaulting := plugin.New(plugin.Options{
		Name: "defaulting", Version: "1.0.0", Scheme: []func(*runtime.Scheme) error{corev1.AddToScheme},
		SetUp: func(mgr manager.Manager) error {
			return ctrl.NewWebhookManagedBy(mgr, &corev1.ConfigMap{}).WithDefaulter(defaulter{}).WithValidator(validator{}).Complete()
		},
	})
	_, err := defaulting.Reconcile(flyballtest.New().Host(), flyball.Request{})
	if err == nil || !strings.Contains(err.Error(), "a plugin has none") || !strings.Contains(err.Error(), "ConfigMap") {
		t.Errorf("the error is %v", err)
	}
}

type defaulter struct{}

func (defaulter) Default(context.Context, *corev1.ConfigMap) error { return nil }

type validator struct{}

func (validator) ValidateCreate(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}

func (validator) ValidateUpdate(_ context.Context, _, _ *corev1.ConfigMap) (admission.Warnings, error) {
	return admission.Warnings{"careful"}, nil
}

func (validator) ValidateDelete(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}
