//! Revisions.

use flyball_revisions::exact_data;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::observed::HASH_LABEL;

fn data(image: &str) -> Value {
    let mut set = set();
    set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    exact_data(&Raw::from(set["spec"]["template"].clone())).value()
}

/// A revision of the set with the template of this image.
fn revision(name: &str, image: &str, number: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": name, "namespace": "default", "uid": name,
                     "labels": {"app": "ds", HASH_LABEL: name},
                     "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds",
                                          "uid": "ds-uid", "controller": true}]},
        "data": data(image), "revision": number,
    })
}

fn orphaned(mut revision: Value) -> Value {
    revision["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    revision
}

/// The lines about revisions and pods that a reconcile writes.
fn written(world: &World) -> Vec<String> {
    let lines = world.written().into_iter();
    lines.filter(|line| !line.contains("DaemonSet")).collect()
}

fn numbers(world: &World) -> Vec<(String, i64)> {
    let number = |one: &Value| {
        let name = one["metadata"]["name"].as_str().unwrap().to_owned();
        (name, one["revision"].as_i64().unwrap())
    };
    world.revisions().iter().map(number).collect()
}

#[test]
fn the_template_is_recorded_in_a_revision() {
    let world = World::of(set(), 0);
    world.sync();
    let revisions = world.revisions();
    let [revision] = revisions.as_slice() else {
        panic!("{revisions:?}")
    };
    let hash = world.hash();
    assert_eq!(revision["metadata"]["name"], format!("ds-{hash}"));
    assert_eq!(
        revision["metadata"]["labels"],
        json!({"app": "ds", HASH_LABEL: hash})
    );
    assert_eq!(
        revision["metadata"]["annotations"],
        json!({"deprecated.daemonset.template.generation": "1", "note": "kept"})
    );
    assert_eq!(
        revision["metadata"]["ownerReferences"],
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "ds-uid",
                "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(
        (&revision["revision"], &revision["data"]),
        (&json!(1), &data("app:1"))
    );
    assert_eq!(revision["data"]["spec"]["template"]["$patch"], "replace");
}

#[test]
fn the_data_keeps_integers_and_escapes_as_go_does() {
    let container = json!({"name": "main", "args": ["<a>&"], "securityContext": {"runAsUser": 9007199254740993_i64}});
    let world = World::of(set_with([(&of_pods("containers"), json!([container]))]), 0);
    let data = exact_data(&Raw::from(
        world.cluster.object(SET, "default", "ds").unwrap()["spec"]["template"].clone(),
    ));
    assert_eq!(
        data.text(),
        r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"ds"}},"spec":{"containers":[{"args":["\u003ca\u003e\u0026"],"name":"main","securityContext":{"runAsUser":9007199254740993}}]}}}}"#
    );
}

