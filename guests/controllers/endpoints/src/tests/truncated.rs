//! Endpoints with too many addresses.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;
use flyball_service_endpoints::subsets::{Address, Subset};

use super::world::*;
use crate::truncate::truncate;

fn addresses(count: usize) -> Vec<Address> {
    let address = |at| Address {
        ip: format!("{at:04}"),
        ..Address::default()
    };
    (0..count).map(address).collect()
}

/// The numbers of ready and other addresses that remain of subsets with these numbers; `None` if all do.
fn truncated(counts: &[(usize, usize)]) -> Option<Vec<(usize, usize)>> {
    let subset = |&(ready, not_ready): &(usize, usize)| Subset {
        addresses: addresses(ready),
        not_ready_addresses: addresses(not_ready),
        ports: Vec::new(),
    };
    let mut subsets: Vec<Subset> = counts.iter().map(subset).collect();
    let counts = |subset: &Subset| (subset.addresses.len(), subset.not_ready_addresses.len());
    truncate(&mut subsets).then(|| subsets.iter().map(counts).collect())
}

#[test]
fn a_thousand_addresses_remain_and_ready_ones_take_precedence() {
    for (counts, expected) in [
        (&[(600, 400)][..], None),
        (&[(1001, 0)], Some(vec![(1000, 0)])),
        (&[(600, 600)], Some(vec![(600, 400)])),
        (&[(1000, 600)], Some(vec![(1000, 0)])),
        (&[(1200, 600)], Some(vec![(1000, 0)])),
    ] {
        assert_eq!(truncated(counts), expected, "{counts:?}");
    }
}

#[test]
fn each_subset_keeps_its_share_and_empty_ones_go() {
    for (counts, expected) in [
        (&[(1000, 0), (1000, 0)][..], vec![(500, 0), (500, 0)]),
        (&[(1001, 0), (500, 0)], vec![(667, 0), (333, 0)]),
        (&[(0, 900), (600, 300)], vec![(0, 300), (600, 100)]),
        (&[(1500, 0), (0, 10)], vec![(1000, 0)]),
    ] {
        assert_eq!(truncated(counts), Some(expected), "{counts:?}");
    }
}

#[test]
fn truncated_endpoints_have_an_annotation_and_are_written_once() {
    let cluster = Cluster::with([service(json!({}))]);
    for at in 0..1001 {
        cluster.put(pod(
            &format!("web-{at:04}"),
            &format!("10.0.{}.{}", at / 250, at % 250),
        ));
    }
    assert_eq!(reconcile(&cluster), ["create"]);
    let annotation = || {
        written(&cluster)["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"]
            .clone()
    };
    let count = || {
        let endpoints = written(&cluster);
        endpoints["subsets"][0]["addresses"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((annotation(), count()), (json!("truncated"), 1000));
    assert!(reconcile(&cluster).is_empty());
    cluster.remove("v1/Pod", "a", "web-0500");
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!((annotation(), count()), (json!(null), 1000));
}

/// Two ports that different pods have: the addresses that are left are the same for both.
#[test]
fn subsets_that_become_the_same_are_written_once() {
    let port =
        |name: &str| json!({"name": name, "protocol": "TCP", "port": 80, "targetPort": name});
    let cluster = Cluster::with([service(json!({"ports": [port("http"), port("admin")]}))]);
    for at in 0..602 {
        let address = format!("10.0.{}.{}", at / 250, at % 250);
        let mut pod = pod(&format!("web-{at:04}"), &address);
        let port = |name: &str| json!({"name": name, "containerPort": 8080, "protocol": "TCP"});
        let ports = match at {
            600 => json!([port("http")]),
            601 => json!([port("admin")]),
            _ => json!([port("http"), port("admin")]),
        };
        pod["spec"]["containers"] = json!([{"ports": ports}]);
        cluster.put(pod);
    }
    assert_eq!(reconcile(&cluster), ["create"]);
    assert_eq!(subsets(&cluster).as_array().unwrap().len(), 2);
    assert!(reconcile(&cluster).is_empty());
}
