//! Cases besides rollouts: claims, collisions, errors, deletion, and state left by an interrupted
//! reconcile.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;
use flyball_template_hash::template_hash;

use super::world::*;
use crate::DeploymentController;
use crate::revision::{DESIRED, MAX, REVISION};
use crate::template::HASH_LABEL;

/// The name of the ReplicaSet that `web` would create for this image.
fn name_of(image: &str, collisions: Option<i64>) -> String {
    let hash = template_hash(&Raw::from(template(image)), collisions);
    format!("web-{hash}")
}

#[test]
fn the_description_asks_only_for_permissions_of_the_cluster_role() {
    let description = DeploymentController::describe();
    description.check().unwrap();
    let of = |kind: &str, subresource: &str| {
        let is_of = |permission: &&flyball_sdk::describe::Permission| {
            permission.kind.to_string() == kind && permission.subresource == subresource
        };
        let verbs = description
            .permissions
            .iter()
            .find(is_of)
            .map(|permission| &permission.verbs);
        verbs
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(of(DEPLOYMENT, ""), "get update");
    assert_eq!(of(DEPLOYMENT, "status"), "update");
    assert_eq!(of(SET, ""), "create delete get patch update");
    assert_eq!(
        (description.concurrency, description.queues[0].max_retries),
        (5, Some(15))
    );
}

#[test]
fn an_orphan_is_adopted_and_becomes_the_new_set_if_it_has_the_template() {
    let world = World::of([deployment(3, "v1"), set("mine", "v1", 3, false)]);
    let written = world.sync();
    assert_eq!(written[0], format!("patch {SET} default/mine"));
    world.finish();
    let mine = world.set_of("v1").unwrap();
    assert_eq!(mine["metadata"]["ownerReferences"][0]["uid"], "web-uid");
    assert_eq!((world.size("v1"), world.cluster.objects(SET).len()), (3, 1));
    // It was already complete when it was adopted.
    assert_eq!(world.progress(), "NewReplicaSetAvailable");
}

#[test]
fn a_found_set_is_reported_if_no_progress_is_recorded() {
    let world = World::of([deployment(3, "v1"), set("mine", "v1", 3, true)]);
    world.edit_set("mine", |mine| {
        mine["status"] = json!({"observedGeneration": 1})
    });
    world.sync();
    assert_eq!(world.progress(), "FoundNewReplicaSet");
    assert_eq!(world.deployment()["metadata"]["annotations"][REVISION], "1");
}

#[test]
fn an_orphan_of_another_template_is_adopted_and_scaled_away() {
    let world = World::of([deployment(2, "v2"), set("stray", "v1", 2, false)]);
    world.finish();
    assert_eq!((world.size("v1"), world.size("v2")), (0, 2));
}

#[test]
fn a_set_whose_labels_no_longer_match_is_released() {
    let world = World::rolled_out(deployment(2, "v1"));
    let name = text(&world.set_of("v1").unwrap()["metadata"]["name"]).to_owned();
    world.edit_set(&name, |set| {
        set["metadata"]["labels"] = json!({"app": "other"})
    });
    let (outcome, writes) = world.try_sync();
    assert_eq!(writes[0].to_string(), format!("patch {SET} default/{name}"));
    assert_eq!(
        world.cluster.object(SET, NAMESPACE, &name).unwrap()["metadata"]["ownerReferences"],
        json!([])
    );
    // The name belongs to a ReplicaSet that the Deployment doesn't control any more, so it is a collision.
    assert!(outcome.unwrap_err().api().unwrap().is_already_exists());
    world.finish();
    assert_eq!(world.deployment()["status"]["collisionCount"], 1);
}

#[test]
fn a_deployment_deleted_in_the_meantime_adopts_nothing() {
    for live in [
        None,
        Some(json!({"uid": "another"})),
        Some(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})),
    ] {
        let world = World::of([deployment(3, "v1"), set("mine", "v1", 3, false)]);
        match live {
            None => world.cluster.remove_live(DEPLOYMENT, NAMESPACE, "web"),
            Some(differs) => {
                let mut web = world.deployment();
                for (key, value) in differs.as_object().unwrap() {
                    web["metadata"][key] = value.clone();
                }
                world.cluster.put_live(web);
            }
        }
        let (outcome, writes) = world.try_sync();
        assert!(outcome.is_err() && writes.is_empty(), "{writes:?}");
    }
}

