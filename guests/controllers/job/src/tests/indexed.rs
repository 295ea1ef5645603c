//! Indexed Jobs.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::indexes::{Indexes, misplaced};
use crate::pods::INDEX;

fn completed(world: &World) -> String {
    world.status()["completedIndexes"]
        .as_str()
        .unwrap_or("-")
        .to_owned()
}

#[test]
fn an_index_is_a_number_that_is_not_negative() {
    let index = |text: &str| pod_of("a", text).pod().index();
    assert_eq!(
        ["0", "7", "-1", "x", ""].map(index),
        [Some(0), Some(7), None, None, None]
    );
    assert_eq!(pod("a").pod().index(), None);
    assert_eq!(pod_of("a", 3).pod().index_in(&indexed(1, 3).job()), None);
}

#[test]
fn each_index_gets_one_pod_up_to_the_parallelism() {
    let world = World::of([indexed(2, 4)]);
    world.settle();
    let indexes: Vec<Value> = world
        .names()
        .iter()
        .map(|name| world.pod(name)["metadata"]["annotations"][INDEX].clone())
        .collect();
    assert_eq!(indexes, ["0", "1"]);
}

#[test]
fn completed_indexes_are_reported_and_the_next_ones_started() {
    let world = World::of([
        indexed(2, 5),
        pod_of("a", 0).succeeded(),
        pod_of("b", 2).succeeded(),
        pod_of("c", 1),
    ]);
    world.sync();
    assert_eq!(
        (completed(&world).as_str(), world.counts()),
        ("0,2", [2, 0, 2, 0])
    );
    assert_eq!(count(&world.names(), "work-3-"), 1);
    // UIDs are not listed: an index can't be counted twice.
    assert_eq!(world.status()["uncountedTerminatedPods"], json!({}));
    world.end("c", "Succeeded");
    world.sync();
    assert_eq!((completed(&world).as_str(), world.counts()[2]), ("0-2", 3));
}

#[test]
fn an_index_counts_once_however_many_pods_of_it_succeed() {
    let status = json!({"completedIndexes": "0", "succeeded": 1});
    let ended = [
        pod_of("a", 0).succeeded(),
        pod_of("b", 1).succeeded(),
        pod_of("c", 1).succeeded(),
    ];
    let world = World::of(
        [indexed(1, 3).with("/status", status)]
            .into_iter()
            .chain(ended),
    );
    world.settle();
    assert_eq!(
        (completed(&world).as_str(), world.counts()),
        ("0,1", [1, 0, 2, 0])
    );
    assert!(
        ["a", "b", "c"]
            .iter()
            .all(|name| !world.has_finalizer(name))
    );
}

#[test]
fn pods_without_a_valid_index_are_not_counted_and_are_deleted() {
    let odd = [
        pod_of("a", 7).succeeded(),
        pod("b").succeeded(),
        pod_of("c", "x").failed(9),
        pod_of("d", 8),
        pod("e"),
    ];
    let world = World::of([indexed(1, 2)].into_iter().chain(odd));
    assert_eq!(count(&world.sync(), "delete v1/Pod default/"), 2);
    assert_eq!(
        (world.counts(), completed(&world).as_str()),
        ([0, 2, 0, 0], "-")
    );
    assert!(
        ["a", "b", "c", "d", "e"]
            .iter()
            .all(|name| !world.has_finalizer(name))
    );
}

#[test]
fn of_two_pods_of_an_index_the_better_one_stays() {
    let world = World::of([
        indexed(2, 2),
        pod_of("a", 0).ready(9),
        pod_of("b", 0),
        pod_of("c", 1),
    ]);
    let written = world.sync();
    assert_eq!(
        written,
        ["patch v1/Pod default/b", "delete v1/Pod default/b", STATUS]
    );
    assert_eq!(world.counts(), [2, 1, 0, 0]);
}

#[test]
fn surplus_pods_are_split_from_the_best_of_each_index() {
    let all = pods([
        pod_of("a", 1),
        pod_of("b", 1).ready(5),
        pod_of("c", 0),
        pod_of("d", 9),
        pod("e"),
    ]);
    let (gone, left) = misplaced(&indexed(3, 3).job(), &all.iter().collect::<Vec<_>>());
    assert_eq!(
        (names(gone), names(left)),
        (vec!["d", "e", "a"], vec!["c", "b"])
    );
}

