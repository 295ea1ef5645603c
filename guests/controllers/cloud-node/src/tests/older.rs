//! Clouds with the older interfaces.

use flyball_cloud::CloudError;
use flyball_cloud::testing::FakeCloud;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

/// A cluster with this node, and a cloud with the older interfaces.
fn older(node: Value) -> (Cluster, FakeCloud) {
    let (cluster, cloud) = world(node);
    cloud.set_capabilities(|capabilities| {
        capabilities.instances_v2 = false;
        capabilities.instances = true;
        capabilities.zones = true;
    });
    (cluster, cloud)
}

#[test]
fn a_new_node_gets_its_answers_one_by_one() {
    let (cluster, cloud) = older(new_node());
    cloud.on("InstanceID", |_| Ok(json!({"string": "i-1"})));
    cloud.on("InstanceTypeByProviderID", |_| {
        Ok(json!({"string": "large"}))
    });
    cloud.on("GetZoneByProviderID", |_| {
        Ok(json!({"zone": {"failureDomain": "z", "region": "r"}}))
    });
    let addresses = json!({"addresses": [{"type": "InternalIP", "address": "10.0.0.5"}]});
    cloud.on("NodeAddressesByProviderID", move |_| Ok(addresses.clone()));
    reconcile(&cluster).unwrap();
    assert_eq!(
        cloud.called(),
        [
            "InstanceID a",
            "NodeAddressesByProviderID fake://i-1",
            "InstanceTypeByProviderID fake://i-1",
            "GetZoneByProviderID fake://i-1",
        ]
    );
    let node = stored(&cluster);
    assert_eq!(node["spec"], json!({"providerID": "fake://i-1"}));
    assert_eq!(
        node["metadata"]["labels"]["topology.kubernetes.io/zone"],
        "z"
    );
    assert_eq!(
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"],
        "large"
    );
    assert_eq!(node["status"]["addresses"][0]["address"], "10.0.0.5");
}

#[test]
fn what_fails_by_provider_id_is_asked_by_name() {
    let (cluster, cloud) = older(with(new_node(), "/spec/providerID", "fake://own"));
    for method in [
        "NodeAddressesByProviderID",
        "InstanceTypeByProviderID",
        "GetZoneByProviderID",
    ] {
        cloud.on(method, |_| Err(CloudError::not_implemented()));
    }
    cloud.on("InstanceType", |_| Ok(json!({"string": "large"})));
    reconcile(&cluster).unwrap();
    let called = cloud.called();
    assert_eq!(called[1], "NodeAddresses a");
    assert_eq!(called[3], "InstanceType a");
    assert_eq!(called[5], "GetZoneByNodeName a");
    let labels = &stored(&cluster)["metadata"]["labels"];
    assert_eq!(labels["node.kubernetes.io/instance-type"], "large");
}

#[test]
fn what_fails_both_ways_keeps_the_taint() {
    for (by_id, by_name) in [
        ("NodeAddressesByProviderID", "NodeAddresses"),
        ("InstanceTypeByProviderID", "InstanceType"),
        ("GetZoneByProviderID", "GetZoneByNodeName"),
    ] {
        let (cluster, cloud) = older(new_node());
        cloud.fail(by_id, CloudError::other("first"));
        cloud.fail(by_name, CloudError::other("second"));
        let error = reconcile(&cluster).unwrap_err().to_string();
        assert!(
            error.contains("first") && error.contains("second"),
            "{error}"
        );
        assert!(cluster.written().is_empty());
    }
}

#[test]
fn a_cloud_without_provider_ids_finds_nodes_by_name() {
    let (cluster, cloud) = older(new_node());
    cloud.on("InstanceID", |_| Err(CloudError::not_implemented()));
    reconcile(&cluster).unwrap();
    assert_eq!(stored(&cluster)["spec"]["providerID"], "");
    assert_eq!(stored(&cluster)["spec"].get("taints"), None);
}

#[test]
fn any_other_error_of_the_provider_id_keeps_the_taint() {
    for error in [
        CloudError::instance_not_found(),
        CloudError::other("throttled"),
    ] {
        let (cluster, cloud) = older(new_node());
        cloud.fail("InstanceID", error);
        reconcile(&cluster).unwrap_err();
        assert!(cluster.written().is_empty());
    }
}

#[test]
fn zones_are_asked_for_only_if_the_cloud_has_them() {
    let (cluster, cloud) = older(new_node());
    cloud.set_capabilities(|capabilities| capabilities.zones = false);
    reconcile(&cluster).unwrap();
    assert!(
        !cloud
            .called()
            .iter()
            .any(|line| line.starts_with("GetZone"))
    );
}

#[test]
fn a_pass_asks_by_provider_id_and_else_by_name() {
    let (cluster, cloud) = older(node());
    let addresses = |text: &str| json!({"addresses": [{"type": "InternalIP", "address": text}]});
    let by_id = addresses("10.0.0.7");
    cloud.on("NodeAddressesByProviderID", move |_| Ok(by_id.clone()));
    pass(&cluster).unwrap();
    assert_eq!(cloud.called(), ["NodeAddressesByProviderID fake://a"]);
    assert_eq!(
        stored(&cluster)["status"]["addresses"][0]["address"],
        "10.0.0.7"
    );
    let by_name = addresses("10.0.0.8");
    cloud.on("NodeAddressesByProviderID", |_| {
        Err(CloudError::instance_not_found())
    });
    cloud.on("NodeAddresses", move |_| Ok(by_name.clone()));
    cluster.advance(std::time::Duration::from_secs(300));
    pass(&cluster).unwrap();
    assert_eq!(
        cloud.called(),
        ["NodeAddressesByProviderID fake://a", "NodeAddresses a"]
    );
    assert_eq!(
        stored(&cluster)["status"]["addresses"][0]["address"],
        "10.0.0.8"
    );
}
