//! Native tests of the controller, against an API server in memory.

use std::time::Duration;

use configmapgen_controller::{ConfigMapGenerator, Exported};
use kube::CustomResourceExt;
use kube::sdk::testing::{Cluster, permissions, refusal};
use kube::sdk::{Controller, Outcome};
use serde_json::{Value, json};

const CONFIG_MAP: &str = "v1/ConfigMap";
const APPLIED: &str = "patch v1/ConfigMap team/hello";

fn cluster() -> Cluster {
    Cluster::with([json!({
        "apiVersion": "nullable.se/v1", "kind": "ConfigMapGenerator",
        "metadata": {"name": "hello", "namespace": "team", "uid": "u"},
        "spec": {"content": "Grüezi 👋"},
    })])
}

#[test]
fn a_generator_gets_its_config_map() {
    let cluster = cluster();
    let outcome = cluster.reconcile::<Exported>("team/hello").unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(Duration::from_secs(300)));
    assert_eq!(cluster.written(), [APPLIED]);
    let map = cluster.object(CONFIG_MAP, "team", "hello").unwrap();
    assert_eq!(map["data"], json!({"content": "Grüezi 👋"}));
    assert_eq!(map["metadata"]["ownerReferences"][0]["uid"], "u");
}

#[test]
fn a_failed_write_is_retried_as_the_error_policy_says() {
    let cluster = cluster();
    cluster.fail("patch", CONFIG_MAP, refusal(409, "Conflict"));
    let error = cluster.reconcile::<Exported>("team/hello").unwrap_err();
    assert!(error.is_terminal());
    assert!(
        error
            .to_string()
            .starts_with("Failed to create ConfigMap: "),
        "{error}"
    );
    let [again] = &cluster.enqueued()[..] else {
        panic!("the error policy enqueues the key once");
    };
    assert_eq!(
        (&*again.queue, &*again.key),
        ("configmapgenerator", "team/hello")
    );
    assert_eq!(again.delay, Duration::from_secs(1));
}

#[test]
fn a_generator_that_is_deleted_is_done() {
    let cluster = cluster();
    let outcome = cluster.reconcile::<Exported>("team/other").unwrap();
    assert_eq!(outcome, Outcome::Done);
    assert!(cluster.written().is_empty());
}

#[test]
fn it_asks_for_what_it_does() {
    let description = Exported::describe();
    assert_eq!(description.concurrency, 2);
    let expected = [
        "v1/ConfigMap  create,patch",
        "nullable.se/v1/ConfigMapGenerator finalizers update",
    ];
    assert_eq!(permissions(&description), expected);
}

#[test]
fn the_manifest_is_the_definition_of_the_type() {
    let manifest: Value = serde_saphyr::from_str(include_str!("../manifests/crd.yaml")).unwrap();
    assert_eq!(
        manifest,
        serde_json::to_value(ConfigMapGenerator::crd()).unwrap()
    );
}
