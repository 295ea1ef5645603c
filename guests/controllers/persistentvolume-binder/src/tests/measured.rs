//! The metrics.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;
use crate::Binder;

/// The operations on metrics since the last call: name, labels and value.
fn measured(cluster: &Cluster) -> Vec<String> {
    let line = |(_, name, labels, value): (_, String, Vec<String>, f64)| {
        format!("{name}{{{}}} {value}", labels.join(","))
    };
    cluster.metrics().into_iter().map(line).collect()
}

fn count(cluster: &Cluster) -> Vec<String> {
    cluster
        .reconcile_request::<Binder>(&request("volumes", "metrics:"))
        .unwrap();
    measured(cluster)
}

#[test]
fn volumes_and_claims_are_counted_and_vanished_series_become_zero() {
    let csi = json!({"csi": {"driver": "example.com", "volumeHandle": "1"}, "volumeMode": "Block", "storageClassName": "fast"});
    let csi = with(
        with(volume("csi", "1Gi"), "/spec", csi),
        "/status/phase",
        "Released",
    );
    let [disk, data] = pair();
    let gold = with(
        in_class(claim("gold", "1Gi"), "fast"),
        "/spec/volumeAttributesClassName",
        "gold",
    );
    let cluster = Cluster::with([disk, data, csi, gold]);
    assert_eq!(
        count(&cluster),
        [
            "pv_collector_bound_pv_count{} 1",
            "pv_collector_bound_pvc_count{team,,} 1",
            "pv_collector_total_pv_count{N/A,Block} 1",
            "pv_collector_total_pv_count{kubernetes.io/host-path,Filesystem} 1",
            "pv_collector_unbound_pv_count{fast} 1",
            "pv_collector_unbound_pvc_count{team,fast,gold} 1",
        ]
    );
    cluster.remove(PVC, "team", "gold");
    assert_eq!(
        count(&cluster).last().unwrap(),
        "pv_collector_unbound_pvc_count{team,fast,gold} 0"
    );
    assert_eq!(count(&cluster).len(), 5);
}

#[test]
fn provisioning_is_measured_until_the_claim_is_bound() {
    let cluster = Cluster::with([
        class("fast", "example.com/csi"),
        in_class(claim("data", "1Gi"), "fast"),
    ]);
    sync_claim(&cluster, "data");
    cluster.advance(Duration::from_secs(2));
    sync_claim(&cluster, "data");
    assert!(measured(&cluster).is_empty());
    cluster.advance(Duration::from_secs(2));
    cluster.put(with(
        in_class(volume("disk", "1Gi"), "fast"),
        "/spec/claimRef",
        reference("data"),
    ));
    sync_claim(&cluster, "data");
    assert_eq!(
        measured(&cluster),
        ["volume_operation_total_seconds{example.com/csi,provision} 4"]
    );
    sync_claim(&cluster, "data");
    assert!(measured(&cluster).is_empty());
}

#[test]
fn a_plugin_that_fails_is_counted_by_both_names() {
    let failing = with(
        class("fast", MOCK),
        "/parameters/expect-provision-failure",
        "yes",
    );
    let cluster = mocked([failing, in_class(claim("data", "1Gi"), "fast")]);
    sync_claim(&cluster, "data");
    assert_eq!(
        measured(&cluster),
        [
            "storage_operation_duration_seconds{kubernetes.io/mock,volume_provision,fail-unknown,false} 0",
            "volume_operation_errors_total{kubernetes.io/mock,provision} 1",
            "volume_operation_total_errors{kubernetes.io/mock,provision} 1",
        ]
    );
}

#[test]
fn deletion_is_measured_until_the_object_is_gone() {
    let disk = released(volume("disk", "1Gi"), "Delete");
    let cluster = mocked([with(
        disk,
        "/metadata/finalizers",
        json!(["example.com/held"]),
    )]);
    sync_volume(&cluster, "disk");
    assert_eq!(
        measured(&cluster),
        ["storage_operation_duration_seconds{kubernetes.io/mock,volume_delete,success,false} 0"]
    );
    cluster.advance(Duration::from_secs(3));
    cluster.remove(PV, "", "disk");
    sync_volume(&cluster, "disk");
    assert_eq!(
        measured(&cluster),
        ["volume_operation_total_seconds{kubernetes.io/mock,delete} 3"]
    );
}

#[test]
fn the_deletion_by_an_external_provisioner_has_the_name_of_its_class() {
    let disk = annotated(
        in_class(released(volume("disk", "1Gi"), "Delete"), "fast"),
        PROVISIONED_BY,
        "local-node-0",
    );
    let cluster = Cluster::with([disk, class("fast", "kubernetes.io/gce-pd")]);
    sync_volume(&cluster, "disk");
    cluster.remove(PV, "", "disk");
    sync_volume(&cluster, "disk");
    assert_eq!(
        measured(&cluster),
        ["volume_operation_total_seconds{pd.csi.storage.gke.io,delete} 0"]
    );
}
