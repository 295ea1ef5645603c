//! The order in which pods are deleted.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::{plan, rank};

/// The names in the order of deletion. The objects must be given in another order.
fn order<const N: usize>(mut objects: [Object; N]) -> Vec<String> {
    objects.reverse();
    let all = pods(objects);
    let mut sorted: Vec<_> = all.iter().collect();
    rank::sort(&mut sorted);
    sorted.iter().map(|pod| pod.meta.name.clone()).collect()
}

fn restarted(name: &str, main: i32, sidecar: i32) -> Object {
    let count = |name: &str, count: i32| json!([{"name": name, "restartCount": count}]);
    pod(name)
        .with(
            "/spec/initContainers",
            json!([{"name": "side", "restartPolicy": "Always"}]),
        )
        .with("/status/containerStatuses", count("c", main))
        .with("/status/initContainerStatuses", count("side", sidecar))
}

#[test]
fn each_criterion_decides_before_the_next_ones() {
    let nowhere = |name: &str| pod(name).with("/spec/nodeName", "");
    assert_eq!(order([nowhere("a"), pod("b").phase("Pending")]), ["a", "b"]);
    assert_eq!(
        order([
            pod("a").phase("Pending").ready(9),
            pod("b").phase("Unknown"),
            pod("c")
        ]),
        ["a", "b", "c"]
    );
    assert_eq!(order([pod("a"), pod("b").ready(5)]), ["a", "b"]);
    assert_eq!(order([pod("a").ready(5), pod("b").ready(50)]), ["a", "b"]);
    let since_ever = pod("a").with(
        "/status/conditions",
        json!([{"type": "Ready", "status": "True"}]),
    );
    assert_eq!(order([since_ever, pod("b").ready(5)]), ["a", "b"]);
    assert_eq!(
        order([
            restarted("a", 0, 0),
            restarted("b", 1, 0).condition("Ready")
        ]),
        ["a", "b"]
    );
    assert_eq!(
        order([
            restarted("a", 2, 0),
            restarted("b", 1, 9),
            restarted("c", 1, 3)
        ]),
        ["a", "b", "c"]
    );
    let created =
        |name: &str, seconds: i64| pod(name).with("/metadata/creationTimestamp", ago(seconds));
    assert_eq!(order([created("a", 10), created("b", 100)]), ["a", "b"]);
}

#[test]
fn pods_without_a_valid_index_count_towards_the_number_to_delete() {
    let all = pods([
        pod("a").ready(900),
        pod("b").phase("Pending"),
        pod("c").ready(9),
    ]);
    let active: Vec<_> = all.iter().collect();
    let to_delete = |at_least| names(plan::to_delete(&job(1, 1).job(), &active, at_least));
    assert_eq!(
        (to_delete(0), to_delete(2), to_delete(3)),
        (vec![], vec!["b", "c"], vec!["b", "c", "a"])
    );

    let all = pods([
        pod_of("a", 0).ready(900),
        pod_of("b", 1).phase("Pending"),
        pod_of("c", 7).ready(900),
    ]);
    let active: Vec<_> = all.iter().collect();
    let to_delete = |at_least| names(plan::to_delete(&indexed(3, 3).job(), &active, at_least));
    assert_eq!(
        (to_delete(0), to_delete(1), to_delete(2)),
        (vec!["c"], vec!["c"], vec!["c", "b"])
    );
}
