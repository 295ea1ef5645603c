//! The target: its Scale, its selector, and its update.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::{DEPLOYMENT, RESCALE, SCALE, STATUS, World, autoscaler, cpu};

#[test]
fn the_scale_is_updated_and_then_the_status() {
    let world = World::by_cpu();
    world.uses("800m");
    world.sync();
    let writes = world.cluster.writes();
    assert_eq!(
        [writes[0].to_string(), writes[1].to_string()],
        [RESCALE, STATUS]
    );
    assert_eq!(writes[0].body, json!({"spec": {"replicas": 5}}));
    assert_eq!(
        world.cluster.events(),
        [
            "Normal SuccessfulRescale New size: 5; reason: cpu resource utilization (percentage of request) above target"
        ]
    );
    let status = world.status();
    assert_eq!(
        [&status["currentReplicas"], &status["desiredReplicas"]],
        [3, 5]
    );
    assert_eq!(status["lastScaleTime"], "2026-01-01T00:00:15Z");
    assert_eq!(
        world.condition("AbleToScale"),
        "True SucceededRescale: the HPA controller was able to update the target scale to 5"
    );
}

#[test]
fn an_unchanged_status_is_not_written_again() {
    let world = World::by_cpu();
    world.uses("500m");
    world.sync();
    assert_eq!(world.written(), [STATUS]);
    assert_eq!(world.reason("AbleToScale"), "True ReadyForNewScale");
    for _ in 0..3 {
        world.sync();
    }
    assert!(world.written().is_empty());
}

#[test]
fn a_conflict_is_tried_again_with_the_latest_scale() {
    let world = World::by_cpu();
    world.uses("800m");
    let kind = format!("{DEPLOYMENT}/scale");
    for nth in 1..=4 {
        world
            .cluster
            .fail_nth("update", &kind, nth, refusal(409, "Conflict"));
    }
    world.sync();
    assert_eq!(
        world.written(),
        [RESCALE, RESCALE, RESCALE, RESCALE, RESCALE, STATUS]
    );
    let reads = world.cluster.live_reads();
    assert_eq!(
        reads
            .iter()
            .filter(|read| **read == format!("raw {SCALE}"))
            .count(),
        5
    );
}

#[test]
fn a_refused_update_is_reported() {
    let world = World::by_cpu();
    world.uses("800m");
    let error = ApiError::of_server(403, "Forbidden", "no");
    world
        .cluster
        .fail("update", &format!("{DEPLOYMENT}/scale"), error);
    world.sync();
    assert_eq!(world.written(), [RESCALE, STATUS]);
    assert_eq!(
        world.cluster.events(),
        [
            "Warning FailedRescale New size: 5; reason: cpu resource utilization (percentage of request) above target; error: no"
        ]
    );
    assert_eq!(
        world.condition("AbleToScale"),
        "False FailedUpdateScale: the HPA controller was unable to update the target scale: no"
    );
    let status = world.status();
    assert_eq!(
        [&status["currentReplicas"], &status["desiredReplicas"]],
        [3, 0]
    );
    assert!(status["lastScaleTime"].is_null());
}

#[test]
fn a_target_that_does_not_exist_is_reported() {
    let world = World::by_cpu();
    let error = ApiError::of_server(404, "NotFound", "deployments.apps \"web\" not found");
    world.cluster.fail("raw", SCALE, error);
    world.sync();
    assert_eq!(
        world.cluster.events(),
        ["Warning FailedGetScale deployments.apps \"web\" not found"]
    );
    assert_eq!(
        world.condition("AbleToScale"),
        "False FailedGetScale: the HPA controller was unable to get the target's current scale: deployments.apps \"web\" not found"
    );
    assert_eq!(world.status()["currentReplicas"], 0);
}

#[test]
fn a_target_without_a_scale_or_of_an_unknown_kind_is_reported() {
    let target = |api_version: &str, kind: &str| {
        let world = World::by_cpu();
        world.edit(|web| {
            let target = json!({"apiVersion": api_version, "kind": kind, "name": "web"});
            web["spec"]["scaleTargetRef"] = target;
        });
        world.sync();
        world.cluster.events()
    };
    assert_eq!(
        target("x.io/v1", "Moon"),
        ["Warning FailedGetScale no matches for kind \"Moon\" in group \"x.io\""]
    );
    assert_eq!(
        target("a/b/c", "Moon"),
        ["Warning FailedGetScale unexpected GroupVersion string: a/b/c"]
    );
    assert_eq!(
        target("v1", "Service"),
        ["Warning FailedGetScale the server could not find the requested resource"]
    );
}

