//! Hints by zone, for Services with the annotation.

use std::collections::BTreeMap;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, view};
use flyball_service_endpoints::slice::{Endpoint, Hints, Named};

use super::world::*;
use crate::changes::{NewSlice, Plan};
use crate::views::NodeCapacity;
use crate::zones::{Counts, Ratios, assign, is_overloaded, ratios};

fn capacity(zone: &str, cpu: &str, change: impl FnOnce(&mut Value)) -> NodeCapacity {
    let mut node = node("node", zone);
    node["status"]["allocatable"]["cpu"] = cpu.into();
    change(&mut node);
    view(node)
}

fn ratios_of(pairs: &[(&str, f64)]) -> Ratios {
    let own = |&(zone, ratio): &(&str, f64)| (zone.to_owned(), ratio);
    pairs.iter().map(own).collect()
}

#[test]
fn the_share_of_a_zone_is_that_of_its_ready_worker_nodes() {
    let keep = |_: &mut Value| {};
    let nodes = [
        capacity("west", "3", keep),
        capacity("west", "3", keep),
        capacity("east", "2", keep),
        capacity("east", "8", |node| {
            node["status"]["conditions"][0]["status"] = "False".into();
        }),
        capacity("", "8", |node| {
            node["metadata"]["labels"] = json!({"node-role.kubernetes.io/control-plane": ""});
        }),
    ];
    assert_eq!(
        ratios(&nodes),
        Some(ratios_of(&[("east", 0.25), ("west", 0.75)]))
    );
    let one_zone = [capacity("west", "3", keep)];
    assert_eq!(ratios(&one_zone), None);
    let without_zone = [
        capacity("west", "1", keep),
        capacity("east", "1", keep),
        capacity("", "1", keep),
    ];
    assert_eq!(ratios(&without_zone), None);
    let without_cpu = [capacity("west", "1", keep), capacity("east", "0", keep)];
    assert_eq!(ratios(&without_cpu), None);
    assert_eq!(ratios(&[]), None);
}

/// A plan that creates one slice with this number of ready endpoints in each zone.
fn created(zones: &[(&str, usize)]) -> Plan {
    let endpoint = |zone: &str| Endpoint {
        zone: (!zone.is_empty()).then(|| zone.to_owned()),
        conditions: flyball_service_endpoints::slice::Conditions {
            ready: Some(true),
            ..Default::default()
        },
        ..Endpoint::default()
    };
    let of_zone = |&(zone, count): &(&str, usize)| std::iter::repeat_n(endpoint(zone), count);
    Plan {
        create: vec![NewSlice {
            ports: Vec::new(),
            endpoints: zones.iter().flat_map(of_zone).collect(),
        }],
        ..Plan::default()
    }
}

