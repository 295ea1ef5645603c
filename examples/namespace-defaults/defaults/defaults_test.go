package defaults

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"flyball.dev/sdk"
	"flyball.dev/sdk/flyballtest"
)

const (
	strict = `{
		"LimitRange": {"limits": [{"type": "Container", "default": {"memory": "0.5Gi"}}]},
		"ResourceQuota": {"hard": {"pods": 10}},
		"NetworkPolicy": {"podSelector": {}, "policyTypes": ["Ingress"]}
	}`
	team = "team"
)

// cluster returns a cluster with this profile, and a namespace with its label.
func cluster(profile string, more ...flyball.Object) *flyballtest.Cluster {
	return flyballtest.New(append(more,
		flyball.Object{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": flyball.Object{"name": "namespace-defaults", "namespace": "flyball-system"},
			"data":     flyball.Object{"strict": profile},
		},
		flyball.Object{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": flyball.Object{"name": team, "labels": flyball.Object{profileLabel: "strict"}},
		})...)
}

// foreign returns an object with the plugin's name, but without its label.
func foreign(version, kind string) flyball.Object {
	return flyball.Object{"apiVersion": version, "kind": kind, "metadata": flyball.Object{"name": name, "namespace": team}}
}

// reconcile reconciles the namespace, and returns the writes.
func reconcile(t *testing.T, cluster *flyballtest.Cluster) []string {
	t.Helper()
	if _, err := cluster.Reconcile(Controller{}, team); err != nil {
		t.Fatal(err)
	}
	return cluster.Written()
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s are %q, not %q", what, got, want)
	}
}

var all = []string{
	"patch v1/LimitRange team/namespace-defaults",
	"patch v1/ResourceQuota team/namespace-defaults",
	"patch networking.k8s.io/v1/NetworkPolicy team/namespace-defaults",
}

func TestANamespaceGetsWhatItsProfileHas(t *testing.T) {
	cluster := cluster(strict)
	expect(t, "the writes", reconcile(t, cluster), all...)
	expect(t, "the events", cluster.Events(), "Normal DefaultsApplied applied LimitRange, ResourceQuota, NetworkPolicy")
	for _, kind := range defaults {
		made := flyballtest.Read[Default](cluster, kind.Name, team, name)
		if made.Meta.Labels[managedBy] != name || len(made.Spec) == 0 {
			t.Errorf("the %s is %+v", kind.Name, made)
		}
	}
}

func TestObjectsAreAppliedByForceAsOneManager(t *testing.T) {
	cluster := cluster(strict)
	if _, err := cluster.Reconcile(Controller{}, team); err != nil {
		t.Fatal(err)
	}
	for _, write := range cluster.Writes() {
		if write.PatchType != flyball.ApplyPatch || write.Options["fieldManager"] != name || write.Options["force"] != true {
			t.Errorf("the write is %+v", write)
		}
	}
}

func TestNothingIsWrittenTwice(t *testing.T) {
	cluster := cluster(strict)
	reconcile(t, cluster)
	cluster.Events()
	// The server writes quantities and defaults in its own way.
	cluster.Edit("v1/LimitRange", team, name, flyball.Object{"spec": flyball.Object{"limits": []any{flyball.Object{
		"type": "Container", "default": flyball.Object{"memory": "512Mi"}, "defaultRequest": flyball.Object{"memory": "512Mi"},
	}}}})
	cluster.Edit("v1/ResourceQuota", team, name, flyball.Object{"spec": flyball.Object{"hard": flyball.Object{"pods": "10"}}})
	expect(t, "the writes", reconcile(t, cluster))
	expect(t, "the events", cluster.Events())
}

func TestWhatWasChangedIsCorrected(t *testing.T) {
	cluster := cluster(strict)
	reconcile(t, cluster)
	cluster.Edit("v1/ResourceQuota", team, name, flyball.Object{"spec": flyball.Object{"hard": flyball.Object{"pods": "999"}}})
	cluster.Delete("v1/LimitRange", team, name)
	expect(t, "the writes", reconcile(t, cluster), all[0], all[1])
}