#[test]
fn the_version_of_the_target_does_not_matter() {
    let world = World::by_cpu();
    world.edit(|web| web["spec"]["scaleTargetRef"]["apiVersion"] = "apps/v1beta1".into());
    world.uses("800m");
    assert_eq!(world.replicas(), 5);
}

#[test]
fn bounds_apply_without_metrics() {
    for (least, most, expected, reason) in [
        (1, 2, 2, "Current number of replicas above Spec.MaxReplicas"),
        (4, 9, 4, "Current number of replicas below Spec.MinReplicas"),
    ] {
        let world =
            World::new(json!({"minReplicas": least, "maxReplicas": most, "metrics": [cpu()]}));
        assert_eq!(world.replicas(), expected);
        assert_eq!(
            world.cluster.events(),
            [format!(
                "Normal SuccessfulRescale New size: {expected}; reason: {reason}"
            )]
        );
        assert_eq!(world.cluster.live_reads(), [format!("raw {SCALE}")]);
        assert_eq!(world.condition("ScalingActive"), "");
    }
}

#[test]
fn a_scale_needs_a_selector() {
    let world = World::by_cpu();
    world.scale_with(3, 3, "");
    world.sync();
    let events = world.cluster.events();
    assert_eq!(events[0], "Warning SelectorRequired selector is required");
    assert!(
        events[1].starts_with("Warning FailedComputeMetricsReplicas "),
        "{events:?}"
    );
    assert_eq!(
        world.condition("ScalingActive"),
        "False InvalidSelector: the HPA target's scale is missing a selector"
    );
}

#[test]
fn a_scale_with_a_malformed_selector_can_not_be_read() {
    let world = World::by_cpu();
    world.scale_with(3, 3, "a b");
    world.sync();
    let events = world.cluster.events();
    assert!(
        events[0].starts_with("Warning FailedGetScale received an object from a /scale endpoint"),
        "{events:?}"
    );
    assert_eq!(world.reason("AbleToScale"), "False FailedGetScale");
    assert_eq!(world.condition("ScalingActive"), "");
}

#[test]
fn two_autoscalers_may_not_scale_the_same_pods() {
    let world = World::by_cpu();
    let sync = |name: &str| {
        let key = format!("team/{name}");
        world
            .cluster
            .reconcile::<crate::HorizontalPodAutoscaler>(&key)
            .unwrap();
    };
    world.uses("500m");
    let spec = json!({"maxReplicas": 10, "metrics": [cpu()]});
    world.cluster.put(autoscaler("rival", spec));
    // The first one doesn't know yet which pods the other one has.
    sync("web");
    assert_eq!(world.reason("ScalingActive"), "True ValidMetricFound");
    sync("rival");
    let expected = "AmbiguousSelector pods by selector app=web are controlled by more than one HPA (e.g. [team/rival \
                    team/web])";
    assert_eq!(world.cluster.events()[0], format!("Warning {expected}"));
    sync("web");
    assert_eq!(
        world.condition("ScalingActive"),
        format!("False {}", expected.replacen(' ', ": ", 1))
    );
    // Not all are named.
    let spec = json!({"maxReplicas": 10, "metrics": [cpu()]});
    world.cluster.put(autoscaler("another", spec));
    sync("another");
    sync("web");
    let message = world.condition("ScalingActive");
    assert!(
        message.ends_with("(e.g. [team/another team/rival])"),
        "{message}"
    );
    let gate = "feature-gates.HPAOptimizedSelectorStore";
    world.cluster.set_config(gate, "false");
    world.cluster.set_config("emulated-version", "1.36");
    sync("web");
    let message = world.condition("ScalingActive");
    let all = "controlled by multiple HPAs: [team/another team/rival team/web]";
    assert!(message.ends_with(all), "{message}");
    world
        .cluster
        .remove(crate::views::Autoscaler::KIND, "team", "another");
    sync("another");
    // A deleted autoscaler has no pods.
    world
        .cluster
        .remove(crate::views::Autoscaler::KIND, "team", "rival");
    sync("rival");
    sync("web");
    assert_eq!(world.reason("ScalingActive"), "True ValidMetricFound");
}

#[test]
fn a_deleted_autoscaler_is_forgotten() {
    let world = World::by_cpu();
    world.uses("900m");
    assert_eq!(world.replicas(), 6);
    world
        .cluster
        .remove(crate::views::Autoscaler::KIND, "team", "web");
    let outcome = world
        .cluster
        .reconcile::<crate::HorizontalPodAutoscaler>("team/web");
    assert_eq!(outcome.unwrap(), Outcome::Done);
    world.cluster.put(autoscaler(
        "web",
        json!({"maxReplicas": 10, "metrics": [cpu()]}),
    ));
    world.scale(3);
    world.uses("100m");
    // Only the replicas that there are hold it up, not the six of before.
    assert_eq!(world.replicas(), 3);
}
