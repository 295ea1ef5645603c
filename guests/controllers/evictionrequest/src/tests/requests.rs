//! EvictionRequests, and the labels and owners of the Evictions that they ask for.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::{
    EVICTION, EVICTOR, FIRST, POD, REQUEST, after, begun, condition, pod, reconcile, report,
    request, seconds, settle, with,
};
use crate::{EVICTIONS, METADATA, REQUESTS};

const CREATED: &str = "patch lifecycle.k8s.io/v1alpha1/Eviction team/pod-1-web";
const NOTED: &str = "patch lifecycle.k8s.io/v1alpha1/EvictionRequest/status team/a";

fn found(cluster: &Cluster, name: &str) -> Value {
    cluster.object(REQUEST, "team", name).unwrap()
}

/// The Failed condition of the request `a` in a cluster with these objects, after its wait for the target.
fn refusal(objects: impl IntoIterator<Item = Value>) -> [String; 3] {
    let cluster = Cluster::with(objects);
    cluster.advance(seconds(3));
    assert_eq!(reconcile(&cluster, REQUESTS, "a"), Outcome::Done);
    assert_eq!(cluster.written(), [NOTED]);
    reconcile(&cluster, REQUESTS, "a");
    assert!(cluster.written().is_empty());
    let evicted = condition(&found(&cluster, "a"), "TargetEvicted");
    assert_eq!(evicted, ["False", "EvictionFailed", ""]);
    condition(&found(&cluster, "a"), "Failed")
}

