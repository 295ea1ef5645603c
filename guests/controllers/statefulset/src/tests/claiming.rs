//! Adoption and release of pods and revisions.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::set_at;

use super::world::*;
use crate::views::{Pod, StatefulSet};

/// A settled set of one pod, which then lost its owner.
fn orphaned(kind: &str) -> World {
    let world = World::with(set(1));
    world.settle();
    for object in world.0.objects(kind) {
        let name = object["metadata"]["name"].as_str().unwrap();
        world.0.edit(kind, "default", name, |object| {
            set_at(object, "/metadata/ownerReferences", json!([]));
        });
    }
    world
}

#[test]
fn an_orphan_with_the_name_and_labels_of_a_pod_is_adopted() {
    let world = orphaned(Pod::KIND);
    assert_eq!(world.step(), ["patch web-0"]);
    assert_eq!(
        world.0.live_reads(),
        ["get apps/v1/StatefulSet default/web"]
    );
    assert_eq!(
        world.pod("web-0")["metadata"]["ownerReferences"][0]["uid"],
        "uid-web"
    );
}

#[test]
fn a_pod_that_no_longer_matches_is_released() {
    let world = World::with(set(1));
    world.settle();
    world.0.edit(Pod::KIND, "default", "web-0", |pod| {
        set_at(pod, "/metadata/labels/app", "other");
    });
    assert!(world.fail().contains("already exists"), "its name is taken");
    assert_eq!(world.written()[0], "patch web-0");
    assert_eq!(world.pod("web-0")["metadata"]["ownerReferences"], json!([]));
}

#[test]
fn a_set_that_is_being_deleted_adopts_nothing() {
    let world = orphaned(Pod::KIND);
    let mut live = world.0.object(StatefulSet::KIND, "default", "web").unwrap();
    set_at(
        &mut live,
        "/metadata/deletionTimestamp",
        "2026-01-01T00:00:00Z",
    );
    world.0.put_live(live);
    assert!(world.fail().contains("is being deleted"));
    assert_eq!(world.written(), [""; 0]);
}

#[test]
fn orphaned_revisions_are_adopted() {
    let world = orphaned(REVISION);
    world.reconcile().unwrap();
    assert_eq!(
        world.0.live_reads(),
        ["get apps/v1/StatefulSet default/web"]
    );
    let written = world.0.written();
    assert!(written.len() == 1 && written[0].starts_with("patch apps/v1/ControllerRevision"));
    let adopted = &world.0.objects(REVISION)[0];
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["name"], "web");
}

#[test]
fn a_set_that_was_replaced_adopts_no_revisions() {
    let world = orphaned(REVISION);
    let mut live = world.0.object(StatefulSet::KIND, "default", "web").unwrap();
    set_at(&mut live, "/metadata/uid", "uid-other");
    world.0.put_live(live);
    assert_eq!(
        world.fail(),
        "can't adopt ControllerRevisions: default/web was deleted, and another object has its name"
    );
}