#[test]
fn a_deployment_being_deleted_only_updates_its_status() {
    let world = World::rolled_out(deployment(2, "v1"));
    world.use_image("v2");
    world.edit(|web| {
        web["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        web["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
        web["spec"]["paused"] = true.into();
    });
    world.cluster.put(set("orphan", "v2", 1, false));
    let written = world.sync();
    assert_eq!(written, [format!("update {DEPLOYMENT}/status default/web")]);
    assert_eq!(
        (world.counts(), world.progress()),
        ([2, 0, 2], "NewReplicaSetAvailable".into())
    );
    assert_eq!(world.sync(), [""; 0]);
}

#[test]
fn a_taken_name_is_a_collision_and_the_next_attempt_uses_another() {
    let taken = name_of("v1", None);
    let mut other = set(&taken, "other", 0, false);
    other["metadata"]["labels"] = json!({"app": "other"});
    let world = World::of([deployment(1, "v1"), other]);
    let (outcome, _) = world.try_sync();
    assert!(outcome.unwrap_err().api().unwrap().is_already_exists());
    assert_eq!(world.deployment()["status"]["collisionCount"], 1);
    assert_eq!(world.cluster.events(), [""; 0]);

    world.finish();
    assert_eq!(
        text(&world.set_of("v1").unwrap()["metadata"]["name"]),
        name_of("v1", Some(1))
    );
    assert_eq!(
        (
            world.deployment()["status"]["collisionCount"].clone(),
            world.counts()
        ),
        (json!(1), [1, 1, 1])
    );
}

#[test]
fn a_created_set_missing_from_the_cache_is_used() {
    let world = World::of([deployment(2, "v1")]);
    let name = name_of("v1", None);
    world
        .cluster
        .fail("create", SET, refusal(409, "AlreadyExists"));
    world.cluster.put_live(set(&name, "v1", 2, true));
    world.try_sync().0.unwrap();
    assert_eq!(world.deployment()["status"]["collisionCount"], Value::Null);
    assert_eq!(world.deployment()["metadata"]["annotations"][REVISION], "1");
    assert_eq!(world.cluster.events(), [""; 0]);
}

#[test]
fn a_failed_creation_is_reported_and_retried() {
    let world = World::of([deployment(2, "v1")]);
    for _ in 0..2 {
        world.cluster.fail("create", SET, refusal(403, "Forbidden"));
        assert!(world.try_sync().0.is_err());
        assert_eq!(
            world.condition("Progressing"),
            Some(("False".into(), "ReplicaSetCreateError".into()))
        );
        let name = name_of("v1", None);
        let message = format!(
            "Warning ReplicaSetCreateError Failed to create new replica set \"{name}\": the test refuses this: Forbidden"
        );
        assert_eq!(world.cluster.events(), [message]);
    }
    world.finish();
    assert_eq!(world.progress(), "NewReplicaSetAvailable");
}

#[test]
fn nothing_is_retried_in_a_terminating_namespace() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
                           "status": {"phase": "Terminating"}});
    let world = World::of([deployment(2, "v1"), namespace]);
    assert_eq!(world.try_sync().0.unwrap(), Outcome::Done);
    assert_eq!(
        (world.cluster.events(), world.progress()),
        (vec![], String::new())
    );
}

#[test]
fn the_status_is_written_even_if_a_later_step_fails() {
    let world = World::rolled_out(deployment(2, "v1"));
    let old = text(&world.set_of("v1").unwrap()["metadata"]["name"]).to_owned();
    world.edit(|web| web["spec"]["strategy"] = json!({"type": "Recreate"}));
    world.use_image("v2");
    world.edit(|web| web["spec"]["paused"] = true.into());
    world.sync();
    world.edit(|web| web["spec"]["paused"] = false.into());
    world.cluster.fail("update", SET, refusal(409, "Conflict"));
    let (outcome, writes) = world.try_sync();
    assert!(outcome.unwrap_err().api().unwrap().is_conflict());
    let lines: Vec<_> = writes
        .iter()
        .map(|write| format!("{} {} {}", write.verb, write.kind, write.name))
        .collect();
    assert_eq!(
        lines,
        [
            format!("update {SET} {old}"),
            format!("update {DEPLOYMENT} web")
        ]
    );
    assert_eq!(world.progress(), "DeploymentResumed");
}

