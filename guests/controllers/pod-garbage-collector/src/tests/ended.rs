//! Ended pods.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::{POD, counts, held, on, pod, tick, with, written};

/// A cluster with this threshold and these pods, each an hour younger than the one before.
fn cluster(threshold: &str, pods: &[(&str, &str)]) -> Cluster {
    let cluster = Cluster::new();
    cluster.set_config("terminated-pod-threshold", threshold);
    for (hour, (name, phase)) in pods.iter().enumerate() {
        let created = format!("2025-01-01T{hour:02}:00:00Z");
        let pod = match *phase {
            "Evicted" => with(pod(name, "Failed"), "/status/reason", "Evicted"),
            phase => pod(name, phase),
        };
        cluster.put(on(
            "node-1",
            with(pod, "/metadata/creationTimestamp", created),
        ));
    }
    cluster
}

/// The names of the pods that a tick deletes.
fn deleted_of(threshold: &str, pods: &[(&str, &str)]) -> Vec<String> {
    let cluster = cluster(threshold, pods);
    tick(&cluster).unwrap();
    let [patched, deleted] = written(&cluster);
    assert!(patched.is_empty());
    assert_eq!(counts(&cluster, "terminated"), [deleted.len() as f64, 0.0]);
    tick(&cluster).unwrap();
    assert!(cluster.written().is_empty());
    deleted
}

#[test]
fn the_oldest_pods_beyond_the_threshold_are_deleted() {
    let three = [("a", "Failed"), ("b", "Succeeded"), ("c", "Failed")];
    assert_eq!(deleted_of("1", &three), ["a", "b"]);
    assert_eq!(deleted_of("2", &three), ["a"]);
    assert!(deleted_of("3", &three).is_empty());
    assert!(deleted_of("5", &three).is_empty());
}

#[test]
fn a_threshold_of_zero_or_less_keeps_all_pods() {
    for threshold in ["0", "-1"] {
        assert!(deleted_of(threshold, &[("a", "Failed"), ("b", "Succeeded")]).is_empty());
    }
}

#[test]
fn pods_that_have_not_ended_do_not_count() {
    let pods = [
        ("a", "Running"),
        ("b", "Pending"),
        ("c", "Unknown"),
        ("d", "Succeeded"),
        ("e", "Failed"),
    ];
    assert_eq!(deleted_of("1", &pods), ["d"]);
}

#[test]
fn evicted_pods_are_deleted_first() {
    let pods = [("a", "Failed"), ("b", "Succeeded"), ("c", "Evicted")];
    assert_eq!(deleted_of("1", &pods), ["c", "a"]);
    let pods = [("a", "Running"), ("b", "Succeeded"), ("c", "Evicted")];
    assert_eq!(deleted_of("1", &pods), ["c"]);
}

#[test]
fn the_reason_of_an_eviction_counts_only_for_failed_pods() {
    let cluster = cluster("1", &[("a", "Succeeded"), ("b", "Succeeded")]);
    cluster.edit(POD, "team", "b", |pod| {
        pod["status"]["reason"] = "Evicted".into()
    });
    tick(&cluster).unwrap();
    assert_eq!(written(&cluster)[1], ["a"]);
}

#[test]
fn pods_of_the_same_age_are_deleted_in_the_order_of_their_names() {
    let cluster = Cluster::with(["c", "a", "b"].map(|name| pod(name, "Succeeded")));
    cluster.set_config("terminated-pod-threshold", "1");
    tick(&cluster).unwrap();
    assert_eq!(written(&cluster)[1], ["a", "b"]);
}

#[test]
fn the_default_threshold_is_12500() {
    let pods = (0..12_503).map(|number| pod(&format!("pod-{number:05}"), "Succeeded"));
    let cluster = Cluster::with(pods);
    tick(&cluster).unwrap();
    assert_eq!(
        written(&cluster)[1],
        ["pod-00000", "pod-00001", "pod-00002"]
    );
}

#[test]
fn many_pods_are_deleted_in_batches() {
    let pods = (0..1203).map(|number| pod(&format!("pod-{number:05}"), "Succeeded"));
    let cluster = Cluster::with(pods);
    cluster.set_config("terminated-pod-threshold", "1");
    tick(&cluster).unwrap();
    assert_eq!(written(&cluster)[1].len(), 1202);
}

#[test]
fn a_pod_that_its_finalizers_keep_counts_and_is_deleted_again() {
    let cluster = cluster("1", &[("a", "Failed"), ("b", "Failed")]);
    cluster.put(held(with(
        pod("a", "Failed"),
        "/metadata/creationTimestamp",
        "2024-01-01T00:00:00Z",
    )));
    for _ in 0..2 {
        tick(&cluster).unwrap();
        assert_eq!(written(&cluster)[1], ["a"]);
    }
}

#[test]
fn a_failed_deletion_is_counted_and_does_not_stop_others() {
    let cluster = cluster("1", &[("a", "Failed"), ("b", "Failed"), ("c", "Failed")]);
    cluster.fail("delete", POD, refusal(500, "InternalError"));
    let error = tick(&cluster).unwrap_err().to_string();
    assert!(error.starts_with("deleting pod team/a: "), "{error}");
    assert_eq!(counts(&cluster, "terminated"), [2.0, 1.0]);
    assert!(cluster.object(POD, "team", "b").is_none());
    tick(&cluster).unwrap();
    assert!(cluster.object(POD, "team", "a").is_none());
}

#[test]
fn a_pod_that_was_deleted_meanwhile_is_counted_and_is_no_failure() {
    let cluster = cluster("1", &[("a", "Failed"), ("b", "Failed")]);
    cluster.fail("delete", POD, refusal(404, "NotFound"));
    assert_eq!(tick(&cluster).unwrap(), Outcome::Done);
    assert_eq!(counts(&cluster, "terminated"), [1.0, 1.0]);
}
