//! Counting pods that have ended, each exactly once, no matter which write fails.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::account::finish;
use crate::verdict::Verdict;
use crate::views::{Status, Uncounted};

const FREEING: &str = "patch v1/Pod default/";

#[test]
fn an_ended_pod_is_listed_then_loses_its_finalizer_then_is_counted() {
    let world = World::of([
        job(2, 4),
        pod("a").succeeded(),
        pod("b").failed(600),
        pod("c"),
    ]);
    world.try_sync().unwrap();
    let writes = world.cluster.writes();
    let lines: Vec<String> = writes.iter().map(|write| write.to_string()).collect();
    assert_eq!(count(&lines, "create"), 1);
    assert_eq!(
        lines[1..],
        [
            STATUS.to_owned(),
            format!("{FREEING}a"),
            format!("{FREEING}b"),
            STATUS.to_owned()
        ]
    );

    let named = json!({"succeeded": ["uid-a"], "failed": ["uid-b"]});
    let first = &writes[1].body["status"];
    assert_eq!(
        (
            &first["uncountedTerminatedPods"],
            &first["succeeded"],
            &first["failed"]
        ),
        (&named, &json!(0), &json!(0))
    );
    let last = &writes[4].body["status"];
    assert_eq!(
        (
            &last["uncountedTerminatedPods"],
            &last["succeeded"],
            &last["failed"]
        ),
        (&json!({}), &json!(1), &json!(1))
    );
    assert!(!world.has_finalizer("a") && !world.has_finalizer("b") && world.has_finalizer("c"));
    assert_eq!(world.sync(), [""; 0]);
}

#[test]
fn no_finalizer_is_removed_if_the_first_status_write_fails() {
    let world = World::of([job(1, 1), pod("a").succeeded()]);
    world.cluster.fail(
        "update",
        "batch/v1/Job/status",
        refusal(409, "Conflict", "modified"),
    );
    assert_eq!(
        world.try_sync(),
        Err("tracking status: adding uncounted pods to status: modified (409 Conflict)".into())
    );
    assert!(world.has_finalizer("a"));
    world.cluster.writes();
    world.settle();
    assert_eq!(world.counts(), [0, 0, 1, 0]);
}

#[test]
fn a_failed_last_status_write_is_recovered_without_counting_twice() {
    let world = World::of([job(1, 3), pod("a").succeeded(), pod("b").failed(900)]);
    world.cluster.fail_nth(
        "update",
        "batch/v1/Job/status",
        2,
        refusal(500, "InternalError", "broken"),
    );
    assert!(
        world
            .try_sync()
            .unwrap_err()
            .starts_with("tracking status: removing uncounted pods from status: broken")
    );
    assert!(!world.has_finalizer("a"));
    // At the next reconcile the pods have no finalizer and may be deleted.
    world.cluster.remove(POD, "default", "a");
    world.settle();
    assert_eq!(
        (
            world.counts()[2..].to_vec(),
            &world.status()["uncountedTerminatedPods"]
        ),
        (vec![1, 1], &json!({}))
    );
}

#[test]
fn listed_pods_with_the_finalizer_lose_it_and_are_not_listed_again() {
    let named = json!({"uncountedTerminatedPods": {"succeeded": ["uid-a"], "failed": ["uid-b", "uid-gone"]}});
    let world = World::of([
        job(1, 3).with("/status", named),
        pod("a").succeeded(),
        pod("b").failed(900),
    ]);
    world.settle();
    assert_eq!(world.counts()[2..], [1, 2]);
}

#[test]
fn a_pod_listed_as_failed_stays_a_failure() {
    let named = json!({"uncountedTerminatedPods": {"failed": ["uid-a"]}});
    let world = World::of([job(1, 1).with("/status", named), pod("a").succeeded()]);
    world.sync();
    assert_eq!(world.status()["failed"], 1);
    assert_eq!(world.status()["succeeded"], 0);
}

#[test]
fn a_pod_without_the_finalizer_is_never_counted() {
    let world = World::of([
        job(1, 2),
        pod("a").succeeded().without_finalizer(),
        pod("b").failed(900).without_finalizer(),
    ]);
    world.settle();
    assert_eq!(world.counts(), [1, 0, 0, 0]);
}

#[test]
fn a_failed_finalizer_removal_keeps_the_pod_listed_and_the_job_unfinished() {
    let world = World::of([job(2, 2), pod("a").succeeded(), pod("b").succeeded()]);
    world
        .cluster
        .fail("patch", POD, refusal(500, "InternalError", "broken"));
    assert_eq!(
        world.try_sync(),
        Err("tracking status: broken (500 InternalError)".into())
    );
    assert_eq!(
        world.status()["uncountedTerminatedPods"],
        json!({"succeeded": ["uid-a"]})
    );
    assert_eq!(
        (world.status()["succeeded"].as_i64(), world.conditions()),
        (
            Some(1),
            vec!["SuccessCriteriaMet CompletionsReached".into()]
        )
    );
    world.settle();
    assert_eq!((world.counts()[2], world.conditions().len()), (2, 2));
}

