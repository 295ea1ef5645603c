//! The keys of changes that no declared mapping covers.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta};

use super::world::*;
use crate::Binder;

fn routed(kind: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let keys = Cluster::new()
        .route::<Binder>(&[delta(kind, old, new)])
        .unwrap();
    keys.into_iter()
        .map(|key| format!("{} {}", key.queue, key.key))
        .collect()
}

#[test]
fn a_deleted_volume_wakes_its_claim() {
    let [disk, _] = pair();
    assert_eq!(routed(PV, Some(&disk), None), ["claims team/data"]);
    assert!(routed(PV, Some(&volume("free", "1Gi")), None).is_empty());
}

#[test]
fn a_recycler_pod_wakes_its_volume() {
    let recycler = pod("recycler-for-disk", "x");
    let ended = with(recycler.clone(), "/status/phase", "Succeeded");
    assert_eq!(routed(POD, Some(&recycler), Some(&ended)), ["volumes disk"]);
    assert_eq!(routed(POD, Some(&ended), None), ["volumes disk"]);
    assert!(routed(POD, Some(&pod("web", "x")), Some(&pod("web", "x"))).is_empty());
}

#[test]
fn an_event_about_a_recycler_pod_is_copied() {
    let event = |pod: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a.1", "namespace": "default"},
               "involvedObject": {"kind": "Pod", "name": pod}})
    };
    let key = ["volumes event:/a.1"];
    assert_eq!(
        routed("v1/Event", None, Some(&event("recycler-for-disk"))),
        key
    );
    assert!(routed("v1/Event", None, Some(&event("web"))).is_empty());
}
