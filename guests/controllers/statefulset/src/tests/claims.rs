//! PersistentVolumeClaims: their creation, and their owners by the retention policy.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{refusal, set_at};

use super::world::*;
use crate::views::{Claim, Pod};

#[test]
fn claims_are_created_before_their_pod() {
    let world = World::with(set_with_claims(1).with(
        "/spec/volumeClaimTemplates/0/metadata",
        json!({"name": "data", "labels": {"app": "x", "kept": "y"}, "annotations": {"a": "b"}}),
    ));
    assert_eq!(world.step(), ["create claim data-web-0", "create web-0"]);
    assert_eq!(
        world.0.events(),
        [
            "Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
            "Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
        ]
    );
    let claim = world.claim("data-web-0");
    let meta = &claim["metadata"];
    assert_eq!(meta["labels"], json!({"app": "web", "kept": "y"}));
    assert_eq!(meta["annotations"], json!({"a": "b"}));
    assert_eq!(meta["ownerReferences"], Value::Null);
    assert_eq!(claim["spec"], json!({"accessModes": ["ReadWriteOnce"]}));
    assert_eq!(
        world.pod("web-0")["spec"]["volumes"],
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}])
    );
}

#[test]
fn existing_claims_are_used() {
    let world = World::with(set_with_claims(1));
    world.settle();
    world.edit("/spec/replicas", 0);
    world.settle();
    assert_eq!(world.claims(), ["data-web-0"]);
    world.edit("/spec/replicas", 1);
    assert_eq!(world.step(), ["create web-0"]);
}

#[test]
fn the_missing_claims_of_a_pending_pod_are_created() {
    for set in [set_with_claims(1), parallel(set_with_claims(1))] {
        let world = World::with(set);
        world.step();
        world.0.remove(Claim::KIND, "default", "data-web-0");
        world.phase("web-0", "Pending");
        assert_eq!(world.step(), ["create claim data-web-0"]);
        // A missing claim of a running pod is not created.
        world.0.remove(Claim::KIND, "default", "data-web-0");
        world.ready("web-0");
        assert_eq!(world.step(), [""; 0]);
    }
}

#[test]
fn a_claim_that_cannot_be_created_blocks_its_pod() {
    let world = World::with(set_with_claims(1));
    world
        .0
        .fail("create", Claim::KIND, refusal(403, "Forbidden"));
    let failure = "failed to create PVC data-web-0: the test refuses this: Forbidden";
    assert_eq!(world.fail(), failure);
    assert_eq!(
        world.0.events(),
        [
            "Warning FailedCreate Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: \
             the test refuses this: Forbidden"
                .to_owned(),
            format!("Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: {failure}"),
        ]
    );
    assert_eq!(world.pods(), [""; 0]);
}

#[test]
fn several_claims_that_cannot_be_created_are_reported_together() {
    let template = |name: &str| json!({"metadata": {"name": name}, "spec": {}});
    let templates = json!([template("a"), template("b"), template("c")]);
    let world = World::with(set(1).with("/spec/volumeClaimTemplates", templates));
    world
        .0
        .fail_nth("create", Claim::KIND, 1, refusal(403, "One"));
    world
        .0
        .fail_nth("create", Claim::KIND, 3, refusal(403, "Two"));
    assert_eq!(
        world.fail(),
        "[failed to create PVC a-web-0: the test refuses this: One, \
         failed to create PVC c-web-0: the test refuses this: Two]"
    );
    assert_eq!(world.claims(), ["b-web-0"]);
}

#[test]
fn a_claim_that_somebody_else_creates_at_the_same_time_is_retried_without_an_event() {
    let world = World::with(set_with_claims(1));
    world
        .0
        .fail("create", Claim::KIND, refusal(409, "AlreadyExists"));
    assert!(world.fail().starts_with("failed to create PVC data-web-0"));
    let events = world.0.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].starts_with("Warning FailedCreate Create Pod web-0"));
}

fn delete_claim_slowly(world: &World) {
    world.0.edit(Claim::KIND, "default", "data-web-0", |claim| {
        set_at(claim, "/metadata/deletionTimestamp", "2026-01-01T00:00:00Z");
    });
}

#[test]
fn a_claim_that_is_being_deleted_blocks_the_creation_of_its_pod() {
    let world = World::with(set_with_claims(1));
    world.settle();
    delete_claim_slowly(&world);
    assert_eq!(world.step(), [""; 0], "a running pod does not mind");
    world.remove("web-0");
    assert_eq!(world.fail(), "pvc data-web-0 is being deleted");
    assert_eq!(
        world.0.events(),
        [
            "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted"
        ]
    );
    world.0.remove(Claim::KIND, "default", "data-web-0");
    world.written();
    assert_eq!(world.step(), ["create claim data-web-0", "create web-0"]);
}