#[test]
fn the_progress_deadline_is_reported_although_no_old_set_can_be_scaled_down() {
    let world = World::rolled_out(deployment(10, "v1"));
    let old = text(&world.set_of("v1").unwrap()["metadata"]["name"]).to_owned();
    world.edit(|web| {
        web["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 0, "maxUnavailable": 2})
    });
    world.use_image("v2");
    world.cluster.fail("update", SET, refusal(422, "Invalid"));
    let (outcome, writes) = world.try_sync();
    assert_eq!(
        outcome.unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(601))
    );
    let lines: Vec<_> = writes
        .iter()
        .map(|write| format!("{} {} {}", write.verb, write.kind, write.name))
        .collect();
    let new = name_of("v2", None);
    assert_eq!(
        lines,
        [
            format!("create {SET} {new}"),
            format!("update {SET} {old}"),
            format!("update {DEPLOYMENT} web")
        ]
    );
    assert_eq!(world.progress(), "NewReplicaSetCreated");

    world.cluster.advance(Duration::from_secs(601));
    world.cluster.fail("update", SET, refusal(422, "Invalid"));
    assert_eq!(world.try_sync().0.unwrap(), Outcome::Done);
    assert_eq!(world.progress(), "ProgressDeadlineExceeded");
    assert_eq!(
        world.deployment()["status"]["observedGeneration"],
        world.deployment()["metadata"]["generation"]
    );
}

#[test]
fn an_empty_selector_claims_nothing_and_is_reported() {
    let mut web = deployment(2, "v1");
    web["spec"]["selector"] = json!({});
    let world = World::of([web, set("stray", "v1", 1, false)]);
    assert_eq!(
        world.sync(),
        [format!("update {DEPLOYMENT}/status default/web")]
    );
    let message = "Warning SelectingAll This deployment is selecting all pods. A non-empty selector is required.";
    assert_eq!(world.cluster.events(), [message]);
    assert_eq!(world.deployment()["status"]["observedGeneration"], 1);
    assert_eq!(world.sync(), [""; 0]);
}

#[test]
fn annotations_and_min_ready_seconds_are_copied_to_the_new_set() {
    let world = World::rolled_out(deployment(2, "v1"));
    world.edit(|web| {
        web["metadata"]["annotations"]["team"] = "a".into();
        web["spec"]["minReadySeconds"] = 9.into();
    });
    let (_, writes) = world.try_sync();
    assert_eq!(
        writes[0].body,
        json!({"metadata": {"annotations": {"team": "a"}}, "spec": {"minReadySeconds": 9}})
    );
    let set = world.set_of("v1").unwrap();
    assert_eq!(set["spec"]["minReadySeconds"], 9);
    assert_eq!(
        set["metadata"]["annotations"],
        json!({"team": "a", REVISION: "1", DESIRED: "2", MAX: "3"})
    );
    world.finish();
}

#[test]
fn a_set_with_another_controllers_hash_is_found_by_its_template() {
    let mut found = set("web-7d4b8c", "v1", 2, true);
    found["metadata"]["annotations"] = json!({REVISION: "4", DESIRED: "2", MAX: "3"});
    let world = World::of([deployment(2, "v1"), found]);
    world.finish();
    assert_eq!(world.cluster.objects(SET).len(), 1);
    assert_eq!(world.deployment()["metadata"]["annotations"][REVISION], "4");
    assert_eq!(
        world.set_of("v1").unwrap()["spec"]["template"]["metadata"]["labels"][HASH_LABEL],
        "web-7d4b8c"
    );
}

#[test]
fn a_size_that_is_already_right_is_annotated_so_that_the_rollout_continues() {
    // A user scaled the ReplicaSet itself, and then the Deployment to the same size.
    let world = World::rolled_out(deployment(2, "v1"));
    let name = text(&world.set_of("v1").unwrap()["metadata"]["name"]).to_owned();
    world.edit_set(&name, |set| set["spec"]["replicas"] = 4.into());
    world.scale(4);
    world.use_image("v2");
    world.finish();
    assert_eq!((world.size("v1"), world.size("v2")), (0, 4));
}

#[test]
fn a_sets_failure_is_copied_and_removed_with_it() {
    let world = World::rolled_out(deployment(2, "v1"));
    let name = text(&world.set_of("v1").unwrap()["metadata"]["name"]).to_owned();
    world.edit_set(&name, |set| {
        set["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                                              "message": "no quota", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    });
    world.sync();
    assert_eq!(
        world.condition("ReplicaFailure"),
        Some(("True".into(), "FailedCreate".into()))
    );
    assert_eq!(world.sync(), [""; 0]);
    world.run_pods("");
    world.sync();
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[test]
fn an_unknown_strategy_is_reported_and_not_retried() {
    let mut web = deployment(2, "v1");
    web["spec"]["strategy"] = json!({"type": "Sideways"});
    let error = World::of([web]).try_sync().0.unwrap_err();
    assert!(error.is_terminal() && error.to_string().contains("Sideways"));
}
