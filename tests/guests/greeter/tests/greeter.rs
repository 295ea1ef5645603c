//! Native tests of the controller.

use flyball_greeter::Greeter;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

fn namespace(greeting: Option<&str>) -> Value {
    let annotations = greeting.map(|text| json!({"greeter.flyball.dev/greeting": text}));
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "annotations": annotations}})
}

fn config_map(greeting: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "greeting", "namespace": "team"},
           "data": {"greeting": greeting, "other": "kept"}})
}

fn writes(objects: Vec<Value>) -> (Cluster, Vec<String>) {
    let cluster = Cluster::with(objects);
    assert_eq!(cluster.reconcile::<Greeter>("team").unwrap(), Outcome::Done);
    let written = cluster.written();
    (cluster, written)
}

#[test]
fn an_annotated_namespace_gets_its_greeting() {
    let (cluster, written) = writes(vec![namespace(Some("hello"))]);
    assert_eq!(written, ["create v1/ConfigMap team/greeting"]);
    assert_eq!(
        cluster.object("v1/ConfigMap", "team", "greeting").unwrap()["data"]["greeting"],
        "hello"
    );
}

#[test]
fn a_changed_greeting_is_updated_and_other_data_is_kept() {
    let (cluster, written) = writes(vec![namespace(Some("hello")), config_map("good bye")]);
    assert_eq!(written, ["update v1/ConfigMap team/greeting"]);
    let data = cluster.object("v1/ConfigMap", "team", "greeting").unwrap()["data"].clone();
    assert_eq!(data, json!({"greeting": "hello", "other": "kept"}));
}

#[test]
fn removing_the_annotation_deletes_the_greeting() {
    assert_eq!(
        writes(vec![namespace(None), config_map("hello")]).1,
        ["delete v1/ConfigMap team/greeting"]
    );
}

#[test]
fn a_correct_config_map_is_left_alone() {
    assert!(
        writes(vec![namespace(Some("hello")), config_map("hello")])
            .1
            .is_empty()
    );
    assert!(writes(vec![namespace(None)]).1.is_empty());
    assert!(writes(vec![]).1.is_empty());
}

#[test]
fn a_namespace_that_is_being_deleted_is_left_alone() {
    let mut going = namespace(Some("hello"));
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(writes(vec![going]).1.is_empty());
}
