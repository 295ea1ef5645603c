//! Nodes that are silent.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;
use crate::monitor::{DURATION, NODE_DURATION};

/// A node that was seen at the start, and another one whose lease is renewed.
fn cluster() -> Cluster {
    let cluster = Cluster::with([
        node("a", "True"),
        node("b", "True"),
        lease("a", START),
        lease("b", START),
        pod("web", "a", "True"),
    ]);
    pass(&cluster);
    cluster
}

#[test]
fn a_node_is_marked_when_it_was_silent_for_longer_than_the_grace_period() {
    let cluster = cluster();
    assert_eq!(
        cluster.events(),
        [
            "Normal RegisteredNode Node a event: Registered Node a in Controller",
            "Normal RegisteredNode Node b event: Registered Node b in Controller"
        ]
    );
    renew_for(&cluster, &["b"], 50);
    assert_eq!(cluster.written(), Vec::<String>::new());
    renew_for(&cluster, &["b"], 10);
    assert_eq!(cluster.written(), ["patch v1/Node/status a"]);
    assert_eq!(
        condition(&cluster, "a", "Ready"),
        "Unknown NodeStatusUnknown"
    );
    assert_eq!(
        condition(&cluster, "a", "MemoryPressure"),
        "Unknown NodeStatusUnknown"
    );
    assert_eq!(
        condition(&cluster, "a", "PIDPressure"),
        "Unknown NodeStatusNeverUpdated"
    );
    assert_eq!(condition(&cluster, "b", "Ready"), "True Fine");
    let events = cluster.recorded_events();
    assert_eq!(
        events[0].to_string(),
        "Normal NodeNotReady Node a status is now: NodeNotReady"
    );
    assert_eq!((events[0].about.uid.as_str(), events.len()), ("uid-a", 1));
    assert!(enqueued(&cluster).contains(&"node_lifecycle_controller_pods a".to_owned()));

    renew_for(&cluster, &["b"], 60);
    assert_eq!(cluster.written(), Vec::<String>::new());
    assert!(cluster.events().is_empty());
}

#[test]
fn a_renewed_lease_and_a_heartbeat_are_enough_each() {
    let cluster = cluster();
    for _ in 0..10 {
        beat(&cluster, "a", "True");
        renew_for(&cluster, &["b"], 10);
    }
    assert_eq!(cluster.written(), Vec::<String>::new());
}

#[test]
fn a_kubelet_whose_clock_is_wrong_is_not_silent() {
    let cluster = cluster();
    for minute in 0..10 {
        for name in ["a", "b"] {
            cluster.edit(LEASE, "kube-node-lease", name, |lease| {
                lease["spec"]["renewTime"] = format!("1999-01-01T00:{:02}:00Z", 59 - minute).into();
            });
        }
        pass_for(&cluster, 10);
    }
    assert_eq!(cluster.written(), Vec::<String>::new());
}

#[test]
fn a_node_that_never_reported_has_the_startup_grace_period_from_when_it_was_first_seen() {
    let new = with(node("new", "True"), "/status", json!({}));
    let cluster = Cluster::with([new, node("b", "True"), lease("b", START)]);
    pass(&cluster);
    renew_for(&cluster, &["b"], 60);
    assert_eq!(cluster.written(), Vec::<String>::new());
    forget(&cluster);
    renew_for(&cluster, &["b"], 10);
    assert_eq!(cluster.written(), ["patch v1/Node/status new"]);
    assert_eq!(
        condition(&cluster, "new", "Ready"),
        "Unknown NodeStatusNeverUpdated"
    );
    // The node was not ready before.
    assert!(cluster.events().is_empty());
    assert!(!enqueued(&cluster).iter().any(|key| key.contains("_pods")));
}

#[test]
fn a_node_that_only_renews_its_lease_is_left_alone() {
    let new = with(node("new", "True"), "/status", json!({}));
    let cluster = Cluster::with([new, lease("new", START)]);
    pass(&cluster);
    renew_for(&cluster, &["new"], 200);
    assert_eq!(cluster.written(), Vec::<String>::new());
}

#[test]
fn a_node_that_is_not_ready_becomes_unknown_without_events() {
    let cluster = Cluster::with([node("a", "False"), node("b", "True"), lease("b", START)]);
    pass(&cluster);
    forget(&cluster);
    renew_for(&cluster, &["b"], 60);
    assert_eq!(cluster.written(), ["patch v1/Node/status a"]);
    assert!(cluster.events().is_empty());
}

