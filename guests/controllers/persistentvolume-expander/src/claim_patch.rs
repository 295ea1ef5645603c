//! Patches of claims: the conditions and sizes by which a claim shows how far an expansion is.
//!
//! A patch names the version of the claim that it is made for.
//!
//! Upstream: pkg/volume/util/resize_util.go: MarkControllerReisizeInProgress, SetClaimResizer, MarkForFSResize,
//! MarkFSResizeFinished, PatchPVCStatus, MergeResizeConditionOnPVC.

use flyball_sdk::condition;
use flyball_sdk::prelude::*;

use crate::views::{Claim, RESIZER};

pub(crate) const CONTROLLER_IN_PROGRESS: &str = "ControllerResizeInProgress";
pub(crate) const NODE_PENDING: &str = "NodeResizePending";
/// A condition: the expansion has begun.
const RESIZING: &str = "Resizing";
/// A condition: a node is to expand the file system.
const FILE_SYSTEM_PENDING: &str = "FileSystemResizePending";
/// The types of the conditions about an expansion.
const CONDITIONS: [&str; 4] = [
    FILE_SYSTEM_PENDING,
    RESIZING,
    "ControllerResizeError",
    "NodeResizeError",
];

/// Writes a patch and returns the new claim.
///
/// # Errors
/// The text of the error, for events.
pub(crate) fn write(host: &Host, claim: &Claim, mut patch: Value) -> Result<Claim, String> {
    patch["metadata"]["resourceVersion"] = claim.meta.resource_version.as_str().into();
    let Meta {
        namespace, name, ..
    } = &claim.meta;
    let write = Write::patch(Claim::KIND, namespace, name, PatchType::Strategic, &patch);
    host.write(write.on("status").returning(Claim::FIELDS))
        .map_err(|error| error.message)
        .and_then(|answer| answer.parse().map_err(|error| error.to_string()))
        .map_err(|error| format!("patchPVCStatus failed to patch PVC {name:?}: {error}"))
}

/// The driver is to expand the volume.
pub(crate) fn resizer(driver: &str) -> Value {
    json!({"metadata": {"annotations": {RESIZER: driver}}})
}

/// The expansion to a size has begun.
pub(crate) fn in_progress(claim: &Claim, driver: &str, size: Quantity, now: Time) -> Value {
    let mut conditions = removals(claim, &[RESIZING]);
    conditions.extend(turned_true(claim, RESIZING, "", now));
    let mut patch = resizer(driver);
    patch["status"] = json!({
        "conditions": conditions,
        "allocatedResources": {"storage": size},
        "allocatedResourceStatuses": {"storage": CONTROLLER_IN_PROGRESS},
    });
    patch
}

/// A node is to expand the file system. The other conditions stay.
pub(crate) fn node_pending(claim: &Claim, now: Time) -> Value {
    let message =
        "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";
    json!({"status": {
        "conditions": Vec::from_iter(turned_true(claim, FILE_SYSTEM_PENDING, message, now)),
        "allocatedResourceStatuses": {"storage": NODE_PENDING},
    }})
}

/// The volume has this size.
pub(crate) fn finished(claim: &Claim, size: Quantity) -> Value {
    json!({"status": {
        "conditions": removals(claim, &[]),
        "capacity": {"storage": size},
        "allocatedResourceStatuses": {"storage": Value::Null},
    }})
}

/// Removes the conditions about an expansion, except of these types.
fn removals(claim: &Claim, kept: &[&str]) -> Vec<Value> {
    let types = claim
        .conditions
        .iter()
        .map(|own| own.condition_type.as_str());
    types
        .filter(|own| CONDITIONS.contains(own) && !kept.contains(own))
        .map(|own| json!({"type": own, "$patch": "delete"}))
        .collect()
}

/// Sets a condition to true. `None` if it is: its time and message stay.
fn turned_true(claim: &Claim, condition_type: &str, message: &str, now: Time) -> Option<Value> {
    let old = condition::get(&claim.conditions, condition_type);
    if old.is_some_and(Condition::is_true) {
        return None;
    }
    let new = Condition {
        last_transition_time: Some(now.to_second()),
        ..Condition::new(condition_type, "True", "", message)
    };
    let mut new = json!(new);
    for (field, was_set) in old.into_iter().flat_map(|old| {
        [
            ("reason", !old.reason.is_empty()),
            ("message", !old.message.is_empty()),
            ("lastProbeTime", old.last_probe_time.is_some()),
        ]
    }) {
        if was_set && new.get(field).is_none() {
            new[field] = Value::Null;
        }
    }
    Some(new)
}
