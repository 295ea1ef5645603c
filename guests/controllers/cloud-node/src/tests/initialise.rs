//! New nodes, at a cloud with `instancesV2`.

use flyball_cloud::CloudError;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::CloudNode;

fn metadata() -> Value {
    json!({
        "providerID": "fake://i-1", "instanceType": "large", "zone": "z", "region": "r",
        "nodeAddresses": [{"type": "InternalIP", "address": "10.0.0.1"},
                          {"type": "ExternalIP", "address": "192.0.2.1"}],
        "additionalLabels": {"example.com/rack": "7"},
    })
}

#[test]
fn a_new_node_gets_what_the_cloud_knows_and_loses_the_taint() {
    let (cluster, cloud) = world(new_node());
    knows(&cloud, metadata());
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), [PATCH, STATUS_PATCH]);
    assert_eq!(cloud.called(), ["InstanceMetadata a"]);
    assert_eq!(cluster.events(), ["Normal Synced Node synced successfully"]);
    let node = stored(&cluster);
    assert_eq!(node["spec"], json!({"providerID": "fake://i-1"}));
    assert_eq!(
        node["metadata"]["labels"],
        json!({
            "beta.kubernetes.io/instance-type": "large",
            "node.kubernetes.io/instance-type": "large",
            "failure-domain.beta.kubernetes.io/zone": "z",
            "topology.kubernetes.io/zone": "z",
            "failure-domain.beta.kubernetes.io/region": "r",
            "topology.kubernetes.io/region": "r",
            "example.com/rack": "7",
        })
    );
    assert_eq!(
        node["status"]["addresses"],
        json!([{"type": "InternalIP", "address": "10.0.0.1"},
               {"type": "ExternalIP", "address": "192.0.2.1"},
               {"type": "Hostname", "address": "a"}])
    );
}

#[test]
fn the_delays_since_the_creation_are_observed() {
    let (cluster, cloud) = world(new_node());
    knows(&cloud, metadata());
    reconcile(&cluster).unwrap();
    let metrics: Vec<_> = cluster
        .metrics()
        .into_iter()
        .map(|(_, name, _, value)| (name, value))
        .collect();
    let of = |name: &str| (format!("node_controller_{name}"), 30.0);
    assert_eq!(
        metrics,
        [
            of("cloud_provider_taint_removal_delay_seconds"),
            of("initial_node_sync_delay_seconds")
        ]
    );
}

