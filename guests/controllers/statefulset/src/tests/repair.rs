//! Pods that lost their identity or storage.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{refusal, set_at};

use super::world::*;
use crate::views::{Claim, Pod};

const NAME: &str = "statefulset.kubernetes.io/pod-name";
const INDEX: &str = "apps.kubernetes.io/pod-index";

/// Removes the labels of the pod's identity.
fn strip(world: &World) {
    world.0.edit(Pod::KIND, "default", "web-0", |pod| {
        let labels = pod["metadata"]["labels"].as_object_mut().unwrap();
        labels.retain(|label, _| label != NAME && label != INDEX);
    });
}

#[test]
fn the_labels_of_the_identity_are_restored() {
    let world = World::with(set(1));
    world.settle();
    let labels = world.pod("web-0")["metadata"]["labels"].clone();
    assert_eq!([&labels[NAME], &labels[INDEX]], ["web-0", "0"]);
    strip(&world);
    assert_eq!(world.step(), ["update web-0"]);
    assert_eq!(
        world.0.events(),
        ["Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful"]
    );
    assert_eq!(world.pod("web-0")["metadata"]["labels"], labels);
}

#[test]
fn a_missing_index_alone_is_not_repaired() {
    let world = World::with(set(1));
    world.settle();
    world.0.edit(Pod::KIND, "default", "web-0", |pod| {
        let labels = pod["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove(INDEX);
    });
    assert_eq!(world.step(), [""; 0]);
}

#[test]
fn in_order_a_pod_is_repaired_once_it_is_available() {
    let world = World::with(set(1));
    world.settle();
    world.unready("web-0");
    strip(&world);
    assert_eq!(world.step(), [""; 0]);

    let world = World::with(parallel(set(1)));
    world.settle();
    world.unready("web-0");
    strip(&world);
    assert_eq!(world.step(), ["update web-0"]);
}

#[test]
fn a_repair_that_fails_is_reported_and_retried() {
    let world = World::with(set(1));
    world.settle();
    strip(&world);
    world.0.fail("update", Pod::KIND, refusal(403, "Forbidden"));
    world.fail();
    assert_eq!(
        world.0.events(),
        [
            "Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: the test refuses this: Forbidden"
        ]
    );
}

#[test]
fn missing_volumes_and_claims_are_restored() {
    let world = World::with(set_with_claims(1));
    world.settle();
    let other = json!({"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}});
    world.0.edit(Pod::KIND, "default", "web-0", |pod| {
        pod["spec"]["volumes"] = json!([other, {"name": "data", "emptyDir": {}}]);
    });
    world.0.remove(Claim::KIND, "default", "data-web-0");
    assert_eq!(world.step(), ["create claim data-web-0", "update web-0"]);
    let own = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}});
    assert_eq!(world.pod("web-0")["spec"]["volumes"], json!([own, other]));
}

#[test]
fn a_claim_that_is_being_deleted_blocks_the_repair_of_volumes() {
    let world = World::with(set_with_claims(1));
    world.settle();
    world.0.edit(Pod::KIND, "default", "web-0", |pod| {
        pod["spec"]["volumes"] = json!([])
    });
    world.0.edit(Claim::KIND, "default", "data-web-0", |claim| {
        set_at(claim, "/metadata/deletionTimestamp", "2026-01-01T00:00:00Z");
    });
    assert_eq!(world.fail(), "pvc data-web-0 is being deleted");
    assert_eq!(
        world.0.events(),
        [
            "Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted"
        ]
    );
}

#[test]
fn a_name_with_leading_zeros_cannot_be_repaired() {
    let world = World::with(set(1));
    world.put(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-00", "namespace": "default", "labels": {"app": "web"}},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }));
    assert!(world.fail().contains("not found"));
    let events = world.0.events();
    assert!(
        events[0].starts_with("Warning FailedUpdate Update Pod web-0 in StatefulSet web failed")
    );
}
