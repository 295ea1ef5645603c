//! DaemonSets for which nothing is done.

use flyball_sdk::prelude::*;

use super::world::*;

#[test]
fn a_set_that_is_being_deleted_is_left_alone() {
    let world = World::of(
        set_with([("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))]),
        1,
    )
    .with([
        pod("p", "gone"),
        unscheduled("stranded", "gone"),
        orphan("stray", "n0"),
    ]);
    assert!(world.written().is_empty());
    assert!(world.cluster.events().is_empty());
}

#[test]
fn a_set_that_selects_everything_is_reported_and_left_alone() {
    for selector in [json!({}), json!({"matchLabels": {}})] {
        let world =
            World::of(set_with([("/spec/selector", selector)]), 1).with([orphan("stray", "n0")]);
        assert!(world.written().is_empty());
        assert_eq!(
            world.cluster.events(),
            [
                "Warning SelectingAll This daemon set is selecting all pods. A non-empty selector is required."
            ]
        );
    }
}

#[test]
fn an_invalid_selector_is_an_error() {
    let world = World::of(
        set_with([("/spec/selector", json!({"matchLabels": {"not a key": ""}}))]),
        1,
    );
    let (outcome, writes) = world.try_sync();
    assert!(outcome.unwrap_err().to_string().contains("not a key"));
    assert!(writes.is_empty());
}

#[test]
fn a_set_without_a_selector_adopts_nothing() {
    let world =
        World::of(set_with([("/spec/selector", json!(null))]), 0).with([orphan("stray", "n0")]);
    assert_eq!(world.sync(), (0, 0));
    assert!(world.pods()[0]["metadata"]["ownerReferences"].is_null());
}
