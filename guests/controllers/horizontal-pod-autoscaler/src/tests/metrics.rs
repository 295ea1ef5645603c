//! The metrics APIs: paths, values, and the status that shows them.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::{SCALE, USAGE, World, autoscaler, external, usage};

const CUSTOM: &str = "/apis/custom.metrics.k8s.io";

/// A world whose custom metrics have these versions, the preferred one first.
fn custom(metric: Value, versions: &[&str]) -> World {
    let world = World::new(json!({"maxReplicas": 10, "metrics": [metric]}));
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"version": version}))
        .collect();
    let group = json!({"preferredVersion": versions[0], "versions": versions});
    world.cluster.put_raw(CUSTOM, group);
    world
}

fn of_pods() -> Value {
    json!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "10"}}})
}

fn of_object(kind: &str, api_version: &str, target: Value) -> Value {
    json!({"type": "Object", "object": {"metric": {"name": "hits", "selector": {"matchLabels": {"verb": "GET"}}},
           "describedObject": {"kind": kind, "name": "front", "apiVersion": api_version}, "target": target}})
}

fn values(window: &str, pods: &[(&str, &str)]) -> Value {
    let item = |(pod, value): &(&str, &str)| {
        let mut item = json!({"describedObject": {"kind": "Pod", "name": pod}, "timestamp": "2026-01-01T00:00:00Z", "value": value});
        item[window] = 30.into();
        item
    };
    json!({"items": pods.iter().map(item).collect::<Vec<_>>()})
}

fn current(world: &World) -> Value {
    world.status()["currentMetrics"].clone()
}

#[test]
fn a_resource_is_listed_for_the_pods_of_the_selector() {
    let world = World::by_cpu();
    world.uses("800m");
    assert_eq!(world.replicas(), 5);
    assert_eq!(
        world.cluster.live_reads()[..2],
        [format!("raw {SCALE}"), format!("raw {USAGE}")]
    );
    assert_eq!(
        current(&world),
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 80, "averageValue": "800m"}}}])
    );
    assert_eq!(
        world.condition("ScalingActive"),
        "True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization \
         (percentage of request)"
    );
}

#[test]
fn an_average_of_memory_is_shown_in_binary_units() {
    let target = json!({"type": "AverageValue", "averageValue": "25Mi"});
    let world = World::new(json!({"maxReplicas": 10, "metrics": [
        {"type": "Resource", "resource": {"name": "memory", "target": target}}]}));
    world.uses("1");
    assert_eq!(world.replicas(), 6);
    assert_eq!(
        current(&world)[0]["resource"]["current"],
        json!({"averageValue": "50Mi"})
    );
    assert!(
        world
            .condition("ScalingActive")
            .ends_with("from memory resource")
    );
}

