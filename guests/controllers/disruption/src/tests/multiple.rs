//! Pods of several budgets.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::view;

use super::world::{BUDGET, POD, World, budget, pod};
use crate::multiple::contested;
use crate::views::{LabelledPod, Rival};

/// The budgets `budget` and `another`, reconciled without pods.
fn world() -> World {
    let spec = json!({"minAvailable": 1});
    let world = World::with(spec.clone(), [budget("another", spec)]);
    sync_both(&world);
    world.events();
    world
}

fn sync_both(world: &World) {
    world.sync();
    world.sync_of("another");
}

#[test]
fn a_pod_of_two_budgets_causes_one_warning_about_it() {
    let world = world();
    world.cluster.put(pod("web"));
    sync_both(&world);
    let [(about, message)] = world.events_about().try_into().unwrap();
    assert_eq!((about.kind.as_str(), about.name.as_str()), (POD, "web"));
    assert_eq!(
        message,
        "Pod \"team\"/\"web\" matches multiple PodDisruptionBudgets.  Chose \"another\" arbitrarily."
    );
}

#[test]
fn both_budgets_are_up_to_date() {
    let world = world();
    world.cluster.put(pod("web"));
    sync_both(&world);
    for name in ["budget", "another"] {
        assert_eq!(world.status_of(name)["currentHealthy"], 1);
    }
}

#[test]
fn each_change_of_the_pod_repeats_the_warning() {
    let world = world();
    world.cluster.put(pod("web"));
    sync_both(&world);
    world.set_ready("web", "False");
    sync_both(&world);
    sync_both(&world);
    let warning = |event: &String| event.starts_with("Warning MultiplePodDisruptionBudgets ");
    assert_eq!(
        world.events().iter().filter(|event| warning(event)).count(),
        2
    );
}

#[test]
fn a_budget_for_existing_pods_of_another_causes_no_warning_until_a_pod_changes() {
    let spec = json!({"minAvailable": 1});
    let world = World::with(spec.clone(), [pod("web")]);
    world.sync();
    world.cluster.put(budget("another", spec));
    // Its creation enqueues only itself.
    world.sync_of("another");
    sync_both(&world);
    assert!(world.events().is_empty());
    world.set_ready("web", "False");
    sync_both(&world);
    assert_eq!(world.events().len(), 1);
}

#[test]
fn a_selector_that_changes_causes_no_warning_until_a_pod_changes() {
    let world = World::with(
        json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "none"}}}),
        [budget("another", json!({"minAvailable": 1})), pod("web")],
    );
    sync_both(&world);
    world.events();
    world.cluster.edit(BUDGET, "team", "budget", |budget| {
        budget["spec"]["selector"] = json!({});
        budget["metadata"]["generation"] = 2.into();
    });
    sync_both(&world);
    assert!(world.events().is_empty());
    world.set_ready("web", "False");
    world.sync();
    assert_eq!(world.events().len(), 1);
}

#[test]
fn a_budget_that_keeps_failing_warns_as_well() {
    let spec = json!({"maxUnavailable": "50%"});
    let world = World::with(spec, [budget("another", json!({"minAvailable": 1}))]);
    world.sync();
    world.events();
    let failed = super::world::controlled(pod("web"), "example.com/v1/None", "none");
    world.cluster.put(failed);
    world.sync();
    world.cluster.edit(BUDGET, "team", "budget", |budget| {
        budget["metadata"]["generation"] = 2.into();
    });
    world.sync();
    world.set_ready("web", "False");
    world.sync();
    let warning = |event: &String| event.starts_with("Warning MultiplePodDisruptionBudgets ");
    assert_eq!(
        world.events().iter().filter(|event| warning(event)).count(),
        2
    );
}

#[test]
fn only_budgets_whose_selector_is_valid_and_matches_contest_a_pod() {
    let rival = |name: &str, selector: Value| -> Rival {
        view(budget(name, json!({"selector": selector})))
    };
    let rivals = [
        rival("a-none", Value::Null),
        rival("b-invalid", json!({"matchLabels": {"a/b/c": "d"}})),
        rival("c-other", json!({"matchLabels": {"app": "db"}})),
        rival("own", json!({"matchLabels": {"app": "web"}})),
    ];
    let pods: Vec<LabelledPod> = vec![view(pod("web"))];
    assert!(contested("own", &pods, &rivals).is_empty());
    let everything = rival("x-all", json!({}));
    let all: Vec<Rival> = rivals.into_iter().chain([everything]).collect();
    let found = contested("own", &pods, &all);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].1, "own");
}
