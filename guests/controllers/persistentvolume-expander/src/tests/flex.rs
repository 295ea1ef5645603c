//! FlexVolumes.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal, view};

use super::world::*;
use crate::flex::{Step, next_step};
use crate::views::Claim;

const CLAIM_PATCH: &str = "patch v1/PersistentVolumeClaim/status team/data";
const VOLUME_PATCH: &str = "patch v1/PersistentVolume pv-1";
const PENDING: &str = "NodeResizePending";

/// The types of the claim's conditions.
fn conditions(cluster: &Cluster) -> Vec<String> {
    let claim = claim_of(cluster);
    let conditions = claim["status"]["conditions"].as_array();
    let of = |condition: &Value| condition["type"].as_str().unwrap().to_owned();
    conditions.into_iter().flatten().map(of).collect()
}

#[test]
fn a_volume_with_a_file_system_is_left_to_the_node() {
    let cluster = Cluster::with([claim("2Gi", "1Gi"), flex("1Gi")]);
    let (events, writes) = sync(&cluster);
    assert!(events.is_empty());
    assert_eq!(
        writes,
        [CLAIM_PATCH, VOLUME_PATCH, CLAIM_PATCH, VOLUME_PATCH]
    );
    let claim = claim_of(&cluster);
    assert_eq!(
        claim["metadata"]["annotations"],
        json!({"volume.kubernetes.io/storage-resizer": "example.com/flex"})
    );
    let status = &claim["status"];
    assert_eq!(status["allocatedResources"], json!({"storage": "2Gi"}));
    assert_eq!(
        status["allocatedResourceStatuses"],
        json!({"storage": PENDING})
    );
    assert_eq!(status["capacity"], json!({"storage": "1Gi"}));
    assert_eq!(
        conditions(&cluster),
        ["Resizing", "FileSystemResizePending"]
    );
    let volume = volume_of(&cluster);
    assert_eq!(volume["spec"]["capacity"], json!({"storage": "2Gi"}));
    assert_eq!(
        volume["metadata"]["annotations"],
        json!({"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"})
    );
}

#[test]
fn a_block_volume_is_complete_at_once() {
    let block = with(flex("1Gi"), "/spec/volumeMode", "Block");
    let cluster = Cluster::with([claim("2Gi", "1Gi"), block]);
    let (events, writes) = sync(&cluster);
    assert_eq!(
        events,
        ["Normal VolumeResizeSuccessful ExpandVolume succeeded for volume team/data"]
    );
    assert_eq!(writes, [CLAIM_PATCH, VOLUME_PATCH, CLAIM_PATCH]);
    let status = claim_of(&cluster)["status"].clone();
    assert_eq!(status["capacity"], json!({"storage": "2Gi"}));
    assert!(status["allocatedResourceStatuses"]["storage"].is_null());
    assert!(conditions(&cluster).is_empty());
}

#[test]
fn the_annotation_is_removed_when_the_node_is_done() {
    let cluster = Cluster::with([claim("2Gi", "2Gi"), resizing(flex("2Gi"), "1Gi")]);
    assert_eq!(sync(&cluster), (vec![], vec![VOLUME_PATCH.to_owned()]));
    assert_eq!(volume_of(&cluster)["metadata"]["annotations"], json!({}));
    assert!(cluster.metrics().is_empty());
}

#[test]
fn a_second_expansion_keeps_the_capacity_of_before_the_first() {
    let cluster = Cluster::with([claim("4Gi", "1Gi"), resizing(flex("2Gi"), "1Gi")]);
    assert_eq!(sync(&cluster).1, [CLAIM_PATCH, VOLUME_PATCH, CLAIM_PATCH]);
    let annotations = &volume_of(&cluster)["metadata"]["annotations"];
    assert_eq!(
        annotations["volume.alpha.kubernetes.io/pre-resize-capacity"],
        "1Gi"
    );
}

#[test]
fn conditions_of_other_expansions_go_and_foreign_ones_stay() {
    let condition = |name: &str| json!({"type": name, "status": "True", "reason": "Some"});
    let conditions_before = json!([
        condition("ModifyingVolume"),
        condition("NodeResizeError"),
        condition("Resizing"),
    ]);
    let claim = with(claim("2Gi", "1Gi"), "/status/conditions", conditions_before);
    let cluster = Cluster::with([claim, flex("1Gi")]);
    sync(&cluster);
    assert_eq!(
        conditions(&cluster),
        ["ModifyingVolume", "Resizing", "FileSystemResizePending"]
    );
    // A condition that is true already is not written again.
    assert_eq!(
        claim_of(&cluster)["status"]["conditions"][1]["reason"],
        "Some"
    );
}

