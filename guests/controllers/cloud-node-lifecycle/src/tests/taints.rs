//! The taint of a node whose instance is shut down.

use std::slice;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::views::{with_shutdown, without_shutdown};

#[test]
fn a_node_whose_instance_is_shut_down_gets_the_taint() {
    let other = json!({"key": "other", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
    let (cluster, cloud) = world(with(node("a", "Unknown"), "/spec/taints", json!([other])));
    always(&cloud, "InstanceShutdown", true);
    pass(&cluster);
    assert_eq!(cluster.written(), [PATCH]);
    assert_eq!(taints(&cluster), Some(json!([other, shutdown_taint()])));
    pass(&cluster);
    assert!(cluster.written().is_empty());
    assert!(cluster.events().is_empty());
}

#[test]
fn the_taint_stays_until_the_node_is_ready() {
    let (cluster, cloud) = world(with(
        node("a", "Unknown"),
        "/spec/taints",
        json!([shutdown_taint()]),
    ));
    always(&cloud, "InstanceShutdown", false);
    pass(&cluster);
    assert!(cluster.written().is_empty());
    cluster.edit(NODE, "", "a", |node| {
        node["status"]["conditions"][1]["status"] = "True".into()
    });
    cloud.calls();
    pass(&cluster);
    assert_eq!(cluster.written(), [PATCH]);
    assert_eq!(taints(&cluster), None);
    assert!(cloud.called().is_empty());
}

#[test]
fn other_taints_stay_as_they_are() {
    let other = json!({"key": "other", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
    let both = json!([shutdown_taint(), other]);
    let (cluster, _) = world(with(node("a", "True"), "/spec/taints", both));
    pass(&cluster);
    assert_eq!(taints(&cluster), Some(json!([other])));
}

#[test]
fn a_taint_with_the_same_key_and_effect_is_replaced_in_its_place() {
    let key = "node.cloudprovider.kubernetes.io/shutdown";
    let valued = json!({"key": key, "effect": "NoSchedule", "value": "x"});
    let other = json!({"key": key, "effect": "NoExecute"});
    assert_eq!(
        with_shutdown(&[valued.clone(), other.clone()]).unwrap(),
        [shutdown_taint(), other.clone()]
    );
    assert_eq!(
        with_shutdown(slice::from_ref(&other)).unwrap(),
        [other.clone(), shutdown_taint()]
    );
    assert_eq!(with_shutdown(&[shutdown_taint()]), None);
    assert_eq!(
        without_shutdown(&[valued, other.clone()]).unwrap(),
        slice::from_ref(&other)
    );
    assert_eq!(without_shutdown(&[other]), None);
}

#[test]
fn a_conflict_is_retried_with_the_latest_version() {
    let (cluster, cloud) = world(node("a", "Unknown"));
    always(&cloud, "InstanceShutdown", true);
    cluster.fail("patch", NODE, refusal(409, "Conflict"));
    pass(&cluster);
    assert_eq!(cluster.live_reads(), ["get v1/Node a"]);
    assert_eq!(taints(&cluster), Some(json!([shutdown_taint()])));
    assert_eq!(cloud.called(), ["InstanceExists a", "InstanceShutdown a"]);
}

#[test]
fn a_refused_write_is_repeated_by_the_next_pass() {
    let (cluster, cloud) = world(node("a", "Unknown"));
    always(&cloud, "InstanceShutdown", true);
    cluster.fail("patch", NODE, refusal(500, "InternalError"));
    pass(&cluster);
    assert_eq!(taints(&cluster), None);
    pass(&cluster);
    assert_eq!(taints(&cluster), Some(json!([shutdown_taint()])));
}
