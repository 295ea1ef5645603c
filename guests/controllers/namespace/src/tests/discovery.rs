//! The kinds that are deleted, and the effect of failed discovery.

use flyball_sdk::discovery::{Catalogue, DiscoveryFailure, ServedKind};
use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::kinds::{Kinds, deletable};

const WIDGET: &str = "example.com/v1/Widget";

fn found(kinds: Vec<ServedKind>, failures: &[(&str, &str)]) -> Kinds {
    let failure = |(group_version, message): &(&str, &str)| DiscoveryFailure {
        group_version: (*group_version).into(),
        message: (*message).into(),
    };
    let failures = failures.iter().map(failure).collect();
    deletable(Ok(Catalogue { kinds, failures }))
}

fn served(kind: &str, plural: &str, namespaced: bool, verbs: &[&str]) -> ServedKind {
    ServedKind {
        kind: kind.into(),
        plural: plural.into(),
        namespaced,
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..ServedKind::default()
    }
}

/// The deletable ones of these kinds.
fn kinds(kinds: &[(&str, &str, bool, &[&str])]) -> Vec<String> {
    let kinds = kinds
        .iter()
        .map(|(kind, plural, namespaced, verbs)| served(kind, plural, *namespaced, verbs));
    let found = found(kinds.collect(), &[]);
    assert_eq!((&found.undiscovered, &found.unparsable), (&None, &None));
    found.deletable.into_iter().map(|kind| kind.kind).collect()
}

#[test]
fn namespaced_kinds_that_can_be_deleted_are_deleted() {
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
fn only_pods_of_the_core_group_are_deleted_first() {
    let kinds = ["v1/Pod", "metrics.k8s.io/v1beta1/PodMetrics"];
    let found = found(
        kinds.map(|kind| served(kind, "pods", true, ALL)).into(),
        &[],
    );
    let are_pods = found.deletable.iter().map(|kind| kind.is_pods());
    assert_eq!(are_pods.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn only_the_preferred_version_of_each_kind_is_used() {
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
fn group_versions_whose_discovery_failed_are_skipped() {
    let kinds = ["a.io/v2/A", "a.io/v1/A"].map(|kind| served(kind, "as", true, &["delete"]));
    let found = found(kinds.into(), &[("b.io/v1", "late"), ("a.io/v2", "stale")]);
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
fn discovered_kinds_are_deleted_but_the_namespace_is_kept_until_all_are_discovered() {
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
        world.true_conditions(),
        [format!(
            "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: {message}"
        )]
    );
    assert_eq!(
        world.namespace().unwrap()["spec"]["finalizers"],
        json!(["kubernetes"])
    );

    world.cluster.set_catalogue(Catalogue::default());
    world.cluster.serve(WIDGET, "widgets", true, ALL);
    assert_eq!(world.sync(), Outcome::Done);
    assert!(!world.has(WIDGET, "a") && world.namespace().is_none());
}

#[test]
fn failed_discovery_is_reported_while_pods_remain() {
    let world = World::of([running("web", 30)]);
    world.cluster.fail_discovery("example.com/v1", "stale");
    assert!(world.fail().contains("example.com/v1: stale"));
    assert_eq!(world.true_conditions().len(), 2);
}

#[test]
fn without_discovery_nothing_is_deleted_and_the_namespace_is_kept() {
    let world = World::of([object(MAP, "settings")]);
    world
        .cluster
        .fail("discover", "", refusal(503, "Unreachable"));
    assert_eq!(world.fail(), "the test refuses this: Unreachable");
    assert_eq!(world.cluster.written(), [UPDATE_STATUS]);
    assert_eq!(
        world.true_conditions(),
        [
            "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: the test refuses this: Unreachable"
        ]
    );
}

#[test]
fn an_invalid_group_version_keeps_the_namespace() {
    let world = World::of([object(MAP, "settings")]);
    let kinds = ["a/b/c/A", "v1/ConfigMap"]
        .map(|kind| served(kind, "as", true, &["delete", "deletecollection"]));
    world.cluster.set_catalogue(Catalogue {
        kinds: kinds.into(),
        failures: Vec::new(),
    });
    assert_eq!(world.fail(), "unexpected GroupVersion string: a/b/c");
    assert!(!world.has(MAP, "settings"));
    assert_eq!(
        world.true_conditions(),
        [
            "NamespaceDeletionGroupVersionParsingFailure True GroupVersionParsingFailed: unexpected GroupVersion string: \
          a/b/c"
        ]
    );
}

#[test]
fn a_kind_served_later_is_found_by_the_next_reconcile() {
    let world = World::of([held(MAP, "slow", &["example.com/x"]), object(WIDGET, "a")]);
    world.sync();
    world.cluster.serve(WIDGET, "widgets", true, ALL);
    world.sync();
    assert!(!world.has(WIDGET, "a"));
}
