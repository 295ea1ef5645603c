//! The changes of namespaces that cause a reconcile, and its delay.

use flyball_sdk::Delta;
use flyball_sdk::prelude::*;
use flyball_sdk::testing;

use super::world::*;
use crate::{GRACE_PERIOD, NamespaceController};

fn delta(new: &Value, initial: bool) -> Delta {
    let was = active("team");
    let old = Some(&was).filter(|_| !initial);
    let new = Some(new).filter(|new| !new.is_null());
    Delta {
        initial,
        ..testing::delta(NAMESPACE, old, new)
    }
}

fn active(name: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {"phase": "Active"}})
}

/// The keys that these changes enqueue, with their delays in milliseconds.
fn route(world: &World, deltas: &[Delta]) -> Vec<(String, u128)> {
    let routed = NamespaceController::route(&world.cluster.host(), deltas).unwrap();
    routed
        .iter()
        .map(|routed| (routed.key.to_string(), routed.delay.as_millis()))
        .collect()
}

#[test]
fn only_a_namespace_being_deleted_is_reconciled_after_five_seconds() {
    let world = World::bare([]);
    let deltas = [
        delta(&active("a"), false),
        delta(&namespace(), false),
        delta(&namespace(), true),
    ];
    assert_eq!(
        route(&world, &deltas),
        [("team".to_owned(), 5_000), ("team".to_owned(), 5_000)]
    );
    assert!(
        route(
            &world,
            &[delta(&active("a"), true), delta(&Value::Null, false)]
        )
        .is_empty()
    );
}

#[test]
fn the_operator_configures_the_delay() {
    let world = World::bare([]);
    world.cluster.set_config(GRACE_PERIOD, "1500ms");
    assert_eq!(
        route(&world, &[delta(&namespace(), false)]),
        [("team".to_owned(), 1_500)]
    );
}

#[test]
fn an_invalid_delay_is_reported_and_nothing_is_deleted() {
    let world = World::of([object(MAP, "settings")]);
    world.cluster.set_config(GRACE_PERIOD, "soon");
    assert_eq!(
        route(&world, &[delta(&namespace(), false)]),
        [("team".to_owned(), 5_000)]
    );
    let error = world.try_sync().unwrap_err();
    assert!(
        error.is_terminal() && error.to_string().contains("`soon`"),
        "{error}"
    );
    assert!(world.has(MAP, "settings"));
}
