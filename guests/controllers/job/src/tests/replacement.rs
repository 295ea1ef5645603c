//! The replacement of pods that are being deleted.

use super::world::*;

fn patient(parallelism: i32, completions: i32) -> Object {
    job(parallelism, completions).with("/spec/podReplacementPolicy", "Failed")
}

#[test]
fn a_pod_that_is_being_deleted_is_replaced_at_once_by_default() {
    let world = World::of([job(2, 2), pod("a").deleting(20), pod("b")]);
    assert_eq!(count(&world.sync(), "create v1/Pod"), 1);
    assert_eq!(world.counts(), [2, 1, 0, 1]);
}

#[test]
fn under_the_failed_policy_a_pod_is_replaced_only_when_it_has_ended() {
    let world = World::of([patient(2, 2), pod("a").deleting(20), pod("b")]);
    assert_eq!(world.sync(), [STATUS]);
    assert_eq!(
        (world.counts(), world.has_finalizer("a")),
        ([1, 1, 0, 0], true)
    );
    world.end("a", "Failed");
    world.cluster.advance(seconds(10));
    assert_eq!(count(&world.sync(), "create v1/Pod"), 1);
    assert_eq!(world.counts(), [2, 0, 0, 1]);
}

#[test]
fn a_pod_that_succeeds_while_it_is_being_deleted_succeeded() {
    for job in [job(1, 1), patient(1, 1)] {
        let world = World::of([job, pod("a").deleting(20).succeeded()]);
        world.settle();
        assert_eq!(
            (world.counts(), world.conditions().len()),
            ([0, 0, 1, 0], 2)
        );
    }
}

#[test]
fn under_the_failed_policy_an_index_is_not_started_while_its_pod_terminates() {
    let waiting = indexed(2, 3).with("/spec/podReplacementPolicy", "Failed");
    let world = World::of([waiting, pod_of("a", 0).deleting(20)]);
    world.sync();
    assert_eq!(
        (
            count(&world.names(), "work-0-"),
            count(&world.names(), "work-1-"),
            world.counts()[..2].to_vec()
        ),
        (0, 1, vec![1, 1])
    );

    let world = World::of([indexed(2, 3), pod_of("a", 0).deleting(20)]);
    world.sync();
    assert_eq!(
        (
            count(&world.names(), "work-0-"),
            count(&world.names(), "work-1-")
        ),
        (1, 1)
    );
}

#[test]
fn terminating_pods_may_outnumber_the_parallelism() {
    let going = ["a", "b", "c"].map(|name| pod(name).deleting(20));
    let world = World::of([patient(1, 1), pod("d"), pod("e")].into_iter().chain(going));
    assert_eq!(count(&world.sync(), "delete"), 1);
    assert_eq!(world.counts(), [1, 4, 0, 0]);
}
