//! Pods that have ended, and the backoff of failed ones.

use std::time::Duration;

use flyball_sdk::prelude::*;

use super::world::*;

fn ended(name: &str, node: &str, phase: &str) -> Value {
    let mut pod = pod(name, node);
    pod["status"]["phase"] = phase.into();
    pod
}

/// A set on one node whose pod has failed. Its generation has been observed before.
fn failing() -> World {
    World::of(observed("RollingUpdate"), 1).with([ended("p", "n0", "Failed")])
}

fn observed(strategy: &str) -> Value {
    set_with([
        ("/status/observedGeneration", json!(1)),
        ("/spec/updateStrategy/type", json!(strategy)),
    ])
}

fn deletions(world: &World) -> (Outcome, usize) {
    let (outcome, writes) = world.try_sync();
    (outcome.unwrap(), moves(&writes).1)
}

fn seconds(seconds: u64) -> Outcome {
    Outcome::RequeueAfter(Duration::from_secs(seconds))
}

/// Removes the failed pod, and puts a new one that fails as well.
fn fail_again(world: &World) {
    for pod in world.pods() {
        world
            .cluster
            .remove(POD, "default", pod["metadata"]["name"].as_str().unwrap());
    }
    world.cluster.put(ended("p", "n0", "Failed"));
}

#[test]
fn pods_that_have_ended_are_deleted_with_an_event() {
    for strategy in ["RollingUpdate", "OnDelete"] {
        let world = World::of(
            set_with([("/spec/updateStrategy/type", json!(strategy))]),
            2,
        )
        .with([ended("f", "n0", "Failed"), ended("s", "n1", "Succeeded")]);
        assert_eq!(world.sync(), (0, 2));
        assert_eq!(
            world.cluster.events(),
            [
                "Warning FailedDaemonPod Found failed daemon pod default/f on node n0, will try to kill it",
                "Normal SucceededDaemonPod Found succeeded daemon pod default/s on node n1, will try to delete it",
                "Normal SuccessfulDelete Deleted pod: f",
                "Normal SuccessfulDelete Deleted pod: s",
            ]
        );
    }
}

#[test]
fn a_pod_that_has_ended_beside_one_that_runs_is_deleted_alone() {
    let world = World::of(set(), 1).with([
        ended("f", "n0", "Failed"),
        pod("p", "n0"),
        ended("s", "n0", "Succeeded"),
    ]);
    let (_, writes) = world.try_sync();
    let names: Vec<_> = writes
        .iter()
        .filter(|one| one.verb == "delete")
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["f", "s"]);
}

#[test]
fn pods_that_fail_again_are_kept_twice_as_long_each_time() {
    let world = failing();
    assert_eq!(deletions(&world), (Outcome::Done, 1));
    for wait in [1, 2, 4, 8] {
        fail_again(&world);
        assert_eq!(deletions(&world), (seconds(wait), 0));
        // The controller waits for the whole backoff again, although a part of it has passed.
        world
            .cluster
            .advance(Duration::from_millis(wait * 1000 - 1));
        assert_eq!(deletions(&world), (seconds(wait), 0));
        world.cluster.advance(Duration::from_millis(1));
        assert_eq!(deletions(&world), (Outcome::Done, 1));
    }
}

#[test]
fn the_backoff_has_a_maximum_and_is_forgotten_after_twice_that_time() {
    let world = failing();
    world.cluster.set_config("max-failed-pod-backoff", "3s");
    deletions(&world);
    for wait in [1, 2, 3, 3] {
        fail_again(&world);
        assert_eq!(deletions(&world), (seconds(wait), 0));
        world.advance(wait);
        deletions(&world);
    }
    fail_again(&world);
    world.advance(7);
    assert_eq!(deletions(&world), (Outcome::Done, 1));
    fail_again(&world);
    assert_eq!(deletions(&world), (seconds(1), 0));
}

#[test]
fn a_new_generation_starts_without_backoff() {
    let world = World::of(observed("OnDelete"), 1).with([ended("p", "n0", "Failed")]);
    deletions(&world);
    fail_again(&world);
    assert_eq!(deletions(&world), (seconds(1), 0));
    world.set_image("app:2");
    // The old generation is observed until this reconcile has written the status.
    assert_eq!(deletions(&world), (seconds(1), 0));
    assert_eq!(deletions(&world).1, 1);
}

#[test]
fn of_two_failed_pods_on_a_node_one_is_deleted_and_nodes_are_independent() {
    let world = World::of(set(), 2).with([
        ended("a", "n0", "Failed"),
        ended("b", "n0", "Failed"),
        ended("c", "n1", "Failed"),
    ]);
    assert_eq!(deletions(&world), (seconds(1), 2));
}

#[test]
fn the_backoff_ends_with_the_set() {
    let world = failing();
    deletions(&world);
    fail_again(&world);
    world.cluster.remove(SET, "default", "ds");
    world.cluster.put(observed("RollingUpdate"));
    assert_eq!(deletions(&world), (Outcome::Done, 1));
}

#[test]
fn a_set_whose_failed_pods_wait_is_due_again_even_if_something_else_fails() {
    let world = failing();
    deletions(&world);
    fail_again(&world);
    world.cluster.put(node("n1"));
    world.cluster.fail(
        "create",
        POD,
        flyball_sdk::testing::refusal(500, "InternalError"),
    );
    assert!(world.try_sync().0.is_err());
    let enqueued = world.cluster.enqueued();
    assert_eq!(enqueued.len(), 1);
    assert_eq!(
        (
            enqueued[0].queue.as_str(),
            enqueued[0].key.as_str(),
            enqueued[0].delay
        ),
        ("daemonset", KEY, Duration::from_secs(1))
    );
}

#[test]
fn an_update_replaces_an_old_pod_that_waits_in_backoff() {
    let world = failing();
    world.sync();
    world.cluster.remove(POD, "default", "p");
    world
        .cluster
        .put(of_revision(ended("p", "n0", "Failed"), "older"));
    assert_eq!(deletions(&world), (seconds(1), 1));
}