#[test]
fn indexes_that_have_not_ended_and_have_no_pod_are_started() {
    let job = limited(9, 8, 0)
        .with("/status/completedIndexes", "1")
        .with("/status/failedIndexes", "3")
        .job();
    let all = pods([
        pod_of("a", 0),
        pod_of("b", 2).succeeded(),
        pod_of("c", 4).failed(9),
        pod_of("d", 6).deleting(1),
    ]);
    let indexes = Indexes::of(&job, &all);
    // The pod of index 6 is being deleted: a failure, and with no failures allowed the index has
    // failed.
    assert_eq!(indexes.failed.as_ref().unwrap().to_string(), "3,4,6");
    assert_eq!(indexes.pending(&job, &all, 9), [5, 7]);
    assert_eq!(indexes.pending(&job, &all, 1), [5]);
}

#[test]
fn reducing_the_completions_drops_indexes_beyond_them() {
    let status = json!({"completedIndexes": "0,3,4", "succeeded": 3, "active": 2});
    let world = World::of([
        indexed(2, 2).with("/status", status),
        pod_of("a", 1),
        pod_of("b", 5),
    ]);
    world.sync();
    assert_eq!(
        (completed(&world).as_str(), world.counts()),
        ("0", [1, 1, 1, 0])
    );
    assert_eq!(
        world.cluster.events(),
        ["Normal SuccessfulDelete Deleted pod: b"]
    );
    world.end("a", "Succeeded");
    world.reap();
    world.settle();
    assert_eq!(
        (completed(&world).as_str(), world.conditions().len()),
        ("0,1", 2)
    );
}

#[test]
fn raising_the_completions_starts_more_indexes() {
    let status = json!({"completedIndexes": "0,1", "succeeded": 2});
    let world = World::of([indexed(4, 4).with("/status", status)]);
    world.settle();
    assert_eq!(
        (
            count(&world.names(), "work-2-"),
            count(&world.names(), "work-3-"),
            world.counts()[0]
        ),
        (1, 1, 2)
    );
}

#[test]
fn indexes_complete_in_order_when_a_step_is_limited() {
    let ended = [("a", 3), ("b", 1), ("c", 0), ("d", 2)]
        .map(|(name, index)| pod_of(name, index).succeeded());
    let world = World::of([indexed(4, 4)].into_iter().chain(ended));
    world.cluster.set_config("max-uncounted-pods", "2");
    world.sync();
    assert_eq!(
        ["a", "b", "c", "d"].map(|name| world.has_finalizer(name)),
        [true, false, false, true]
    );
    // The status lists all indexes; the job finishes when no pod has the finalizer.
    assert_eq!(
        (completed(&world).as_str(), world.conditions().len()),
        ("0-3", 1)
    );
    world.settle();
    assert_eq!((world.counts()[2], world.conditions().len()), (4, 2));
}

#[test]
fn pods_of_counted_indexes_do_not_fill_a_step() {
    let ended = [("a", 0), ("b", 0), ("c", 1), ("d", 2), ("e", 3)]
        .map(|(name, index)| pod_of(name, index).succeeded());
    let status = json!({"completedIndexes": "0", "succeeded": 1});
    let world = World::of(
        [indexed(4, 4).with("/status", status)]
            .into_iter()
            .chain(ended),
    );
    world.cluster.set_config("max-uncounted-pods", "2");
    world.sync();
    assert_eq!(
        ["a", "b", "c", "d", "e"].map(|name| world.has_finalizer(name)),
        [false, false, false, false, true]
    );
}

#[test]
fn an_index_whose_pod_lost_the_finalizer_uncounted_is_run_again() {
    let world = World::of([
        indexed(1, 2),
        pod_of("a", 0).succeeded().without_finalizer(),
    ]);
    world.settle();
    assert_eq!(
        (completed(&world).as_str(), count(&world.names(), "work-0-")),
        ("-", 1)
    );
}
