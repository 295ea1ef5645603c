//! The states of zones.

use flyball_sdk::imports::MetricOperation;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;
use crate::monitor::{EVICTIONS, HEALTH, SIZE, UNHEALTHY};

/// Nodes in the zone `z`, and one in another zone that is ready.
fn cluster(ready: usize, unready: usize) -> Cluster {
    let name = |number: usize, status: &str| node(&format!("n{number:03}"), status);
    let cluster = Cluster::with((0..unready).map(|number| name(number, "False")));
    for number in unready..unready + ready {
        cluster.put(name(number, "True"));
    }
    cluster.put(node_in("other", "fine", "True"));
    pass(&cluster);
    forget(&cluster);
    cluster
}

/// When the next node has its turn, after one had it.
fn rate(cluster: &Cluster) -> Option<u64> {
    match turn(cluster, "z").unwrap() {
        Outcome::RequeueAfter(time) => Some(time.as_secs()),
        Outcome::Done => None,
    }
}

#[test]
fn the_rate_follows_from_the_state_of_the_zone() {
    for (ready, unready, tainted, next) in [
        (8, 2, true, Some(10)),
        // Partial and not large.
        (2, 3, false, None),
        (20, 30, false, None),
        // Without any ready node.
        (0, 3, true, Some(10)),
    ] {
        let cluster = cluster(ready, unready);
        assert_eq!(rate(&cluster), next, "{ready} {unready}");
        assert_eq!(!cluster.written().is_empty(), tainted, "{ready} {unready}");
    }
    // Partial and large: a new rate starts without a token if the zone had none before.
    let cluster = cluster(20, 31);
    assert_eq!(rate(&cluster), Some(100));
    assert_eq!(cluster.written().len(), 1);
}

#[test]
fn when_no_node_is_ready_all_taints_are_removed_and_none_is_added() {
    let cluster = cluster(1, 2);
    turn(&cluster, "z").unwrap();
    assert_eq!(no_execute(&cluster, "n000"), ["not-ready"]);
    forget(&cluster);
    for name in ["n002", "fine"] {
        beat(&cluster, name, "False");
    }
    pass_for(&cluster, 5);
    assert_eq!(cluster.written(), ["patch v1/Node n000"]);
    assert_eq!(turn(&cluster, "z").unwrap(), Outcome::Done);
    pass_for(&cluster, 20);
    assert_eq!(cluster.written(), Vec::<String>::new());

    // All have been silent for almost as long as they may.
    forget(&cluster);
    beat(&cluster, "fine", "True");
    pass_for(&cluster, 5);
    assert_eq!(enqueued(&cluster), ["node_lifecycle_controller_zones :z"]);
    // A limiter that was stopped starts without a token.
    assert_eq!(rate(&cluster), Some(10));
    assert_eq!(cluster.written(), Vec::<String>::new());
    pass_for(&cluster, 45);
    assert_eq!(cluster.written(), Vec::<String>::new());
}

#[test]
fn excluded_nodes_do_not_count_and_are_tainted() {
    let excluded = |name: &str| {
        let labels = json!({"node.kubernetes.io/exclude-disruption": "", "topology.kubernetes.io/zone": "z"});
        with(node(name, "False"), "/metadata/labels", labels)
    };
    let cluster = Cluster::with([
        excluded("a"),
        excluded("b"),
        node_in("other", "fine", "True"),
    ]);
    pass(&cluster);
    assert_eq!(
        metric(&cluster, SIZE),
        [
            (MetricOperation::Set, ":\0:other".to_owned(), 1.0),
            (MetricOperation::Set, ":\0:z".to_owned(), 0.0),
        ]
    );
    assert_eq!(rate(&cluster), Some(10));
    assert_eq!(no_execute(&cluster, "a"), ["not-ready"]);
}

#[test]
fn the_gauges_of_a_zone_are_set_and_reset() {
    let cluster = cluster(1, 3);
    let value = |cluster: &Cluster, name: &str| -> f64 {
        pass_for(cluster, 5);
        let of_zone = |(_, label, _): &&(MetricOperation, String, f64)| label == ":\0:z";
        metric(cluster, name).iter().find(of_zone).unwrap().2
    };
    assert_eq!(value(&cluster, SIZE), 4.0);
    assert_eq!(value(&cluster, HEALTH), 25.0);
    assert_eq!(value(&cluster, UNHEALTHY), 3.0);
    for number in 0..4 {
        cluster.remove(NODE, "", &format!("n00{number}"));
    }
    cluster.metrics();
    assert_eq!(value(&cluster, HEALTH), 100.0);
    pass_for(&cluster, 5);
    assert!(
        !metric(&cluster, SIZE)
            .iter()
            .any(|(_, label, _)| label == ":\0:z")
    );
}

#[test]
fn tainted_nodes_are_counted_by_zone() {
    let cluster = Cluster::with([node("a", "False"), node("b", "True")]);
    pass(&cluster);
    turn(&cluster, "z").unwrap();
    let label = ":\0:z".to_owned();
    assert_eq!(
        metric(&cluster, EVICTIONS),
        [
            (MetricOperation::Add, label.clone(), 0.0),
            (MetricOperation::Add, label, 1.0),
        ]
    );
}
