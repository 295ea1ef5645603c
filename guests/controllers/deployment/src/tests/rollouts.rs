//! Rollouts from start to end.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;
use crate::revision::{DESIRED, HISTORY, MAX, REVISION, ROLLBACK_TO};

/// The events, with ReplicaSet names replaced by their images.
fn events(world: &World) -> Vec<String> {
    let mut events = world.cluster.events();
    for set in world.cluster.objects(SET) {
        let image = text(&set["spec"]["template"]["spec"]["containers"][0]["image"]);
        for event in &mut events {
            *event = event.replace(text(&set["metadata"]["name"]), image);
        }
    }
    events
}

#[test]
fn a_first_rollout_creates_a_set_and_reports_progress() {
    let world = World::of([deployment(3, "v1")]);
    let written = world.sync();
    let set = world.set_of("v1").unwrap();
    let name = text(&set["metadata"]["name"]);
    assert_eq!(
        written,
        [
            format!("create {SET} default/{name}"),
            format!("update {DEPLOYMENT}/status default/web")
        ]
    );
    assert_eq!(
        events(&world),
        ["Normal ScalingReplicaSet Scaled up replica set v1 from 0 to 3"]
    );
    assert_eq!(world.progress(), "NewReplicaSetCreated");
    assert_eq!(
        world.condition("Available"),
        Some(("False".into(), "MinimumReplicasUnavailable".into()))
    );
    let annotations = json!({REVISION: "1", DESIRED: "3", MAX: "4"});
    assert_eq!(set["metadata"]["annotations"], annotations);
    assert_eq!(world.deployment()["metadata"]["annotations"][REVISION], "1");

    world.run_pods("");
    world.sync();
    assert_eq!(world.progress(), "NewReplicaSetAvailable");
    assert_eq!(
        world.condition("Available"),
        Some(("True".into(), "MinimumReplicasAvailable".into()))
    );
    assert_eq!(world.counts(), [3, 3, 3]);
    assert_eq!(world.deployment()["status"]["observedGeneration"], 1);
    assert_eq!(world.deployment()["status"]["terminatingReplicas"], 0);
    assert_eq!(world.sync(), [""; 0]);
}

#[test]
fn without_its_feature_gate_the_status_does_not_count_terminating_pods() {
    let world = World::rolled_out(deployment(3, "v1"));
    let key = "feature-gates.DeploymentReplicaSetTerminatingReplicas";
    world.cluster.set_config(key, "false");
    world.sync();
    let status = world.deployment()["status"].take();
    assert_eq!(status.get("terminatingReplicas"), None, "{status}");
    assert_eq!(status["replicas"], 3);
}

#[test]
fn a_rolling_update_stays_within_its_limits() {
    let world = World::rolled_out(deployment(10, "v1"));
    world.use_image("v2");
    let mut steps = Vec::new();
    for _ in 0..20 {
        world.sync();
        let (old, new) = (world.size("v1"), world.size("v2"));
        assert!(old + new <= 13 && world.counts()[2] >= 8, "{old} and {new}");
        steps.push((old, new));
        if !world.run_pods("") {
            break;
        }
    }
    assert_eq!(steps.last(), Some(&(0, 10)));
    assert_eq!(steps[..4], [(8, 3), (8, 5), (3, 5), (3, 10)]);
    world.finish();
    assert_eq!(world.counts(), [10, 10, 10]);
    assert_eq!(world.progress(), "NewReplicaSetAvailable");
    assert_eq!(
        events(&world),
        [
            "Normal ScalingReplicaSet Scaled up replica set v2 from 0 to 3",
            "Normal ScalingReplicaSet Scaled down replica set v1 from 10 to 8",
            "Normal ScalingReplicaSet Scaled up replica set v2 from 3 to 5",
            "Normal ScalingReplicaSet Scaled down replica set v1 from 8 to 3",
            "Normal ScalingReplicaSet Scaled up replica set v2 from 5 to 10",
            "Normal ScalingReplicaSet Scaled down replica set v1 from 3 to 0",
        ],
    );
}

#[test]
fn a_rollout_to_an_older_template_reuses_its_set_and_keeps_its_revision_history() {
    let world = World::rolled_out(deployment(2, "v1"));
    for image in ["v2", "v1", "v2", "v1"] {
        world.use_image(image);
        world.finish();
    }
    let annotations = &world.set_of("v1").unwrap()["metadata"]["annotations"];
    assert_eq!(
        (text(&annotations[REVISION]), text(&annotations[HISTORY])),
        ("5", "1,3")
    );
    assert_eq!(world.deployment()["metadata"]["annotations"][REVISION], "5");
    assert_eq!((world.size("v1"), world.size("v2")), (2, 0));
    assert_eq!(world.cluster.objects(SET).len(), 2);
}

