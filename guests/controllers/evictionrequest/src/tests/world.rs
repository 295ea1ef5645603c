//! Builders for the tests' objects, and reconciles by queue.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::{EVICTIONS, EvictionRequests, METADATA, REQUESTS};

pub(super) const POD: &str = "v1/Pod";
pub(super) const EVICTION: &str = "lifecycle.k8s.io/v1alpha1/Eviction";
pub(super) const REQUEST: &str = "lifecycle.k8s.io/v1alpha1/EvictionRequest";
/// The responder that all pods have.
pub(super) const EVICTOR: &str = "imperative-eviction.k8s.io/evictor";
/// The Eviction of the pod `web`.
pub(super) const FIRST: &str = "pod-1-web";

/// The pod `web` with these responders, of which earlier ones have higher priorities.
pub(super) fn pod(responders: &[&str]) -> Value {
    let responders: Vec<Value> = { responders.iter().enumerate() }
        .map(|(at, name)| json!({"name": name, "priority": 20_000 - at}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "team", "uid": "uid-web"},
           "spec": {"evictionResponders": responders}, "status": {"phase": "Running"}})
}

/// A request of `NAME.io/requester` for the pod `web`, which was created at the start.
pub(super) fn request(name: &str, intent: &str) -> Value {
    json!({"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "EvictionRequest",
           "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}"), "generation": 1},
           "spec": {"target": {"pod": {"name": "web", "uid": "uid-web"}},
                    "requester": format!("{name}.io/requester"), "intent": intent}})
}

pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// A cluster in which the pod has an Eviction by the request `a`, and its first responder is active.
pub(super) fn begun(responders: &[&str]) -> Cluster {
    let cluster = Cluster::with([pod(responders), request("a", "Eviction")]);
    reconcile(&cluster, REQUESTS, "a");
    reconcile(&cluster, METADATA, FIRST);
    reconcile(&cluster, EVICTIONS, FIRST);
    reconcile(&cluster, REQUESTS, "a");
    cluster.writes();
    cluster
}

/// Reconciles a key until nothing changes.
pub(super) fn settle(cluster: &Cluster, queue: &str, name: &str) -> Outcome {
    for _ in 0..10 {
        let outcome = reconcile(cluster, queue, name);
        if cluster.writes().is_empty() {
            return outcome;
        }
    }
    panic!("{name} is still written")
}

pub(super) fn reconcile(cluster: &Cluster, queue: &str, name: &str) -> Outcome {
    let request = Request::new(queue, &format!("team/{name}"));
    cluster
        .reconcile_request::<EvictionRequests>(&request)
        .unwrap()
}

pub(super) fn eviction(cluster: &Cluster) -> Value {
    cluster.object(EVICTION, "team", FIRST).unwrap()
}

/// Status, reason and message of a condition.
pub(super) fn condition(object: &Value, condition_type: &str) -> [String; 3] {
    let all = object["status"]["conditions"].as_array().unwrap();
    let found = all
        .iter()
        .find(|one| one["type"] == condition_type)
        .unwrap();
    ["status", "reason", "message"].map(|field| found[field].as_str().unwrap().to_owned())
}

/// The names and states of an Eviction's responders.
pub(super) fn states(cluster: &Cluster) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let eviction = eviction(cluster);
    let all = eviction["status"]["targetResponders"].as_array().unwrap();
    all.iter()
        .map(|one| (text(&one["name"]), text(&one["state"])))
        .collect()
}

/// Sets a field of the report of a responder, as the responder does.
pub(super) fn report(cluster: &Cluster, responder: usize, field: &str, time: Time) {
    cluster.edit(EVICTION, "team", FIRST, |eviction| {
        eviction["status"]["responders"][responder][field] = json!(time);
    });
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn after(time: u64) -> Outcome {
    Outcome::RequeueAfter(seconds(time))
}
