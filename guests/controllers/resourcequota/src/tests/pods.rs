//! The usage by pods.

use std::time::Duration;

use flyball_sdk::prelude::*;

use super::world::*;
use crate::settings::POD_LEVEL_RESOURCES;

const CPU: [&str; 3] = ["cpu", "requests.cpu", "limits.cpu"];
const MEMORY: [&str; 3] = ["memory", "requests.memory", "limits.memory"];
const STORAGE: [&str; 3] = [
    "ephemeral-storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
];

/// A pod with these containers and init containers.
fn pod_with(containers: Value, init: Value) -> Value {
    with(
        with(pod("a"), "/spec/containers", containers),
        "/spec/initContainers",
        init,
    )
}

fn container(requests: Value, limits: Value) -> Value {
    json!({"resources": {"requests": requests, "limits": limits}})
}

#[test]
fn cpu_memory_and_ephemeral_storage_are_counted_by_requests_and_limits() {
    for (resource, names) in [
        ("cpu", CPU),
        ("memory", MEMORY),
        ("ephemeral-storage", STORAGE),
    ] {
        let own = container(json!({resource: "1"}), json!({resource: "2"}));
        for pod in [
            pod_with(json!([own]), json!([])),
            pod_with(json!([{}]), json!([own])),
        ] {
            assert_eq!(used_of([pod], names), ["1", "1", "2"]);
        }
    }
}

#[test]
fn limits_alone_are_no_requests() {
    let pod = pod_of("a", json!({"limits": {"cpu": "2"}}));
    assert_eq!(used_of([pod], CPU), ["0", "0", "2"]);
}

#[test]
fn hugepages_and_extended_resources_are_counted_by_requests_only() {
    let requests = json!({
        "hugepages-2Mi": "100Mi", "example.com/gpu": "3", "deviceclass.resource.kubernetes.io/gpu": "2",
        "kubernetes.io/batch": "1",
    });
    let pod = || pod_of("a", json!({"requests": requests, "limits": requests}));
    let names = [
        "hugepages-2Mi",
        "requests.hugepages-2Mi",
        "requests.example.com/gpu",
        "requests.deviceclass.resource.kubernetes.io/gpu",
    ];
    assert_eq!(used_of([pod()], names), ["100Mi", "100Mi", "3", "2"]);
    let untracked = [
        "limits.hugepages-2Mi",
        "example.com/gpu",
        "limits.example.com/gpu",
        "requests.kubernetes.io/batch",
    ];
    assert_eq!(used_of([pod()], untracked), ["-", "-", "-", "-"]);
}

#[test]
fn a_pod_that_has_ended_is_only_an_object() {
    for phase in ["Failed", "Succeeded"] {
        let pod = with(
            pod_of("a", json!({"requests": {"cpu": "1"}})),
            "/status/phase",
            phase,
        );
        assert_eq!(
            used_of([pod], ["count/pods", "pods", "cpu"]),
            ["1", "0", "0"]
        );
    }
}

#[test]
fn a_pod_is_not_charged_once_its_deletion_is_overdue() {
    let cluster = cluster([
        quota(json!({"count/pods": "1", "pods": "1", "cpu": "1"})),
        with(
            with(
                pod_of("a", json!({"requests": {"cpu": "1"}})),
                "/metadata/deletionTimestamp",
                "2026-01-01T00:00:10Z",
            ),
            "/metadata/deletionGracePeriodSeconds",
            30,
        ),
    ]);
    let used = || {
        reconcile(&cluster).unwrap();
        Vec::from_iter(listed(&cluster, "used").into_values())
    };
    cluster.advance(Duration::from_secs(40));
    assert_eq!(used(), ["1", "1", "1"]);
    cluster.advance(Duration::from_millis(1));
    assert_eq!(used(), ["1", "0", "0"]);
}

#[test]
fn a_deleted_pod_without_a_grace_period_is_charged() {
    let pod = with(
        pod("a"),
        "/metadata/deletionTimestamp",
        "2020-01-01T00:00:00Z",
    );
    assert_eq!(used_of([pod], ["pods"]), ["1"]);
}

