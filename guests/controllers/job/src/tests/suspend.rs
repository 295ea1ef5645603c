//! Suspended jobs.

use flyball_sdk::prelude::*;

use super::world::*;

fn suspended() -> Object {
    job(2, 3).with("/spec/suspend", true)
}

#[test]
fn a_suspended_job_starts_nothing_and_has_no_start_time() {
    let world = World::of([suspended()]);
    assert_eq!(world.sync(), [STATUS]);
    assert_eq!(
        (world.conditions(), world.status()["startTime"].is_null()),
        (vec!["Suspended JobSuspended".into()], true)
    );
    assert_eq!(world.cluster.events(), ["Normal Suspended Job suspended"]);
    assert_eq!(world.sync(), [""; 0]);
    assert!(world.cluster.events().is_empty());
}

#[test]
fn suspending_deletes_pods_without_counting_failures() {
    let running = json!({"startTime": ago(60), "active": 2, "ready": 1});
    let world = World::of([
        suspended().with("/status", running),
        pod("a").ready(5),
        pod("b"),
        pod("c").succeeded(),
    ]);
    world.sync();
    assert_eq!(
        (world.counts(), world.status()["ready"].as_i64()),
        ([0, 2, 1, 0], Some(0))
    );
    assert!(world.status()["startTime"].is_null());
    assert_eq!(
        world.cluster.events(),
        [
            "Normal SuccessfulDelete Deleted pod: b",
            "Normal SuccessfulDelete Deleted pod: a",
            "Normal Suspended Job suspended"
        ]
    );
    world.reap();
    world.settle();
    assert_eq!(world.counts(), [0, 0, 1, 0]);
}

#[test]
fn a_suspended_job_keeps_its_start_time_without_the_feature_gate() {
    let running = json!({"startTime": ago(60), "active": 1});
    let world = World::of([suspended().with("/status", running), pod("a")]);
    let key = "feature-gates.MutableSchedulingDirectivesForSuspendedJobs";
    world.cluster.set_config(key, "false");
    world.sync();
    assert_eq!(world.status()["startTime"], ago(60));
}

#[test]
fn suspending_is_not_limited_in_one_step() {
    let world = World::of([suspended(), pod("a"), pod("b"), pod("c")]);
    world
        .cluster
        .set_config("max-pod-create-delete-per-sync", "1");
    world.sync();
    assert_eq!(world.counts()[..2], [0, 3]);
}

#[test]
fn a_pod_is_not_deleted_if_its_finalizer_cannot_be_removed() {
    let world = World::of([suspended(), pod("a"), pod("b").ready(5)]);
    world
        .cluster
        .fail("patch", POD, refusal(500, "InternalError", "broken"));
    assert_eq!(
        world.try_sync(),
        Err("removing completion finalizer: broken (500 InternalError)".into())
    );
    assert_eq!(
        (count(&world.cluster.written(), "delete"), world.counts()[0]),
        (1, 1)
    );
    world.settle();
    assert_eq!(world.counts()[..2], [0, 2]);
}

#[test]
fn resuming_resets_the_start_time() {
    let world = World::of([suspended().with("/spec/activeDeadlineSeconds", 60)]);
    assert_eq!(world.try_sync(), Ok(Outcome::Done));
    world.cluster.advance(seconds(3600));
    world.edit_job(|job| job["spec"]["suspend"] = false.into());
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(60))));
    let status = world.status();
    assert_eq!(
        (&status["startTime"], world.counts()[0]),
        (&json!(time(3600).to_string()), 2)
    );
    let condition = json!({"type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed",
                           "lastProbeTime": time(3600).to_string(), "lastTransitionTime": time(3600).to_string()});
    assert_eq!(status["conditions"], json!([condition]));
    assert_eq!(
        world.cluster.events()[0..1],
        ["Normal Suspended Job suspended"]
    );
}

#[test]
fn a_job_that_was_never_suspended_has_no_such_condition() {
    let world = World::of([job(1, 1)]);
    world.settle();
    assert_eq!(
        (
            world.status()["conditions"].is_null(),
            &world.status()["startTime"]
        ),
        (true, &json!(ago(0)))
    );
}

#[test]
fn the_deadline_does_not_pass_while_suspended() {
    let late = suspended()
        .with("/spec/activeDeadlineSeconds", 60)
        .with("/status", json!({"startTime": ago(900)}));
    let world = World::of([late]);
    assert_eq!(world.try_sync(), Ok(Outcome::Done));
    assert_eq!(world.conditions(), ["Suspended JobSuspended"]);
}

#[test]
fn a_suspended_job_whose_pods_have_all_succeeded_completes() {
    let world =
        World::of([suspended().with("/status", json!({"startTime": ago(9), "succeeded": 3}))]);
    world.settle();
    assert_eq!(
        world.conditions(),
        [
            "SuccessCriteriaMet CompletionsReached",
            "Complete CompletionsReached"
        ]
    );
}

#[test]
fn suspending_a_job_that_is_being_deleted_changes_nothing() {
    let going = suspended()
        .with("/metadata/deletionTimestamp", ago(1))
        .with("/metadata/finalizers", json!(["x/y"]));
    let world = World::of([going, pod("a"), pod("b")]);
    assert_eq!(
        world.sync(),
        [STATUS, "patch v1/Pod default/a", "patch v1/Pod default/b"]
    );
    assert_eq!(
        (world.counts(), world.conditions().len()),
        ([2, 0, 0, 0], 0)
    );
}