#[test]
fn other_taints_stay_as_they_are() {
    let taint = json!({"key": "other", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
    let (cluster, _) = world(new_node());
    cluster.edit(NODE, "", "a", |node| {
        let taints = node["spec"]["taints"].as_array_mut().unwrap();
        taints.push(taint.clone());
    });
    reconcile(&cluster).unwrap();
    assert_eq!(stored(&cluster)["spec"]["taints"], json!([taint]));
}

#[test]
fn the_taint_counts_with_any_value_and_effect() {
    let key = "node.cloudprovider.kubernetes.io/uninitialized";
    let taints = json!([{"key": key, "effect": "NoExecute"}, {"key": key, "effect": "NoSchedule"}]);
    let (cluster, _) = world(with(new_node(), "/spec/taints", taints));
    reconcile(&cluster).unwrap();
    assert_eq!(stored(&cluster)["spec"].get("taints"), None);
}

#[test]
fn a_provider_id_that_the_kubelet_has_set_stays() {
    let (cluster, cloud) = world(with(new_node(), "/spec/providerID", "fake://own"));
    knows(&cloud, metadata());
    reconcile(&cluster).unwrap();
    assert_eq!(stored(&cluster)["spec"]["providerID"], "fake://own");
}

#[test]
fn a_node_without_any_provider_id_keeps_the_taint() {
    let (cluster, cloud) = world(new_node());
    knows(&cloud, json!({"providerID": ""}));
    let error = reconcile(&cluster).unwrap_err().to_string();
    assert!(error.contains("does not set node provider ID"), "{error}");
    assert!(cluster.written().is_empty() && cluster.events().is_empty());

    let (cluster, cloud) = world(with(new_node(), "/spec/providerID", "fake://own"));
    knows(&cloud, json!({"providerID": ""}));
    reconcile(&cluster).unwrap();
    assert_eq!(
        stored(&cluster)["spec"],
        json!({"providerID": "fake://own"})
    );
}

#[test]
fn a_node_that_the_cloud_leaves_alone_keeps_the_taint() {
    let (cluster, cloud) = world(new_node());
    knows(&cloud, Value::Null);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert!(cluster.written().is_empty() && cluster.events().is_empty());
}

#[test]
fn an_error_of_the_cloud_is_retried_with_the_taint() {
    let (cluster, cloud) = world(new_node());
    cloud.fail("InstanceMetadata", CloudError::other("throttled"));
    let error = reconcile(&cluster).unwrap_err().to_string();
    assert_eq!(
        error,
        "failed to get instance metadata for node a: throttled"
    );
    assert!(cluster.written().is_empty());
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.events().len(), 1);
}

#[test]
fn a_provided_address_that_the_cloud_lacks_keeps_the_taint() {
    let (cluster, cloud) = world(provided(new_node(), "10.9.9.9"));
    knows(&cloud, metadata());
    reconcile(&cluster).unwrap_err();
    assert!(cluster.written().is_empty());
    cluster.edit(NODE, "", "a", |node| {
        let annotations = json!({"alpha.kubernetes.io/provided-node-ip": "10.0.0.1"});
        node["metadata"]["annotations"] = annotations;
    });
    reconcile(&cluster).unwrap();
    assert_eq!(stored(&cluster)["spec"].get("taints"), None);
}

#[test]
fn clouds_set_no_labels_of_kubernetes_and_replace_none() {
    let (cluster, cloud) = world(with(new_node(), "/metadata/labels", json!({"own": "kept"})));
    knows(
        &cloud,
        json!({"providerID": "fake://i-1", "additionalLabels": {
            "own": "replaced", "kubernetes.io/a": "1", "x.k8s.io/a": "1", "my-kubernetes.io/a": "1",
        }}),
    );
    reconcile(&cluster).unwrap();
    assert_eq!(
        stored(&cluster)["metadata"]["labels"],
        json!({"own": "kept", "my-kubernetes.io/a": "1"})
    );
}

#[test]
fn a_conflict_is_retried_with_the_latest_version_without_another_call() {
    let (cluster, cloud) = world(new_node());
    cluster.fail("patch", NODE, refusal(409, "Conflict"));
    reconcile(&cluster).unwrap();
    assert_eq!(cloud.called(), ["InstanceMetadata a"]);
    assert_eq!(cluster.live_reads(), ["get v1/Node a"]);
    assert_eq!(stored(&cluster)["spec"].get("taints"), None);
}

#[test]
fn a_refused_write_is_retried_with_another_call() {
    let (cluster, cloud) = world(new_node());
    cluster.fail("patch", NODE, refusal(500, "InternalError"));
    reconcile(&cluster).unwrap_err();
    assert!(cluster.events().is_empty());
    reconcile(&cluster).unwrap();
    assert_eq!(cloud.called().len(), 2);
}

#[test]
fn refused_addresses_do_not_keep_the_node_uninitialised() {
    let (cluster, cloud) = world(new_node());
    knows(&cloud, metadata());
    cluster.fail("patch", "v1/Node/status", refusal(500, "InternalError"));
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.events(), ["Normal Synced Node synced successfully"]);
}

#[test]
fn a_cloud_without_instances_is_not_asked() {
    let (cluster, cloud) = world(new_node());
    cloud.set_capabilities(|capabilities| capabilities.instances_v2 = false);
    reconcile(&cluster).unwrap();
    pass(&cluster).unwrap();
    assert!(cloud.called().is_empty() && cluster.written().is_empty());
}

#[test]
fn without_a_provider_the_node_waits() {
    let cluster = flyball_sdk::testing::Cluster::with([new_node()]);
    assert_eq!(
        reconcile(&cluster).unwrap(),
        Outcome::RequeueAfter(crate::WAIT)
    );
    assert_eq!(pass(&cluster).unwrap(), Outcome::RequeueAfter(crate::WAIT));
    assert!(cluster.written().is_empty());
}

#[test]
fn the_cloud_is_given_the_name_the_uid_and_the_labels_of_the_node() {
    let (cluster, cloud) = world(with(new_node(), "/metadata/labels", json!({"a": "b"})));
    cluster.reconcile::<CloudNode>("a").unwrap();
    let node = &cloud.calls()[0].nodes[0];
    assert_eq!(node["metadata"]["uid"], "uid-a");
    assert_eq!(node["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(node["status"]["addresses"][0]["address"], "10.0.0.1");
}