#[test]
fn a_changed_template_gets_a_revision_with_the_next_number() {
    let world = World::rolled_out(set(), 0);
    world.set_image("app:2");
    world.sync();
    let numbers: Vec<i64> = numbers(&world)
        .into_iter()
        .map(|(_, number)| number)
        .collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn a_rollback_gives_the_old_revision_a_new_number() {
    let world = World::rolled_out(set(), 1);
    let first = world.hash();
    for image in ["app:2", "app:1"] {
        world.set_image(image);
        world.finish();
    }
    let expected = [2, 3];
    let (names, numbers): (Vec<_>, Vec<_>) = numbers(&world).into_iter().unzip();
    assert_eq!(numbers, expected);
    assert_eq!(names[1], format!("ds-{first}"));
    assert_eq!(world.images(), ["n0 app:1"]);
    assert_eq!(world.pods()[0]["metadata"]["labels"][HASH_LABEL], first);
}

#[test]
fn a_change_of_other_fields_makes_no_revision() {
    let world = World::rolled_out(set(), 1);
    world.edit_set(|set| set["spec"]["minReadySeconds"] = json!(1));
    assert!(written(&world).is_empty());
}

#[test]
fn a_revision_of_another_manager_with_the_same_bytes_is_used() {
    let world = World::of(set(), 1).with([revision("ds-5d9f", "app:1", 7)]);
    let lines = written(&world);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(world.pods()[0]["metadata"]["labels"][HASH_LABEL], "ds-5d9f");
    assert_eq!(numbers(&world), [("ds-5d9f".to_owned(), 7)]);
}

#[test]
fn a_revision_without_a_hash_gets_its_name_as_one() {
    let mut bare = revision("ds-old", "app:1", 1);
    bare["metadata"]["labels"] = json!({"app": "ds"});
    let world = World::of(set(), 0).with([bare, revision("ds-newer", "app:2", 4)]);
    // It also becomes the newest one. Both updates are based on the version that the first returned.
    assert_eq!(
        written(&world),
        [
            "update apps/v1/ControllerRevision default/ds-old",
            "update apps/v1/ControllerRevision default/ds-old"
        ]
    );
    assert_eq!(world.hash(), "ds-old");
    assert_eq!(
        numbers(&world),
        [("ds-newer".to_owned(), 4), ("ds-old".to_owned(), 5)]
    );
}

#[test]
fn matching_orphans_are_adopted_and_revisions_that_do_not_match_are_released() {
    let mut strayed = revision("strayed", "app:1", 2);
    strayed["metadata"]["labels"]["app"] = "web".into();
    let mut elsewhere = orphaned(revision("elsewhere", "app:1", 2));
    elsewhere["metadata"]["namespace"] = "kube-system".into();
    let world = World::of(set(), 0).with([
        orphaned(revision("ds-orphan", "app:1", 3)),
        strayed,
        elsewhere,
    ]);
    assert_eq!(
        written(&world),
        [
            "patch apps/v1/ControllerRevision default/ds-orphan",
            "patch apps/v1/ControllerRevision default/strayed",
        ]
    );
    let owner = |name: &str, namespace: &str| {
        let found = world.cluster.object(REVISION, namespace, name).unwrap();
        found["metadata"]["ownerReferences"][0]["uid"].clone()
    };
    assert_eq!(owner("ds-orphan", "default"), "ds-uid");
    assert!(owner("strayed", "default").is_null() && owner("elsewhere", "kube-system").is_null());
}

#[test]
fn an_adopted_revision_is_updated_on_the_version_of_its_adoption() {
    let world = World::of(set(), 0).with([
        orphaned(revision("ds-orphan", "app:1", 1)),
        revision("ds-newer", "app:2", 4),
    ]);
    assert_eq!(
        written(&world),
        [
            "patch apps/v1/ControllerRevision default/ds-orphan",
            "update apps/v1/ControllerRevision default/ds-orphan"
        ]
    );
}

#[test]
fn of_equal_revisions_the_newest_is_kept_and_gets_the_pods_of_the_others() {
    let world = World::of(set(), 3).with([
        revision("ds-a", "app:1", 1),
        revision("ds-b", "app:1", 3),
        revision("ds-c", "app:2", 2),
        of_revision(pod("pa", "n0"), "ds-a"),
        of_revision(pod("pb", "n1"), "ds-b"),
        pod("none", "n2"),
    ]);
    assert_eq!(
        written(&world),
        [
            "patch v1/Pod default/none",
            "patch v1/Pod default/pa",
            "delete apps/v1/ControllerRevision default/ds-a",
        ]
    );
    for pod in world.pods() {
        assert_eq!(pod["metadata"]["labels"][HASH_LABEL], "ds-b");
    }
    assert_eq!(
        numbers(&world),
        [("ds-c".to_owned(), 2), ("ds-b".to_owned(), 3)]
    );
}

#[test]
fn a_revision_whose_pods_were_not_relabelled_is_kept() {
    let world = World::of(set(), 1).with([
        revision("ds-a", "app:1", 1),
        revision("ds-b", "app:1", 3),
        of_revision(pod("pa", "n0"), "ds-a"),
    ]);
    world
        .cluster
        .fail("patch", POD, refusal(500, "InternalError"));
    let (outcome, _) = world.try_sync();
    assert!(
        outcome
            .unwrap_err()
            .to_string()
            .starts_with("failed to construct revisions of DaemonSet")
    );
    assert_eq!(world.revisions().len(), 2);
}

/// A revision that has the name of the current template's one.
fn occupant(image: &str) -> Value {
    let world = World::of(set(), 0);
    world.sync();
    let mut occupant = revision(&format!("ds-{}", world.hash()), image, 1);
    // The occupant is neither controlled nor selected, so that only the name conflict reveals it.
    occupant["metadata"]["labels"]["app"] = "other".into();
    orphaned(occupant)
}

#[test]
fn a_revision_of_the_same_name_and_data_is_used() {
    let occupant = occupant("app:1");
    let world = World::of(set(), 1).with([occupant.clone()]);
    assert_eq!(world.sync(), (1, 0));
    assert_eq!(
        world.pods()[0]["metadata"]["labels"][HASH_LABEL],
        occupant["metadata"]["labels"][HASH_LABEL]
    );
    assert_eq!(world.revisions().len(), 1);
}

#[test]
fn a_collision_changes_the_name_of_the_next_try() {
    let world = World::of(set(), 1).with([occupant("app:2")]);
    let (outcome, writes) = world.try_sync();
    assert!(outcome.unwrap_err().api().unwrap().is_already_exists());
    assert_eq!(moves(&writes), (0, 0));
    assert_eq!(world.status()["collisionCount"], 1);
    assert_eq!(world.sync(), (1, 0));
    assert_eq!(world.revisions().len(), 2);
    assert_eq!(world.status()["collisionCount"], 1);
}

#[test]
fn a_collision_with_a_stale_count_is_not_counted_again() {
    let world = World::of(set(), 1).with([occupant("app:2")]);
    world
        .cluster
        .put_live(set_with([("/status", json!({"collisionCount": 1}))]));
    let (outcome, writes) = world.try_sync();
    assert!(outcome.unwrap_err().to_string().contains(
        "found a stale collision count (0, expected 1) of DaemonSet \"ds\" while processing; will retry until it is updated"
    ));
    assert!(writes.iter().all(|one| one.subresource != "status"));
}

#[test]
fn old_revisions_beyond_the_limit_are_deleted_unless_their_pods_exist() {
    let mut leaving = of_revision(pod("leaving", "n1"), "ds-3");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
    leaving["status"]["phase"] = "Failed".into();
    let mut aimless = of_revision(unscheduled("aimless", "n0"), "ds-4");
    aimless["spec"] = json!({});
    let changes = [
        ("/spec/revisionHistoryLimit", json!(1)),
        ("/spec/updateStrategy/type", json!("OnDelete")),
    ];
    let world = World::of(set_with(changes), 1).with([
        revision("ds-5", "app:5", 5),
        revision("ds-4", "app:4", 4),
        revision("ds-3", "app:3", 3),
        revision("ds-2", "app:2", 2),
        revision("ds-6", "app:1", 6),
        of_revision(pod("p", "n0"), "ds-2"),
        leaving,
        aimless,
    ]);
    // Three of four are surplus, and two of them are in use.
    assert_eq!(
        written(&world),
        [
            "delete apps/v1/ControllerRevision default/ds-4",
            "delete apps/v1/ControllerRevision default/ds-5"
        ]
    );
}

#[test]
fn a_limit_of_zero_keeps_only_the_current_revision() {
    let world = World::of(set_with([("/spec/revisionHistoryLimit", json!(0))]), 0)
        .with([revision("ds-a", "app:2", 1), revision("ds-b", "app:1", 2)]);
    assert_eq!(
        written(&world),
        ["delete apps/v1/ControllerRevision default/ds-a"]
    );
}

#[test]
fn a_failed_clean_up_is_an_error_after_the_pods_were_created_and_the_last_deletion() {
    let world = World::of(set_with([("/spec/revisionHistoryLimit", json!(0))]), 1)
        .with([revision("ds-a", "app:2", 1), revision("ds-b", "app:3", 2)]);
    world
        .cluster
        .fail("delete", REVISION, refusal(500, "InternalError"));
    let (outcome, writes) = world.try_sync();
    assert!(
        outcome
            .unwrap_err()
            .to_string()
            .starts_with("failed to clean up revisions of DaemonSet")
    );
    assert_eq!(moves(&writes), (1, 0));
    let kept = numbers(&world).into_iter().map(|(name, _)| name);
    assert_eq!(
        kept.filter(|name| name.len() == 4).count(),
        2,
        "ds-a and ds-b"
    );
    assert_eq!(world.status()["observedGeneration"], 1);
}