#[test]
fn an_init_container_counts_if_it_needs_more_than_all_containers_together() {
    let requests = |amount: &str| container(json!({"cpu": amount}), json!({"cpu": amount}));
    let containers = json!([requests("2"), requests("3")]);
    for (init, total) in [
        (json!([requests("4")]), "5"),
        (json!([requests("6"), requests("1")]), "6"),
        // Init containers run one after another.
        (json!([requests("3"), requests("3")]), "5"),
    ] {
        let pod = pod_with(containers.clone(), init.clone());
        assert_eq!(used_of([pod], CPU), [total; 3], "{init}");
    }
}

#[test]
fn a_sidecar_counts_with_containers_and_with_init_containers_that_start_after_it() {
    let requests = |amount: &str| container(json!({"cpu": amount}), json!({"cpu": amount}));
    let sidecar = |amount: &str| with(requests(amount), "/restartPolicy", "Always");
    let containers = json!([requests("2")]);
    for (init, total) in [
        (json!([sidecar("1")]), "3"),
        (json!([sidecar("1"), requests("4")]), "5"),
        (json!([requests("4"), sidecar("1")]), "4"),
        (json!([sidecar("1"), requests("2"), sidecar("3")]), "6"),
        (json!([sidecar("1"), sidecar("3"), requests("3")]), "7"),
        (
            json!([with(requests("4"), "/restartPolicy", "OnFailure")]),
            "4",
        ),
    ] {
        let pod = pod_with(containers.clone(), init.clone());
        assert_eq!(used_of([pod], CPU), [total; 3], "{init}");
    }
}

#[test]
fn the_overhead_counts_as_requested_and_raises_limits_that_exist() {
    let overhead = json!({"cpu": "250m", "memory": "64Mi"});
    let own = json!([container(
        json!({"cpu": "1"}),
        json!({"cpu": "1", "memory": "0"})
    )]);
    let pod = with(pod_with(own, json!([])), "/spec/overhead", overhead);
    assert_eq!(used_of([pod.clone()], CPU), ["1250m", "1250m", "1250m"]);
    assert_eq!(used_of([pod], MEMORY), ["64Mi", "64Mi", "0"]);
}

#[test]
fn resources_of_the_whole_pod_take_precedence_where_a_pod_may_have_them() {
    let resources = json!({
        "requests": {"cpu": "5", "ephemeral-storage": "50Gi", "hugepages-2Mi": "4Mi"},
        "limits": {"cpu": "6", "ephemeral-storage": "60Gi"},
    });
    let own = container(
        json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}),
        json!({"cpu": "2", "memory": "2Gi", "ephemeral-storage": "2Gi"}),
    );
    let pod = with(
        pod_with(json!([own]), json!([])),
        "/spec/resources",
        resources,
    );
    assert_eq!(used_of([pod.clone()], CPU), ["5", "5", "6"]);
    assert_eq!(used_of([pod.clone()], MEMORY), ["1Gi", "1Gi", "2Gi"]);
    assert_eq!(used_of([pod.clone()], STORAGE), ["1Gi", "1Gi", "2Gi"]);
    assert_eq!(used_of([pod.clone()], ["hugepages-2Mi"]), ["4Mi"]);
    let with_overhead = with(pod.clone(), "/spec/overhead", json!({"cpu": "1"}));
    assert_eq!(used_of([with_overhead], CPU), ["6", "6", "7"]);

    let cluster = cluster([quota(json!({"cpu": "9", "limits.cpu": "9"})), pod]);
    cluster.set_config(&format!("feature-gates.{POD_LEVEL_RESOURCES}"), "false");
    reconcile(&cluster).unwrap();
    assert_eq!(
        Vec::from_iter(listed(&cluster, "used").into_values()),
        ["1", "2"]
    );
}

#[test]
fn sums_are_exact() {
    let pods = (0..10).map(|number| {
        pod_of(
            &format!("p{number}"),
            json!({"requests": {"cpu": "0.1", "memory": "0.1"}}),
        )
    });
    assert_eq!(used_of(pods, ["cpu", "memory"]), ["1", "1"]);
    let large = ["a", "b"].map(|name| pod_of(name, json!({"requests": {"memory": "5Ei"}})));
    assert_eq!(used_of(large, ["memory"]), ["10Ei"]);
}
