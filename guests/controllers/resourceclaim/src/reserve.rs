//! Reserves claims for pods that are on a node.
//!
//! Upstream: pkg/controller/resourceclaim/controller.go: podNeedsWork, syncPod, reserveFor.
//! Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go: CanBeReserved,
//! IsReservedForPod.

use flyball_device_claims::{ClaimRef, Name, name};
use flyball_sdk::prelude::*;

use crate::bind;
use crate::gates::Gates;
use crate::names::Generated;
use crate::views::{Claim, Pod, PodGroup};

/// Whether a pod lacks a claim or a reservation. If a claim with the recorded name belongs to another object, the pod
/// waits until it is deleted.
pub(crate) fn needs_work(host: &Host, gates: Gates, pod: &Pod) -> Result<bool, Error> {
    for claim in &pod.claims {
        let (name, is_generated) = match name(claim, &pod.recorded) {
            Name::NotYet | Name::Unsupported => return Ok(true),
            Name::Unneeded => continue,
            Name::Given(name) => (name, false),
            Name::Generated(name) => (name, true),
        };
        let needed = match host.get::<Claim>(&pod.meta.namespace, name)? {
            Some(found) if is_generated && bind::check_owner(gates, pod, &found).is_err() => false,
            Some(found) => pod.is_on_node() && lacks_reservation(gates, pod, &found),
            None => is_generated && creates(host, gates, pod, claim)?,
        };
        if needed {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the reconcile of the pod, and not the one of its PodGroup, creates the claim of a reference.
fn creates(host: &Host, gates: Gates, pod: &Pod, claim: &ClaimRef) -> Result<bool, Error> {
    let group = bind::group_of(host, gates, pod)?;
    Ok(bind::user(pod, group.as_ref(), claim).kind == Pod::KIND)
}

fn lacks_reservation(gates: Gates, pod: &Pod, claim: &Claim) -> bool {
    claim.status.is_allocated() && !bind::is_reserved(gates, pod, claim)
}

/// Reserves the pod's allocated claims. `generated` are the claims that its status does not name yet.
///
/// # Errors
/// A claim was created for another pod, or can't be reserved.
pub(crate) fn reserve(
    host: &Host,
    gates: Gates,
    pod: &Pod,
    group: Option<&PodGroup>,
    generated: &Generated,
) -> Result<(), Error> {
    let recorded = generated.merged_into(&pod.recorded);
    for reference in &pod.claims {
        let (name, is_generated) = match name(reference, &recorded) {
            Name::Given(name) => (name, false),
            Name::Generated(name) => (name, true),
            Name::Unneeded | Name::NotYet | Name::Unsupported => continue,
        };
        let Some(claim) = host.get::<Claim>(&pod.meta.namespace, name)? else {
            // Its creation wakes the pod.
            return Ok(());
        };
        if is_generated {
            bind::check_owner(gates, pod, &claim).map_err(Error::failed)?;
        }
        let user = bind::user(pod, group, reference);
        if user.kind == PodGroup::KIND && !gates.pod_groups {
            continue;
        }
        if lacks_reservation(gates, pod, &claim) {
            let mut status = claim.status;
            status.reserved_for.push(user.consumer());
            host.update_status(Claim::KIND, &claim.meta, &status)
                .doing(|| format!("reserve claim {}", claim.meta.key()))?;
        }
    }
    Ok(())
}
