//! The metrics.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;
use crate::metrics::{DURATION, IN_USE, TOTAL};

/// The values of a metric since the last call, with the labels.
fn values(cluster: &Cluster, name: &str) -> Vec<(String, f64)> {
    let metrics = cluster.metrics().into_iter();
    metrics
        .filter(|(_, metric, ..)| metric == name)
        .map(|(_, _, labels, value)| (labels.join(","), value))
        .collect()
}

fn label(rest: &str) -> String {
    format!("kubernetes.io/csi:{DRIVER},{rest}")
}

#[test]
fn operations_are_timed_with_their_results() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    advance(&cluster, 3);
    answer(
        &cluster,
        "disk",
        "a",
        json!({"attachError": {"message": "no"}}),
    );
    pass(&cluster, "a");
    advance(&cluster, 1);
    pass(&cluster, "a");
    advance(&cluster, 2);
    answer(&cluster, "disk", "a", json!({"attached": true}));
    pass(&cluster, "a");
    assert_eq!(
        values(&cluster, DURATION),
        [
            (label("volume_attach,fail-unknown,false"), 3.0),
            (label("volume_attach,success,false"), 2.0),
        ]
    );
    cluster.remove(POD, "team", "web");
    hold(&cluster, "disk", "a");
    pass(&cluster, "a");
    advance(&cluster, 4);
    release(&cluster, "disk", "a");
    pass(&cluster, "a");
    assert_eq!(
        values(&cluster, DURATION),
        [(label("volume_detach,success,false"), 4.0)]
    );
}

#[test]
fn volumes_are_counted_as_desired_actual_and_in_use() {
    let cluster = attached();
    let mut ended = pod("ended", "a", &["disk"]);
    ended["status"]["phase"] = "Failed".into();
    cluster.put(ended);
    pass(&cluster, "a");
    let metrics = cluster.metrics();
    let of = |name: &str| -> Vec<(String, f64)> {
        let found = metrics.iter().filter(|(_, metric, ..)| metric == name);
        found
            .map(|(_, _, labels, value)| (labels.join(","), *value))
            .collect()
    };
    assert_eq!(
        of(TOTAL),
        [
            (label("desired_state_of_world"), 1.0),
            (label("actual_state_of_world"), 1.0)
        ]
    );
    assert_eq!(of(IN_USE), [(format!("a,kubernetes.io/csi:{DRIVER}"), 2.0)]);

    cluster.remove(POD, "team", "web");
    cluster.remove(POD, "team", "ended");
    pass(&cluster, "a");
    assert_eq!(
        values(&cluster, TOTAL),
        [
            (label("desired_state_of_world"), 0.0),
            (label("actual_state_of_world"), 0.0)
        ]
    );
    pass(&cluster, "a");
    assert!(values(&cluster, TOTAL).is_empty());
}

#[test]
fn volumes_of_nodes_that_are_not_managed_are_only_in_use() {
    let cluster = cluster();
    cluster.edit(NODE, "", "a", |node| {
        node["metadata"]["annotations"] = json!({});
    });
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    let metrics = cluster.metrics();
    let of = |name: &str| {
        let mut found = metrics.iter().filter(|(_, metric, ..)| metric == name);
        found.any(|(.., value)| *value > 0.0)
    };
    assert_eq!((of(TOTAL), of(IN_USE)), (false, true));
}

#[test]
fn a_verification_is_timed_for_each_node_with_volumes() {
    let cluster = attached();
    verify(&cluster);
    let labels: Vec<String> = { values(&cluster, DURATION).into_iter() }
        .map(|(labels, _)| labels)
        .collect();
    assert_eq!(
        labels,
        ["<n/a>,verify_volumes_are_attached_per_node,success,false"]
    );
}
