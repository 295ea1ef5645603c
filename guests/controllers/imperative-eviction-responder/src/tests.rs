//! Native tests of the whole controller.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta, permissions, refusal, set_at};

use crate::ImperativeResponder;

const POD: &str = "v1/Pod";
const EVICTION: &str = "lifecycle.k8s.io/v1alpha1/Eviction";
const EVICTOR: &str = "imperative-eviction.k8s.io/evictor";
const KEY: &str = "team/pod-1-web";
const EVICTED: &str = "create v1/Pod/eviction team/web";
const REPORTED: &str = "patch lifecycle.k8s.io/v1alpha1/Eviction/status team/pod-1-web";
/// The time at which tests begin.
const START: &str = "2026-01-01T00:00:00Z";

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "team", "uid": "uid-web"},
           "status": {"phase": "Running"}})
}

/// The Eviction of the pod, in which it is this responder's turn.
fn eviction() -> Value {
    json!({"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "Eviction",
           "metadata": {"name": "pod-1-web", "namespace": "team", "labels": {EVICTOR: "responder"}},
           "spec": {"target": {"pod": {"name": "web", "uid": "uid-web"}}},
           "status": {"observedGeneration": 1,
               "conditions": [{"type": "Failed", "status": "False"}, {"type": "TargetEvicted", "status": "False"}],
               "targetResponders": [{"name": "x.io/mover", "state": "Completed"}, {"name": EVICTOR, "state": "Active"}],
               "responders": [{"name": "x.io/mover", "completionTime": START}, {"name": EVICTOR, "startTime": START}]}})
}

fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

fn reconcile(cluster: &Cluster) -> Outcome {
    cluster.reconcile::<ImperativeResponder>(KEY).unwrap()
}

/// This responder's report.
fn report(cluster: &Cluster) -> Value {
    let eviction = cluster.object(EVICTION, "team", "pod-1-web").unwrap();
    eviction["status"]["responders"][1].clone()
}

fn after(seconds: u64) -> Outcome {
    Outcome::RequeueAfter(Duration::from_secs(seconds))
}

fn advance(cluster: &Cluster, seconds: u64) {
    cluster.advance(Duration::from_secs(seconds));
}

/// Lets the API server refuse the next evictions, like that many attempts.
fn refuse(cluster: &Cluster, attempts: usize) {
    for _ in 0..attempts {
        cluster.fail("create", "v1/Pod/eviction", refusal(429, "TooManyRequests"));
    }
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = ImperativeResponder::describe();
    description.check().unwrap();
    assert_eq!(description.name, "imperative-eviction-responder-controller");
    assert_eq!(description.queues[0].name, description.name);
    assert_eq!(description.concurrency, 5);
    assert_eq!(
        permissions(&description),
        [
            "lifecycle.k8s.io/v1alpha1/Eviction status patch",
            "v1/Pod eviction create",
        ]
    );
}

