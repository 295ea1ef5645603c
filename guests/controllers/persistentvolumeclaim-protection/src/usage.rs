//! Finds the pods that use a claim.
//!
//! Upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go: isBeingUsedWith, askInformer,
//! askAPIServer, podUsesPVCForDeletion, podUsesPVCForUnusedSince, podIsShutDown.

use flyball_pods::containers::{self, Container};
use flyball_sdk::prelude::*;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Claim;

/// The index of pods by the claims that they name.
pub const INDEX: &str = "claims";
/// The path of these names.
pub const CLAIM_NAMES: &str = "spec.volumes[*].persistentVolumeClaim.claimName";
/// The path of the access modes of a pod's ephemeral volumes. The API server requires at least one for each.
pub const EPHEMERAL_MODES: &str = "spec.volumes[*].ephemeral.volumeClaimTemplate.spec.accessModes";

/// A pod, for all purposes.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(
        path = "metadata",
        fields("deletionTimestamp", "deletionGracePeriodSeconds")
    )]
    pub meta: Meta,
    #[view(path = "spec.nodeName")]
    pub node: String,
    #[view(
        path = "spec.volumes",
        fields("[*].name", "[*].persistentVolumeClaim.claimName", "[*].ephemeral")
    )]
    pub volumes: Vec<Volume>,
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(path = "status.initContainerStatuses", fields("[*].state"))]
    pub init_containers: Vec<Container>,
    #[view(path = "status.containerStatuses", fields("[*].state"))]
    pub containers: Vec<Container>,
    #[view(path = "status.ephemeralContainerStatuses", fields("[*].state"))]
    pub ephemeral_containers: Vec<Container>,
}

/// A pod without its status, which is not needed for [`Purpose::Deletion`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct PodWithoutStatus(Pod);

impl View for PodWithoutStatus {
    const KIND: &'static str = Pod::KIND;
    const FIELDS: &'static [&'static str] = &[
        "metadata.deletionTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "spec.nodeName",
        "spec.volumes[*].name",
        CLAIM_NAMES,
        "spec.volumes[*].ephemeral",
    ];
}

impl From<PodWithoutStatus> for Pod {
    fn from(PodWithoutStatus(pod): PodWithoutStatus) -> Self {
        pod
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub name: String,
    pub persistent_volume_claim: Option<ClaimSource>,
    /// Present if the volume's claim is created for the pod.
    pub ephemeral: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    pub claim_name: String,
}

/// The decision that depends on whether a pod uses a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Whether the claim must be kept.
    Deletion,
    /// Whether the condition `Unused` is false.
    Unused,
}

impl Pod {
    /// Whether the pod uses a claim of its namespace.
    pub fn uses(&self, claim: &Claim, purpose: Purpose) -> bool {
        match purpose {
            // A kubelet does not start a pod with a claim that is being deleted.
            Purpose::Deletion => {
                !self.node.is_empty()
                    && (self.names(claim) || !self.is_shut_down() && self.has_ephemeral(claim))
            }
            Purpose::Unused => {
                !self.is_terminated() && (self.names(claim) || self.has_ephemeral(claim))
            }
        }
    }

    /// Whether one of its volumes names the claim.
    fn names(&self, claim: &Claim) -> bool {
        self.volumes.iter().any(|volume| {
            { &volume.persistent_volume_claim }
                .as_ref()
                .is_some_and(|source| source.claim_name == claim.meta.name)
        })
    }

    /// Whether the claim was created for one of its ephemeral volumes.
    fn has_ephemeral(&self, claim: &Claim) -> bool {
        claim.meta.is_controlled_by(&self.meta.uid)
            && self.volumes.iter().any(|volume| {
                volume.ephemeral.is_some()
                    && claim.meta.name == format!("{}-{}", self.meta.name, volume.name)
            })
    }

    /// Whether the kubelet is done with the pod, or the pod was force-deleted. Only finalizers may keep the pod, and
    /// they may wait for the claim.
    fn is_shut_down(&self) -> bool {
        self.meta.is_deleting() && self.meta.deletion_grace_period_seconds == Some(0)
    }

    /// Whether the pod has ended, or is being deleted and no container runs.
    fn is_terminated(&self) -> bool {
        let containers = { self.init_containers.iter() }
            .chain(&self.containers)
            .chain(&self.ephemeral_containers);
        containers::is_terminated(&self.phase, self.meta.is_deleting(), containers)
    }
}

/// Whether a cached pod uses the claim. False does not prove that no pod does: the cache may not have it yet.
///
/// # Errors
/// A read failed.
pub fn is_used_in_cache(host: &Host, claim: &Claim, purpose: Purpose) -> Result<bool, Error> {
    let pods = match purpose {
        Purpose::Deletion => cached::<PodWithoutStatus>(host, claim)?,
        Purpose::Unused => cached::<Pod>(host, claim)?,
    };
    Ok(pods.iter().any(|pod| pod.uses(claim, purpose)))
}

/// Returns the cached pods that name the claim, and the one that owns it.
fn cached<T: View + Into<Pod>>(host: &Host, claim: &Claim) -> Result<Vec<Pod>, Error> {
    let meta = &claim.meta;
    let naming = host
        .list::<T>()
        .namespace(&meta.namespace)
        .index(INDEX, &meta.name)
        .all()?;
    let owner = match meta.controller().filter(|owner| owner.is_of(Pod::KIND)) {
        Some(owner) => host.get::<T>(&meta.namespace, &owner.name)?,
        None => None,
    };
    Ok(naming.into_iter().chain(owner).map(Into::into).collect())
}

/// Lists the pods of a namespace live, and returns those with claims.
///
/// # Errors
/// The list failed.
pub fn live_pods(host: &Host, namespace: &str) -> Result<Vec<Pod>, Error> {
    let mut pods = Vec::new();
    host.live()
        .each(Pod::KIND, namespace, Pod::FIELDS, |pod: Pod| {
            let has_claim = |volume: &Volume| {
                volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
            };
            if pod.volumes.iter().any(has_claim) {
                pods.push(pod);
            }
            Ok(())
        })
        .doing(|| format!("listing the pods of namespace {namespace}"))?;
    Ok(pods)
}
