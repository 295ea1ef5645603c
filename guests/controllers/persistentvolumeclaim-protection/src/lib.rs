//! persistentvolumeclaim-protection-controller: keeps PersistentVolumeClaims while pods use them.
//!
//! Each claim has a finalizer. When a claim is being deleted, the finalizer is removed once no pod
//! uses the claim ([`usage`]). With the feature gate [`UNUSED_SINCE`], the controller also reports in
//! a condition whether a pod refers to the claim ([`unused`]).
//!
//! Upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go: NewPVCProtectionController,
//! processPVCsByNamespace, processPVC, addFinalizer, removeFinalizer, pvcAddedUpdated, podAddedDeletedUpdated,
//! enqueuePVCs.
//! Upstream: pkg/controller/util/protectionutil/utils.go: IsDeletionCandidate, NeedToAddFinalizer.

pub mod unused;
pub mod usage;

#[cfg(test)]
mod tests;

use flyball_sdk::finalizer;
use flyball_sdk::prelude::*;

use usage::{CLAIM_NAMES, EPHEMERAL_MODES, INDEX, Pod, PodWithoutStatus, Purpose};

/// The finalizer.
pub const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// The feature gate of the condition `Unused`.
pub const UNUSED_SINCE: &str = "PersistentVolumeClaimUnusedSinceTime";

/// The most claims that one call releases. A batch of writes is limited.
const MAX_RELEASED: usize = 500;

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
pub struct Claim {
    #[view(
        path = "metadata",
        fields("deletionTimestamp", "finalizers", "ownerReferences")
    )]
    pub meta: Meta,
    /// The status of the condition `Unused`.
    #[view(path = "status.conditions[type=Unused].status")]
    pub unused: Option<String>,
    /// `Pending`, `Bound` or `Lost`.
    #[view(path = "status.phase")]
    pub phase: String,
}

impl Claim {
    /// Whether the condition `Unused` is reported. While a claim is being bound, its status is left to the binder, except
    /// before Kubernetes 1.37.
    fn is_reported(&self, host: &Host) -> bool {
        host.feature_enabled(UNUSED_SINCE)
            && !self.meta.is_deleting()
            && (self.phase == "Bound" || !host.release_at_least(37))
    }
}

/// The controller. Keys name claims, or are references to them.
pub struct ClaimProtection;

export!(ClaimProtection);

impl Controller for ClaimProtection {
    fn describe() -> Description {
        describe_with(true)
    }

    fn describe_configured(host: &Host) -> Description {
        describe_with(host.feature_enabled_or(UNUSED_SINCE, true))
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let key = request.reference().map_or_else(
            |_| request.key.clone(),
            |claim| Key::new(&claim.namespace, &claim.name),
        );
        let Some(mut claim) = host.get_by_key::<Claim>(&key)? else {
            return Ok(Outcome::Done);
        };
        if claim.is_reported(host) {
            unused::report(host, &claim)?;
            // The claim's version has changed.
            let Some(reported) = host.get_by_key(&key)? else {
                return Ok(Outcome::Done);
            };
            claim = reported;
        }
        if finalizer::is_held(&claim.meta, FINALIZER) {
            release(host, &claim)?;
        } else if finalizer::is_missing(&claim.meta, FINALIZER) {
            // The API server adds it to new claims, unless that admission plugin is off.
            host.write(finalizer::add(Claim::KIND, &claim.meta, FINALIZER))?;
        }
        Ok(Outcome::Done)
    }
}

/// The description, with or without the feature gate.
fn describe_with(reports_unused: bool) -> Description {
    describe(
        "persistentvolumeclaim-protection-controller",
        env!("CARGO_PKG_VERSION"),
    )
    .watch(
        watch::<Claim>()
            .when_at(&[
                "metadata.uid",
                "metadata.deletionTimestamp",
                "metadata.finalizers",
                "status.conditions[type=Unused].status",
                "status.phase",
            ])
            .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified])),
    )
    .watch(pods(reports_unused))
    .index(INDEX, Pod::KIND, CLAIM_NAMES)
    .queue("pvcprotection")
    .permission(Claim::KIND, ["get", "update"])
    .permission_on(Claim::KIND, "status", ["update"])
    .permission(Pod::KIND, ["list"])
    .feature_gate(UNUSED_SINCE, true)
    .emulated_version()
    .concurrency(1)
}

/// The pods that name a claim or own one. Pods own the claims of their ephemeral volumes. A pod stops using a claim
/// when it is deleted, also if another pod has its name by then. It stops using an ephemeral volume when its grace
/// period becomes 0. The condition `Unused` depends on more.
fn pods(reports_unused: bool) -> Watch {
    if reports_unused {
        return watch::<Pod>()
            .enqueue(Mapping::named(CLAIM_NAMES))
            .enqueue(ephemeral_claims());
    }
    let ends = [DeltaType::Modified, DeltaType::Deleted];
    watch::<PodWithoutStatus>()
        .when_at(&["metadata.uid", "metadata.deletionGracePeriodSeconds"])
        .enqueue(Mapping::named(CLAIM_NAMES).on(ends))
        .enqueue(ephemeral_claims().on(ends))
}

/// The claims of a pod's ephemeral volumes.
fn ephemeral_claims() -> Mapping {
    Mapping::dependents().having_any(&[EPHEMERAL_MODES])
}

/// Removes the finalizer from a claim that is being deleted and that no pod uses.
///
/// Only a live list proves that there is no such pod. So one list serves all claims of the namespace that are
/// being deleted.
fn release(host: &Host, claim: &Claim) -> Result<(), Error> {
    if usage::is_used_in_cache(host, claim, Purpose::Deletion)? {
        return Ok(());
    }
    let mut unused = held_claims(host, claim)?;
    let pods = usage::live_pods(host, &claim.meta.namespace)?;
    unused.retain(|claim| !pods.iter().any(|pod| pod.uses(claim, Purpose::Deletion)));
    let removals = unused.iter().map(|claim| {
        let removal = finalizer::remove(Claim::KIND, &claim.meta, FINALIZER);
        (claim, removal)
    });
    let mut own = Ok(());
    for (unused, result) in host.tagged_batch().extend(removals).run() {
        match result.found() {
            Ok(_) => {}
            Err(error) if unused.meta.uid == claim.meta.uid => own = Err(error.into()),
            Err(_) => host.queue().add("", &unused.meta.key())?,
        }
    }
    own
}

/// Returns this claim, and others of its namespace that are being deleted and have the finalizer.
fn held_claims(host: &Host, claim: &Claim) -> Result<Vec<Claim>, Error> {
    let mut held = vec![claim.clone()];
    host.list::<Claim>()
        .namespace(&claim.meta.namespace)
        .each(|other| {
            if held.len() < MAX_RELEASED
                && other.meta.uid != claim.meta.uid
                && finalizer::is_held(&other.meta, FINALIZER)
            {
                held.push(other);
            }
            Ok(())
        })?;
    Ok(held)
}