#[test]
fn a_pod_is_evicted_and_its_end_is_reported() {
    let cluster = Cluster::with([
        with(pod(), "/metadata/finalizers", json!(["example.com/stay"])),
        eviction(),
    ]);
    assert_eq!(reconcile(&cluster), Outcome::Done);
    let writes = cluster.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(lines, [EVICTED, REPORTED]);
    assert_eq!(
        writes[0].body,
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web", "namespace": "team"},
               "deleteOptions": {"preconditions": {"uid": "uid-web"}}})
    );
    let message = "\"web\" pod has been marked for deletion via the /eviction subresource and will be terminated gracefully";
    assert_eq!(
        writes[1].body["status"],
        json!({"responders": [{"name": EVICTOR, "startTime": START, "heartbeatTime": START, "message": message}]})
    );
    assert_eq!(
        writes[1].options["fieldManager"],
        "imperative-eviction-responder-controller"
    );
    // The pod is being deleted.
    cluster.edit(POD, "team", "web", |pod| {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
    });
    assert_eq!(reconcile(&cluster), after(180));
    let ending = report(&cluster);
    assert_eq!(ending["expectedCompletionTime"], "2026-01-01T00:00:30Z");
    let message = "\"web\" pod has been marked for deletion via the /eviction subresource and is being terminated gracefully";
    assert_eq!(ending["message"], message);
    cluster.writes();
    reconcile(&cluster);
    assert!(cluster.written().is_empty());
    // The report of another responder stays.
    advance(&cluster, 31);
    cluster.remove(POD, "team", "web");
    assert_eq!(reconcile(&cluster), Outcome::Done);
    assert_eq!(
        report(&cluster),
        json!({"name": EVICTOR, "startTime": START, "heartbeatTime": "2026-01-01T00:00:31Z",
               "expectedCompletionTime": "2026-01-01T00:00:31Z", "completionTime": "2026-01-01T00:00:31Z",
               "message": "\"web\" pod has been deleted and fully terminated"})
    );
    let all = cluster.object(EVICTION, "team", "pod-1-web").unwrap();
    assert_eq!(all["status"]["responders"][0]["completionTime"], START);
    cluster.writes();
    reconcile(&cluster);
    assert!(cluster.written().is_empty());
}

#[test]
fn a_refused_eviction_is_repeated_with_a_growing_delay() {
    let cluster = Cluster::with([pod(), eviction()]);
    refuse(&cluster, 3);
    for (attempts, delay) in [(1, 5), (2, 10), (3, 20)] {
        assert_eq!(reconcile(&cluster), after(delay));
        let writes = cluster.written();
        assert_eq!((writes.len(), &*writes[1]), (2, REPORTED), "{writes:?}");
        let message = format!(
            "\"web\" pod deletion via the /eviction subresource failed (attempts={attempts}): the test refuses this: TooManyRequests"
        );
        assert_eq!(report(&cluster)["message"], message);
        // A change in the meantime is no reason for another attempt.
        advance(&cluster, delay - 1);
        assert_eq!(reconcile(&cluster), after(1));
        assert!(cluster.written().is_empty());
        advance(&cluster, 1);
    }
    assert_eq!(reconcile(&cluster), Outcome::Done);
    assert_eq!(cluster.written(), [EVICTED, REPORTED]);
}

#[test]
fn while_the_delay_is_long_there_are_heartbeats() {
    let message = "(attempts=9): no";
    let cluster = Cluster::with([
        pod(),
        with(eviction(), "/status/responders/1/message", message),
    ]);
    refuse(&cluster, 1);
    assert_eq!(reconcile(&cluster), after(180));
    assert!(
        report(&cluster)["message"]
            .as_str()
            .unwrap()
            .contains("(attempts=10)")
    );
    for heartbeat in [
        "2026-01-01T00:03:00Z",
        "2026-01-01T00:06:00Z",
        "2026-01-01T00:09:00Z",
    ] {
        cluster.writes();
        advance(&cluster, 180);
        let rest = if heartbeat.contains(":09:") { 60 } else { 180 };
        assert_eq!(reconcile(&cluster), after(rest));
        assert_eq!(cluster.written(), [REPORTED]);
        assert_eq!(report(&cluster)["heartbeatTime"], heartbeat);
    }
    cluster.writes();
    advance(&cluster, 60);
    reconcile(&cluster);
    assert_eq!(cluster.written(), [EVICTED, REPORTED]);
}

#[test]
fn without_a_memo_the_next_attempt_comes_at_once() {
    let message = "(attempts=9): no";
    let eviction = with(eviction(), "/status/responders/1/message", message);
    let cluster = Cluster::with([pod(), eviction]);
    reconcile(&cluster);
    assert_eq!(cluster.written(), [EVICTED, REPORTED]);
}

#[test]
fn the_server_may_ask_for_a_longer_delay() {
    let cluster = Cluster::with([pod(), eviction()]);
    let error = refusal(429, "TooManyRequests").with_retry_after(Some(10_000));
    cluster.fail("create", "v1/Pod/eviction", error);
    assert_eq!(reconcile(&cluster), after(10));
}

