//! resourceclaim-controller: creates, reserves, releases and deletes the ResourceClaims of pods.
//!
//! - A pod that names a ResourceClaimTemplate gets a claim of its own, and the name of the claim in its status.
//! - A claim lists its consumers in `status.reservedFor`. The scheduler reserves claims for the pods that it assigns to
//!   nodes; this controller does so for pods that another client assigned.
//! - Consumers that are done are removed from the list. A claim without consumers is deallocated, and deleted if it was
//!   created for a pod that is done.
//!
//! With the feature gate `DRAWorkloadResourceClaims`, PodGroups have claims in the same way, which their pods share.
//!
//! A key names a claim, a pod or a PodGroup (`key.rs`). `route.rs` turns changes into keys.
//!
//! Upstream: pkg/controller/resourceclaim/controller.go: syncHandler, syncPod, syncPodGroup.

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

mod bind;
mod consumers;
mod describe;
mod gates;
mod generate;
mod key;
mod metrics;
mod names;
mod reserve;
mod route;
#[cfg(test)]
mod tests;
mod views;

use gates::Gates;
use key::Item;
use views::{Claim, Pod, PodGroup, User};

/// The controller.
pub struct ResourceClaims;

export!(ResourceClaims);

impl Controller for ResourceClaims {
    fn describe() -> Description {
        describe::description(Gates {
            since_1_37: true,
            ..Gates::default()
        })
    }

    fn describe_configured(host: &Host) -> Description {
        describe::description(Gates::read(host)).kind_of_release::<PodGroup>(host)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let gates = Gates::read(host);
        match Item::parse(&request.key)? {
            Item::Claim(key) => {
                if let Some(claim) = host.get_by_key::<Claim>(&key)? {
                    consumers::release(host, gates, claim)?;
                }
            }
            Item::Pod(key) => {
                if let Some(pod) = host.get_by_key::<Pod>(&key)? {
                    sync_pod(host, gates, &pod)?;
                }
            }
            Item::PodGroup(key) => {
                if let Some(group) = host.get_by_key::<PodGroup>(&key)? {
                    sync_group(host, gates, &group)?;
                }
            }
            Item::Metrics => metrics::count(host, gates)?,
        }
        Ok(Outcome::Done)
    }

    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        route::route(host, Gates::read(host), deltas)
    }
}

/// Gives a pod its claims, and reserves them if the pod is on a node.
fn sync_pod(host: &Host, gates: Gates, pod: &Pod) -> Result<(), Error> {
    // A claim of a pod that is done is deleted or released, and must not be created or reserved again. That is an error
    // of kube-controller-manager (kubernetes/kubernetes#141274).
    if pod.meta.is_deleting() || pod.is_done() || !reserve::needs_work(host, gates, pod)? {
        return Ok(());
    }
    let group = bind::group_of(host, gates, pod)?;
    let mut names = names::Generated::default();
    for claim in &pod.claims {
        let provided = generate::for_pod(host, gates, pod, group.as_ref(), claim);
        names.add(host, &pod.user(), &claim.name, provided)?;
    }
    names.record(host, &pod.user())?;
    // The scheduler reserves the claims of pods that are not on a node yet.
    if pod.is_on_node() {
        reserve::reserve(host, gates, pod, group.as_ref(), &names)?;
    }
    Ok(())
}

/// Gives a PodGroup its claims.
fn sync_group(host: &Host, gates: Gates, group: &PodGroup) -> Result<(), Error> {
    let user: User = group.user();
    if group.meta.is_deleting() || !generate::group_needs_work(host, &user)? {
        return Ok(());
    }
    let mut names = names::Generated::default();
    for claim in &group.claims {
        let provided = generate::for_user(host, gates, &user, claim);
        names.add(host, &user, &claim.name, provided)?;
    }
    names.record(host, &user)
}
