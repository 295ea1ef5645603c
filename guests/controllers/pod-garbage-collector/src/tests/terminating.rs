//! Pods that are being deleted: on nodes that are out of service, and on no node.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::{
    POD, STATUS, counts, deleted, deleted_pod, held, node, on, pod, tick, with, written,
};

const TAINT: &str = "node.kubernetes.io/out-of-service";
const PERIOD: Duration = Duration::from_secs(20);

#[test]
fn deleted_pods_on_nodes_that_are_not_ready_and_out_of_service_are_deleted() {
    let cluster = Cluster::with([
        node("out", "False", &["x.io/other", TAINT]),
        node("unknown", "Unknown", &[TAINT]),
        node("not-ready", "False", &["node.kubernetes.io/not-ready"]),
        node("ready", "True", &[TAINT]),
    ]);
    for name in ["out", "unknown", "not-ready", "ready", "missing"] {
        for phase in ["Pending", "Running", "Unknown", "Failed", "Succeeded"] {
            let own = format!("{name}-{}", phase.to_lowercase());
            cluster.put(on(name, deleted(pod(&own, phase))));
            cluster.put(on(name, pod(&format!("{own}-kept"), phase)));
        }
    }
    tick(&cluster).unwrap();
    let of = |phases: &[&str]| {
        let nodes = ["out", "unknown"].into_iter();
        nodes
            .flat_map(|node| phases.iter().map(move |phase| format!("{node}-{phase}")))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        written(&cluster),
        [
            of(&["pending", "running", "unknown"]),
            of(&["failed", "pending", "running", "succeeded", "unknown"])
        ]
    );
    assert_eq!(counts(&cluster, "out-of-service"), [10.0, 0.0]);
}

#[test]
fn a_node_without_the_condition_is_not_ready() {
    let bare = with(node("out", "True", &[TAINT]), "/status", json!({}));
    let cluster = Cluster::with([bare, on("out", deleted(pod("a", "Running")))]);
    tick(&cluster).unwrap();
    assert_eq!(written(&cluster), [["a"], ["a"]]);
}

#[test]
fn the_patch_of_a_pod_on_a_node_has_no_condition() {
    let cluster = Cluster::with([
        node("out", "False", &[TAINT]),
        on("out", deleted(pod("a", "Running"))),
    ]);
    tick(&cluster).unwrap();
    assert_eq!(
        cluster.writes()[0].body,
        json!({"metadata": {"uid": "uid-a"}, "status": {"phase": "Failed", "observedGeneration": 3}})
    );
}

#[test]
fn a_pod_whose_phase_cannot_be_set_is_not_deleted_and_others_are() {
    let cluster = Cluster::with([
        node("out", "False", &[TAINT]),
        on("out", deleted(pod("a", "Running"))),
        on("out", deleted(pod("b", "Succeeded"))),
        on("out", deleted(pod("c", "Running"))),
    ]);
    cluster.fail("patch", STATUS, refusal(409, "Conflict"));
    let error = tick(&cluster).unwrap_err().to_string();
    assert!(error.starts_with("deleting pod team/a: "), "{error}");
    assert_eq!(written(&cluster), [vec!["a", "c"], vec!["b", "c"]]);
    assert_eq!(counts(&cluster, "out-of-service"), [3.0, 1.0]);
    assert_eq!(
        cluster.object(POD, "team", "a").unwrap()["status"]["phase"],
        "Running"
    );
}

#[test]
fn a_failure_with_ended_pods_does_not_stop_those_on_nodes_out_of_service() {
    let cluster = Cluster::with([
        node("out", "False", &[TAINT]),
        on("out", deleted(pod("z", "Running"))),
        pod("a", "Failed"),
        pod("b", "Failed"),
    ]);
    cluster.set_config("terminated-pod-threshold", "1");
    cluster.fail("delete", POD, refusal(500, "InternalError"));
    assert!(!tick(&cluster).unwrap_err().is_terminal());
    assert!(cluster.object(POD, "team", "z").is_none());
}

#[test]
fn a_deleted_pod_that_was_never_on_a_node_is_deleted_in_any_phase() {
    for (phase, is_patched) in [
        ("Pending", true),
        ("Running", true),
        ("Unknown", true),
        ("Failed", false),
        ("Succeeded", false),
    ] {
        let cluster = Cluster::with([deleted(pod("a", phase))]);
        assert_eq!(deleted_pod(&cluster, "a").unwrap(), Outcome::Done);
        let [patched, deleted] = written(&cluster);
        assert_eq!(
            (patched.len(), deleted.len()),
            (usize::from(is_patched), 1),
            "{phase}"
        );
        assert_eq!(counts(&cluster, "unscheduled"), [1.0, 0.0]);
        assert!(cluster.object(POD, "team", "a").is_none());
    }
}

#[test]
fn other_deleted_pods_are_left_to_their_kubelets() {
    let cluster = Cluster::with([
        on("node-1", deleted(pod("on-a-node", "Running"))),
        pod("not-deleted", "Failed"),
    ]);
    for name in ["on-a-node", "not-deleted", "missing"] {
        assert_eq!(deleted_pod(&cluster, name).unwrap(), Outcome::Done);
    }
    assert!(cluster.written().is_empty());
}

#[test]
fn a_pod_that_its_finalizers_keep_is_deleted_again_in_each_period() {
    let cluster = Cluster::with([held(deleted(pod("a", "Pending")))]);
    assert_eq!(
        deleted_pod(&cluster, "a").unwrap(),
        Outcome::RequeueAfter(PERIOD)
    );
    assert_eq!(written(&cluster), [["a"], ["a"]]);
    assert_eq!(
        cluster.object(POD, "team", "a").unwrap()["status"]["phase"],
        "Failed"
    );
    assert_eq!(
        deleted_pod(&cluster, "a").unwrap(),
        Outcome::RequeueAfter(PERIOD)
    );
    assert_eq!(written(&cluster), [vec![], vec!["a"]]);
}

#[test]
fn a_failed_deletion_of_such_a_pod_is_counted_and_retried() {
    let cluster = Cluster::with([deleted(pod("a", "Pending"))]);
    cluster.fail("delete", POD, refusal(500, "InternalError"));
    assert!(!deleted_pod(&cluster, "a").unwrap_err().is_terminal());
    assert_eq!(counts(&cluster, "unscheduled"), [1.0, 1.0]);
    assert_eq!(deleted_pod(&cluster, "a").unwrap(), Outcome::Done);
}
