//! Which kinds are deleted, and what discovery that fails means.

use flyball_sdk::discovery::Discovered;
use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::kinds::{Kinds, deletable};

const WIDGET: &str = "example.com/v1/Widget";

fn found(kinds: Value) -> Kinds {
    deletable(Ok(serde_json::from_value::<Discovered>(kinds).unwrap()))
}

/// The kinds that are deleted of these.
fn kinds(kinds: &[(&str, &str, bool, &[&str])]) -> Vec<String> {
    let served = kinds.iter().map(|(kind, plural, namespaced, verbs)| {
        json!({"kind": kind, "plural": plural, "namespaced": namespaced, "verbs": verbs, "subresources": {"status": ["get"]}})
    });
    let found = found(json!({"kinds": served.collect::<Vec<_>>(), "failed": []}));
    assert_eq!((&found.undiscovered, &found.unreadable), (&None, &None));
    found.deletable.into_iter().map(|kind| kind.kind).collect()
}

#[test]
fn what_lies_in_namespaces_and_can_be_deleted_is_deleted() {
    let found = kinds(&[
        ("v1/Pod", "pods", true, ALL),
        ("v1/Node", "nodes", false, ALL),
        ("v1/Binding", "bindings", true, &["create"]),
        (
            "example.com/v1/Log",
            "logs",
            true,
            &["deletecollection", "list"],
        ),
        ("example.com/v1/Widget", "widgets", true, &["delete"]),
    ]);
    assert_eq!(found, ["v1/Pod", "example.com/v1/Widget"]);
}

#[test]
fn of_each_kind_the_preferred_version_alone_is_used() {
    let found = kinds(&[
        (
            "autoscaling/v2/HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            true,
            ALL,
        ),
        (
            "autoscaling/v1/HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            true,
            ALL,
        ),
        ("autoscaling/v1/Old", "olds", true, ALL),
        ("events.k8s.io/v1/Event", "events", true, ALL),
        ("v1/Event", "events", true, ALL),
        ("example.com/v2/Kept", "kepts", true, &["list"]),
        ("example.com/v1/Kept", "kepts", true, ALL),
    ]);
    assert_eq!(
        found,
        [
            "autoscaling/v2/HorizontalPodAutoscaler",
            "autoscaling/v1/Old",
            "events.k8s.io/v1/Event",
            "v1/Event"
        ]
    );
}

#[test]
fn of_a_group_version_whose_discovery_failed_nothing_is_used() {
    let found = found(json!({
        "kinds": [{"kind": "a.io/v2/A", "plural": "as", "namespaced": true, "verbs": ["delete"]},
                  {"kind": "a.io/v1/A", "plural": "as", "namespaced": true, "verbs": ["delete"]}],
        "failed": [{"groupVersion": "b.io/v1", "message": "late"}, {"groupVersion": "a.io/v2", "message": "stale"}],
    }));
    assert_eq!(
        found
            .deletable
            .iter()
            .map(|kind| kind.kind.as_str())
            .collect::<Vec<_>>(),
        ["a.io/v1/A"]
    );
    assert_eq!(
        found.undiscovered.unwrap(),
        "Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: a.io/v2: stale, \
         b.io/v1: late"
    );
}

#[test]
fn what_is_known_is_deleted_but_the_namespace_stays_until_all_is() {
    let world = World::of([object(MAP, "settings"), object(WIDGET, "a")]);
    world.cluster.fail_discovery(
        "example.com/v1",
        "stale GroupVersion discovery: example.com/v1",
    );
    let message = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
                   example.com/v1: stale GroupVersion discovery: example.com/v1";
    assert_eq!(world.fail(), message);
    assert!(!world.has(MAP, "settings") && world.has(WIDGET, "a"));
    assert_eq!(
        world.bad_news(),
        [format!(
            "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: {message}"
        )]
    );
    assert_eq!(
        world.namespace().unwrap()["spec"]["finalizers"],
        json!(["kubernetes"])
    );

    world.cluster.set_kinds(json!({"kinds": [], "failed": []}));
    world.cluster.serve(WIDGET, "widgets", true, ALL);
    assert_eq!(world.sync(), Outcome::Done);
    assert!(!world.has(WIDGET, "a") && world.namespace().is_none());
}

#[test]
fn while_pods_remain_failed_discovery_is_told_too() {
    let world = World::of([running("web", 30)]);
    world.cluster.fail_discovery("example.com/v1", "stale");
    assert!(world.fail().contains("example.com/v1: stale"));
    assert_eq!(world.bad_news().len(), 2);
}

#[test]
fn without_discovery_nothing_is_deleted_and_the_namespace_stays() {
    let world = World::of([object(MAP, "settings")]);
    world
        .cluster
        .fail("discover", "", refusal(0, "Unreachable"));
    assert_eq!(world.fail(), "the test refuses this: Unreachable");
    assert_eq!(world.cluster.written(), [TELL]);
    assert_eq!(
        world.bad_news(),
        [
            "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: the test refuses this: Unreachable"
        ]
    );
}

#[test]
fn a_group_version_that_makes_no_sense_keeps_the_namespace() {
    let world = World::of([object(MAP, "settings")]);
    let served = |kind: &str| json!({"kind": kind, "plural": "as", "namespaced": true, "verbs": ["delete", "deletecollection"]});
    world
        .cluster
        .set_kinds(json!({"kinds": [served("a/b/c/A"), served("v1/ConfigMap")], "failed": []}));
    assert_eq!(world.fail(), "unexpected GroupVersion string: a/b/c");
    assert!(!world.has(MAP, "settings"));
    assert_eq!(
        world.bad_news(),
        [
            "NamespaceDeletionGroupVersionParsingFailure True GroupVersionParsingFailed: unexpected GroupVersion string: \
          a/b/c"
        ]
    );
}

#[test]
fn a_kind_that_is_served_only_later_is_found_by_the_next_reconcile() {
    let world = World::of([held(MAP, "slow", &["example.com/x"]), object(WIDGET, "a")]);
    world.sync();
    world.cluster.serve(WIDGET, "widgets", true, ALL);
    world.sync();
    assert!(!world.has(WIDGET, "a"));
}
