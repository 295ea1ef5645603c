//! Native tests of the controller, against an API server in memory.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal, view};
use greeter_rust::api::Greeting;
use greeter_rust::greeter::Greeter;

const CONFIG_MAP: &str = "v1/ConfigMap";

/// A cluster with a Greeting and another object.
fn asked(more: Option<Value>) -> Cluster {
    let greeting = json!({
        "apiVersion": "greeter.flyball.dev/v1", "kind": "Greeting",
        "metadata": {"name": "hello", "namespace": "team"},
        "spec": {"text": "Grüezi 👋"},
    });
    Cluster::with(more.into_iter().chain([greeting]))
}

/// Reconciles the Greeting until nothing is written. Returns the writes.
fn reconcile(cluster: &Cluster) -> Vec<String> {
    let mut written = Vec::new();
    for _ in 0..10 {
        cluster.reconcile::<Greeter>("team/hello").unwrap();
        let lines = cluster.written();
        if lines.is_empty() {
            return written;
        }
        written.extend(lines);
    }
    panic!("it does not settle: {written:?}");
}

/// Deletes the Greeting, as a user does.
fn delete(cluster: &Cluster) {
    let deletion = Write::delete(Greeting::KIND, "team", "hello");
    cluster.host().write(deletion).unwrap();
    cluster.written();
}

fn greeting(cluster: &Cluster) -> Option<Greeting> {
    cluster.object(Greeting::KIND, "team", "hello").map(view)
}

fn ready(cluster: &Cluster) -> Condition {
    let Greeting { meta, status, .. } = greeting(cluster).unwrap();
    assert_eq!(status.observed_generation, meta.generation);
    let [ready] = status.conditions.try_into().unwrap();
    assert_eq!(ready.observed_generation, Some(meta.generation));
    ready
}

#[test]
fn a_greeting_gets_its_config_map() {
    let cluster = asked(None);
    let expected = [
        "update greeter.flyball.dev/v1/Greeting team/hello",
        "create v1/ConfigMap team/hello",
        "update greeter.flyball.dev/v1/Greeting/status team/hello",
    ];
    assert_eq!(reconcile(&cluster), expected);
    assert_eq!(cluster.events(), ["Normal Greeted wrote ConfigMap hello"]);
    let map = cluster.object(CONFIG_MAP, "team", "hello").unwrap();
    assert_eq!(map["data"]["text"], "Grüezi 👋");
    let owner = &map["metadata"]["ownerReferences"][0];
    let meta = greeting(&cluster).unwrap().meta;
    assert_eq!(owner["uid"], meta.uid);
    assert_eq!(owner["blockOwnerDeletion"], true);
    assert_eq!(meta.finalizers, ["greeter.flyball.dev/cleanup"]);
    let ready = ready(&cluster);
    assert_eq!((&*ready.status, &*ready.reason), ("True", "Greeted"));
}

#[test]
fn a_changed_config_map_is_corrected() {
    let cluster = asked(None);
    reconcile(&cluster);
    cluster.edit(CONFIG_MAP, "team", "hello", |map| {
        map["data"]["text"] = "spoilt".into();
    });
    assert_eq!(reconcile(&cluster), ["update v1/ConfigMap team/hello"]);
}

#[test]
fn a_new_text_is_written_and_observed() {
    let cluster = asked(None);
    reconcile(&cluster);
    cluster.edit(Greeting::KIND, "team", "hello", |greeting| {
        greeting["spec"]["text"] = "bye".into();
        greeting["metadata"]["generation"] = 2.into();
    });
    let expected = [
        "update v1/ConfigMap team/hello",
        "update greeter.flyball.dev/v1/Greeting/status team/hello",
    ];
    assert_eq!(reconcile(&cluster), expected);
    ready(&cluster);
}

#[test]
fn a_config_map_of_somebody_else_is_not_touched() {
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": "team"}});
    let cluster = asked(Some(other));
    reconcile(&cluster);
    let message = "ConfigMap hello exists and this Greeting does not control it";
    assert_eq!(cluster.events(), [format!("Warning NameTaken {message}")]);
    let ready = ready(&cluster);
    assert_eq!((&*ready.status, &*ready.message), ("False", message));
    delete(&cluster);
    reconcile(&cluster);
    assert!(greeting(&cluster).is_none());
    assert!(cluster.object(CONFIG_MAP, "team", "hello").is_some());
}

#[test]
fn a_deleted_greeting_takes_its_config_map() {
    let cluster = asked(None);
    reconcile(&cluster);
    delete(&cluster);
    let expected = [
        "delete v1/ConfigMap team/hello",
        "update greeter.flyball.dev/v1/Greeting team/hello",
    ];
    assert_eq!(reconcile(&cluster), expected);
    assert!(greeting(&cluster).is_none());
}

#[test]
fn a_failed_write_is_an_error_and_nothing_is_reported() {
    let cluster = asked(None);
    cluster.fail("create", CONFIG_MAP, refusal(500, "InternalError"));
    cluster.reconcile::<Greeter>("team/hello").unwrap();
    let error = cluster.reconcile::<Greeter>("team/hello").unwrap_err();
    assert!(
        error.to_string().contains("writing the ConfigMap hello"),
        "{error}"
    );
    assert!(cluster.events().is_empty());
}