#[test]
fn a_request_creates_an_eviction_and_waits_for_it() {
    let cluster = Cluster::with([pod(&[]), request("a", "Eviction")]);
    reconcile(&cluster, REQUESTS, "a");
    let writes = cluster.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(lines, [CREATED, NOTED]);
    assert_eq!(
        writes[0].body,
        json!({"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "Eviction",
            "metadata": {"name": FIRST, "namespace": "team", "labels": {"a.io/requester": "requester"},
                "ownerReferences": [{"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "EvictionRequest",
                                     "name": "a", "uid": "uid-a"}]},
            "spec": {"target": {"pod": {"name": "web", "uid": "uid-web"}}}})
    );
    assert_eq!(
        writes[0].options["fieldManager"],
        "evictionrequest-controller"
    );
    assert_eq!(writes[0].options["force"], true);
    assert_eq!(
        writes[1].body["status"],
        json!({"observedGeneration": 1, "conditions": [
            {"type": "Failed", "status": "False", "reason": "AwaitingEviction",
             "message": "waiting for an Eviction to report on progress", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "TargetEvicted", "status": "False", "reason": "AwaitingEviction",
             "message": "waiting for an Eviction to report on progress", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    );
    // The Eviction exists, although its status is empty.
    reconcile(&cluster, REQUESTS, "a");
    assert!(cluster.written().is_empty());
}

#[test]
fn a_request_has_the_conditions_of_its_eviction() {
    let cluster = begun(&["x.io/mover"]);
    let awaiting = ["False", "AwaitingEviction", ""];
    assert_eq!(condition(&found(&cluster, "a"), "Failed"), awaiting);
    assert_eq!(condition(&found(&cluster, "a"), "TargetEvicted"), awaiting);
    cluster.remove(POD, "team", "web");
    report(&cluster, 0, "completionTime", cluster.host().now());
    settle(&cluster, EVICTIONS, FIRST);
    reconcile(&cluster, REQUESTS, "a");
    let evicted = condition(&found(&cluster, "a"), "TargetEvicted");
    assert_eq!(
        evicted,
        ["True", "PodDeleted", "Target pod has been deleted."]
    );
    cluster.writes();
    // Nothing more is done, except that a new generation is noted.
    cluster.edit(REQUEST, "team", "a", |a| {
        a["spec"]["intent"] = "Withdrawn".into()
    });
    reconcile(&cluster, REQUESTS, "a");
    assert_eq!(cluster.written(), [NOTED]);
    reconcile(&cluster, REQUESTS, "a");
    assert!(cluster.written().is_empty());
}

#[test]
fn all_requests_for_a_pod_share_an_eviction() {
    let cluster = begun(&["b.io/requester"]);
    cluster.put(request("b", "Withdrawn"));
    reconcile(&cluster, REQUESTS, "b");
    assert_eq!(cluster.objects(EVICTION).len(), 1);
    reconcile(&cluster, METADATA, FIRST);
    let eviction = cluster.object(EVICTION, "team", FIRST).unwrap();
    assert_eq!(
        eviction["metadata"]["labels"],
        json!({"a.io/requester": "requester", "b.io/requester": "requester-responder", EVICTOR: "responder"})
    );
    let owners = eviction["metadata"]["ownerReferences"].as_array().unwrap();
    let names: Vec<&Value> = owners.iter().map(|owner| &owner["name"]).collect();
    assert_eq!(names, ["a", "b"]);
    cluster.writes();
    reconcile(&cluster, METADATA, FIRST);
    assert!(cluster.written().is_empty());
    // The label of a requester goes with its requests. The owner stays until the garbage collector removes it.
    cluster.remove(REQUEST, "team", "a");
    reconcile(&cluster, METADATA, FIRST);
    let eviction = cluster.object(EVICTION, "team", FIRST).unwrap();
    assert_eq!(
        eviction["metadata"]["labels"]["a.io/requester"],
        Value::Null
    );
    assert_eq!(
        eviction["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_withdrawn_request_creates_nothing() {
    let cluster = Cluster::with([pod(&[]), request("a", "Withdrawn")]);
    reconcile(&cluster, REQUESTS, "a");
    assert_eq!(cluster.written(), [NOTED]);
}

#[test]
fn after_a_failure_another_eviction_begins_if_one_is_wanted_again() {
    let cluster = begun(&["x.io/mover"]);
    let intent = |intent: &str| {
        cluster.edit(REQUEST, "team", "a", |a| {
            a["spec"]["intent"] = intent.into()
        });
    };
    intent("Withdrawn");
    settle(&cluster, EVICTIONS, FIRST);
    settle(&cluster, REQUESTS, "a");
    let failed = condition(&found(&cluster, "a"), "Failed");
    assert_eq!(failed[..2], ["True", "CanceledDueToNoRequesters"]);
    intent("Eviction");
    settle(&cluster, REQUESTS, "a");
    let all = cluster.objects(EVICTION);
    let names: Vec<&Value> = all.iter().map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(names, [FIRST, "pod-2-web"]);
}

#[test]
fn a_request_waits_three_seconds_for_its_pod() {
    let cluster = Cluster::with([request("a", "Eviction")]);
    cluster.advance(seconds(1));
    assert_eq!(reconcile(&cluster, REQUESTS, "a"), after(2));
    assert_eq!(cluster.written(), [NOTED]);
    let waiting = [
        "False",
        "AwaitingEviction",
        "Waiting for the target to appear.",
    ];
    assert_eq!(condition(&found(&cluster, "a"), "Failed"), waiting);
    cluster.put(pod(&[]));
    reconcile(&cluster, REQUESTS, "a");
    assert_eq!(cluster.written()[0], CREATED);
}

#[test]
fn a_request_that_can_not_be_met_says_why() {
    let a = || request("a", "Eviction");
    let missing = refusal([a()]);
    assert_eq!(
        missing,
        ["True", "EvictionInvalid", "Target pod not found."]
    );
    let other = refusal([a(), with(pod(&[]), "/metadata/uid", "other")]);
    let message = "Target pod UID mismatch: expected uid-web, got other.";
    assert_eq!(other, ["True", "EvictionInvalid", message]);
    let grouped = refusal([a(), with(pod(&[]), "/spec/schedulingGroup", json!({}))]);
    let message = "Target pod references a SchedulingGroup. Eviction is currently not supported.";
    assert_eq!(grouped, ["True", "EvictionInvalid", message]);
    let unknown = refusal([with(a(), "/spec/target", json!({}))]);
    assert_eq!(
        unknown,
        ["True", "EvictionInvalid", "Unsupported target type."]
    );
}
