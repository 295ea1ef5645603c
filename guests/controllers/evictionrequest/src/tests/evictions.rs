//! The status of Evictions.

use flyball_sdk::prelude::*;

use super::world::{
    EVICTION, EVICTOR, FIRST, POD, REQUEST, after, begun, condition, eviction, reconcile, report,
    request, seconds, settle, states, with,
};
use crate::{EVICTIONS, METADATA, REQUESTS};

const NOTED: &str = "patch lifecycle.k8s.io/v1alpha1/Eviction/status team/pod-1-web";
const MOVER: &str = "x.io/mover";

fn pair(name: &str, state: &str) -> (String, String) {
    (name.to_owned(), state.to_owned())
}

#[test]
fn the_first_responder_of_a_new_eviction_is_active() {
    let cluster = begun(&["x.io/mover"]);
    assert_eq!(
        eviction(&cluster)["status"],
        json!({"observedGeneration": 1,
            "requesters": [{"name": "a.io/requester", "intent": "Eviction"}],
            "targetResponders": [{"name": MOVER, "priority": 20_000, "state": "Active"},
                                 {"name": EVICTOR, "priority": 100, "state": "Inactive"}],
            "responders": [{"name": MOVER, "startTime": "2026-01-01T00:00:00Z"}, {"name": EVICTOR}],
            "conditions": [
                {"type": "Failed", "status": "False", "reason": "AwaitingEviction", "message": "",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "TargetEvicted", "status": "False", "reason": "AwaitingEviction", "message": "",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    );
    cluster.advance(seconds(200));
    assert_eq!(reconcile(&cluster, EVICTIONS, FIRST), after(1000));
    assert!(cluster.written().is_empty());
}

#[test]
fn silent_and_completed_responders_hand_on_to_the_next() {
    let cluster = begun(&["x.io/mover", "y.io/second"]);
    cluster.advance(seconds(1200));
    assert_eq!(reconcile(&cluster, EVICTIONS, FIRST), after(1200));
    let second = |state| pair("y.io/second", state);
    assert_eq!(
        states(&cluster),
        [
            pair(MOVER, "Interrupted"),
            second("Active"),
            pair(EVICTOR, "Inactive")
        ]
    );
    let start = &eviction(&cluster)["status"]["responders"][1]["startTime"];
    assert_eq!(start, "2026-01-01T00:20:00Z");
    report(&cluster, 1, "completionTime", cluster.host().now());
    reconcile(&cluster, EVICTIONS, FIRST);
    assert_eq!(
        states(&cluster),
        [
            pair(MOVER, "Interrupted"),
            second("Completed"),
            pair(EVICTOR, "Active")
        ]
    );
    // The fields of the responders stay.
    let second = &eviction(&cluster)["status"]["responders"][1];
    assert_eq!(second["completionTime"], "2026-01-01T00:20:00Z");
    report(&cluster, 2, "completionTime", cluster.host().now());
    assert_eq!(settle(&cluster, EVICTIONS, FIRST), Outcome::Done);
    let failed = condition(&eviction(&cluster), "Failed");
    let message = "All responders have completed without evicting the target.";
    assert_eq!(failed, ["True", "NoFurtherResponder", message]);
}

#[test]
fn an_eviction_without_requesters_is_canceled() {
    let cluster = begun(&["x.io/mover"]);
    cluster.put(request("b", "Withdrawn"));
    cluster.remove(REQUEST, "team", "a");
    assert_eq!(settle(&cluster, EVICTIONS, FIRST), Outcome::Done);
    let failed = condition(&eviction(&cluster), "Failed");
    let message = "No active requesters with eviction intent.";
    assert_eq!(failed, ["True", "CanceledDueToNoRequesters", message]);
    assert_eq!(
        states(&cluster),
        [pair(MOVER, "Canceled"), pair(EVICTOR, "Inactive")]
    );
    let requesters = &eviction(&cluster)["status"]["requesters"];
    let withdrawn = |name| json!({"name": name, "intent": "Withdrawn"});
    assert_eq!(
        *requesters,
        json!([withdrawn("a.io/requester"), withdrawn("b.io/requester")])
    );
}

#[test]
fn a_responder_may_report_for_five_seconds_after_the_pod_has_gone() {
    let cluster = begun(&["x.io/mover"]);
    cluster.advance(seconds(10));
    cluster.remove(POD, "team", "web");
    assert_eq!(reconcile(&cluster, EVICTIONS, FIRST), after(5));
    let waiting = "Target is evicted, but waiting for the last active responder update.";
    let evicted = || condition(&eviction(&cluster), "TargetEvicted");
    assert_eq!(evicted(), ["False", "AwaitingEviction", waiting]);
    cluster.writes();
    cluster.advance(seconds(3));
    assert_eq!(reconcile(&cluster, EVICTIONS, FIRST), after(2));
    assert!(cluster.written().is_empty());
    cluster.advance(seconds(2));
    assert_eq!(reconcile(&cluster, EVICTIONS, FIRST), Outcome::Done);
    assert_eq!(
        evicted(),
        ["True", "PodDeleted", "Target pod has been deleted."]
    );
    assert_eq!(states(&cluster)[0], pair(MOVER, "Interrupted"));
    cluster.writes();
    reconcile(&cluster, EVICTIONS, FIRST);
    assert!(cluster.written().is_empty());
}

#[test]
fn the_time_of_a_pods_deletion_counts_if_it_was_seen() {
    let cluster = begun(&["x.io/mover"]);
    cluster.edit(POD, "team", "web", |pod| {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
    });
    // It goes on until then.
    assert_eq!(reconcile(&cluster, EVICTIONS, FIRST), after(1200));
    cluster.advance(seconds(33));
    cluster.remove(POD, "team", "web");
    assert_eq!(reconcile(&cluster, EVICTIONS, FIRST), after(2));
    report(&cluster, 0, "completionTime", cluster.host().now());
    assert_eq!(reconcile(&cluster, EVICTIONS, FIRST), Outcome::Done);
    assert_eq!(states(&cluster)[0], pair(MOVER, "Completed"));
}

#[test]
fn a_pod_that_has_ended_is_evicted() {
    let cluster = begun(&["x.io/mover"]);
    let ended = |at: &str| json!({"name": "c", "state": {"terminated": {"finishedAt": at}}});
    cluster.edit(POD, "team", "web", |pod| {
        pod["spec"]["initContainers"] = json!([{"name": "c", "restartPolicy": "Always"}]);
        pod["status"] = json!({"phase": "Failed", "containerStatuses": [ended("2026-01-01T00:00:01Z")],
                               "initContainerStatuses": [ended("2026-01-01T00:00:07Z")]});
    });
    cluster.advance(seconds(9));
    assert_eq!(reconcile(&cluster, EVICTIONS, FIRST), after(3));
    cluster.advance(seconds(3));
    reconcile(&cluster, EVICTIONS, FIRST);
    let evicted = condition(&eviction(&cluster), "TargetEvicted");
    assert_eq!(
        evicted,
        ["True", "PodTerminal", "Pod has reached terminal state."]
    );
    let failed = condition(&eviction(&cluster), "Failed");
    assert_eq!(failed, ["False", "Succeeded", ""]);
    // The responders of a pod that is gone stay in the labels.
    cluster.remove(POD, "team", "web");
    cluster.writes();
    reconcile(&cluster, METADATA, FIRST);
    assert!(cluster.written().is_empty());
}

#[test]
fn a_second_eviction_of_a_pod_is_refused() {
    let cluster = begun(&["x.io/mover"]);
    let own = eviction(&cluster);
    let mut second = with(own, "/metadata/name", "mine");
    second["metadata"]["uid"] = "uid-second".into();
    second["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z".into();
    second["status"] = json!({});
    cluster.put(second);
    assert_eq!(reconcile(&cluster, EVICTIONS, "mine"), Outcome::Done);
    let second = cluster.object(EVICTION, "team", "mine").unwrap();
    let message = "Active Eviction already exists for the same target.";
    assert_eq!(
        condition(&second, "Failed"),
        ["True", "EvictionInvalid", message]
    );
    cluster.writes();
    reconcile(&cluster, EVICTIONS, FIRST);
    reconcile(&cluster, REQUESTS, "a");
    assert!(cluster.written().is_empty());
}

#[test]
fn a_failed_write_is_retried_and_its_responder_is_looked_at_in_time() {
    let cluster = begun(&["x.io/mover"]);
    cluster.put(request("b", "Eviction"));
    let refusal = flyball_sdk::testing::refusal(500, "InternalError");
    cluster.fail("patch", &format!("{EVICTION}/status"), refusal);
    let key = Request::new(EVICTIONS, &format!("team/{FIRST}"));
    let result = cluster.reconcile_request::<crate::EvictionRequests>(&key);
    assert!(!result.unwrap_err().is_terminal());
    assert_eq!(cluster.enqueued().len(), 1);
    cluster.writes();
    reconcile(&cluster, EVICTIONS, FIRST);
    assert_eq!(cluster.written(), [NOTED]);
}