#[test]
fn a_pending_pod_waits_for_the_deletion_of_its_claim_without_an_event() {
    let world = World::with(set_with_claims(1));
    world.step();
    world.0.events();
    world.phase("web-0", "Pending");
    delete_claim_slowly(&world);
    assert_eq!(world.fail(), "pvc data-web-0 is being deleted");
    assert_eq!(world.0.events(), [""; 0]);
}

#[test]
fn by_default_claims_have_no_owner() {
    let world = World::with(set_with_claims(2));
    world.settle();
    world.edit("/spec/replicas", 1);
    world.settle();
    assert_eq!(world.claims(), ["data-web-0", "data-web-1"]);
    assert_eq!(world.owners("data-web-0"), [""; 0]);
    assert_eq!(world.owners("data-web-1"), [""; 0]);
}

#[test]
fn claims_that_are_deleted_with_the_set_are_created_with_it_as_owner() {
    let world = World::with(set_with_policy(1, "Delete", "Retain"));
    assert_eq!(world.step(), ["create claim data-web-0", "create web-0"]);
    assert_eq!(
        world.claim("data-web-0")["metadata"]["ownerReferences"],
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web",
                "controller": true, "blockOwnerDeletion": true}])
    );
    world.settle();
    world.edit("/spec/replicas", 0);
    world.settle();
    assert_eq!(world.owners("data-web-0"), ["web"]);
}

#[test]
fn claims_that_are_deleted_when_scaled_get_their_pod_as_owner_before_it_is_deleted() {
    for (when_deleted, before) in [("Retain", vec![]), ("Delete", vec!["web"])] {
        for is_parallel in [false, true] {
            let set = set_with_policy(2, when_deleted, "Delete");
            let world = World::with(if is_parallel { parallel(set) } else { set });
            world.settle();
            assert_eq!(world.owners("data-web-1"), before);
            let uid = world.pod("web-1")["metadata"]["uid"].clone();
            world.edit("/spec/replicas", 1);
            assert_eq!(world.step(), ["update claim data-web-1", "delete web-1"]);
            assert_eq!(
                world.claim("data-web-1")["metadata"]["ownerReferences"],
                json!([{"apiVersion": "v1", "kind": "Pod", "name": "web-1", "uid": uid,
                        "controller": true, "blockOwnerDeletion": true}])
            );
            assert_eq!(world.owners("data-web-0"), before);
        }
    }
}

#[test]
fn all_condemned_pods_own_their_claims_before_the_first_is_deleted() {
    let world = World::with(set_with_policy(3, "Retain", "Delete"));
    world.settle();
    world.edit("/spec/replicas", 0);
    assert_eq!(
        world.step(),
        [
            "update claim data-web-2",
            "update claim data-web-1",
            "update claim data-web-0",
            "delete web-2"
        ]
    );
}

#[test]
fn a_claim_that_is_deleted_with_its_predecessor_blocks_a_pod() {
    for set in [
        set_with_policy(2, "Retain", "Delete"),
        set_with_policy(2, "Delete", "Delete"),
        parallel(set_with_policy(2, "Retain", "Delete")),
    ] {
        let world = World::with(set);
        world.settle();
        world.edit("/spec/replicas", 1);
        world.settle();
        // The garbage collector has not deleted the claim yet.
        assert_eq!(world.claims(), ["data-web-0", "data-web-1"]);
        world.edit("/spec/replicas", 2);
        assert_eq!(world.step(), [""; 0]);
        world.0.remove(Claim::KIND, "default", "data-web-1");
        assert_eq!(world.step(), ["create claim data-web-1", "create web-1"]);
    }
}

#[test]
fn claims_are_reused_while_the_policy_retains_them_when_scaled() {
    let world = World::with(set_with_policy(2, "Delete", "Retain"));
    world.settle();
    world.edit("/spec/replicas", 1);
    world.settle();
    world.edit("/spec/replicas", 2);
    assert_eq!(world.step(), ["create web-1"]);
}

#[test]
fn a_pod_that_is_wanted_again_loses_its_claim_again() {
    let world = World::with(set_with_policy(2, "Delete", "Delete"));
    world.settle();
    world.0.edit(Pod::KIND, "default", "web-1", |pod| {
        pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    });
    world.edit("/spec/replicas", 1);
    world.step();
    assert_eq!(world.owners("data-web-1"), ["web-1"]);
    // The pod is being deleted, so nothing happens until the deletion is complete.
    world.edit("/spec/replicas", 2);
    assert_eq!(world.step(), [""; 0]);
}

#[test]
fn a_change_of_the_policy_changes_the_owners_of_running_pods() {
    let world = World::with(set_with_policy(1, "Retain", "Retain"));
    world.settle();
    for (policy, owners) in [("Delete", vec!["web"]), ("Retain", vec![])] {
        world.edit(
            "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted",
            policy,
        );
        assert_eq!(world.step(), ["update claim data-web-0"]);
        assert_eq!(world.owners("data-web-0"), owners);
        assert_eq!(
            world.0.events(),
            ["Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful"]
        );
        assert_eq!(world.step(), [""; 0]);
    }
}

