//! Which changes enqueue which keys.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta};

use super::world::{EVICTION, POD, REQUEST, begun, eviction, pod, request, with};
use crate::EvictionRequests;

/// The keys that a change enqueues, each with the last word of its queue.
fn routed(cluster: &Cluster, kind: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let delta = delta(kind, old, new);
    let keys = cluster.route::<EvictionRequests>(&[delta]).unwrap();
    let line = |key: flyball_sdk::RoutedKey| {
        let (_, queue) = key.queue.rsplit_once('_').unwrap();
        format!("{queue} {}", key.key)
    };
    keys.into_iter().map(line).collect()
}

const STATUS: &str = "eviction team/pod-1-web";
const METADATA: &str = "refresh team/pod-1-web";
const ASKER: &str = "request team/a";

#[test]
fn a_pod_that_ends_wakes_its_evictions() {
    let cluster = begun(&[]);
    let running = pod(&[]);
    let pods = |old: &Value, new: &Value| routed(&cluster, POD, Some(old), Some(new));
    for over in [
        with(running.clone(), "/status/phase", "Failed"),
        with(
            running.clone(),
            "/metadata/deletionTimestamp",
            "2026-01-01T00:00:09Z",
        ),
        with(running.clone(), "/metadata/uid", "other"),
    ] {
        assert_eq!(pods(&running, &over), [STATUS]);
    }
    assert_eq!(routed(&cluster, POD, Some(&running), None), [STATUS]);
    let pending = with(running.clone(), "/status/phase", "Pending");
    assert!(pods(&pending, &running).is_empty());
    let other = with(running, "/metadata/uid", "other");
    assert!(routed(&cluster, POD, Some(&other), None).is_empty());
}

#[test]
fn a_request_wakes_the_evictions_of_its_target() {
    let cluster = begun(&[]);
    let a = request("a", "Eviction");
    assert_eq!(
        routed(&cluster, REQUEST, None, Some(&a)),
        [STATUS, METADATA]
    );
    assert_eq!(
        routed(&cluster, REQUEST, Some(&a), None),
        [STATUS, METADATA]
    );
    let requests = |new: &Value| routed(&cluster, REQUEST, Some(&a), Some(new));
    assert_eq!(requests(&request("a", "Withdrawn")), [STATUS]);
    let deleting = with(
        a.clone(),
        "/metadata/deletionTimestamp",
        "2026-01-01T00:00:09Z",
    );
    assert_eq!(requests(&deleting), [STATUS]);
    assert!(requests(&with(a.clone(), "/status/observedGeneration", 1)).is_empty());
}

#[test]
fn an_eviction_wakes_the_requests_for_its_target_when_its_conditions_change() {
    let cluster = begun(&[]);
    let now = eviction(&cluster);
    assert_eq!(routed(&cluster, EVICTION, None, Some(&now)), [METADATA]);
    assert_eq!(routed(&cluster, EVICTION, Some(&now), None), [ASKER]);
    let evictions = |new: &Value| routed(&cluster, EVICTION, Some(&now), Some(new));
    assert_eq!(
        evictions(&with(now.clone(), "/status/conditions", json!([]))),
        [ASKER]
    );
    assert_eq!(
        evictions(&with(now.clone(), "/metadata/labels", json!({}))),
        [METADATA]
    );
    assert_eq!(
        evictions(&with(now.clone(), "/metadata/ownerReferences", json!([]))),
        [METADATA]
    );
    assert!(evictions(&with(now.clone(), "/status/requesters", json!([]))).is_empty());
}