#[test]
fn a_node_that_changed_meanwhile_is_looked_at_again() {
    let cluster = cluster();
    forget(&cluster);
    cluster.fail("patch", NODE_STATUS, refusal(409, "Conflict"));
    renew_for(&cluster, &["b"], 50);
    pass_for(&cluster, 5);
    assert_eq!(cluster.writes().len(), 1);
    assert!(cluster.events().is_empty());
    assert_eq!(condition(&cluster, "a", "Ready"), "True Fine");
    pass_for(&cluster, 5);
    assert_eq!(
        condition(&cluster, "a", "Ready"),
        "Unknown NodeStatusUnknown"
    );
}

#[test]
fn a_node_that_reports_again_is_marked_again_when_it_falls_silent() {
    let cluster = cluster();
    renew_for(&cluster, &["b"], 60);
    forget(&cluster);
    beat(&cluster, "a", "True");
    renew_for(&cluster, &["b"], 50);
    assert!(cluster.written().is_empty() && cluster.events().is_empty());
    renew_for(&cluster, &["b"], 10);
    assert_eq!(cluster.written(), ["patch v1/Node/status a"]);
    assert_eq!(cluster.events().len(), 1);
}

#[test]
fn nodes_that_were_added_and_removed_are_recorded() {
    let cluster = cluster();
    forget(&cluster);
    cluster.remove(NODE, "", "a");
    cluster.put(node("c", "True"));
    pass(&cluster);
    let events = cluster.recorded_events();
    let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "Normal RegisteredNode Node c event: Registered Node c in Controller",
            "Normal RemovingNode Node a event: Removing Node a from Controller"
        ]
    );
    assert_eq!(events[1].about.uid, "uid-a");
    assert_eq!(events[1].about.kind, NODE);
}

#[test]
fn the_times_of_passes_and_of_updates_are_measured() {
    let cluster = cluster();
    cluster.metrics();
    renew_for(&cluster, &["b"], 60);
    let metrics = cluster.metrics();
    let count = |name: &str| {
        metrics
            .iter()
            .filter(|(_, metric, ..)| metric == name)
            .count()
    };
    assert_eq!((count(DURATION), count(NODE_DURATION)), (12, 1));
}

#[test]
fn a_lease_that_the_cache_lacks_stops_the_pass() {
    let cluster = cluster();
    // The API server has a renewed lease of `a`, which the cache lacks. `b` is silent.
    cluster.put_live(lease("a", "2026-01-01T00:00:50Z"));
    pass_for(&cluster, 60);
    assert_eq!(cluster.written(), Vec::<String>::new());
    assert_eq!(condition(&cluster, "b", "Ready"), "True Fine");
    assert!(
        cluster
            .live_reads()
            .contains(&"get coordination.k8s.io/v1/Lease kube-node-lease/b".to_owned())
    );
    // The cache catches up: `a` is heard of, and `b` is not.
    cluster.put(lease("a", "2026-01-01T00:00:50Z"));
    pass_for(&cluster, 5);
    assert_eq!(cluster.written(), ["patch v1/Node/status b"]);
}

#[test]
fn a_lease_that_can_not_be_read_spares_its_node() {
    let cluster = cluster();
    for _ in 0..2 {
        cluster.fail("get", LEASE, refusal(403, "Forbidden"));
    }
    pass_for(&cluster, 55);
    assert_eq!(cluster.written(), Vec::<String>::new());
    pass_for(&cluster, 5);
    assert_eq!(cluster.written().len(), 2);
}

#[test]
fn a_lease_that_does_not_exist_proves_nothing() {
    let cluster = cluster();
    cluster.remove_live(LEASE, "kube-node-lease", "a");
    renew_for(&cluster, &["b"], 60);
    assert_eq!(cluster.written(), ["patch v1/Node/status a"]);
}

#[test]
fn without_the_gate_the_cache_is_believed() {
    let cluster = cluster();
    let gate = "feature-gates.NodeControllerLeaseCircuitBreaker";
    cluster.set_config(gate, "false");
    cluster.put_live(lease("a", "2026-01-01T00:00:50Z"));
    pass_for(&cluster, 60);
    assert_eq!(cluster.written().len(), 2);
    assert!(cluster.live_reads().is_empty());
}
