//! OrderedReady: one pod after the other.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::views::Pod;

#[test]
fn a_set_that_was_deleted_needs_nothing() {
    let world = World(flyball_sdk::testing::Cluster::new());
    assert_eq!(world.reconcile().unwrap(), Outcome::Done);
}

#[test]
fn pods_are_created_one_by_one_as_each_becomes_ready() {
    let world = World::with(set(3));
    assert_eq!(world.step(), ["create web-0"]);
    assert_eq!(
        world.0.events(),
        ["Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful"]
    );
    // It waits while the pod is pending, and while it runs and is not ready.
    world.phase("web-0", "Pending");
    assert_eq!(world.step(), [""; 0]);
    world.unready("web-0");
    assert_eq!(world.step(), [""; 0]);
    world.ready("web-0");
    assert_eq!(world.step(), ["create web-1"]);
    world.ready("web-1");
    assert_eq!(world.step(), ["create web-2"]);
    world.ready("web-2");
    assert_eq!(world.step(), [""; 0]);
    assert_eq!(world.counts(), [3; 5]);
}

#[test]
fn a_missing_pod_is_created_before_the_others_grow() {
    let world = World::with(set(3));
    world.settle();
    world.remove("web-1");
    world.edit("/spec/replicas", 4);
    assert_eq!(world.step(), ["create web-1"]);
    world.ready("web-1");
    assert_eq!(world.step(), ["create web-3"]);
}

#[test]
fn an_unready_predecessor_blocks_scaling_up() {
    let world = World::with(set(2));
    world.settle();
    world.unready("web-0");
    world.edit("/spec/replicas", 3);
    assert_eq!(world.step(), [""; 0]);
    world.ready("web-0");
    assert_eq!(world.step(), ["create web-2"]);
}

#[test]
fn a_terminating_predecessor_blocks_scaling_up() {
    let world = World::with(set(2));
    world.settle();
    world.terminate("web-0");
    world.edit("/spec/replicas", 3);
    assert_eq!(world.step(), [""; 0]);
    world.remove("web-0");
    assert_eq!(world.step(), ["create web-0"]);
}

#[test]
fn pods_are_deleted_one_by_one_from_the_highest_ordinal() {
    let world = World::with(set(3));
    world.settle();
    world.edit("/spec/replicas", 1);
    assert_eq!(world.step(), ["delete web-2"]);
    assert_eq!(
        world.0.events(),
        ["Normal SuccessfulDelete Delete Pod web-2 in StatefulSet web successful"]
    );
    assert_eq!(world.step(), ["delete web-1"]);
    assert_eq!(world.step(), [""; 0]);
}

#[test]
fn a_terminating_pod_blocks_scaling_down() {
    let world = World::with(set(3));
    world.settle();
    world.edit("/spec/replicas", 1);
    world.terminate("web-2");
    assert_eq!(world.step(), [""; 0]);
    world.remove("web-2");
    assert_eq!(world.step(), ["delete web-1"]);
}

#[test]
fn an_unready_replica_blocks_scaling_down() {
    let world = World::with(set(3));
    world.settle();
    world.edit("/spec/replicas", 2);
    world.unready("web-0");
    assert_eq!(world.step(), [""; 0]);
}

#[test]
fn of_condemned_pods_only_the_first_unready_one_may_be_deleted_unready() {
    let world = World::with(set(4));
    world.settle();
    world.edit("/spec/replicas", 1);
    // The highest waits for the lowest unready one, which is never its turn until then.
    world.unready("web-3");
    world.unready("web-2");
    assert_eq!(world.step(), [""; 0]);
    world.ready("web-2");
    assert_eq!(world.step(), ["delete web-3"]);
}

#[test]
fn failed_and_succeeded_pods_are_deleted_and_created_again() {
    for phase in ["Failed", "Succeeded"] {
        let world = World::with(set(2));
        world.settle();
        world.phase("web-0", phase);
        assert_eq!(world.step(), ["delete web-0"]);
        assert_eq!(world.step(), ["create web-0"]);
    }
}