#[test]
fn recreate_waits_until_the_last_old_pod_has_ended() {
    let mut web = deployment(2, "v1");
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    let world = World::rolled_out(web);
    let owner = world.set_of("v1").unwrap();
    let pod = |name: &str, phase: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": phase},
               "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "web"}, "ownerReferences": [
                   {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"], "controller": true}]}})
    };
    world.cluster.put(pod("ended", "Succeeded"));
    world.cluster.put(pod("slow", "Running"));

    world.use_image("v2");
    world.sync();
    assert_eq!((world.size("v1"), world.size("v2")), (0, -1));
    // First the ReplicaSet still reports pods; then it reports none, but one pod still exists.
    world.sync();
    assert_eq!(world.size("v2"), -1);
    world.run_pods("");
    world.sync();
    assert_eq!(world.size("v2"), -1);
    assert_eq!(world.sync(), [""; 0]);

    world.cluster.remove("v1/Pod", NAMESPACE, "slow");
    world.finish();
    assert_eq!(
        (world.size("v1"), world.size("v2"), world.counts()),
        (0, 2, [2, 2, 2])
    );
    assert_eq!(
        events(&world),
        [
            "Normal ScalingReplicaSet Scaled down replica set v1 from 2 to 0",
            "Normal ScalingReplicaSet Scaled up replica set v2 from 0 to 2",
        ],
    );
}

#[test]
fn a_paused_deployment_can_be_resized_but_does_not_roll_out() {
    let world = World::rolled_out(deployment(4, "v1"));
    world.edit(|web| web["spec"]["paused"] = true.into());
    world.finish();
    assert_eq!(
        world.condition("Progressing"),
        Some(("Unknown".into(), "DeploymentPaused".into()))
    );

    world.use_image("v2");
    world.scale(6);
    world.finish();
    assert_eq!((world.size("v1"), world.size("v2")), (6, -1));
    assert_eq!(world.counts(), [6, 0, 6]);
    assert_eq!(world.deployment()["status"]["observedGeneration"], 4);

    world.edit(|web| web["spec"]["paused"] = false.into());
    world.sync();
    assert_eq!(world.progress(), "NewReplicaSetCreated");
    world.finish();
    assert_eq!(
        (world.size("v1"), world.size("v2"), world.progress()),
        (0, 6, "NewReplicaSetAvailable".into())
    );
}

#[test]
fn resuming_restarts_the_progress_deadline() {
    let world = World::rolled_out(deployment(2, "v1"));
    world.use_image("v2");
    world.finish_with("v2");
    world.edit(|web| web["spec"]["paused"] = true.into());
    world.finish_with("v2");
    world.cluster.advance(Duration::from_secs(3600));
    world.edit(|web| web["spec"]["paused"] = false.into());
    world.finish_with("v2");
    assert_eq!(
        world.condition("Progressing"),
        Some(("Unknown".into(), "DeploymentResumed".into()))
    );
    world.cluster.advance(Duration::from_secs(601));
    world.finish_with("v2");
    assert_eq!(world.progress(), "ProgressDeadlineExceeded");
}

#[test]
fn resizing_during_a_rollout_keeps_the_proportions() {
    let mut web = deployment(10, "v1");
    web["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 3, "maxUnavailable": 2});
    let world = World::rolled_out(web);
    world.use_image("v2");
    world.finish_with("v2");
    assert_eq!((world.size("v1"), world.size("v2")), (8, 5));

    world.scale(15);
    world.sync();
    assert_eq!((world.size("v1"), world.size("v2")), (11, 7));
    let remembered =
        |image: &str| world.set_of(image).unwrap()["metadata"]["annotations"][MAX].clone();
    assert_eq!(
        (remembered("v1"), remembered("v2")),
        (json!("18"), json!("18"))
    );
    world.finish();
    assert_eq!((world.size("v1"), world.size("v2")), (0, 15));
}

#[test]
fn a_deployment_can_be_scaled_to_zero_and_up_again() {
    let world = World::rolled_out(deployment(3, "v1"));
    for replicas in [0, 4] {
        world.scale(replicas);
        world.finish();
        assert_eq!(
            (world.size("v1"), world.counts()),
            (replicas, [replicas; 3])
        );
    }
    assert_eq!(
        events(&world),
        [
            "Normal ScalingReplicaSet Scaled down replica set v1 from 3 to 0",
            "Normal ScalingReplicaSet Scaled up replica set v1 from 0 to 4",
        ],
    );
}

#[test]
fn a_rollout_without_progress_times_out_at_its_deadline_and_can_recover() {
    let world = World::rolled_out(deployment(4, "v1"));
    world.use_image("v2");
    world.finish_with("v2");
    assert_eq!(world.progress(), "ReplicaSetUpdated");

    // It is requeued for one second after the deadline and does nothing until then.
    let (outcome, writes) = world.try_sync();
    assert_eq!(
        (outcome.unwrap(), writes.len()),
        (Outcome::RequeueAfter(Duration::from_secs(601)), 0)
    );
    world.cluster.advance(Duration::from_secs(300));
    assert_eq!(
        world.try_sync().0.unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(301))
    );

    world.cluster.advance(Duration::from_secs(301));
    let (outcome, writes) = world.try_sync();
    assert_eq!((outcome.unwrap(), writes.len()), (Outcome::Done, 1));
    assert_eq!(
        world.condition("Progressing"),
        Some(("False".into(), "ProgressDeadlineExceeded".into()))
    );
    assert_eq!(world.sync(), [""; 0]);

    world.finish();
    assert_eq!(
        world.condition("Progressing"),
        Some(("True".into(), "NewReplicaSetAvailable".into()))
    );
}

