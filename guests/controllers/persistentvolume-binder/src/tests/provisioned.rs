//! Claims whose volumes a plugin creates.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

const ANNOTATED: &str = "update v1/PersistentVolumeClaim team/data";
const CREATED: &str = "create v1/PersistentVolume pvc-uid-data";

fn data() -> Value {
    in_class(claim("data", "1Gi"), "fast")
}

fn cluster() -> Cluster {
    mocked([class("fast", MOCK), data()])
}

/// Checks that provisioning fails with this text.
fn assert_failed(cluster: &Cluster, problem: &str) {
    sync_claim(cluster, "data");
    assert_eq!(
        cluster.events(),
        [format!("Warning ProvisioningFailed {problem}")]
    );
    assert!(cluster.object(PV, "", "pvc-uid-data").is_none());
}

#[test]
fn a_volume_is_created_bound() {
    let cluster = cluster();
    assert_eq!(sync_claim(&cluster, "data"), [ANNOTATED, CREATED]);
    let event = format!(
        "Normal ProvisioningSucceeded Successfully provisioned volume pvc-uid-data using {MOCK}"
    );
    assert_eq!(cluster.events(), [event]);
    let created = volume_of(&cluster, "pvc-uid-data");
    assert_eq!(created["spec"]["claimRef"]["uid"], "uid-data");
    assert_eq!(created["spec"]["storageClassName"], "fast");
    assert_eq!(created["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert_eq!(
        created["metadata"]["finalizers"],
        json!(["kubernetes.io/pv-controller"])
    );
    assert_eq!(created["metadata"]["annotations"][PROVISIONED_BY], MOCK);
    assert_eq!(created["metadata"]["annotations"][BY_CONTROLLER], "yes");
    // The volume's reconcile wakes the claim.
    sync_volume(&cluster, "pvc-uid-data");
    assert_eq!(cluster.enqueued().len(), 1);
    sync_claim(&cluster, "data");
    assert_eq!(claim_phase(&cluster, "data"), "Bound");
    assert_eq!(volume_phase(&cluster, "pvc-uid-data"), "Bound");
}

#[test]
fn a_retained_volume_has_no_finalizer() {
    let retaining = with(class("fast", MOCK), "/reclaimPolicy", "Retain");
    let cluster = mocked([retaining, data()]);
    sync_claim(&cluster, "data");
    assert!(volume_of(&cluster, "pvc-uid-data")["metadata"]["finalizers"].is_null());
}

#[test]
fn a_volume_that_the_cache_does_not_have_yet_is_not_created_again() {
    let cluster = cluster();
    cluster.put_live(volume("pvc-uid-data", "1Gi"));
    assert_eq!(sync_claim(&cluster, "data"), [ANNOTATED]);
    assert!(cluster.events().is_empty());
}

#[test]
fn a_slow_plugin_is_waited_for_once() {
    let cluster = cluster();
    cluster.set_config("volume-plugin-provision-delay", "5s");
    let second = Duration::from_secs(1);
    assert_eq!(
        try_claim(&cluster, "data").unwrap(),
        Outcome::RequeueAfter(5 * second)
    );
    cluster.advance(second);
    assert_eq!(
        try_claim(&cluster, "data").unwrap(),
        Outcome::RequeueAfter(4 * second)
    );
    assert_eq!(cluster.written(), [ANNOTATED]);
    cluster.advance(4 * second);
    assert_eq!(sync_claim(&cluster, "data"), [CREATED]);
}

#[test]
fn a_failed_plugin_gives_the_choice_of_a_node_back_and_is_left_alone_for_a_while() {
    let failing = with(
        class("fast", MOCK),
        "/parameters/expect-provision-failure",
        "yes",
    );
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}});
    let cluster = mocked([failing, annotated(data(), NODE, "node-0"), node]);
    assert_failed(
        &cluster,
        "Failed to provision volume with StorageClass \"fast\": expected error",
    );
    assert!(claim_of(&cluster, "data")["metadata"]["annotations"][NODE].is_null());
    assert!(sync_claim(&cluster, "data").is_empty() && cluster.events().is_empty());
    cluster.advance(Duration::from_millis(501));
    sync_claim(&cluster, "data");
    assert_eq!(cluster.events().len(), 1);
    cluster.advance(Duration::from_millis(501));
    sync_claim(&cluster, "data");
    assert!(cluster.events().is_empty());
}

#[test]
fn each_other_obstacle_has_its_text() {
    let cluster = mocked([class("fast", MOCK), annotated(data(), NODE, "lost")]);
    assert_failed(
        &cluster,
        "Failed to get target node: node \"lost\" not found",
    );
    assert_eq!(
        claim_of(&cluster, "data")["metadata"]["annotations"][NODE],
        "lost"
    );
    let source = json!({"kind": "VolumeSnapshot", "name": "a"});
    let cluster = mocked([
        class("fast", MOCK),
        with(data(), "/spec/dataSource", source),
    ]);
    let problem = format!(
        "plugin {MOCK:?} is not a CSI plugin. Only CSI plugin can provision a claim with a datasource"
    );
    assert_failed(&cluster, &problem);
    let mounted = with(
        class("fast", "kubernetes.io/host-path"),
        "/mountOptions",
        json!(["ro", "sync"]),
    );
    let cluster = Cluster::with([mounted, data()]);
    let problem = "Mount options are not supported by the provisioner but StorageClass \"fast\" has mount options [ro sync]";
    assert_failed(&cluster, problem);
    let cluster = Cluster::with([class("fast", "kubernetes.io/host-path"), data()]);
    let problem = "Failed to create provisioner: provisioning in volume plugin \"kubernetes.io/host-path\" is disabled";
    assert_failed(&cluster, problem);
}

#[test]
fn host_paths_are_provisioned_if_the_operator_says_so() {
    let cluster = Cluster::with([class("fast", "kubernetes.io/host-path"), data()]);
    cluster.set_config("enable-hostpath-provisioner", "true");
    assert_eq!(sync_claim(&cluster, "data"), [ANNOTATED, CREATED]);
    let path = text(&volume_of(&cluster, "pvc-uid-data")["spec"]["hostPath"]["path"]);
    assert_eq!(path.len(), "/tmp/hostpath_pv/".len() + 36, "{path}");
}

#[test]
fn a_volume_that_can_not_be_created_is_tried_five_times_and_then_given_up() {
    let cluster = cluster();
    for attempt in 1..=5 {
        cluster.fail("create", PV, refusal(403, "Forbidden"));
        let outcome = try_claim(&cluster, "data").unwrap();
        match attempt {
            5 => assert_eq!(outcome, Outcome::Done),
            _ => assert_eq!(outcome, Outcome::RequeueAfter(Duration::from_secs(10))),
        }
        cluster.advance(Duration::from_secs(10));
    }
    let problem = "Error creating provisioned PV object for claim team/data: the test refuses this: Forbidden. Deleting the volume.";
    assert_eq!(
        cluster.events(),
        [format!("Warning ProvisioningFailed {problem}")]
    );
    cluster.written();
    assert_eq!(sync_claim(&cluster, "data"), [CREATED]);
}
