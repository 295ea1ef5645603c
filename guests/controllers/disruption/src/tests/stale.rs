//! Pods with a stale condition DisruptionTarget.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::{POD, START, World, deleted, pod};

const PATCH: &str = "patch v1/Pod/status team/web";
const TWO_MINUTES: Duration = Duration::from_secs(120);

/// A pod with the condition since the start of the clock.
fn disrupted(status: &str) -> Value {
    let mut pod = pod("web");
    pod["metadata"]["generation"] = 3.into();
    pod["status"]["podIP"] = "10.0.0.1".into();
    let condition = json!({"type": "DisruptionTarget", "status": status, "reason": "PreemptionByScheduler",
                           "message": "preempting", "lastTransitionTime": START, "lastProbeTime": null});
    pod["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(condition);
    pod
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = disrupted("True");
    change(&mut pod);
    pod
}

#[test]
fn a_stale_condition_is_set_to_false() {
    let world = World::of([disrupted("True")]);
    world.cluster.advance(TWO_MINUTES);
    assert_eq!(world.sync_stale("web").unwrap(), Outcome::Done);
    assert_eq!(world.sync_stale("web").unwrap(), Outcome::Done);
    assert_eq!(world.cluster.written(), [PATCH]);
    let status = world.cluster.object(POD, "team", "web").unwrap()["status"].take();
    assert_eq!(
        status,
        json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "DisruptionTarget", "status": "False", "observedGeneration": 3,
             "lastTransitionTime": "2026-01-01T00:02:00Z"},
        ]})
    );
}

#[test]
fn a_fresh_condition_is_looked_at_again_when_it_is_stale() {
    let world = World::of([disrupted("True")]);
    world.cluster.advance(Duration::from_secs(119));
    let outcome = world.sync_stale("web").unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(Duration::from_secs(1)));
    assert!(world.cluster.written().is_empty());
}

#[test]
fn a_condition_without_a_time_is_stale() {
    let world = World::of([with(|pod| {
        pod["status"]["conditions"][1]["lastTransitionTime"] = Value::Null;
    })]);
    world.sync_stale("web").unwrap();
    assert_eq!(world.cluster.written(), [PATCH]);
}

#[test]
fn other_conditions_are_left_alone() {
    for pod in [
        pod("web"),
        disrupted("False"),
        deleted(disrupted("True")),
        with(|pod| pod["status"]["phase"] = "Failed".into()),
        with(|pod| pod["status"]["phase"] = "Succeeded".into()),
        with(|pod| pod["status"]["conditions"][1]["reason"] = "TerminationByKubelet".into()),
        with(|pod| pod["status"] = Value::Null),
    ] {
        let world = World::of([pod]);
        world.cluster.advance(2 * TWO_MINUTES);
        assert_eq!(world.sync_stale("web").unwrap(), Outcome::Done);
        assert!(world.cluster.written().is_empty());
    }
}

#[test]
fn a_pod_that_has_changed_in_the_meantime_is_retried() {
    let world = World::of([disrupted("True")]);
    world.cluster.advance(TWO_MINUTES);
    world
        .cluster
        .fail("patch", "v1/Pod/status", refusal(409, "Conflict"));
    assert!(!world.sync_stale("web").unwrap_err().is_terminal());
    let version = world.cluster.object(POD, "team", "web").unwrap()["metadata"].take();
    let sent = world.cluster.writes().remove(0).body["metadata"].take();
    assert_eq!(
        (&sent["uid"], &sent["resourceVersion"]),
        (&version["uid"], &version["resourceVersion"])
    );
    world.sync_stale("web").unwrap();
    assert_eq!(world.cluster.written(), [PATCH]);
}

#[test]
fn a_deleted_pod_is_ignored() {
    let world = World::of([]);
    assert_eq!(world.sync_stale("web").unwrap(), Outcome::Done);
    let world = World::of([disrupted("True")]);
    world.cluster.advance(TWO_MINUTES);
    world
        .cluster
        .fail("patch", "v1/Pod/status", refusal(404, "NotFound"));
    assert_eq!(world.sync_stale("web").unwrap(), Outcome::Done);
}

#[test]
fn the_timeout_is_a_setting() {
    let world = World::of([disrupted("True")]);
    world.cluster.set_config("stale-pod-timeout", "1s");
    let outcome = world.sync_stale("web").unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(Duration::from_secs(1)));
}
