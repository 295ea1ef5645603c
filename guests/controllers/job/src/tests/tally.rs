//! Counting pods.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::tally::Tally;

/// The numbers of succeeded and failed pods, and of the newly ended pods.
fn tally(job: &Object, objects: impl IntoIterator<Item = Object>) -> ([i64; 2], [usize; 2]) {
    let all = pods(objects);
    let tally = Tally::of(&job.job(), &all);
    (
        [tally.succeeded, tally.failed],
        [tally.new_succeeded.len(), tally.new_failed.len()],
    )
}

#[test]
fn counted_listed_and_newly_ended_pods_add_up() {
    let named = json!({"succeeded": ["uid-a", "uid-gone"], "failed": ["uid-b"]});
    let status = json!({"succeeded": 10, "failed": 20, "uncountedTerminatedPods": named});
    let all = [
        pod("a").succeeded(),
        pod("b").failed(1),
        pod("c").succeeded(),
        pod("d").failed(1),
        pod("e").failed(1),
    ];
    assert_eq!(
        tally(&job(1, 99).with("/status", status), all),
        ([13, 23], [1, 2])
    );
}

#[test]
fn pods_without_the_finalizer_or_a_valid_index_are_not_new() {
    let free = [
        pod("a").succeeded().without_finalizer(),
        pod("b").failed(1).without_finalizer(),
    ];
    assert_eq!(tally(&job(1, 9), free), ([0, 0], [0, 0]));
    let odd = [
        pod("a").failed(1),
        pod_of("b", 9).failed(1),
        pod_of("c", 0).failed(1),
        pod_of("d", "x").succeeded(),
    ];
    assert_eq!(tally(&indexed(1, 9), odd), ([0, 1], [0, 1]));
}

#[test]
fn a_terminating_pod_has_failed_unless_it_succeeded_or_the_job_waits_for_its_end() {
    let going = || {
        [
            pod("a").deleting(1),
            pod("b").deleting(1).succeeded(),
            pod("c").deleting(1).failed(1),
        ]
    };
    assert_eq!(tally(&job(1, 9), going()), ([1, 2], [1, 2]));
    assert_eq!(
        tally(
            &job(1, 9).with("/spec/podReplacementPolicy", "Failed"),
            going()
        ),
        ([1, 1], [1, 1])
    );
}

#[test]
fn pods_are_active_until_they_end_or_are_deleted_and_terminating_until_they_end() {
    let all = [
        pod("a").phase("Pending"),
        pod("b").ready(1),
        pod("c").deleting(1),
        pod("d").deleting(1).failed(0),
    ];
    let all = pods(
        all.into_iter()
            .chain([pod("e").succeeded().ready(1), pod("f").phase("Unknown")]),
    );
    let tally = Tally::of(&job(1, 9).job(), &all);
    assert_eq!(
        (
            names(tally.active.iter().copied()),
            tally.terminating,
            tally.ready()
        ),
        (vec!["a", "b", "f"], 1, 1)
    );
}
