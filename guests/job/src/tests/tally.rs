//! What pods amount to.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::tally::Tally;

/// How many have succeeded and failed, and how many of those are new.
fn tally(job: &Object, objects: impl IntoIterator<Item = Object>) -> ([i64; 2], [usize; 2]) {
    let all = pods(objects);
    let tally = Tally::of(&job.job(), &all);
    (
        [tally.succeeded, tally.failed],
        [tally.new_succeeded.len(), tally.new_failed.len()],
    )
}

#[test]
fn pods_count_that_are_in_the_status_that_it_names_and_that_have_ended_since() {
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
fn pods_that_are_free_count_already_and_those_without_a_valid_index_never() {
    let free = [pod("a").succeeded().free(), pod("b").failed(1).free()];
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
fn a_pod_that_is_being_deleted_has_failed_unless_it_succeeded_or_is_waited_for() {
    let going = || {
        [
            pod("a").going(1),
            pod("b").going(1).succeeded(),
            pod("c").going(1).failed(1),
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
        pod("c").going(1),
        pod("d").going(1).failed(0),
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
