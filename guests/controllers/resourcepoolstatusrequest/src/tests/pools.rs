//! The pools in an answer.

use flyball_sdk::prelude::*;

use super::world::*;

/// The names, the sizes and the allocated devices of the pools in an answer.
fn pools(objects: impl IntoIterator<Item = Value>) -> Vec<String> {
    let status = answer(objects);
    let pools = status["pools"].as_array().cloned().unwrap_or_default();
    let line = |pool: &Value| {
        let name = pool["poolName"].as_str().unwrap();
        format!(
            "{name} {} {}",
            pool["totalDevices"], pool["allocatedDevices"]
        )
    };
    pools.iter().map(line).collect()
}

fn of_two(slice: Value, generation: i64) -> Value {
    let slice = with(slice, "/spec/pool/resourceSliceCount", 2);
    with(slice, "/spec/pool/generation", generation)
}

#[test]
fn an_answer_has_all_fields_of_a_pool() {
    let on_node = with(slice("a", "rack", 3), "/spec/nodeName", "node-1");
    let status = answer([request(), on_node, claim("one", &["rack"])]);
    assert_eq!(
        status,
        json!({
            "poolCount": 1,
            "pools": [{"driver": "gpu.example.com", "poolName": "rack", "generation": 1, "nodeName": "node-1",
                       "resourceSliceCount": 1, "totalDevices": 3, "allocatedDevices": 1, "availableDevices": 2,
                       "unavailableDevices": 0}],
            "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
                            "reason": "CalculationComplete", "message": "Calculated status for 1 pools"}],
        })
    );
}

#[test]
fn an_answer_without_pools_has_no_list() {
    let other = with(slice("a", "rack", 1), "/spec/driver", "other.example.com");
    let status = answer([request(), other]);
    assert_eq!(status["poolCount"], 0);
    assert_eq!(status.get("pools"), None);
    assert_eq!(
        status["conditions"][0]["message"],
        "Calculated status for 0 pools"
    );
}

#[test]
fn the_devices_of_all_slices_of_a_pool_count() {
    let second = of_two(slice("b", "rack", 2), 1);
    let objects = [request(), of_two(slice("a", "rack", 3), 1), second];
    assert_eq!(pools(objects), ["rack 5 0"]);
}

#[test]
fn slices_of_older_generations_do_not_count() {
    let old = [
        slice("a", "rack", 9),
        with(slice("b", "rack", 9), "/spec/nodeName", "node-9"),
    ];
    let new = with(slice("c", "rack", 2), "/spec/pool/generation", 7);
    let status = answer(old.into_iter().chain([request(), new]));
    assert_eq!(status["pools"][0]["generation"], 7);
    assert_eq!(status["pools"][0]["totalDevices"], 2);
    assert_eq!(status["pools"][0].get("nodeName"), None);
}

#[test]
fn a_pool_is_on_a_node_if_all_of_its_slices_are() {
    let on = |slice: Value, node: &str| with(slice, "/spec/nodeName", node);
    let [a, b] = ["a", "b"].map(|name| of_two(slice(name, "rack", 1), 1));
    for (slices, expected) in [
        (
            [on(a.clone(), "node-1"), on(b.clone(), "node-1")],
            json!("node-1"),
        ),
        (
            [on(a.clone(), "node-1"), on(b.clone(), "node-2")],
            json!(null),
        ),
        ([on(a.clone(), "node-1"), b.clone()], json!(null)),
        ([a, b], json!(null)),
    ] {
        let status = answer(slices.into_iter().chain([request()]));
        assert_eq!(status["pools"][0]["nodeName"], expected);
    }
}

#[test]
fn only_allocations_from_the_pool_of_the_driver_count() {
    let mut other = claim("other", &["rack"]);
    other["status"]["allocation"]["devices"]["results"][0]["driver"] = "other.example.com".into();
    let mut pending = claim("pending", &["rack"]);
    pending["status"] = json!({});
    let objects = [
        request(),
        slice("a", "rack", 4),
        slice("b", "shelf", 1),
        claim("two", &["rack", "rack", "elsewhere"]),
        claim("one", &["shelf"]),
        other,
        pending,
    ];
    assert_eq!(pools(objects), ["rack 4 2", "shelf 1 1"]);
}

#[test]
fn more_allocations_than_devices_leave_none_available() {
    let objects = [
        request(),
        slice("a", "rack", 1),
        claim("a", &["rack", "rack"]),
    ];
    let status = answer(objects);
    assert_eq!(status["pools"][0]["allocatedDevices"], 2);
    assert_eq!(status["pools"][0]["availableDevices"], 0);
}

#[test]
fn an_answer_has_at_most_as_many_pools_as_asked_for() {
    let some = ["c", "a", "b"].map(|pool| slice(pool, pool, 1));
    let limited = with(request(), "/spec/limit", 2);
    let status = answer(some.clone().into_iter().chain([limited.clone()]));
    assert_eq!(status["poolCount"], 3);
    assert_eq!(
        status["conditions"][0]["message"],
        "Calculated status for 2 pools"
    );
    assert_eq!(
        pools(some.clone().into_iter().chain([limited])),
        ["a 1 0", "b 1 0"]
    );
    let one = with(request(), "/spec/poolName", "b");
    assert_eq!(pools(some.into_iter().chain([one])), ["b 1 0"]);
    let many = (0..101).map(|pool| slice(&format!("{pool:03}"), &format!("{pool:03}"), 1));
    assert_eq!(pools(many.chain([request()])).len(), 100);
}