func TestWhatAProfileDoesNotHaveIsDeleted(t *testing.T) {
	cluster := cluster(strict)
	reconcile(t, cluster)
	cluster.Edit("v1/ConfigMap", "flyball-system", name, flyball.Object{"data": flyball.Object{"strict": `{"ResourceQuota": {"hard": {"pods": 20}}}`}})
	expect(t, "the writes", reconcile(t, cluster),
		"delete v1/LimitRange team/namespace-defaults",
		"patch v1/ResourceQuota team/namespace-defaults",
		"delete networking.k8s.io/v1/NetworkPolicy team/namespace-defaults")
}

func TestANamespaceWithoutTheLabelLosesItsDefaults(t *testing.T) {
	for _, label := range []any{nil, ""} {
		cluster := cluster(strict)
		reconcile(t, cluster)
		cluster.Edit("v1/Namespace", "", team, flyball.Object{"metadata": flyball.Object{"labels": flyball.Object{profileLabel: label}}})
		if writes := reconcile(t, cluster); len(writes) != 3 || !strings.HasPrefix(writes[0], "delete ") {
			t.Errorf("the writes are %q", writes)
		}
		expect(t, "the writes", reconcile(t, cluster))
	}
}

func TestObjectsOfSomebodyElseAreNotTouched(t *testing.T) {
	cluster := cluster(strict, foreign("v1", "ResourceQuota"))
	expect(t, "the writes", reconcile(t, cluster), all[0], all[2])
	expect(t, "the events", cluster.Events(),
		"Warning NameTaken ResourceQuota namespace-defaults exists and has no label app.kubernetes.io/managed-by=namespace-defaults",
		"Normal DefaultsApplied applied LimitRange, NetworkPolicy")
	cluster.Delete("v1/Namespace", "", team)
	reconcile(t, cluster)
	if cluster.Object("v1/ResourceQuota", team, name) == nil {
		t.Error("the quota of somebody else was deleted")
	}
}

func TestAnInvalidProfileIsReportedAndTheDefaultsStay(t *testing.T) {
	for profile, message := range map[string]string{
		"limits":                  "it is not an object of objects in JSON",
		`{"LimitRange": []}`:      "it is not an object of objects in JSON",
		`{"LimitRange": null}`:    "its LimitRange is null",
		`{"Limits": {}}`:          "it has the kind Limits, which is none of LimitRange, ResourceQuota and NetworkPolicy",
		`{"LimitRange": {}} more`: "it is not an object of objects in JSON",
	} {
		cluster := cluster(strict)
		reconcile(t, cluster)
		cluster.Events()
		cluster.Edit("v1/ConfigMap", "flyball-system", name, flyball.Object{"data": flyball.Object{"strict": profile}})
		_, err := cluster.Reconcile(Controller{}, team)
		if !flyball.IsTerminal(err) || !strings.Contains(err.Error(), message) {
			t.Errorf("the profile %s is refused with %v", profile, err)
		}
		expect(t, "the events", cluster.Events(), "Warning InvalidProfile "+err.Error())
		expect(t, "the writes", cluster.Written())
	}
}

func TestAMissingProfileIsReportedAndTheDefaultsStay(t *testing.T) {
	cluster := cluster(strict)
	reconcile(t, cluster)
	cluster.Edit("v1/Namespace", "", team, flyball.Object{"metadata": flyball.Object{"labels": flyball.Object{profileLabel: "strickt"}}})
	_, err := cluster.Reconcile(Controller{}, team)
	want := "can't read the profile strickt: the ConfigMap flyball-system/namespace-defaults has no such key"
	if !flyball.IsTerminal(err) || err.Error() != want {
		t.Errorf("the reconcile ends with %v", err)
	}
	cluster.Delete("v1/ConfigMap", "flyball-system", name)
	if _, err = cluster.Reconcile(Controller{}, team); !flyball.IsTerminal(err) || !strings.HasSuffix(err.Error(), "there is no ConfigMap flyball-system/namespace-defaults") {
		t.Errorf("the reconcile ends with %v", err)
	}
	expect(t, "the writes", cluster.Written())
}

