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
fn a_status_without_resources_or_of_another_container_does_not_count() {
    for status in [
        json!({"name": "app", "allocatedResources": {"cpu": "9"}}),
        json!({"name": "other", "resources": {"requests": {"cpu": "9"}}}),
    ] {
        assert_eq!(used_of([resizing(status)], NAMES), ["2", "4"]);
    }
}

#[test]
fn sidecars_are_resized_and_init_containers_are_not() {
    let pod = |restart: Value| {
        let init = json!([{"name": "init", "restartPolicy": restart, "resources": {"requests": {"cpu": "1"}}}]);
        let statuses = json!([{"name": "init", "resources": {"requests": {"cpu": "5"}}}]);
        let pod = with(pod("a"), "/spec/initContainers", init);
        with(pod, "/status/initContainerStatuses", statuses)
    };
    assert_eq!(used_of([pod("Always".into())], ["cpu"]), ["5"]);
    assert_eq!(used_of([pod(Value::Null)], ["cpu"]), ["1"]);
}
