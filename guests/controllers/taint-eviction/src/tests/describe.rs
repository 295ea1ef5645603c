//! The description.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::permissions;

use crate::TaintEviction;

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = TaintEviction::describe();
    description.check().unwrap();
    assert_eq!(
        (description.name.as_str(), description.concurrency),
        ("taint-eviction-controller", 8)
    );
    assert_eq!(description.event_source, "");
    assert_eq!(description.queues[0].name, "noexec_taint_node");
    assert_eq!(
        permissions(&description),
        ["v1/Node  get", "v1/Pod  delete", "v1/Pod status patch"]
    );
    let names: Vec<&str> = description
        .metrics
        .iter()
        .map(|metric| metric.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "taint_eviction_controller_pod_deletions_total",
            "taint_eviction_controller_pod_deletion_duration_seconds"
        ]
    );
}

#[test]
fn only_changes_of_taints_tolerations_and_bindings_enqueue_nodes() {
    let description = serde_json::to_value(TaintEviction::describe()).unwrap();
    let watches = description["watches"].as_array().unwrap();
    assert_eq!(watches[0]["changes"], json!([{"path": "spec.taints"}]));
    assert_eq!(
        watches[0]["map"][0]["having"],
        json!({"path": "spec.taints[*].effect", "value": "NoExecute"})
    );
    assert_eq!(
        watches[1]["changes"],
        json!([{"path": "spec.nodeName"}, {"path": "spec.tolerations"}])
    );
    // A pod concerns nothing unless its node has such a taint.
    assert_eq!(
        (
            &watches[1]["map"][0]["kind"],
            &watches[1]["map"][0]["whose"]
        ),
        (&json!("v1/Node"), &watches[0]["map"][0]["having"])
    );
    // The pending evictions of a deleted node end with the pods.
    let of_missing = &watches[1]["map"][1];
    assert_eq!(
        (
            &of_missing["kind"],
            &of_missing["missing"],
            &of_missing["on"]
        ),
        (&json!("v1/Node"), &json!(true), &json!(["deleted"]))
    );
    // A heartbeat changes none of the fields that are read of a node.
    assert_eq!(
        watches[0]["fields"],
        json!([
            "spec.taints[*].key",
            "spec.taints[*].value",
            "spec.taints[*].effect"
        ])
    );
}
