//! Pods on nodes that don't exist.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::{
    NODE, POD, counts, held, node, on, pod, quarantined_node, seen_node, with, written,
};

const QUARANTINE: Duration = Duration::from_secs(40);

/// Three pods on the node `gone`, and one on another node.
fn cluster() -> Cluster {
    let phases = [("a", "Failed"), ("b", "Succeeded"), ("c", "Running")];
    let cluster = Cluster::with(phases.map(|(name, phase)| on("gone", pod(name, phase))));
    cluster.put(on("node-1", pod("d", "Running")));
    cluster.put(node("node-1", "True", &[]));
    cluster
}

#[test]
fn a_missing_node_with_pods_is_put_in_quarantine() {
    let cluster = cluster();
    assert_eq!(seen_node(&cluster, "gone").unwrap(), Outcome::Done);
    let enqueued = cluster.enqueued();
    assert_eq!(enqueued.len(), 1);
    let in_quarantine = &enqueued[0];
    assert_eq!(
        (
            in_quarantine.queue.as_str(),
            in_quarantine.key.as_str(),
            in_quarantine.delay
        ),
        ("orphaned_pods_nodes", "gone", QUARANTINE)
    );
    assert!(cluster.written().is_empty() && cluster.live_reads().is_empty());
}

#[test]
fn a_node_that_exists_or_has_no_pods_is_not_put_in_quarantine() {
    let cluster = cluster();
    for name in ["node-1", "never-seen"] {
        assert_eq!(seen_node(&cluster, name).unwrap(), Outcome::Done);
    }
    assert!(cluster.enqueued().is_empty());
}

#[test]
fn after_the_quarantine_the_pods_are_deleted_if_the_api_server_does_not_have_the_node() {
    let cluster = cluster();
    assert_eq!(quarantined_node(&cluster, "gone").unwrap(), Outcome::Done);
    assert_eq!(cluster.live_reads(), ["get v1/Node gone"]);
    assert_eq!(written(&cluster), [vec!["c"], vec!["a", "b", "c"]]);
    assert_eq!(counts(&cluster, "orphaned"), [3.0, 0.0]);
}

#[test]
fn a_node_that_has_come_back_keeps_its_pods() {
    let cluster = cluster();
    cluster.put(node("gone", "False", &[]));
    assert_eq!(quarantined_node(&cluster, "gone").unwrap(), Outcome::Done);
    assert!(cluster.written().is_empty() && cluster.live_reads().is_empty());
}

#[test]
fn a_node_that_only_the_api_server_has_keeps_its_pods_and_is_looked_at_again() {
    let cluster = cluster();
    cluster.put_live(node("gone", "True", &[]));
    assert_eq!(
        quarantined_node(&cluster, "gone").unwrap(),
        Outcome::RequeueAfter(QUARANTINE)
    );
    assert!(cluster.written().is_empty());
}

#[test]
fn a_cached_node_is_not_looked_up_although_the_api_server_does_not_have_it() {
    let cluster = cluster();
    cluster.remove_live(NODE, "", "node-1");
    assert_eq!(quarantined_node(&cluster, "node-1").unwrap(), Outcome::Done);
    assert!(cluster.written().is_empty());
}

#[test]
fn a_failed_lookup_deletes_nothing_and_is_retried() {
    let cluster = cluster();
    cluster.fail("get", NODE, refusal(500, "InternalError"));
    let error = quarantined_node(&cluster, "gone").unwrap_err();
    assert!(!error.is_terminal() && error.to_string().starts_with("reading node gone: "));
    assert!(cluster.written().is_empty());
    quarantined_node(&cluster, "gone").unwrap();
    assert_eq!(written(&cluster)[1].len(), 3);
}

#[test]
fn an_orphan_that_has_not_ended_gets_the_condition_of_a_disruption() {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let cluster = Cluster::with([held(on(
        "gone",
        with(pod("a", "Running"), "/status/conditions", ready),
    ))]);
    quarantined_node(&cluster, "gone").unwrap();
    assert_eq!(
        cluster.object(POD, "team", "a").unwrap()["status"],
        json!({"phase": "Failed", "observedGeneration": 3, "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "DisruptionTarget", "status": "True", "observedGeneration": 3, "reason": "DeletionByPodGC",
             "message": "PodGC: node no longer exists", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    );
}

#[test]
fn a_condition_of_another_disruption_is_replaced_and_keeps_its_time_if_it_was_true() {
    for (status, time) in [
        ("True", "2020-01-01T00:00:00Z"),
        ("False", "2026-01-01T00:00:00Z"),
    ] {
        let before = json!([{"type": "DisruptionTarget", "status": status, "reason": "EvictionByEvictionAPI",
                             "message": "evicted", "lastTransitionTime": "2020-01-01T00:00:00Z"}]);
        let cluster = Cluster::with([held(on(
            "gone",
            with(pod("a", "Running"), "/status/conditions", before),
        ))]);
        quarantined_node(&cluster, "gone").unwrap();
        let status = cluster.object(POD, "team", "a").unwrap()["status"].take();
        let condition = &status["conditions"][0];
        assert_eq!(
            (&condition["reason"], &condition["lastTransitionTime"]),
            (&"DeletionByPodGC".into(), &time.into())
        );
    }
}

#[test]
fn a_node_is_looked_at_again_while_pods_remain() {
    let cluster = Cluster::with([held(on("gone", pod("a", "Running")))]);
    for patched in [vec!["a".to_owned()], vec![]] {
        assert_eq!(
            quarantined_node(&cluster, "gone").unwrap(),
            Outcome::RequeueAfter(QUARANTINE)
        );
        assert_eq!(written(&cluster), [patched, vec!["a".into()]]);
    }
    cluster.remove(POD, "team", "a");
    assert_eq!(quarantined_node(&cluster, "gone").unwrap(), Outcome::Done);
}

#[test]
fn a_failed_deletion_is_counted_and_retried() {
    let cluster = cluster();
    cluster.fail("delete", POD, refusal(500, "InternalError"));
    assert!(
        !quarantined_node(&cluster, "gone")
            .unwrap_err()
            .is_terminal()
    );
    assert_eq!(counts(&cluster, "orphaned"), [3.0, 1.0]);
    quarantined_node(&cluster, "gone").unwrap();
    assert_eq!(counts(&cluster, "orphaned"), [1.0, 0.0]);
}