#[test]
fn a_pod_that_the_server_no_longer_has_is_looked_up_again() {
    let cluster = Cluster::with([pod(), eviction()]);
    cluster.fail("create", "v1/Pod/eviction", refusal(404, "NotFound"));
    assert_eq!(reconcile(&cluster), after(1));
    assert_eq!(report(&cluster)["message"], "");
}

#[test]
fn a_report_that_can_not_be_written_is_retried() {
    let cluster = Cluster::with([eviction()]);
    let refusal = refusal(500, "InternalError");
    cluster.fail("patch", &format!("{EVICTION}/status"), refusal);
    let result = cluster.reconcile::<ImperativeResponder>(KEY);
    assert!(!result.unwrap_err().is_terminal());
    assert_eq!(reconcile(&cluster), Outcome::Done);
    assert_ne!(report(&cluster)["completionTime"], Value::Null);
}

#[test]
fn a_long_message_of_the_server_is_cut() {
    let cluster = Cluster::with([pod(), eviction()]);
    let error = ApiError::of_server(403, "Forbidden", "x".repeat(5000));
    cluster.fail("create", "v1/Pod/eviction", error);
    reconcile(&cluster);
    assert_eq!(report(&cluster)["message"].as_str().unwrap().len(), 4000);
}

#[test]
fn it_waits_for_its_turn() {
    for (what, eviction) in [
        ("no role", with(eviction(), "/metadata/labels", json!({}))),
        (
            "a requester",
            with(
                eviction(),
                "/metadata/labels",
                json!({EVICTOR: "requester"}),
            ),
        ),
        (
            "not seen yet",
            with(eviction(), "/status/observedGeneration", Value::Null),
        ),
        (
            "inactive",
            with(eviction(), "/status/targetResponders/1/state", "Inactive"),
        ),
        (
            "canceled",
            with(eviction(), "/status/targetResponders/1/state", "Canceled"),
        ),
        (
            "no report",
            with(eviction(), "/status/responders", json!([])),
        ),
        (
            "done",
            with(eviction(), "/status/responders/1/completionTime", START),
        ),
        (
            "failed",
            with(eviction(), "/status/conditions/0/status", "True"),
        ),
        (
            "evicted",
            with(eviction(), "/status/conditions/1/status", "True"),
        ),
        ("no pod", with(eviction(), "/spec/target", json!({}))),
    ] {
        let cluster = Cluster::with([pod(), eviction]);
        assert_eq!(reconcile(&cluster), Outcome::Done, "{what}");
        assert!(cluster.written().is_empty(), "{what}");
    }
    let both = with(
        eviction(),
        "/metadata/labels",
        json!({EVICTOR: "requester-responder"}),
    );
    let cluster = Cluster::with([pod(), both]);
    reconcile(&cluster);
    assert_eq!(cluster.written(), [EVICTED, REPORTED]);
}

#[test]
fn a_pod_that_is_deleted_or_ends_wakes_its_evictions() {
    let cluster = Cluster::with([pod(), eviction()]);
    let routed = |old: Option<&Value>, new: Option<&Value>| {
        let keys = cluster
            .route::<ImperativeResponder>(&[delta(POD, old, new)])
            .unwrap();
        keys.iter()
            .map(|key| key.key.to_string())
            .collect::<Vec<_>>()
    };
    let running = pod();
    for over in [
        with(pod(), "/status/phase", "Succeeded"),
        with(pod(), "/metadata/deletionTimestamp", START),
        with(pod(), "/metadata/uid", "other"),
    ] {
        assert_eq!(routed(Some(&running), Some(&over)), [KEY]);
    }
    assert_eq!(routed(Some(&running), None), [KEY]);
    let pending = with(pod(), "/status/phase", "Pending");
    assert!(routed(Some(&pending), Some(&running)).is_empty());
    let other = with(pod(), "/metadata/uid", "other");
    assert!(routed(Some(&other), None).is_empty());
}