#[test]
fn a_failed_pod_that_is_being_deleted_is_waited_for() {
    let world = World::with(set(2));
    world.settle();
    world.phase("web-0", "Failed");
    world.terminate("web-0");
    assert_eq!(world.step(), [""; 0]);
}

#[test]
fn a_failed_pod_blocks_those_after_it() {
    let world = World::with(set(2));
    world.settle();
    world.phase("web-0", "Failed");
    world.phase("web-1", "Failed");
    assert_eq!(world.step(), ["delete web-0"]);
}

#[test]
fn ordinals_begin_where_the_set_says() {
    let world = World::with(set(2).with("/spec/ordinals/start", 5));
    world.settle();
    assert_eq!(world.pods(), ["web-5", "web-6"]);
    assert_eq!(
        world.pod("web-6")["metadata"]["labels"]["apps.kubernetes.io/pod-index"],
        "6"
    );

    // Both ends move. Pods are created first, then the highest condemned ones are deleted.
    world.edit("/spec/ordinals/start", 6);
    assert_eq!(world.step(), ["create web-7"]);
    world.ready("web-7");
    assert_eq!(world.step(), ["delete web-5"]);
    world.settle();
    assert_eq!(world.pods(), ["web-6", "web-7"]);
    world.edit("/spec/ordinals/start", 0);
    world.settle();
    assert_eq!(world.pods(), ["web-0", "web-1"]);
}

#[test]
fn a_set_that_is_being_deleted_gets_only_its_status() {
    let world = World::with(set(3));
    world.settle();
    world.remove("web-1");
    world.edit("/metadata/finalizers", json!(["example.com/hold"]));
    world.edit("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z");
    assert_eq!(world.step(), [""; 0]);
    assert_eq!(world.counts(), [2; 5]);
}

#[test]
fn a_pod_that_cannot_be_created_is_reported_and_retried() {
    let world = World::with(set(2));
    world.0.fail("create", Pod::KIND, refusal(403, "Forbidden"));
    assert_eq!(world.fail(), "the test refuses this: Forbidden");
    assert_eq!(
        world.0.events(),
        [
            "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: the test refuses this: Forbidden"
        ]
    );
    // The status is written nevertheless.
    assert_eq!(world.status()["observedGeneration"], 1);
    world.written();
    assert_eq!(world.step(), ["create web-0"]);
}

#[test]
fn a_pod_of_the_same_name_that_the_set_does_not_own_causes_no_event() {
    let world = World::with(set(1));
    world.put(json!({"apiVersion": "v1", "kind": "Pod",
                     "metadata": {"name": "web-0", "namespace": "default"}}));
    assert!(world.fail().contains("already exists"));
    assert_eq!(world.0.events(), [""; 0]);
}

#[test]
fn a_pod_that_cannot_be_deleted_is_reported_and_retried() {
    let world = World::with(set(2));
    world.settle();
    world.edit("/spec/replicas", 1);
    world
        .0
        .fail("delete", Pod::KIND, refusal(500, "InternalError"));
    assert_eq!(world.fail(), "the test refuses this: InternalError");
    assert_eq!(
        world.0.events(),
        [
            "Warning FailedDelete Delete Pod web-1 in StatefulSet web failed error: the test refuses this: InternalError"
        ]
    );
    world.written();
    assert_eq!(world.step(), ["delete web-1"]);
}

#[test]
fn a_pod_that_is_gone_counts_as_deleted() {
    let world = World::with(set(2));
    world.settle();
    world.edit("/spec/replicas", 1);
    world.0.fail("delete", Pod::KIND, refusal(404, "NotFound"));
    world.step();
    assert_eq!(
        world.0.events(),
        ["Normal SuccessfulDelete Delete Pod web-1 in StatefulSet web successful"]
    );
}

#[test]
fn a_selector_that_is_invalid_stops_the_set_without_retries() {
    let world = World::with(set(1).with(
        "/spec/selector",
        json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
    ));
    assert_eq!(world.reconcile().unwrap(), Outcome::Done);
    assert_eq!(world.0.written(), [""; 0]);
}
