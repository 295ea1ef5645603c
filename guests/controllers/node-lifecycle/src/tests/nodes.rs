//! `NoSchedule` taints and labels.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

#[test]
fn the_taints_of_a_node_follow_its_conditions() {
    let cluster = Cluster::with([tainted(node("a", "False"), &["custom"])]);
    assert_eq!(changed_node(&cluster, "a").unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), ["patch v1/Node a"]);
    assert_eq!(
        taints(&cluster, "a"),
        ["custom NoExecute", "not-ready NoSchedule"]
    );
    changed_node(&cluster, "a").unwrap();
    assert!(cluster.written().is_empty());

    beat(&cluster, "a", "True");
    changed_node(&cluster, "a").unwrap();
    assert_eq!(taints(&cluster, "a"), ["custom NoExecute"]);
}

#[test]
fn a_cordoned_node_has_its_taint() {
    let cluster = Cluster::with([with(node("a", "True"), "/spec/unschedulable", true)]);
    changed_node(&cluster, "a").unwrap();
    assert_eq!(taints(&cluster, "a"), ["unschedulable NoSchedule"]);
    cluster.edit(NODE, "", "a", |node| {
        node["spec"]["unschedulable"] = Value::Null
    });
    changed_node(&cluster, "a").unwrap();
    assert!(taints(&cluster, "a").is_empty());
    let spec = cluster.object(NODE, "", "a").unwrap()["spec"].clone();
    assert!(spec["taints"].is_null(), "{spec}");
}

#[test]
fn deprecated_labels_are_added() {
    let labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"});
    let cluster = Cluster::with([with(node("a", "True"), "/metadata/labels", labels)]);
    changed_node(&cluster, "a").unwrap();
    let labels = cluster.object(NODE, "", "a").unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels["beta.kubernetes.io/os"], "linux");
    assert_eq!(labels["beta.kubernetes.io/arch"], "arm64");
    forget(&cluster);
    changed_node(&cluster, "a").unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_node_that_is_gone_needs_nothing_and_a_conflict_is_retried() {
    let cluster = Cluster::with([node("a", "False")]);
    assert_eq!(changed_node(&cluster, "gone").unwrap(), Outcome::Done);
    cluster.fail("patch", NODE, refusal(409, "Conflict"));
    let later = Outcome::RequeueAfter(Duration::from_millis(100));
    assert_eq!(changed_node(&cluster, "a").unwrap(), later);
    cluster.fail("patch", NODE, refusal(500, "InternalError"));
    let error = changed_node(&cluster, "a").unwrap_err();
    assert!(!error.is_terminal(), "{error}");
    cluster.fail("patch", NODE, refusal(404, "NotFound"));
    assert_eq!(changed_node(&cluster, "a").unwrap(), Outcome::Done);
}
