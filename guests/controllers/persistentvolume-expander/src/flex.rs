//! Expands FlexVolumes: raises the size of the volume in the API, and leaves the file system to the node.
//!
//! Each step writes down what it did, so that an interrupted expansion goes on where it stopped, and to the size that it
//! had begun with, even if the request has changed since:
//!
//! 1. the claim: the size of the expansion, in progress;
//! 2. the volume: the new capacity;
//! 3. the claim: pending on the node, or if the volume has no file system, the new capacity;
//! 4. the volume: the claim's old capacity, as an annotation. It is removed when the node has expanded the file system.
//!
//! The errors are texts for people, which events show.
//!
//! Upstream: pkg/controller/volume/expand/expand_controller.go: expand, isNodeExpandComplete.
//! Upstream: pkg/volume/util/operationexecutor/operation_generator.go: GenerateExpandAndRecoverVolumeFunc,
//! expandAndRecoverFunction, markForPendingNodeExpansion.
//! Upstream: pkg/volume/util/resize_util.go: UpdatePVSize, AddAnnPreResizeCapacity, DeleteAnnPreResizeCapacity,
//! PatchPV.

use flyball_sdk::prelude::*;

use crate::OPERATIONS;
use crate::claim_patch::{self, CONTROLLER_IN_PROGRESS, NODE_PENDING};
use crate::views::{Claim, PRE_RESIZE_CAPACITY, Volume};

const CONTROLLER_INFEASIBLE: &str = "ControllerResizeInfeasible";
const NODE_IN_PROGRESS: &str = "NodeResizeInProgress";
const NODE_INFEASIBLE: &str = "NodeResizeInfeasible";

/// The next step of an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A node expands the file system.
    Wait,
    /// The node could not expand the file system, and is to try again.
    TryNodeAgain,
    /// The volume is expanded to this size.
    Expand(Quantity),
}

/// Decides the next step, given the claim and the capacity of its volume.
pub(crate) fn next_step(claim: &Claim, capacity: Quantity) -> Step {
    let status = claim.resize_status.as_str();
    let begun = claim.allocated.unwrap_or(claim.request);
    if capacity < claim.request {
        return Step::Expand(match status {
            CONTROLLER_IN_PROGRESS | NODE_PENDING | NODE_IN_PROGRESS | NODE_INFEASIBLE => begun,
            _ => claim.request,
        });
    }
    match status {
        NODE_PENDING | NODE_IN_PROGRESS => Step::Wait,
        NODE_INFEASIBLE => Step::TryNodeAgain,
        // The claim may have been shrunk in the meantime.
        CONTROLLER_IN_PROGRESS | CONTROLLER_INFEASIBLE | "" => Step::Expand(begun),
        _ => Step::Expand(claim.request),
    }
}

/// Expands the volume of a claim, or completes the expansion.
pub(crate) fn expand(host: &Host, claim: Claim, volume: Volume, driver: &str) -> Result<(), Error> {
    let capacity = volume.capacity();
    let is_complete = claim.capacity >= claim.request && claim.capacity >= capacity;
    if is_complete && volume.is_resizing() {
        let patch = json!({"metadata": {"annotations": {PRE_RESIZE_CAPACITY: null}}});
        return patch_volume(host, &volume, &patch).map_err(Error::failed);
    }
    let start = host.now();
    let about = claim.meta.reference(Claim::KIND);
    let result = match next_step(&claim, capacity) {
        // kube-controller-manager leaves the annotation out if it was interrupted before the last step.
        Step::Wait => keep_capacity(host, &claim, &volume),
        Step::TryNodeAgain => leave_to_node(host, &claim, &volume),
        Step::Expand(size) => raise(host, claim, &volume, driver, size),
    };
    let status = if result.is_ok() {
        "success"
    } else {
        "fail-unknown"
    };
    let seconds = host.now().since(start).as_secs_f64();
    let labels = [driver, "expand_volume", status, "false"];
    host.metrics().observe(OPERATIONS, &labels, seconds);
    result.map_err(|error| {
        host.emit(Event::warning(&about, "VolumeResizeFailed", &error));
        Error::failed(error)
    })
}

/// Raises the size of a volume and of its claim.
fn raise(
    host: &Host,
    claim: Claim,
    volume: &Volume,
    driver: &str,
    size: Quantity,
) -> Result<(), String> {
    let key = claim.meta.key();
    let begun = claim_patch::in_progress(&claim, driver, size, host.now());
    let claim = claim_patch::write(host, &claim, begun)
        .map_err(|error| format!("error updating pvc {key} with resize in progress: {error}"))?;
    if volume.capacity() != size {
        let patch = json!({"spec": {"capacity": {"storage": size}}});
        patch_volume(host, volume, &patch)
            .map_err(|error| format!("error updating pv for pvc {key}: {error}"))?;
    }
    if volume.has_file_system() {
        return leave_to_node(host, &claim, volume)
            .map_err(|error| format!("error marking pvc {key} for node expansion: {error}"));
    }
    let claim = claim_patch::write(host, &claim, claim_patch::finished(&claim, size))
        .map_err(|error| format!("error marking pvc {key} as resized: {error}"))?;
    let about = claim.meta.reference(Claim::KIND);
    let succeeded = format!("ExpandVolume succeeded for volume {key}");
    host.emit(Event::normal(&about, "VolumeResizeSuccessful", &succeeded));
    Ok(())
}

/// Tells the node to expand the file system.
fn leave_to_node(host: &Host, claim: &Claim, volume: &Volume) -> Result<(), String> {
    let pending = claim_patch::node_pending(claim, host.now());
    let claim = claim_patch::write(host, claim, pending).map_err(|error| {
        let key = claim.meta.key();
        format!("error marking pvc {key} for node expansion: {error}")
    })?;
    keep_capacity(host, &claim, volume)
}

/// Keeps the claim's old capacity on the volume, for a claim that is deleted and created again in the meantime.
fn keep_capacity(host: &Host, claim: &Claim, volume: &Volume) -> Result<(), String> {
    if volume.is_resizing() {
        return Ok(());
    }
    let capacity = claim.capacity;
    let patch = json!({"metadata": {"annotations": {PRE_RESIZE_CAPACITY: capacity}}});
    patch_volume(host, volume, &patch).map_err(|error| {
        let name = &volume.meta.name;
        format!(
            "error updating pv {name} annotation ({PRE_RESIZE_CAPACITY}) with pre-resize capacity {capacity}: {error}"
        )
    })
}

fn patch_volume(host: &Host, volume: &Volume, patch: &Value) -> Result<(), String> {
    let name = &volume.meta.name;
    host.patch(Volume::KIND, "", name, PatchType::Strategic, patch)
        .map(drop)
        .map_err(|error| {
            let message = error.message;
            format!("error Patching PV {name:?} with error : {message}")
        })
}
