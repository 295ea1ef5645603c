//! Hints for the traffic distribution.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

/// A Service with this traffic distribution, with pods in the zones west and east.
fn distributed(distribution: &str) -> Cluster {
    let cluster = cluster([service(json!({"trafficDistribution": distribution}))]);
    for (pod, zone) in pods(2).zip(["west", "east"]) {
        let mut pod = pod;
        pod["spec"]["nodeName"] = format!("node-{zone}").into();
        cluster.put(pod);
        cluster.put(node(&format!("node-{zone}"), zone));
    }
    cluster
}

fn hints(cluster: &Cluster) -> Value {
    let slices = slices(cluster);
    let endpoints = slices[0]["endpoints"].as_array().unwrap().iter();
    endpoints
        .map(|endpoint| endpoint["hints"].clone())
        .collect()
}

#[test]
fn endpoints_are_meant_for_their_own_zone_or_node() {
    let zones = json!([{"forZones": [{"name": "west"}]}, {"forZones": [{"name": "east"}]}]);
    let nodes = json!([
        {"forZones": [{"name": "west"}], "forNodes": [{"name": "node-west"}]},
        {"forZones": [{"name": "east"}], "forNodes": [{"name": "node-east"}]},
    ]);
    let none = json!([null, null]);
    for (distribution, gate, expected) in [
        ("PreferClose", "true", &zones),
        ("PreferClose", "false", &zones),
        ("PreferSameZone", "true", &zones),
        ("PreferSameZone", "false", &none),
        ("PreferSameNode", "true", &nodes),
        ("PreferSameNode", "false", &none),
        ("Unknown", "true", &none),
    ] {
        let cluster = distributed(distribution);
        cluster.set_config("feature-gates.PreferSameTrafficDistribution", gate);
        assert_eq!(reconcile(&cluster), ["create"]);
        assert_eq!(hints(&cluster), *expected, "{distribution} {gate}");
        assert!(reconcile(&cluster).is_empty());
    }
}

#[test]
fn hints_follow_the_distribution() {
    let cluster = distributed("PreferSameNode");
    reconcile(&cluster);
    edit_service(&cluster, |service| {
        service["spec"]["trafficDistribution"] = "PreferClose".into()
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(hints(&cluster)[0]["forNodes"], json!(null));
    edit_service(&cluster, |service| {
        service["spec"]["trafficDistribution"] = json!(null)
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(hints(&cluster), json!([null, null]));
    assert!(cluster.events().is_empty());
}

#[test]
fn endpoints_that_are_not_ready_or_have_no_zone_get_no_hint() {
    let cluster = distributed("PreferClose");
    edit_pod(&cluster, "web-00", |pod| {
        pod["status"]["conditions"][0]["status"] = "False".into();
    });
    cluster.put(node("node-east", ""));
    reconcile(&cluster);
    assert_eq!(hints(&cluster), json!([null, null]));
}

#[test]
fn an_endpoint_that_becomes_unready_loses_its_hint() {
    let cluster = distributed("PreferClose");
    reconcile(&cluster);
    edit_pod(&cluster, "web-00", |pod| {
        pod["status"]["conditions"][0]["status"] = "False".into();
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(
        hints(&cluster),
        json!([null, {"forZones": [{"name": "east"}]}])
    );
}

#[test]
fn the_annotation_takes_precedence() {
    let cluster = distributed("PreferClose");
    edit_service(&cluster, |service| {
        service["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    });
    cluster.put(node("node", ""));
    reconcile(&cluster);
    // A node has no zone.
    assert_eq!(hints(&cluster), json!([null, null]));
    assert_eq!(cluster.events().len(), 1);
}
