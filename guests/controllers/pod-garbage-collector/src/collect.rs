//! Selects the pods to delete, except for orphans.
//!
//! Upstream: pkg/controller/podgc/gc_controller.go: gcTerminating, gcTerminated, gcUnscheduledTerminating,
//! isPodTerminated, isPodTerminating, byEvictionAndCreationTimestamp.Less.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::delete::{self, Reason};
use crate::views::{BY_NODE, BY_PHASE, BY_TAINT, Node, Pod};

/// The taint of a node whose pods may be deleted without its kubelet.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The phases of ended pods.
const ENDED: [&str; 2] = ["Succeeded", "Failed"];

/// Deletes ended pods if there are more than `kept`.
///
/// # Errors
/// A read or a deletion failed. All other pods were deleted.
pub fn ended(host: &Host, kept: Option<usize>) -> Result<(), Error> {
    let Some(kept) = kept else { return Ok(()) };
    let mut count = 0;
    for phase in ENDED {
        count += host.list::<Pod>().index(BY_PHASE, phase).count()? as usize;
    }
    if count <= kept {
        return Ok(());
    }
    let mut pods = Vec::new();
    for phase in ENDED {
        pods.extend(host.list::<Pod>().index(BY_PHASE, phase).all()?);
    }
    delete::by_force(host, Reason::Terminated, &surplus(pods, kept))
}

/// Returns the ended pods to delete: evicted ones first, because controllers count others, and then the oldest.
pub fn surplus(mut pods: Vec<Pod>, kept: usize) -> Vec<Pod> {
    pods.sort_by(|a, b| {
        let rank = |pod: &Pod| (!pod.is_evicted(), pod.meta.creation_timestamp);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| a.meta.name.cmp(&b.meta.name))
    });
    pods.truncate(pods.len().saturating_sub(kept));
    pods
}

/// Deletes the pods that are being deleted, on nodes that are not ready and have the taint (KEP-2268).
///
/// # Errors
/// A read or a deletion failed. All other pods were deleted.
pub fn out_of_service(host: &Host) -> Result<(), Error> {
    let mut pods = Vec::new();
    for node in host.list::<Node>().index(BY_TAINT, OUT_OF_SERVICE).all()? {
        if !node.is_ready() {
            pods.extend(host.list::<Pod>().index(BY_NODE, &node.name).all()?);
        }
    }
    pods.retain(|pod| pod.meta.is_deleting());
    delete::by_force(host, Reason::OutOfService, &pods)
}

/// Deletes a pod that is being deleted and was never on a node, again in each period while it exists.
///
/// # Errors
/// A read or the deletion failed.
pub fn unscheduled(host: &Host, key: &Key, period: Duration) -> Result<Outcome, Error> {
    let find = || -> Result<Option<Pod>, Error> {
        let pod = host.get_by_key::<Pod>(key)?;
        Ok(pod.filter(|pod| pod.meta.is_deleting() && pod.node.is_empty()))
    };
    let Some(pod) = find()? else {
        return Ok(Outcome::Done);
    };
    delete::by_force(host, Reason::Unscheduled, &[pod])?;
    Ok(match find()? {
        Some(_) => Outcome::RequeueAfter(period),
        None => Outcome::Done,
    })
}