#[test]
fn the_claims_of_a_pending_pod_get_their_owners_without_an_event() {
    let world = World::with(set_with_policy(1, "Retain", "Retain"));
    world.step();
    world.phase("web-0", "Pending");
    world.0.events();
    world.edit(
        "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted",
        "Delete",
    );
    assert_eq!(world.step(), ["update claim data-web-0"]);
    assert_eq!(world.0.events(), [""; 0]);
}

/// A StatefulSet whose pod is gone, and whose existing claim is to get an owner.
fn with_claims_to_own() -> World {
    let world = World::with(set_with_policy(1, "Retain", "Retain"));
    world.settle();
    world.remove("web-0");
    world.edit(
        "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted",
        "Delete",
    );
    world
}

#[test]
fn existing_claims_get_their_owners_after_their_pod_is_created() {
    let world = with_claims_to_own();
    assert_eq!(world.step(), ["create web-0", "update claim data-web-0"]);
    assert_eq!(
        world.0.events(),
        ["Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful"]
    );
}

#[test]
fn existing_claims_get_their_owners_although_their_pod_is_refused() {
    let world = with_claims_to_own();
    world.0.fail("create", "v1/Pod", refusal(403, "Forbidden"));
    assert_eq!(world.fail(), "the test refuses this: Forbidden");
    assert_eq!(
        world.0.events(),
        [
            "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: the test refuses this: Forbidden"
        ]
    );
    assert_eq!(
        world.written(),
        [
            "create web-0: the test refuses this: Forbidden (403 Forbidden)",
            "update claim data-web-0"
        ]
    );
    assert_eq!(world.step(), ["create web-0"]);
}

#[test]
fn owners_that_cannot_be_changed_are_reported_and_retried() {
    let world = World::with(set_with_policy(1, "Retain", "Retain"));
    world.settle();
    world.edit(
        "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted",
        "Delete",
    );
    world
        .0
        .fail("update", Claim::KIND, refusal(409, "Conflict"));
    let failure = "could not update claim data-web-0 for delete policy ownerRefs: the test refuses this: Conflict";
    assert_eq!(world.fail(), failure);
    assert_eq!(
        world.0.events(),
        [format!(
            "Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: {failure}"
        )]
    );

    // A failure for a condemned pod is not reported, and keeps the pod.
    world.edit(
        "/spec/persistentVolumeClaimRetentionPolicy/whenScaled",
        "Delete",
    );
    world.edit("/spec/replicas", 0);
    world
        .0
        .fail("update", Claim::KIND, refusal(409, "Conflict"));
    assert_eq!(world.fail(), failure);
    assert_eq!(
        (world.0.events(), world.pods()),
        (vec![], vec!["web-0".to_owned()])
    );
}

fn own(world: &World, owners: Value) {
    world.0.edit(Claim::KIND, "default", "data-web-0", |claim| {
        set_at(claim, "/metadata/ownerReferences", owners);
    });
}

#[test]
fn a_claim_of_another_controller_is_reported_and_not_taken() {
    let world = World::with(set_with_policy(1, "Delete", "Retain"));
    world.settle();
    let other = json!({"apiVersion": "example.com/v1", "kind": "Keeper", "name": "k", "uid": "u",
                       "controller": true, "blockOwnerDeletion": false});
    let set = world.claim("data-web-0")["metadata"]["ownerReferences"][0].clone();
    own(&world, json!([other, set]));
    assert_eq!(world.step(), ["update claim data-web-0"]);
    assert_eq!(
        world.0.events(),
        [
            "Warning ConflictingController PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that \
             acts as a manging controller, the retention policy is ignored for this claim",
            "Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful",
        ]
    );
    assert_eq!(
        world.claim("data-web-0")["metadata"]["ownerReferences"],
        json!([other])
    );
    assert_eq!(world.step(), [""; 0]);
}

#[test]
fn other_owners_that_do_not_control_are_kept() {
    let world = World::with(set_with_policy(1, "Delete", "Retain"));
    world.settle();
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u", "controller": false});
    own(&world, json!([other]));
    world.step();
    let owners = world.claim("data-web-0")["metadata"]["ownerReferences"].take();
    assert_eq!((&owners[0], &owners[1]["name"]), (&other, &json!("web")));
}

#[test]
fn the_claims_of_many_pods_are_listed_at_once() {
    let world = World::with(parallel(set_with_policy(12, "Delete", "Retain")));
    world.settle();
    assert_eq!(world.claims().len(), 12);
    world.edit(
        "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted",
        "Retain",
    );
    assert_eq!(world.step().len(), 12);
    assert_eq!(world.owners("data-web-11"), [""; 0]);
}