#[test]
fn an_interrupted_expansion_goes_on_to_the_size_that_it_began_with() {
    let step = |request: &str, status: &str, size: &str| {
        let claim: Claim = view(expanding(claim(request, "1Gi"), size, status));
        next_step(&claim, "2Gi".parse().unwrap())
    };
    let to = |size: &str| Step::Expand(size.parse().unwrap());
    // The volume is smaller than requested.
    for status in [
        "ControllerResizeInProgress",
        PENDING,
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
    ] {
        assert_eq!(step("4Gi", status, "3Gi"), to("3Gi"), "{status}");
    }
    for status in ["", "ControllerResizeInfeasible"] {
        assert_eq!(step("4Gi", status, "3Gi"), to("4Gi"), "{status}");
    }
    // The volume has the size.
    for status in [PENDING, "NodeResizeInProgress"] {
        assert_eq!(step("2Gi", status, "2Gi"), Step::Wait, "{status}");
    }
    assert_eq!(
        step("2Gi", "NodeResizeInfeasible", "2Gi"),
        Step::TryNodeAgain
    );
    for status in [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "",
    ] {
        assert_eq!(step("1500Mi", status, "2Gi"), to("2Gi"), "{status}");
    }
    assert_eq!(step("1500Mi", "Unknown", "2Gi"), to("1500Mi"));
}

#[test]
fn a_pending_expansion_is_left_alone_and_an_infeasible_one_tried_again() {
    let pending = expanding(claim("2Gi", "1Gi"), "2Gi", PENDING);
    let cluster = Cluster::with([pending, resizing(flex("2Gi"), "1Gi")]);
    assert_eq!(sync(&cluster), (vec![], vec![]));
    let infeasible = expanding(claim("2Gi", "1Gi"), "2Gi", "NodeResizeInfeasible");
    let cluster = Cluster::with([infeasible, resizing(flex("2Gi"), "1Gi")]);
    assert_eq!(sync(&cluster).1, [CLAIM_PATCH]);
    assert_eq!(
        claim_of(&cluster)["status"]["allocatedResourceStatuses"],
        json!({"storage": PENDING})
    );
}

#[test]
fn each_interrupted_expansion_ends_in_the_same_state() {
    let all = Cluster::with([claim("2Gi", "1Gi"), flex("1Gi")]);
    sync(&all);
    let state = |cluster: &Cluster| {
        let (claim, mut volume) = (claim_of(cluster), volume_of(cluster));
        let annotations = volume["metadata"]["annotations"].take();
        (claim["status"].clone(), volume["spec"].take(), annotations)
    };
    for (verb, kind, nth) in [
        ("patch", "v1/PersistentVolumeClaim/status", 1),
        ("patch", VOLUME, 1),
        ("patch", "v1/PersistentVolumeClaim/status", 2),
        ("patch", VOLUME, 2),
    ] {
        let cluster = Cluster::with([claim("2Gi", "1Gi"), flex("1Gi")]);
        cluster.fail_nth(verb, kind, nth, refusal(500, "InternalError"));
        reconcile(&cluster).unwrap_err();
        reconcile(&cluster).unwrap();
        assert_eq!(state(&cluster), state(&all), "{kind} {nth}");
    }
}

#[test]
fn errors_have_the_texts_of_kube_controller_manager() {
    const STATUS: &str = "v1/PersistentVolumeClaim/status";
    let refused = "the test refuses this: InternalError";
    let of_claim = format!("patchPVCStatus failed to patch PVC \"data\": {refused}");
    let of_volume = format!("error Patching PV \"pv-1\" with error : {refused}");
    let pending = "error marking pvc team/data for node expansion";
    for (kind, nth, expected) in [
        (
            STATUS,
            1,
            format!("error updating pvc team/data with resize in progress: {of_claim}"),
        ),
        (
            VOLUME,
            1,
            format!("error updating pv for pvc team/data: {of_volume}"),
        ),
        (STATUS, 2, format!("{pending}: {pending}: {of_claim}")),
        (
            VOLUME,
            2,
            format!(
                "{pending}: error updating pv pv-1 annotation (volume.alpha.kubernetes.io/pre-resize-capacity) with \
                 pre-resize capacity 1Gi: {of_volume}"
            ),
        ),
    ] {
        let cluster = Cluster::with([claim("2Gi", "1Gi"), flex("1Gi")]);
        cluster.fail_nth("patch", kind, nth, refusal(500, "InternalError"));
        let error = reconcile(&cluster).unwrap_err().to_string();
        assert_eq!(error, expected);
        assert_eq!(
            cluster.events(),
            [format!("Warning VolumeResizeFailed {expected}")]
        );
    }
    let block = with(flex("1Gi"), "/spec/volumeMode", "Block");
    let cluster = Cluster::with([claim("2Gi", "1Gi"), block]);
    cluster.fail_nth("patch", STATUS, 2, refusal(500, "InternalError"));
    assert_eq!(
        reconcile(&cluster).unwrap_err().to_string(),
        format!("error marking pvc team/data as resized: {of_claim}")
    );
}

#[test]
fn an_expansion_is_timed_by_its_driver_and_its_end() {
    let cluster = Cluster::with([claim("2Gi", "1Gi"), flex("1Gi")]);
    cluster.fail("patch", VOLUME, refusal(500, "InternalError"));
    reconcile(&cluster).unwrap_err();
    reconcile(&cluster).unwrap();
    let labels: Vec<String> = { cluster.metrics().into_iter() }
        .map(|(_, name, labels, _)| format!("{name} {}", labels.join(" ")))
        .collect();
    let of = |status: &str| {
        format!("storage_operation_duration_seconds example.com/flex expand_volume {status} false")
    };
    assert_eq!(labels, [of("fail-unknown"), of("success")]);
}
