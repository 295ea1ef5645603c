//! The revisions that a set leaves behind.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{refusal, set_at};

use super::world::*;

fn images(world: &World, images: &[&str]) {
    for image in images {
        world.edit("/spec/template", template(image));
        world.settle();
    }
}

#[test]
fn a_revision_holds_the_template_as_a_patch() {
    let world = World::with(set(1).with("/metadata/annotations", json!({"note": "x"})));
    world.settle();
    let [revision] = world.0.objects(REVISION).try_into().unwrap();
    let mut template = template("web:1");
    template["$patch"] = "replace".into();
    assert_eq!(revision["data"], json!({"spec": {"template": template}}));
    assert_eq!(revision["revision"], 1);
    assert_eq!(revision["metadata"]["annotations"], json!({"note": "x"}));
    assert_eq!(revision["metadata"]["labels"]["app"], "web");
    assert_eq!(revision["metadata"]["ownerReferences"][0]["uid"], "uid-web");
    let status = world.status();
    assert_eq!(status["currentRevision"], revision["metadata"]["name"]);
    assert_eq!(status["updateRevision"], revision["metadata"]["name"]);
    assert_eq!(status["collisionCount"], 0);
}

#[test]
fn a_change_elsewhere_makes_no_revision() {
    let world = World::with(set(1));
    world.settle();
    world.edit("/spec/replicas", 2);
    world.settle();
    assert_eq!(world.revisions(), [1]);
}

#[test]
fn a_rollback_makes_an_old_revision_the_newest() {
    let world = World::with(set(1));
    world.settle();
    let first = world.status()["currentRevision"].clone();
    images(&world, &["web:2", "web:3"]);
    assert_eq!(world.revisions(), [1, 2, 3]);
    images(&world, &["web:1"]);
    assert_eq!(world.revisions(), [2, 3, 4]);
    assert_eq!(world.status()["currentRevision"], first);
    assert_eq!(world.images(), ["web:1"]);
}

#[test]
fn of_equal_revisions_the_newest_is_used() {
    let world = World::with(set(1));
    world.settle();
    let mut twin = world.0.objects(REVISION).remove(0);
    set_at(&mut twin, "/metadata/name", "web-twin");
    set_at(&mut twin, "/revision", 2);
    world.put(twin);
    world.settle();
    assert_eq!(world.status()["updateRevision"], "web-twin");
    assert_eq!(world.revisions(), [1, 2]);
}

#[test]
fn old_revisions_are_deleted_down_to_the_limit() {
    let world = World::with(set(1).with("/spec/revisionHistoryLimit", 2));
    world.settle();
    images(&world, &["web:2", "web:3", "web:4", "web:5"]);
    assert_eq!(world.revisions(), [3, 4, 5]);
    world.edit("/spec/revisionHistoryLimit", 0);
    world.settle();
    assert_eq!(world.revisions(), [5]);
}

#[test]
fn a_negative_limit_keeps_all_revisions() {
    let world = World::with(set(1).with("/spec/revisionHistoryLimit", -1));
    world.settle();
    images(&world, &["web:2", "web:3"]);
    assert_eq!(world.revisions(), [1, 2, 3]);
}

#[test]
fn the_revisions_of_pods_are_kept() {
    let set = set(2)
        .with("/spec/revisionHistoryLimit", 0)
        .with("/spec/updateStrategy", json!({"type": "OnDelete"}));
    let world = World::with(set);
    world.settle();
    images(&world, &["web:2"]);
    world.remove("web-1");
    world.settle();
    images(&world, &["web:3"]);
    // web-0 has the first revision, web-1 the second one.
    assert_eq!(world.revisions(), [1, 2, 3]);
    world.remove("web-1");
    world.settle();
    assert_eq!(world.revisions(), [1, 3]);
}

#[test]
fn revisions_are_deleted_although_a_step_failed() {
    let world = World::with(set(1).with("/spec/revisionHistoryLimit", 0));
    world.settle();
    images(&world, &["web:2"]);
    let mut old = world.0.objects(REVISION).remove(0);
    set_at(&mut old, "/metadata/name", "web-old");
    set_at(&mut old, "/revision", 0);
    set_at(
        &mut old,
        "/data/spec/template/spec/containers/0/image",
        "web:0",
    );
    world.put(old);
    world.remove("web-0");
    world.0.fail("create", "v1/Pod", refusal(403, "Forbidden"));
    world.fail();
    assert_eq!(world.revisions(), [2]);
}

#[test]
fn a_collision_of_names_is_counted_in_the_status() {
    let world = World::with(set(1));
    world.settle();
    let name = world.status()["updateRevision"]
        .as_str()
        .unwrap()
        .to_owned();
    // Another owner's revision has the name that the set's would get.
    let world = World::with(set(1));
    world.put(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision",
                     "metadata": {"name": name, "namespace": "default"}, "data": {}, "revision": 1}));
    world.settle();
    assert_ne!(world.status()["updateRevision"], name);
    assert_eq!(world.status()["collisionCount"], 1);
}

#[test]
fn a_revision_that_cannot_be_created_is_an_error() {
    let world = World::with(set(1));
    world.0.fail("create", REVISION, refusal(403, "Forbidden"));
    assert!(world.fail().contains("Forbidden"));
    assert_eq!(world.written(), [""; 0]);
}

/// A settled set whose revision was written by an older release: with a null, and without a default.
fn upgraded() -> World {
    let world = World::with(set(1));
    world.settle();
    let name = world.status()["updateRevision"]
        .as_str()
        .unwrap()
        .to_owned();
    world.0.edit(REVISION, "default", &name, |revision| {
        set_at(
            revision,
            "/data/spec/template/metadata/creationTimestamp",
            Value::Null,
        );
        let spec = revision["data"]["spec"]["template"]["spec"]
            .as_object_mut()
            .unwrap();
        spec.remove("restartPolicy");
    });
    // The API server writes all defaults.
    world.edit(
        "/spec/template/spec",
        json!({"containers": [{"name": "c", "image": "web:1", "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
               "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "securityContext": {},
               "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler"}),
    );
    world
}

#[test]
fn a_revision_of_an_older_release_with_the_same_meaning_is_used() {
    let world = upgraded();
    world.settle();
    assert_eq!(world.revisions(), [1]);
}

#[test]
fn without_the_gate_only_equal_bytes_count() {
    let world = upgraded();
    world.0.set_config(
        "feature-gates.StatefulSetSemanticRevisionComparison",
        "false",
    );
    world.settle();
    assert_eq!(world.revisions(), [1, 2]);
}

#[test]
fn a_revision_that_merges_into_the_template_restores_no_pods() {
    let world = World::with(set(1).with("/spec/updateStrategy/rollingUpdate/partition", 1));
    world.settle();
    let name = world.status()["currentRevision"]
        .as_str()
        .unwrap()
        .to_owned();
    world.0.edit(REVISION, "default", &name, |revision| {
        let template = revision["data"]["spec"]["template"]
            .as_object_mut()
            .unwrap();
        template.remove("$patch");
    });
    world.remove("web-0");
    assert!(
        world
            .fail()
            .starts_with("restoring ControllerRevision default/")
    );
}
