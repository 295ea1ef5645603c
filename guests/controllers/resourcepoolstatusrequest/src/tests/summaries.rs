//! Unavailable devices, and the summaries of partitions and shareable devices.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

const PROFILE: &str = "gpu.example.com/profile";

/// A device of a type that costs this memory.
fn partition(name: &str, profile: &str, memory: &str) -> Value {
    json!({"name": name, "attributes": {"profile": {"string": profile}},
           "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": memory}}}]})
}

/// A slice of the pool `rack` with these devices, which share 80Gi and have the attribute for their types.
fn card(devices: &[Value]) -> Value {
    let slice = with(slice("a", "rack", 0), "/spec/devices", devices);
    let counters = json!([{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]);
    let slice = with(slice, "/spec/sharedCounters", counters);
    with(slice, "/spec/partitionTypeAttribute", PROFILE)
}

/// A claim with these devices of the pool `rack`.
fn using(devices: &[Value]) -> Value {
    let mut claim = claim("one", &[]);
    let results = devices.iter().map(|device| {
        let mut result = device.clone();
        result["driver"] = "gpu.example.com".into();
        result["pool"] = "rack".into();
        result
    });
    claim["status"]["allocation"]["devices"]["results"] = results.collect();
    claim
}

/// The only pool of an answer.
fn pool(objects: impl IntoIterator<Item = Value>) -> Value {
    answer(objects)["pools"][0].clone()
}

/// The types in a pool's summary: type, total and allocatable.
fn types(pool: &Value) -> Vec<String> {
    let all = pool["partitionSummary"].as_array().cloned();
    let line = |one: Value| {
        let name = one["type"].as_str().unwrap();
        format!("{name} {} {}", one["total"], one["allocatable"])
    };
    all.unwrap_or_default().into_iter().map(line).collect()
}

#[test]
fn devices_with_taints_are_unavailable() {
    let tainted =
        |effect: &str| json!({"name": effect, "taints": [{"key": "k", "effect": effect}]});
    let devices = [
        tainted("NoSchedule"),
        tainted("NoExecute"),
        tainted("None"),
        json!({"name": "fine"}),
    ];
    let tainted = with(slice("a", "rack", 0), "/spec/devices", devices.to_vec());
    let counts = |pool: &Value| {
        ["allocatedDevices", "availableDevices", "unavailableDevices"]
            .map(|field| pool[field].as_i64())
    };
    let used = using(&[json!({"device": "fine"})]);
    let objects = || [request(), tainted.clone(), used.clone()];
    assert_eq!(counts(&pool(objects())), [Some(1), Some(1), Some(2)]);

    let before = Cluster::with(objects());
    before.set_config("emulated-version", "1.36");
    reconcile(&before).unwrap();
    let status = before.object(REQUEST, "", "ask").unwrap()["status"].clone();
    assert_eq!(counts(&status["pools"][0]), [Some(1), Some(3), Some(0)]);
}

#[test]
fn devices_that_a_rule_selects_are_unavailable() {
    let rule = |selector: Value, effect: &str| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "r"},
               "spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": effect}}})
    };
    let driver = "gpu.example.com";
    for (rule, expected) in [
        (
            rule(json!({"driver": driver, "device": "gpu-1"}), "NoSchedule"),
            1,
        ),
        (
            rule(json!({"driver": driver, "pool": "rack"}), "NoExecute"),
            2,
        ),
        (rule(json!({}), "NoExecute"), 2),
        (rule(json!({"driver": driver}), "None"), 0),
        (rule(json!({"pool": "other"}), "NoExecute"), 0),
        (rule(json!({"driver": "other.example.com"}), "NoExecute"), 0),
        (rule(Value::Null, "NoExecute"), 0),
    ] {
        let pool = pool([request(), slice("a", "rack", 2), rule.clone()]);
        assert_eq!(pool["unavailableDevices"], expected, "{rule}");
    }
    let rule = rule(json!({}), "NoExecute");
    let cluster = Cluster::with([request(), slice("a", "rack", 2), rule]);
    cluster.set_config("feature-gates.DRADeviceTaintRules", "false");
    reconcile(&cluster).unwrap();
    let status = cluster.object(REQUEST, "", "ask").unwrap()["status"].clone();
    assert_eq!(status["pools"][0]["unavailableDevices"], 0);
}

#[test]
fn a_device_counts_once_and_observers_do_not_count() {
    let results = [
        json!({"device": "gpu-0"}),
        json!({"device": "gpu-0"}),
        json!({"device": "gpu-1", "adminAccess": true}),
    ];
    let pool = pool([request(), slice("a", "rack", 2), using(&results)]);
    assert_eq!(pool["allocatedDevices"], 1);
    assert_eq!(pool["availableDevices"], 1);
}

