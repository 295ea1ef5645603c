//! The usage by pods that are being resized in place.

use flyball_sdk::prelude::*;

use super::world::*;

const NAMES: [&str; 2] = ["requests.cpu", "limits.cpu"];

/// A pod whose container wants 2 and is limited to 4, with this container status.
fn resizing(status: Value) -> Value {
    let pod = pod_of(
        "a",
        json!({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}),
    );
    with(pod, "/status/containerStatuses", json!([status]))
}

fn status(running: &str, limit: &str, allocated: &str) -> Value {
    json!({
        "name": "app",
        "resources": {"requests": {"cpu": running}, "limits": {"cpu": limit}},
        "allocatedResources": {"cpu": allocated},
    })
}

#[test]
fn the_greatest_of_what_is_wanted_running_and_reserved_counts() {
    for (running, limit, allocated, used) in [
        ("1", "1", "1", ["2", "4"]),
        ("3", "5", "1", ["3", "5"]),
        ("1", "1", "3", ["3", "4"]),
        ("2", "4", "2", ["2", "4"]),
    ] {
        let pod = resizing(status(running, limit, allocated));
        assert_eq!(used_of([pod], NAMES), used, "{running} {limit} {allocated}");
    }
}

#[test]
fn an_infeasible_resize_is_not_wanted() {
    let condition = |reason: &str| json!([{"type": "Ready", "status": "True"}, {"type": "PodResizePending", "status": "True", "reason": reason}]);
    let pod = |reason: &str| {
        with(
            resizing(status("500m", "1", "1")),
            "/status/conditions",
            condition(reason),
        )
    };
    assert_eq!(used_of([pod("Infeasible")], NAMES), ["1", "1"]);
    assert_eq!(used_of([pod("Deferred")], NAMES), ["2", "4"]);
}

#[test]
fn without_running_figures_the_reserved_ones_or_the_desired_ones_count() {
    for (status, used) in [
        (
            json!({"name": "app", "allocatedResources": {"cpu": "9"}}),
            "9",
        ),
        (
            json!({"name": "other", "resources": {"requests": {"cpu": "9"}}}),
            "2",
        ),
    ] {
        assert_eq!(used_of([resizing(status)], NAMES), [used, "4"]);
    }
    let infeasible =
        json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    let pod = with(
        resizing(json!({"name": "app", "allocatedResources": {"cpu": "1"}})),
        "/status/conditions",
        infeasible,
    );
    assert_eq!(used_of([pod], NAMES), ["1", "0"]);
}

/// The desired, running and reserved figures are summed each for itself.
#[test]
fn the_greatest_sum_counts() {
    let container =
        |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
    let status = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}});
    let pod = with(
        pod("a"),
        "/spec/containers",
        json!([container("grows", "3"), container("shrinks", "1")]),
    );
    let statuses = json!([status("grows", "1"), status("shrinks", "2")]);
    let pod = with(pod, "/status/containerStatuses", statuses);
    assert_eq!(used_of([pod.clone()], ["cpu"]), ["4"]);
    assert_eq!(used_of_1_36(pod), "5");
}

/// Only sidecars are resized in Kubernetes 1.36.
#[test]
fn init_containers_are_resized() {
    let pod = |restart: Value| {
        let init = json!([{"name": "init", "restartPolicy": restart, "resources": {"requests": {"cpu": "1"}}}]);
        let statuses = json!([{"name": "init", "resources": {"requests": {"cpu": "5"}}}]);
        let pod = with(pod("a"), "/spec/initContainers", init);
        with(pod, "/status/initContainerStatuses", statuses)
    };
    for restart in [Value::Null, "Always".into()] {
        assert_eq!(used_of([pod(restart)], ["cpu"]), ["5"]);
    }
    assert_eq!(used_of_1_36(pod("Always".into())), "5");
    assert_eq!(used_of_1_36(pod(Value::Null)), "1");
}

/// The CPU requests of a pod, as Kubernetes 1.36 counts them.
fn used_of_1_36(pod: Value) -> String {
    let cluster = cluster([pod, quota(json!({"cpu": "1"}))]);
    cluster.set_config("emulated-version", "1.36");
    reconcile(&cluster).unwrap();
    listed(&cluster, "used")["cpu"].clone()
}
