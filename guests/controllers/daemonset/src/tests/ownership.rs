//! Adoption and release.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

fn labelled(mut pod: Value, app: &str) -> Value {
    pod["metadata"]["labels"]["app"] = app.into();
    pod
}

/// The lines about pods that a reconcile writes.
fn written(world: &World) -> Vec<String> {
    let of_pods = |line: &String| line.contains(" v1/Pod ");
    world.written().into_iter().filter(of_pods).collect()
}

fn owner(world: &World, pod: &str) -> Value {
    let pod = world.cluster.object(POD, "default", pod).unwrap();
    pod["metadata"]["ownerReferences"][0]["uid"].clone()
}

#[test]
fn a_matching_orphan_is_adopted_and_counts_for_its_node() {
    let world = World::of(set(), 1).with([orphan("stray", "n0")]);
    assert_eq!(
        written(&world),
        ["patch v1/Pod default/stray", "delete v1/Pod default/stray"]
    );
    assert_eq!(
        world.cluster.live_reads(),
        ["get apps/v1/DaemonSet default/ds"]
    );

    // It is of no revision, so the update replaces it. With OnDelete it stays.
    let world = World::of(
        set_with([("/spec/updateStrategy/type", json!("OnDelete"))]),
        1,
    )
    .with([orphan("stray", "n0")]);
    assert_eq!(written(&world), ["patch v1/Pod default/stray"]);
    assert_eq!(owner(&world, "stray"), "ds-uid");
}

#[test]
fn pods_of_others_elsewhere_and_that_do_not_match_are_not_adopted() {
    let mut other = pod("other", "n0");
    other["metadata"]["ownerReferences"][0]["uid"] = "another".into();
    let mut elsewhere = orphan("elsewhere", "n0");
    elsewhere["metadata"]["namespace"] = "kube-system".into();
    let mut leaving = orphan("leaving", "n0");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
    let world = World::of(set(), 0).with([
        other,
        elsewhere,
        leaving,
        labelled(orphan("stranger", "n0"), "web"),
    ]);
    assert!(written(&world).is_empty());
    assert!(world.cluster.live_reads().is_empty());
}

#[test]
fn a_pod_that_no_longer_matches_is_released_and_replaced() {
    let world = World::of(set(), 1).with([labelled(pod("p", "n0"), "web")]);
    let lines = written(&world);
    assert_eq!(lines[0], "patch v1/Pod default/p");
    assert!(lines[1].starts_with("create v1/Pod default/ds-"));
    assert!(owner(&world, "p").is_null());
}

#[test]
fn nothing_is_adopted_by_a_set_that_is_being_deleted_although_the_cache_does_not_show_it() {
    let world = World::of(set(), 1).with([orphan("stray", "n0")]);
    let mut deleting = set();
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.cluster.put_live(deleting);
    let (outcome, writes) = world.try_sync();
    assert!(
        outcome
            .unwrap_err()
            .to_string()
            .contains("default/ds is being deleted")
    );
    assert!(writes.iter().all(|one| one.kind != POD));
}

#[test]
fn nothing_is_adopted_by_a_set_that_was_replaced() {
    let world = World::of(set(), 1).with([orphan("stray", "n0")]);
    world
        .cluster
        .put_live(set_with([("/metadata/uid", json!("another"))]));
    assert!(
        world
            .try_sync()
            .0
            .unwrap_err()
            .to_string()
            .contains("another object has its name")
    );
}

#[test]
fn a_failed_adoption_ends_the_reconcile() {
    let world = World::of(set(), 2).with([orphan("stray", "n0")]);
    world
        .cluster
        .fail("patch", POD, refusal(500, "InternalError"));
    let (outcome, writes) = world.try_sync();
    assert!(outcome.is_err());
    assert_eq!(moves(&writes), (0, 0));
}
