//! Controllers whose scale is read live.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::{World, controlled, pod, scale};

const WIDGET: &str = "example.com/v1/Widget";
const PATH: &str = "/apis/example.com/v1/namespaces/team/widgets/web/scale";

/// A world in which widgets have a scale, with this budget and pods of the widget `web`.
fn world(spec: Value, pods: &[&str]) -> World {
    let world = World::with(
        spec,
        pods.iter().map(|name| controlled(pod(name), WIDGET, "web")),
    );
    serve(&world, WIDGET);
    world
}

fn serve(world: &World, kind: &str) {
    world.cluster.serve(kind, "widgets", true, &["get"]);
    world.cluster.serve_subresource(kind, "status", &["get"]);
    world.cluster.serve_subresource(kind, "scale", &["get"]);
}

#[test]
fn a_custom_resource_with_a_scale_is_a_controller() {
    let world = world(json!({"maxUnavailable": 5}), &["a", "b", "c", "d"]);
    world.cluster.put_raw(PATH, scale("web", 8));
    world.sync();
    assert_eq!(world.numbers(), [1, 4, 3, 8]);
    assert_eq!(world.cluster.live_reads(), [format!("raw {PATH}")]);
}

#[test]
fn a_scale_without_replicas_is_zero() {
    let world = world(json!({"maxUnavailable": 5}), &["a"]);
    world
        .cluster
        .put_raw(PATH, json!({"metadata": {"uid": "web"}, "spec": {}}));
    world.sync();
    assert_eq!(world.numbers(), [0, 1, 0, 0]);
}

#[test]
fn a_kind_of_the_core_group_has_a_path_of_its_own() {
    let kind = "v1/Gadget";
    let world = World::with(
        json!({"maxUnavailable": 1}),
        [controlled(pod("a"), kind, "web")],
    );
    world.cluster.serve(kind, "gadgets", true, &["get"]);
    world.cluster.serve_subresource(kind, "scale", &["get"]);
    world
        .cluster
        .put_raw("/api/v1/namespaces/team/gadgets/web/scale", scale("web", 1));
    world.sync();
    assert_eq!(world.numbers(), [1, 1, 0, 1]);
}

#[test]
fn the_scale_is_read_in_the_preferred_version() {
    let old = "example.com/v1alpha1/Widget";
    let world = World::with(
        json!({"maxUnavailable": 1}),
        [controlled(pod("a"), old, "web")],
    );
    serve(&world, WIDGET);
    world.cluster.serve(old, "widgets", true, &["get"]);
    world.cluster.put_raw(PATH, scale("web", 1));
    world.sync();
    assert_eq!(world.numbers(), [1, 1, 0, 1]);
}

#[test]
fn several_scales_are_summed() {
    let spec = json!({"minAvailable": "50%"});
    let world = world(spec, &["a", "b"]);
    world.cluster.put(controlled(pod("c"), WIDGET, "other"));
    world.cluster.put_raw(PATH, scale("web", 2));
    let other = "/apis/example.com/v1/namespaces/team/widgets/other/scale";
    world.cluster.put_raw(other, scale("other", 3));
    world.sync();
    assert_eq!(world.numbers(), [0, 3, 3, 5]);
    assert_eq!(
        world.cluster.live_reads(),
        [format!("raw {PATH}"), format!("raw {other}")]
    );
}

#[test]
fn the_path_of_a_kind_is_reused_for_some_time() {
    let world = world(json!({"maxUnavailable": 1}), &["a"]);
    world.cluster.put_raw(PATH, scale("web", 1));
    world.sync();
    world.cluster.set_catalogue(Default::default());
    world.sync();
    assert_eq!(world.condition(), "True SufficientPods: ");
    world.cluster.advance(Duration::from_secs(31));
    world.sync();
    assert_eq!(
        world.condition(),
        "False SyncFailed: no matches for kind \"Widget\" in version \"example.com/v1\""
    );
}

#[test]
fn a_kind_without_a_scale_is_a_failure_until_it_has_one() {
    for (kind, plural, message) in [
        (
            "batch/v1/Job",
            "jobs",
            "jobs.batch does not implement the scale subresource",
        ),
        (
            "v1/Node",
            "nodes",
            "nodes does not implement the scale subresource",
        ),
    ] {
        let world = World::with(
            json!({"minAvailable": "50%"}),
            [controlled(pod("a"), kind, "x")],
        );
        world.cluster.serve(kind, plural, true, &["get"]);
        world.cluster.serve_subresource(kind, "status", &["get"]);
        world.sync();
        assert_eq!(world.condition(), format!("False SyncFailed: {message}"));
        assert_eq!(
            world.events(),
            [format!(
                "Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: {message}"
            )]
        );
        assert!(world.cluster.live_reads().is_empty());
        world.cluster.serve_subresource(kind, "scale", &["get"]);
        world.sync();
        assert!(
            world
                .condition()
                .ends_with("found no controllers for pod \"a\"")
        );
    }
}

#[test]
fn a_controller_that_does_not_exist_is_a_failure() {
    let gone = world(json!({"maxUnavailable": 1}), &["a"]);
    let recreated = world(json!({"maxUnavailable": 1}), &["a"]);
    recreated.cluster.put_raw(PATH, scale("another", 3));
    for world in [gone, recreated] {
        world.sync();
        assert_eq!(
            world.condition(),
            "False SyncFailed: found no controllers for pod \"a\""
        );
    }
}

#[test]
fn the_name_of_an_owner_does_not_lead_to_another_path() {
    for name in ["../../../secrets/x", "a/b", "..", "a?b", "a%2fb", ""] {
        let mut owned = controlled(pod("a"), WIDGET, "web");
        owned["metadata"]["ownerReferences"][0]["name"] = name.into();
        let world = world(json!({"maxUnavailable": 1}), &[]);
        world.cluster.put(owned);
        world.sync();
        assert_eq!(
            world.condition(),
            "False SyncFailed: found no controllers for pod \"a\""
        );
        assert!(world.cluster.live_reads().is_empty(), "{name}");
    }
}

#[test]
fn a_failed_read_is_a_failure_with_the_servers_message() {
    let world = world(json!({"maxUnavailable": 1}), &["a"]);
    world.cluster.fail("raw", PATH, refusal(403, "Forbidden"));
    world.sync();
    assert_eq!(
        world.condition(),
        "False SyncFailed: the test refuses this: Forbidden"
    );
    world.cluster.put_raw(PATH, json!({"metadata": 1}));
    world.sync();
    assert!(
        world.condition().contains("malformed"),
        "{}",
        world.condition()
    );
    world.cluster.put_raw(PATH, scale("web", 1));
    world.sync();
    assert_eq!(world.condition(), "True SufficientPods: ");
}

#[test]
fn a_failed_discovery_is_a_failure() {
    let world = world(json!({"maxUnavailable": 1}), &["a"]);
    world
        .cluster
        .fail("discover", "", ApiError::unreachable("no route"));
    world.sync();
    assert_eq!(world.condition(), "False SyncFailed: no route");
}