#[test]
fn a_container_resource_counts_one_container() {
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    let world = World::new(json!({"maxReplicas": 10, "metrics": [
        {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": target}}]}));
    let mut values = usage([("a", "1"), ("b", "1"), ("c", "1")]);
    for item in values["items"].as_array_mut().unwrap() {
        let sidecar = json!({"name": "sidecar", "usage": {"cpu": "9"}});
        item["containers"].as_array_mut().unwrap().push(sidecar);
    }
    world.cluster.put_raw(USAGE, values);
    assert_eq!(world.replicas(), 6);
    assert_eq!(
        current(&world)[0],
        json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app",
               "current": {"averageUtilization": 100, "averageValue": "1"}}})
    );
    assert!(
        world
            .condition("ScalingActive")
            .ends_with("from cpu container resource utilization (percentage of request)")
    );
}

#[test]
fn a_pod_with_a_container_that_reports_nothing_is_missing() {
    let world = World::by_cpu();
    let mut values = usage([("a", "500m"), ("b", "500m"), ("c", "500m")]);
    values["items"][0]["containers"][0]["usage"] = json!({});
    values["items"][1]["containers"] = json!([]);
    world.cluster.put_raw(USAGE, values);
    assert_eq!(world.replicas(), 3);
    assert_eq!(
        current(&world)[0]["resource"]["current"]["averageValue"],
        "500m"
    );
}

#[test]
fn pods_metrics_are_read_in_the_preferred_version() {
    for (versions, version, window) in [
        (&["v1beta2", "v1beta1"][..], "v1beta2", "windowSeconds"),
        (&["v1beta1", "v1beta2"], "v1beta1", "window"),
        (&["v2", "v1beta1"], "v1beta1", "window"),
    ] {
        let world = custom(of_pods(), versions);
        let path = format!("{CUSTOM}/{version}/namespaces/team/pods/*/qps?labelSelector=app%3Dweb");
        world.cluster.put_raw(
            &path,
            values(window, &[("a", "20"), ("b", "20"), ("c", "500m")]),
        );
        assert_eq!(world.replicas(), 5);
        assert_eq!(
            current(&world),
            json!([{"type": "Pods", "pods": {"metric": {"name": "qps"}, "current": {"averageValue": "13500m"}}}])
        );
        assert!(
            world
                .condition("ScalingActive")
                .ends_with("from pods metric qps")
        );
        // The version is reused within a period.
        let raw = format!("raw {CUSTOM}");
        world.cluster.live_reads();
        world
            .cluster
            .reconcile::<crate::HorizontalPodAutoscaler>("team/web")
            .unwrap();
        assert!(!world.cluster.live_reads().contains(&raw));
    }
}

#[test]
fn an_object_metric_is_one_value() {
    let target = json!({"type": "Value", "value": "100"});
    let world = custom(of_object("Service", "v1", target), &["v1beta2"]);
    let path = format!(
        "{CUSTOM}/v1beta2/namespaces/team/services/front/hits?metricLabelSelector=verb%3DGET"
    );
    world
        .cluster
        .put_raw(&path, json!({"items": [{"value": "200"}]}));
    assert_eq!(world.replicas(), 6);
    assert_eq!(
        current(&world)[0]["object"],
        json!({"metric": {"name": "hits", "selector": {"matchLabels": {"verb": "GET"}}}, "current": {"value": "200"},
               "describedObject": {"kind": "Service", "name": "front", "apiVersion": "v1"}})
    );
    assert!(
        world
            .condition("ScalingActive")
            .ends_with("from Service metric hits")
    );
    world.cluster.put_raw(&path, json!({"items": []}));
    world.cluster.events();
    world.sync();
    assert_eq!(
        world.cluster.events()[0],
        "Warning FailedGetObjectMetric unable to get metric hits on Service team/front: unable to fetch metrics from custom \
         metrics API: the custom metrics API server returned 0 results when we asked for exactly one"
    );
    world.cluster.set_config("emulated-version", "1.36");
    world.cluster.events();
    world.sync();
    assert_eq!(
        world.cluster.events()[0],
        "Warning FailedGetObjectMetric unable to get metric hits: Service on team front/unable to fetch metrics from custom \
         metrics API: the custom metrics API server returned 0 results when we asked for exactly one"
    );
}

#[test]
fn an_object_of_another_group_has_the_group_in_its_path() {
    let target = json!({"type": "AverageValue", "averageValue": "50"});
    let world = custom(of_object("Deployment", "apps/v1", target), &["v1beta2"]);
    let path = format!(
        "{CUSTOM}/v1beta2/namespaces/team/deployments.apps/front/hits?metricLabelSelector=verb%3DGET"
    );
    world
        .cluster
        .put_raw(&path, json!({"items": [{"value": "210"}]}));
    assert_eq!(world.replicas(), 5);
    assert_eq!(
        current(&world)[0]["object"]["current"],
        json!({"averageValue": "70"})
    );
    assert!(world.condition("ScalingActive").ends_with(
        "from external metric hits(&LabelSelector{MatchLabels:map[string]string{verb: GET,},\
         MatchExpressions:[]LabelSelectorRequirement{},})"
    ));
}

#[test]
fn a_namespace_is_always_the_own_one() {
    let target = json!({"type": "Value", "value": "100"});
    let world = custom(of_object("Namespace", "v1", target), &["v1beta2"]);
    let path =
        format!("{CUSTOM}/v1beta2/namespaces/team/metrics/hits?metricLabelSelector=verb%3DGET");
    world
        .cluster
        .put_raw(&path, json!({"items": [{"value": "200"}]}));
    assert_eq!(world.replicas(), 6);
}

#[test]
fn external_metrics_are_summed() {
    let world = World::new(
        json!({"maxReplicas": 10, "metrics": [external(json!({"type": "Value", "value": "100"}))]}),
    );
    world.put_external(&["50", "100"]);
    assert_eq!(world.replicas(), 5);
    assert_eq!(
        current(&world),
        json!([{"type": "External", "external": {"metric": {"name": "depth"}, "current": {"value": "150"}}}])
    );
    assert!(
        world
            .condition("ScalingActive")
            .ends_with("from external metric depth(nil)")
    );
    let world = World::new(
        json!({"maxReplicas": 10, "metrics": [external(json!({"type": "AverageValue", "averageValue": "30"}))]}),
    );
    world.put_external(&["50", "100"]);
    assert_eq!(world.replicas(), 5);
    assert_eq!(
        current(&world)[0]["external"]["current"],
        json!({"averageValue": "50"})
    );
}

#[test]
fn names_and_selectors_are_escaped() {
    let metric = json!({"name": "sqs|depth", "selector": {"matchExpressions": [
        {"key": "queue", "operator": "In", "values": ["a", "b"]}, {"key": "dead", "operator": "DoesNotExist"}]}});
    let target = json!({"type": "Value", "value": "1"});
    let world = World::new(json!({"maxReplicas": 10, "metrics": [
        {"type": "External", "external": {"metric": metric, "target": target}}]}));
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/team/sqs%7Cdepth?labelSelector=%21dead%2Cqueue%20in%20%28a%2Cb%29";
    world
        .cluster
        .put_raw(path, json!({"items": [{"value": "2"}]}));
    assert_eq!(world.replicas(), 6, "{:?}", world.cluster.live_reads());
}

#[test]
fn the_greatest_of_several_metrics_wins() {
    let metrics = json!([
        super::world::cpu(),
        external(json!({"type": "Value", "value": "100"}))
    ]);
    let world = World::new(json!({"maxReplicas": 10, "metrics": metrics}));
    world.uses("600m");
    world.put_external(&["150"]);
    assert_eq!(world.replicas(), 5);
    assert!(
        world
            .condition("ScalingActive")
            .ends_with("from external metric depth(nil)")
    );
    assert_eq!(
        world.cluster.events(),
        ["Normal SuccessfulRescale New size: 5; reason: external metric depth(nil) above target"]
    );
}

#[test]
fn an_invalid_metric_keeps_the_others_from_scaling_down_only() {
    let metrics = json!([
        external(json!({"type": "Value", "value": "100"})),
        super::world::cpu()
    ]);
    let world = World::new(json!({"maxReplicas": 10, "metrics": metrics}));
    world.uses("800m");
    assert_eq!(world.replicas(), 5);
    assert_eq!(world.reason("ScalingActive"), "True ValidMetricFound");
    assert_eq!(current(&world)[0], json!({"type": ""}));
    world.cluster.advance(std::time::Duration::from_secs(600));
    world.cluster.events();
    world.uses("10m");
    assert_eq!(world.replicas(), 5);
    assert_eq!(
        world.reason("ScalingActive"),
        "False FailedGetExternalMetric"
    );
    let events = world.cluster.events();
    assert!(events[1].starts_with("Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 2), first error is: failed to get depth external metric value: failed to get external metric depth: unable to get external metric team/depth/nil: unable to fetch metrics from external metrics API:"), "{events:?}");
    assert_eq!(world.status()["desiredReplicas"], 5);
}

#[test]
fn an_api_that_is_not_served_is_named_as_by_the_client() {
    let world = World::by_cpu();
    let bare = "GET /apis/metrics.k8s.io/v1beta1/namespaces/team/pods was answered with 404 Not Found: 404 page not found";
    let error = ApiError::of_server(404, "NotFound", bare);
    world.cluster.fail("raw", USAGE, error);
    world.sync();
    let cause = "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource \
                 metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)";
    assert_eq!(
        world.cluster.events(),
        [
            format!("Warning FailedGetResourceMetric {cause}"),
            format!(
                "Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed to get cpu \
                 resource metric value: {cause}"
            ),
        ]
    );
    assert_eq!(
        world.condition("ScalingActive"),
        format!(
            "False FailedGetResourceMetric: the HPA was unable to compute the replica count: {cause}"
        )
    );
    assert_eq!(current(&world), json!([{"type": ""}]));
}

#[test]
fn each_source_has_a_reason_of_its_own() {
    let target = json!({"type": "AverageValue", "averageValue": "1"});
    for (metric, reason, cause) in [
        (
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 1}}}),
            "FailedGetContainerResourceMetric",
            "first error is: failed to get app container metric value: failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API",
        ),
        (
            of_pods(),
            "FailedGetPodsMetric",
            "first error is: failed to get pods metric value: unable to get metric qps: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
        ),
        (
            of_object("Service", "v1", target.clone()),
            "FailedGetObjectMetric",
            "first error is: failed to get object metric value: failed to get hits object metric: unable to get metric hits on Service team/front: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
        ),
        (
            external(target),
            "FailedGetExternalMetric",
            "first error is: failed to get depth external metric value: failed to get depth external metric: unable to get external metric team/depth/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource",
        ),
        (
            json!({"type": "Moon"}),
            "InvalidMetricSourceType",
            "first error is: unknown metric source type \"Moon\"",
        ),
    ] {
        let world = World::new(json!({"maxReplicas": 10, "metrics": [metric]}));
        world.cluster.put_raw(USAGE, json!({"items": []}));
        world.sync();
        assert_eq!(world.reason("ScalingActive"), format!("False {reason}"));
        let events = world.cluster.events();
        assert!(
            events[0].starts_with(&format!("Warning {reason} ")),
            "{events:?}"
        );
        assert!(events[1].ends_with(cause), "{events:?}");
    }
}

