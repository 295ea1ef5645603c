package greeter

import (
	"slices"
	"testing"

	"flyball.dev/sdk"
	"flyball.dev/sdk/flyballtest"
)

const key = "team/hello"

// asked returns a cluster with a Greeting.
func asked(more ...flyball.Object) *flyballtest.Cluster {
	return flyballtest.New(append(more, flyball.Object{
		"apiVersion": "greeter.flyball.dev/v1", "kind": "Greeting",
		"metadata": flyball.Object{"name": "hello", "namespace": "team"},
		"spec":     flyball.Object{"text": "Grüezi 👋"},
	})...)
}

// reconcile reconciles the Greeting until nothing is written.
func reconcile(t *testing.T, cluster *flyballtest.Cluster) (written []string) {
	t.Helper()
	for range 10 {
		if _, err := cluster.Reconcile(Greeter{}, key); err != nil {
			t.Fatal(err)
		}
		lines := cluster.Written()
		if len(lines) == 0 {
			return written
		}
		written = append(written, lines...)
	}
	t.Fatalf("it does not settle: %q", written)
	return nil
}

func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s are %q, not %q", what, got, want)
	}
}

func ready(t *testing.T, cluster *flyballtest.Cluster) flyball.Condition {
	t.Helper()
	greeting := flyballtest.Read[Greeting](cluster, greetings.Name, "team", "hello")
	condition := flyball.FindCondition(greeting.Status.Conditions, "Ready")
	if condition == nil || condition.ObservedGeneration != greeting.Meta.Generation || greeting.Status.ObservedGeneration != greeting.Meta.Generation {
		t.Fatalf("the status is %+v", greeting.Status)
	}
	return *condition
}

func TestAGreetingGetsItsConfigMap(t *testing.T) {
	cluster := asked()
	expect(t, "the writes", reconcile(t, cluster), []string{
		"update greeter.flyball.dev/v1/Greeting team/hello",
		"create v1/ConfigMap team/hello",
		"update greeter.flyball.dev/v1/Greeting/status team/hello",
	})
	expect(t, "the events", cluster.Events(), []string{"Normal Greeted wrote ConfigMap hello"})
	configMap := flyballtest.Read[ConfigMap](cluster, configMaps.Name, "team", "hello")
	greeting := flyballtest.Read[Greeting](cluster, greetings.Name, "team", "hello")
	if configMap.Data.Text != "Grüezi 👋" || !configMap.Meta.IsControlledBy(greeting.Meta) || !greeting.Meta.HasFinalizer(finalizer) {
		t.Errorf("the objects are %+v and %+v", configMap, greeting)
	}
	if condition := ready(t, cluster); condition.Status != "True" || condition.Reason != "Greeted" {
		t.Errorf("the condition is %+v", condition)
	}
}

func TestAChangedConfigMapIsCorrected(t *testing.T) {
	cluster := asked()
	reconcile(t, cluster)
	cluster.Events()
	cluster.Edit(configMaps.Name, "team", "hello", flyball.Object{"data": flyball.Object{"text": "spoilt"}})
	expect(t, "the writes", reconcile(t, cluster), []string{"update v1/ConfigMap team/hello"})
	expect(t, "the events", cluster.Events(), []string{"Normal Greeted wrote ConfigMap hello"})
}

func TestANewTextIsWrittenAndObserved(t *testing.T) {
	cluster := asked()
	reconcile(t, cluster)
	cluster.Edit(greetings.Name, "team", "hello", flyball.Object{"spec": flyball.Object{"text": "bye"}})
	expect(t, "the writes", reconcile(t, cluster), []string{
		"update v1/ConfigMap team/hello",
		"update greeter.flyball.dev/v1/Greeting/status team/hello",
	})
	ready(t, cluster)
}

func TestAConfigMapOfSomebodyElseIsNotTouched(t *testing.T) {
	cluster := asked(flyball.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": flyball.Object{"name": "hello", "namespace": "team"}})
	expect(t, "the writes", reconcile(t, cluster), []string{
		"update greeter.flyball.dev/v1/Greeting team/hello",
		"update greeter.flyball.dev/v1/Greeting/status team/hello",
	})
	message := "ConfigMap hello exists and this Greeting does not control it"
	expect(t, "the events", cluster.Events(), []string{"Warning NameTaken " + message})
	if condition := ready(t, cluster); condition.Status != "False" || condition.Reason != "NameTaken" || condition.Message != message {
		t.Errorf("the condition is %+v", condition)
	}
	cluster.Delete(greetings.Name, "team", "hello")
	reconcile(t, cluster)
	if cluster.Object(configMaps.Name, "team", "hello") == nil || cluster.Object(greetings.Name, "team", "hello") != nil {
		t.Error("the deletion took the other ConfigMap, or left the Greeting")
	}
}

func TestADeletedGreetingTakesItsConfigMap(t *testing.T) {
	cluster := asked()
	reconcile(t, cluster)
	cluster.Delete(greetings.Name, "team", "hello")
	expect(t, "the writes", reconcile(t, cluster), []string{
		"delete v1/ConfigMap team/hello",
		"update greeter.flyball.dev/v1/Greeting team/hello",
	})
	if cluster.Object(greetings.Name, "team", "hello") != nil {
		t.Error("the Greeting is still there")
	}
}

func TestAFailedWriteIsAnErrorAndNothingIsReported(t *testing.T) {
	cluster := asked()
	cluster.Fail("create", configMaps.Name, flyballtest.Refusal(500, "InternalError"))
	if _, err := cluster.Reconcile(Greeter{}, key); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Reconcile(Greeter{}, key); flyball.ReasonOf(err) != "InternalError" {
		t.Errorf("the reconcile ends with %v", err)
	}
	expect(t, "the events", cluster.Events(), []string{})
}
