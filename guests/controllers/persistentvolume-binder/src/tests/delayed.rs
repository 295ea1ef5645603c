//! Claims of classes whose volumes the scheduler chooses.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

fn delayed() -> Value {
    with(
        class("local", "example.com/csi"),
        "/volumeBindingMode",
        "WaitForFirstConsumer",
    )
}

fn data() -> Value {
    in_class(claim("data", "1Gi"), "local")
}

/// The event about a waiting claim, beside these pods.
fn event(pods: impl IntoIterator<Item = Value>) -> String {
    let cluster = Cluster::with(pods.into_iter().chain([delayed(), data()]));
    assert!(sync_claim(&cluster, "data").is_empty());
    cluster.events().pop().unwrap()
}

#[test]
fn a_claim_without_pods_waits_for_the_first_one() {
    let ended = with(pod("ended", "data"), "/status/phase", "Succeeded");
    let placed = with(pod("placed", "data"), "/spec/nodeName", "node-0");
    let expected =
        "Normal WaitForFirstConsumer waiting for first consumer to be created before binding";
    assert_eq!(event([ended, placed, pod("other", "else")]), expected);
}

#[test]
fn the_pods_that_wait_for_a_node_are_named() {
    let expected = "Normal WaitForPodScheduled waiting for pod a to be scheduled";
    assert_eq!(event([pod("a", "data")]), expected);
    let expected = "Normal WaitForPodScheduled waiting for pods a,b to be scheduled";
    assert_eq!(event([pod("b", "data"), pod("a", "data")]), expected);
}

#[test]
fn a_pod_that_is_being_deleted_counts_while_a_container_runs() {
    let containers = json!([{"state": {"running": {}}}]);
    let running = with(
        deleting(pod("a", "data")),
        "/status/containerStatuses",
        containers,
    );
    let expected = "Normal WaitForPodScheduled waiting for pod a to be scheduled";
    assert_eq!(event([running]), expected);
    let expected =
        "Normal WaitForFirstConsumer waiting for first consumer to be created before binding";
    assert_eq!(event([deleting(pod("a", "data"))]), expected);
}

#[test]
fn a_pod_uses_the_claims_of_its_ephemeral_volumes() {
    let mut web = pod("web-0", "else");
    web["spec"]["volumes"] =
        json!([{"name": "big-cache", "ephemeral": {"volumeClaimTemplate": {}}}]);
    let owned = with(data(), "/metadata/name", "web-0-big-cache");
    let cluster = Cluster::with([delayed(), owned, web]);
    sync_claim(&cluster, "web-0-big-cache");
    let expected = "Normal WaitForPodScheduled waiting for pod web-0 to be scheduled";
    assert_eq!(cluster.events(), [expected]);
}

#[test]
fn free_volumes_are_left_to_the_scheduler() {
    let free = in_class(volume("free", "1Gi"), "local");
    let cluster = Cluster::with([delayed(), data(), free]);
    assert!(sync_claim(&cluster, "data").is_empty());
}

#[test]
fn a_volume_that_the_scheduler_reserved_is_bound() {
    let disk = in_class(volume("disk", "1Gi"), "local");
    let disk = annotated(
        with(disk, "/spec/claimRef", reference("data")),
        BY_CONTROLLER,
        "yes",
    );
    let cluster = Cluster::with([delayed(), data(), disk]);
    let writes = sync_claim(&cluster, "data");
    // The reference is there already.
    assert_eq!(writes.len(), 3);
    assert_eq!(claim_phase(&cluster, "data"), "Bound");
}

#[test]
fn a_claim_with_a_node_is_provisioned() {
    let cluster = Cluster::with([delayed(), annotated(data(), NODE, "node-0")]);
    assert_eq!(
        sync_claim(&cluster, "data"),
        ["update v1/PersistentVolumeClaim team/data"]
    );
    assert!(cluster.events()[0].starts_with("Normal ExternalProvisioning "));
}

#[test]
fn a_class_without_a_mode_is_an_error() {
    let mut odd = delayed();
    odd.as_object_mut().unwrap().remove("volumeBindingMode");
    let cluster = Cluster::with([odd, data()]);
    let error = try_claim(&cluster, "data").unwrap_err();
    assert_eq!(
        error.to_string(),
        "VolumeBindingMode not set for StorageClass \"local\""
    );
}