#[test]
fn pods_lost_after_a_complete_rollout_are_no_rollout_and_cause_no_loop() {
    let world = World::rolled_out(deployment(4, "v1"));
    world.cluster.advance(Duration::from_secs(3600));
    world.run_pods("v1");
    world.sync();
    let (outcome, writes) = world.try_sync();
    assert_eq!((outcome.unwrap(), writes.len()), (Outcome::Done, 0));
    assert_eq!(world.progress(), "NewReplicaSetAvailable");
    assert_eq!(
        world.condition("Available"),
        Some(("False".into(), "MinimumReplicasUnavailable".into()))
    );
}

#[test]
fn a_requested_rollback_is_carried_out_and_the_request_removed() {
    let mut web = deployment(2, "v1");
    web["metadata"]["annotations"] = json!({"cause": "first"});
    let world = World::rolled_out(web);
    world.use_image("v2");
    world.edit(|web| web["metadata"]["annotations"]["cause"] = "second".into());
    world.finish();
    world.cluster.events();

    world.edit(|web| web["metadata"]["annotations"][ROLLBACK_TO] = "0".into());
    assert_eq!(world.sync(), ["update apps/v1/Deployment default/web"]);
    assert_eq!(
        events(&world),
        ["Normal DeploymentRollback Rolled back deployment \"web\" to revision 1"]
    );
    assert_eq!(world.deployment()["spec"]["template"], template("v1"));
    assert_eq!(
        world.deployment()["metadata"]["annotations"],
        json!({"cause": "first", REVISION: "2"})
    );
    world.finish();
    assert_eq!((world.size("v1"), world.size("v2")), (2, 0));
    let cause =
        |image: &str| world.set_of(image).unwrap()["metadata"]["annotations"]["cause"].clone();
    assert_eq!(
        (cause("v1"), cause("v2")),
        (json!("first"), json!("second"))
    );
}

#[test]
fn an_impossible_rollback_is_reported_and_the_request_removed() {
    for (requested, event) in [
        (
            "7",
            "Warning DeploymentRollbackRevisionNotFound Unable to find the revision to rollback to.",
        ),
        (
            "0",
            "Warning DeploymentRollbackRevisionNotFound Unable to find last revision.",
        ),
        (
            "1",
            "Warning DeploymentRollbackTemplateUnchanged The rollback revision contains the same template as current deployment \"web\"",
        ),
    ] {
        let world = World::rolled_out(deployment(2, "v1"));
        world.edit(|web| web["metadata"]["annotations"][ROLLBACK_TO] = requested.into());
        world.sync();
        assert_eq!(world.cluster.events(), [event]);
        assert_eq!(
            world.deployment()["metadata"]["annotations"],
            json!({REVISION: "1"})
        );
        assert_eq!(world.sync(), [""; 0]);
    }
}

#[test]
fn old_sets_beyond_the_limit_are_deleted_when_the_rollout_is_complete() {
    let mut web = deployment(1, "v1");
    web["spec"]["revisionHistoryLimit"] = json!(1);
    let world = World::rolled_out(web);
    for image in ["v2", "v3"] {
        world.use_image(image);
        world.finish();
    }
    assert_eq!(
        ["v1", "v2", "v3"].map(|image| world.size(image)),
        [-1, 0, 1]
    );

    // No ReplicaSet is deleted during a rollout.
    world.edit(|web| web["spec"]["revisionHistoryLimit"] = json!(0));
    world.use_image("v4");
    world.finish_with("v4");
    assert_eq!(["v2", "v3", "v4"].map(|image| world.size(image)), [0, 1, 1]);
    world.finish();
    assert_eq!(world.cluster.objects(SET).len(), 1);
}

#[test]
fn every_rollout_settles_whatever_its_limits() {
    for (surge, unavailable) in [
        ("0%", "1%"),
        ("1%", "0%"),
        ("25%", "25%"),
        ("100%", "0%"),
        ("0%", "100%"),
    ] {
        for replicas in [1, 2, 7] {
            let mut web = deployment(replicas, "v1");
            web["spec"]["strategy"]["rollingUpdate"] =
                json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let world = World::rolled_out(web);
            world.use_image("v2");
            world.finish();
            assert_eq!(
                (world.size("v1"), world.size("v2")),
                (0, replicas),
                "{surge} {unavailable}"
            );
            assert_eq!(world.counts(), [replicas; 3]);
        }
    }
}

#[test]
fn a_deleted_deployment_needs_nothing() {
    let cluster = Cluster::new();
    assert_eq!(
        cluster
            .reconcile::<crate::DeploymentController>("default/web")
            .unwrap(),
        Outcome::Done
    );
    assert!(cluster.writes().is_empty());
}
