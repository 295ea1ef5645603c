//! The keys of changes.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta};

use super::world::*;
use crate::SelinuxWarnings;

fn route(cluster: &Cluster, kind: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let routed = cluster.route::<SelinuxWarnings>(&[delta(kind, old, new)]);
    let keys = routed.unwrap().into_iter();
    keys.map(|routed| routed.key.to_string()).collect()
}

#[test]
fn a_pod_is_enqueued_when_it_is_new_has_ended_or_is_deleted() {
    let cluster = Cluster::new();
    let of = |old: Option<&Value>, new: Option<&Value>| route(&cluster, POD, old, new);
    let running = pod("web", "s0");
    let phase = |phase: &str| with(running.clone(), "/status/phase", phase);
    assert_eq!(of(None, Some(&running)), ["team/web"]);
    assert_eq!(of(Some(&running), None), ["team/web"]);
    for ended in ["Failed", "Succeeded"] {
        assert_eq!(of(Some(&running), Some(&phase(ended))), ["team/web"]);
    }
    let next = with(running.clone(), "/metadata/uid", "another");
    assert_eq!(of(Some(&running), Some(&next)), ["team/web"]);
    for (old, new) in [
        (phase("Pending"), &running),
        (phase("Failed"), &phase("Failed")),
        (phase("Failed"), &running),
    ] {
        assert!(of(Some(&old), Some(new)).is_empty());
    }
}

#[test]
fn a_bound_claim_wakes_its_pods() {
    let elsewhere = in_namespace("other", pod("elsewhere", "s0"));
    let cluster = cluster([pod("a", "s0"), pod("b", "s0"), elsewhere]);
    cluster.put(with(pod("c", "s0"), "/spec/volumes", json!([])));
    let pending = with(claim(""), "/status/phase", "Pending");
    let bound = claim("pv-1");
    let of = |old: Option<&Value>, new: &Value| route(&cluster, CLAIM, old, Some(new));
    assert_eq!(of(Some(&pending), &bound), ["team/a", "team/b"]);
    assert_eq!(of(None, &bound), ["team/a", "team/b"]);
    assert!(of(None, &pending).is_empty());
}

#[test]
fn the_claim_of_an_ephemeral_volume_wakes_its_pod() {
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-a", "controller": true}]);
    let own = with(claim("pv-1"), "/metadata/name", "a-data");
    let own = with(own, "/metadata/ownerReferences", owner);
    let cluster = Cluster::with([pod("a", "s0"), own.clone()]);
    assert_eq!(route(&cluster, CLAIM, None, Some(&own)), ["team/a"]);
    let volume = with(csi("pv-1"), "/spec/claimRef/name", "a-data");
    assert_eq!(route(&cluster, VOLUME, None, Some(&volume)), ["team/a"]);
}

#[test]
fn a_volume_wakes_the_pods_of_its_claim_when_it_is_bound() {
    let cluster = cluster([pod("a", "s0")]);
    let mut free = csi("pv-1");
    free["spec"]["claimRef"] = Value::Null;
    let reserved = with(csi("pv-1"), "/spec/claimRef/uid", "");
    let of = |old: Option<&Value>, new: &Value| route(&cluster, VOLUME, old, Some(new));
    assert_eq!(of(Some(&free), &csi("pv-1")), ["team/a"]);
    assert_eq!(of(None, &csi("pv-1")), ["team/a"]);
    assert!(of(None, &free).is_empty() && of(None, &reserved).is_empty());
}

#[test]
fn a_driver_is_enqueued_when_its_support_of_labels_changes() {
    let cluster = Cluster::new();
    let of = |old: Option<&Value>, new: Option<&Value>| route(&cluster, DRIVER, old, new);
    let (on, off) = (driver(true), driver(false));
    let key = ["csi.example.com"];
    assert_eq!(of(Some(&off), Some(&on)), key);
    assert_eq!(of(Some(&on), Some(&off)), key);
    assert_eq!(of(None, Some(&on)), key);
    assert_eq!(of(Some(&on), None), key);
    assert!(of(None, Some(&off)).is_empty() && of(Some(&off), None).is_empty());
    let mut first = delta(DRIVER, None, Some(&on));
    first.initial = true;
    assert!(
        cluster
            .route::<SelinuxWarnings>(&[first])
            .unwrap()
            .is_empty()
    );
}