func TestAnotherConfigMapCanHoldTheProfiles(t *testing.T) {
	cluster := cluster(strict, flyball.Object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": flyball.Object{"name": "größen", "namespace": "ops"},
		"data": flyball.Object{"strict": `{"LimitRange": {"limits": []}}`},
	})
	cluster.SetConfig("profiles", "ops/größen")
	expect(t, "the writes", reconcile(t, cluster), all[0])
	watch := Controller{}.Describe(cluster.Host()).Watches[1]
	if watch.Namespace != "ops" || watch.FieldSelector != "metadata.name=größen" {
		t.Errorf("the watch is %+v", watch)
	}
}

func TestARefusedSpecIsReportedAndNotRetried(t *testing.T) {
	cluster := cluster(strict)
	cluster.Fail("patch", "v1/LimitRange", flyballtest.Refusal(422, "Invalid"))
	_, err := cluster.Reconcile(Controller{}, team)
	if !flyball.IsTerminal(err) || !strings.HasPrefix(err.Error(), "can't patch the LimitRange: ") {
		t.Errorf("the reconcile ends with %v", err)
	}
	if len(cluster.Written()) != 3 {
		t.Error("the failure kept other objects from being written")
	}
	if events := cluster.Events(); len(events) != 2 || !strings.HasPrefix(events[1], "Warning InvalidProfile ") {
		t.Errorf("the events are %q", events)
	}
}

func TestAMissingRightIsRetried(t *testing.T) {
	cluster := cluster(strict)
	cluster.Fail("patch", "v1/LimitRange", flyballtest.Refusal(403, "Forbidden"))
	cluster.Fail("patch", "v1/ResourceQuota", flyballtest.Refusal(422, "Invalid"))
	if _, err := cluster.Reconcile(Controller{}, team); !flyball.IsForbidden(err) || flyball.IsTerminal(err) {
		t.Errorf("the reconcile ends with %v", err)
	}
}

func TestANamespaceThatEndsNeedsNothing(t *testing.T) {
	cluster := cluster(strict)
	cluster.Fail("patch", "v1/LimitRange", flyballtest.Refusal(403, "NamespaceTerminating"))
	reconcile(t, cluster)
	// The LimitRange is missing, but a namespace that is being deleted doesn't get one.
	cluster.Edit("v1/Namespace", "", team, flyball.Object{"metadata": flyball.Object{"finalizers": []any{"example.com/wait"}}})
	cluster.Delete("v1/Namespace", "", team)
	expect(t, "the writes", reconcile(t, cluster))
}

func TestADeletionThatCameFirstIsNoFailure(t *testing.T) {
	cluster := cluster(strict)
	reconcile(t, cluster)
	cluster.Delete("v1/Namespace", "", team)
	cluster.Fail("delete", "v1/LimitRange", flyballtest.Refusal(404, "NotFound"))
	if writes := reconcile(t, cluster); len(writes) != 3 {
		t.Errorf("the writes are %q", writes)
	}
}

func TestALargeProfileIsApplied(t *testing.T) {
	var hard []string
	for i := range 1000 {
		hard = append(hard, fmt.Sprintf("%q: \"%dm\"", fmt.Sprintf("count/kind%d.example.com", i), i*1000))
	}
	cluster := cluster(`{"ResourceQuota": {"hard": {` + strings.Join(hard, ",") + `}}}`)
	expect(t, "the writes", reconcile(t, cluster), all[1])
	expect(t, "the writes", reconcile(t, cluster))
}