#[test]
fn a_job_does_not_finish_while_an_unlisted_pod_has_the_finalizer() {
    let world = World::of([
        indexed(2, 2),
        pod_of("a", 0).succeeded(),
        pod_of("b", 1).succeeded(),
    ]);
    world
        .cluster
        .fail("patch", POD, refusal(500, "InternalError", "broken"));
    world.try_sync().unwrap_err();
    assert_eq!(
        (
            world.conditions().len(),
            world.status()["completedIndexes"].as_str()
        ),
        (1, Some("0,1"))
    );
    world.settle();
    assert_eq!(world.conditions().len(), 2);
}

#[test]
fn a_pod_deleted_during_finalizer_removal_counts() {
    let world = World::of([job(1, 1), pod("a").succeeded()]);
    world.cluster.fail(
        "patch",
        POD,
        refusal(404, "NotFound", "pods \"a\" not found"),
    );
    world.sync();
    assert_eq!((world.counts()[2], world.conditions().len()), (1, 2));
}

#[test]
fn one_step_lists_no_more_pods_than_the_limit_and_the_job_stays_unfinished() {
    let ended = (0..5).map(|number| pod(&format!("p{number}")).succeeded());
    let world = World::of([job(5, 5)].into_iter().chain(ended));
    world.cluster.set_config("max-uncounted-pods", "2");
    for (succeeded, ended) in [(2, false), (4, false), (5, true)] {
        world.sync();
        assert_eq!(
            (world.counts()[2], world.conditions().len() == 2),
            (succeeded, ended)
        );
    }
}

#[test]
fn a_pod_that_is_being_deleted_is_a_failure_whatever_its_phase() {
    let world = World::of([job(1, 1), pod("a").deleting(1)]);
    world.settle();
    assert_eq!(world.counts()[3], 1);
    assert!(!world.has_finalizer("a"));
}

#[test]
fn a_job_that_is_being_deleted_removes_all_finalizers_and_counts_ended_pods() {
    let going = job(3, 5)
        .with("/metadata/deletionTimestamp", ago(1))
        .with("/metadata/finalizers", json!(["x/y"]));
    let world = World::of([going, pod("a").succeeded(), pod("b")]);
    world.settle();
    assert!(!world.has_finalizer("a") && !world.has_finalizer("b"));
    assert_eq!((world.counts(), world.names().len()), ([1, 0, 1, 0], 2));
}

#[test]
fn an_unchanged_status_is_not_written() {
    let world = World::of([job(1, 1)]);
    assert_eq!(count(&world.sync(), STATUS), 1);
    // The pod is in the cache now and is active, as the status reports.
    assert_eq!(world.sync(), [""; 0]);
    let pod = world.names().remove(0);
    world.edit_pod(&pod, |pod| pod["status"]["phase"] = "Running".into());
    assert_eq!(world.sync(), [""; 0]);
    world.edit_pod(&pod, |pod| {
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}])
    });
    assert_eq!(world.sync(), [STATUS]);
    assert_eq!(
        (
            world.status()["active"].as_i64(),
            world.status()["ready"].as_i64()
        ),
        (Some(1), Some(1))
    );
}

#[test]
fn conditions_of_other_controllers_are_kept() {
    let theirs = json!({"type": "Theirs", "status": "True", "lastTransitionTime": ago(7)});
    let world = World::of([
        job(1, 1).with("/status", json!({"conditions": [theirs]})),
        pod("a").succeeded(),
    ]);
    world.settle();
    assert_eq!(world.status()["conditions"][0], theirs);
    assert_eq!(world.conditions().len(), 3);
}

#[test]
fn listed_pods_without_the_finalizer_are_counted_first_and_make_room_for_others() {
    let named = json!({"uncountedTerminatedPods": {"failed": ["uid-x", "uid-y"]}});
    let world = World::of([
        job(0, 9).with("/status", named),
        pod("a").succeeded(),
        pod("b").succeeded(),
    ]);
    world.cluster.set_config("max-uncounted-pods", "2");
    world.try_sync().unwrap();
    let first = &world.cluster.writes()[0].body["status"];
    assert_eq!(
        (&first["failed"], &first["uncountedTerminatedPods"]),
        (&json!(2), &json!({"succeeded": ["uid-a", "uid-b"]}))
    );
}

#[test]
fn a_job_does_not_finish_while_pods_are_uncounted_or_terminating() {
    let uncounted = Uncounted {
        failed: vec!["a".into()],
        ..Uncounted::default()
    };
    let open = Status {
        uncounted_terminated_pods: uncounted,
        ..Status::default()
    };
    let waiting = Status {
        terminating: Some(1),
        ..Status::default()
    };
    for (mut status, ends) in [(open, false), (waiting, false), (Status::default(), true)] {
        assert_eq!(finish(&mut status, &Verdict::completed(), NOON), ends);
        assert_eq!(
            (
                status.conditions.len() == 1,
                status.completion_time.is_some()
            ),
            (ends, ends)
        );
    }
}