#[test]
fn partitions_are_counted_by_type_and_fit_into_what_is_left() {
    let devices = [
        partition("half-0", "half", "40Gi"),
        partition("half-1", "half", "40960Mi"),
        partition("quarter-0", "quarter", "20Gi"),
        partition("quarter-1", "quarter", "20Gi"),
        partition("quarter-2", "quarter", "20Gi"),
        json!({"name": "whole"}),
    ];
    let all = |claims: &[Value]| {
        let objects = [request(), card(&devices)].into_iter();
        pool(objects.chain(claims.iter().cloned()))
    };
    assert_eq!(types(&all(&[])), ["half 2 2", "quarter 3 3"]);
    let used = using(&[json!({"device": "half-0"}), json!({"device": "half-0"})]);
    let used = all(&[used]);
    assert_eq!(types(&used), ["half 2 1", "quarter 3 2"]);
    assert_eq!(used["partitionSummary"][0]["attribute"], PROFILE);
    assert_eq!(used.get("validationError"), None);
}

#[test]
fn the_request_names_the_attribute_if_no_slice_does() {
    let named = with(request(), "/spec/defaultPartitionTypeAttribute", PROFILE);
    let silent = with(
        card(&[partition("half-0", "half", "40Gi")]),
        "/spec/partitionTypeAttribute",
        Value::Null,
    );
    assert_eq!(types(&pool([named, silent.clone()])), ["half 1 1"]);
    assert_eq!(types(&pool([request(), silent])), [""; 0]);

    let other = with(
        request(),
        "/spec/defaultPartitionTypeAttribute",
        "example.com/other",
    );
    let declared = card(&[partition("half-0", "half", "40Gi")]);
    assert_eq!(types(&pool([other, declared])), ["half 1 1"]);
}

#[test]
fn pools_whose_devices_have_no_common_cost_have_an_error() {
    let missing = "PartitionTypeMissing: pool gpu.example.com/rack declares partitionTypeAttribute but publishes no \
                   sharedCounters";
    let without_counters = with(
        card(&[partition("half-0", "half", "40Gi")]),
        "/spec/sharedCounters",
        Value::Null,
    );
    let mut untyped = partition("half-0", "half", "40Gi");
    untyped["attributes"]["profile"] = json!({"int": 2});
    for (slice, expected) in [
        (without_counters, missing),
        (
            card(&[untyped]),
            "PartitionTypeMissing: device \"half-0\" in pool gpu.example.com/rack does not carry partition type attribute \
             \"gpu.example.com/profile\"",
        ),
        (
            card(&[
                partition("half-0", "half", "40Gi"),
                partition("half-1", "half", "30Gi"),
            ]),
            "PartitionCostMismatch: devices of partition type \"half\" in pool gpu.example.com/rack consume different \
             counters",
        ),
    ] {
        let status = answer([request(), slice]);
        assert_eq!(status["pools"][0]["validationError"], expected);
        assert_eq!(status["pools"][0].get("partitionSummary"), None);
        assert_eq!(
            status["conditions"][0]["message"],
            "Calculated status for 1 pools (1 incomplete)"
        );
    }
    let types = (0..33).map(|n| partition(&format!("d-{n}"), &format!("t-{n}"), "1"));
    let many = pool([request(), card(&types.collect::<Vec<_>>())]);
    assert_eq!(
        many["validationError"],
        "PartitionSummaryOverCap: pool gpu.example.com/rack has 33 partition types, exceeding the maximum of 32"
    );
}

#[test]
fn the_capacity_of_shareable_devices_is_summed() {
    let shareable = |name: &str, capacity: Value| json!({"name": name, "allowMultipleAllocations": true, "capacity": capacity});
    let devices = [
        shareable("a", json!({"memory": {"value": "80Gi"}})),
        shareable(
            "b",
            json!({"memory": {"value": "40Gi"}, "slots": {"value": "4"}}),
        ),
        json!({"name": "c", "capacity": {"memory": {"value": "1Gi"}}}),
    ];
    let slice = with(slice("a", "rack", 0), "/spec/devices", devices.to_vec());
    let used = using(&[
        json!({"device": "a", "consumedCapacity": {"memory": "20Gi", "slots": "9"}}),
        json!({"device": "a", "consumedCapacity": {"memory": "10Gi"}}),
    ]);
    let pool = pool([request(), slice, used]);
    assert_eq!(
        pool["shareableSummary"],
        json!({"fullyAvailableDevices": 1, "partiallyAvailableDevices": 1, "capacity": [
            {"name": "memory", "total": "120Gi", "consumed": "30Gi", "available": "90Gi"},
            {"name": "slots", "total": "4", "consumed": "9", "available": "0"}]})
    );
    assert_eq!(pool["availableDevices"], 2);
}