/// For each zone, the number of endpoints that are meant for it.
fn meant_for(plan: &Plan) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for endpoint in plan.endpoints() {
        for zone in endpoint.hints.iter().flat_map(|hints| &hints.for_zones) {
            *counts.entry(zone.name.clone()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn zones_with_too_many_endpoints_give_some_to_others() {
    let half = ratios_of(&[("east", 0.5), ("west", 0.5)]);
    for (zones, expected) in [
        ([("east", 2), ("west", 2)], [2, 2]),
        ([("east", 4), ("west", 0)], [2, 2]),
        ([("east", 3), ("west", 1)], [2, 2]),
        // Less than one endpoint too many.
        ([("east", 4), ("west", 3)], [4, 3]),
    ] {
        let mut plan = created(&zones);
        assign(&mut plan, Some(&half)).unwrap();
        let counts: Vec<usize> = meant_for(&plan).into_values().collect();
        assert_eq!(counts, expected, "{zones:?}");
    }
}

#[test]
fn hints_are_refused_with_a_reason() {
    let third = ratios_of(&[("a", 0.34), ("b", 0.33), ("c", 0.33)]);
    let refused = |zones: &[(&str, usize)], ratios: Option<&Ratios>| {
        let mut plan = created(zones);
        plan.create[0].endpoints[0].hints = Some(Hints {
            for_zones: vec![Named { name: "old".into() }],
            ..Hints::default()
        });
        let reason = assign(&mut plan, ratios).unwrap_err();
        assert!(meant_for(&plan).is_empty());
        reason
    };
    assert_eq!(
        refused(&[("a", 3)], None),
        "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
    );
    assert_eq!(
        refused(&[("a", 2)], Some(&third)),
        "Insufficient number of endpoints (2 endpoints, 3 zones)"
    );
    assert_eq!(
        refused(&[("a", 2), ("", 1)], Some(&third)),
        "One or more endpoints do not have a zone specified"
    );
    let steep = ratios_of(&[("a", 0.4), ("b", 0.4), ("c", 0.2)]);
    assert_eq!(
        refused(&[("a", 3), ("b", 1)], Some(&steep)),
        "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold \
         (4 endpoints, 3 zones)"
    );
}

#[test]
fn a_zone_is_overloaded_if_it_has_less_than_its_share() {
    let half = ratios_of(&[("east", 0.5), ("west", 0.5)]);
    let counts = |east: usize, west: usize| -> Counts {
        [("east".to_owned(), east), ("west".to_owned(), west)].into()
    };
    assert!(!is_overloaded(&counts(3, 3), Some(&half)));
    assert!(!is_overloaded(&counts(4, 3), Some(&half)));
    assert!(is_overloaded(&counts(5, 2), Some(&half)));
    assert!(is_overloaded(&counts(3, 3), None));
    assert!(!is_overloaded(&Counts::new(), None));
    let new_zone = ratios_of(&[("east", 0.4), ("west", 0.4), ("south", 0.2)]);
    assert!(is_overloaded(&counts(3, 3), Some(&new_zone)));
}

/// A Service with the annotation, with pods in the zones west and east.
fn annotated(count: usize) -> Cluster {
    let mut service = service(json!({}));
    service["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    let cluster = Cluster::with([service]);
    for (mut pod, zone) in pods(count).zip(["west", "east"].into_iter().cycle()) {
        pod["spec"]["nodeName"] = format!("node-{zone}").into();
        cluster.put(pod);
        cluster.put(node(&format!("node-{zone}"), zone));
    }
    cluster
}

fn zones(cluster: &Cluster) -> Vec<Value> {
    let endpoints = slices(cluster)[0]["endpoints"].as_array().unwrap().clone();
    let zone = |endpoint: &Value| endpoint["hints"]["forZones"][0]["name"].clone();
    endpoints.iter().map(zone).collect()
}

#[test]
fn hints_are_announced_once_and_when_they_go() {
    let cluster = annotated(4);
    assert_eq!(reconcile(&cluster), ["create"]);
    assert_eq!(zones(&cluster), ["west", "east", "west", "east"]);
    assert_eq!(
        cluster.events(),
        [
            "Normal TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4"
        ]
    );
    assert!(reconcile(&cluster).is_empty());
    assert!(cluster.events().is_empty());
    edit_service(&cluster, |service| {
        service["metadata"]["annotations"] = json!({})
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert!(zones(&cluster).iter().all(Value::is_null));
    assert_eq!(
        cluster.events(),
        [
            "Warning TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4"
        ]
    );
    assert!(reconcile(&cluster).is_empty());
    assert!(cluster.events().is_empty());
}

#[test]
fn a_node_without_a_zone_removes_all_hints() {
    let cluster = annotated(4);
    reconcile(&cluster);
    cluster.events();
    cluster.put(node("node", ""));
    assert_eq!(reconcile(&cluster), ["update"]);
    assert!(zones(&cluster).iter().all(Value::is_null));
    assert_eq!(
        cluster.events(),
        [
            "Warning TopologyAwareHintsDisabled Insufficient Node information: allocatable CPU or zone not specified on \
          one or more nodes, addressType: IPv4"
        ]
    );
}

#[test]
fn a_slice_that_does_not_change_keeps_hints_that_fit() {
    let cluster = annotated(8);
    cluster.set_config("max-endpoints-per-slice", "4");
    assert_eq!(reconcile(&cluster), ["create", "create"]);
    edit_pod(&cluster, "web-07", |pod| {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    // Too few endpoints for two zones.
    for at in 1..8 {
        cluster.remove("v1/Pod", "a", &format!("web-0{at}"));
    }
    reconcile(&cluster);
    assert_eq!(zones(&cluster), [Value::Null]);
}