#[test]
fn custom_metrics_without_a_known_version_are_an_error() {
    let world = custom(of_pods(), &["v9"]);
    world.sync();
    let condition = world.condition("ScalingActive");
    assert!(
        condition.ends_with("no known available metric versions found"),
        "{condition}"
    );
}

#[test]
fn an_unknown_object_can_not_be_mapped() {
    let target = json!({"type": "Value", "value": "100"});
    let world = custom(of_object("Gateway", "x.io/v1", target), &["v1beta2"]);
    world.sync();
    let condition = world.condition("ScalingActive");
    let expected = "unable to map kind Gateway.x.io to resource: no matches for kind \"Gateway\" in group \"x.io\"";
    assert!(condition.ends_with(expected), "{condition}");
}

#[test]
fn without_pods_there_is_no_average() {
    let world = World::by_cpu();
    world.uses("800m");
    for pod in ["a", "b", "c"] {
        world.cluster.remove("v1/Pod", "team", pod);
    }
    world.sync();
    let condition = world.condition("ScalingActive");
    assert!(
        condition.ends_with("no pods returned by selector while calculating replica count"),
        "{condition}"
    );
}

#[test]
fn tolerances_of_the_autoscaler_take_precedence() {
    let rules = |tolerance: &str| json!({"tolerance": tolerance, "policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}]});
    let spec = json!({"maxReplicas": 10, "metrics": [super::world::cpu()],
                      "behavior": {"scaleUp": rules("0.5"), "scaleDown": rules("0")}});
    let world = World::new(spec.clone());
    world.uses("700m");
    assert_eq!(world.replicas(), 3);
    world.uses("800m");
    assert_eq!(world.replicas(), 5);
    let world = World::new(spec);
    world
        .cluster
        .set_config("feature-gates.HPAConfigurableTolerance", "false");
    world.uses("700m");
    assert_eq!(world.replicas(), 5);
    let world = World::by_cpu();
    world.cluster.set_config("tolerance", "0.5");
    world.uses("700m");
    assert_eq!(world.replicas(), 3);
}

#[test]
fn metrics_are_counted_by_source_and_result() {
    let metrics = json!([
        super::world::cpu(),
        external(json!({"type": "Value", "value": "100"}))
    ]);
    let world = World::new(json!({"maxReplicas": 10, "metrics": metrics}));
    world
        .cluster
        .put(autoscaler("other", json!({"maxReplicas": 1})));
    world.uses("800m");
    world.cluster.fail(
        "raw",
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/team/depth",
        refusal(500, "InternalError"),
    );
    world.sync();
    let counted = world.cluster.metrics();
    let of = |name: &str| {
        let found = counted
            .iter()
            .filter(|(_, metric, ..)| metric.ends_with(name));
        found
            .map(|(_, _, labels, value)| format!("{} {value}", labels.join(",")))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("metric_computation_total"),
        ["scale_up,none,Resource 1", "none,internal,External 1"]
    );
    assert_eq!(of("reconciliations_total"), ["scale_up,internal 1"]);
    assert_eq!(of("desired_replicas"), ["team,web 5"]);
    assert_eq!(of("num_horizontal_pod_autoscalers"), [" 2"]);
}
