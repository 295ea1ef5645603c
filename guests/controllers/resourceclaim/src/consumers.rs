//! Releases claims: removes consumers that are done, deallocates claims without consumers, and deletes generated claims
//! whose pods are done.
//!
//! Upstream: pkg/controller/resourceclaim/controller.go: syncClaim, owningPod, isPodDone.

use flyball_device_claims::Consumer;
use flyball_sdk::finalizer;
use flyball_sdk::imports::Read;
use flyball_sdk::prelude::*;

use crate::gates::Gates;
use crate::views::{Claim, ClaimStatus, FINALIZER, Pod, PodGroup};

/// Brings a claim in line with its consumers.
pub(crate) fn release(host: &Host, gates: Gates, claim: Claim) -> Result<(), Error> {
    let left = left(host, gates, &claim)?;
    let is_unused = left.is_empty();
    let owner = claim.meta.clone();
    if left.len() < claim.status.reserved_for.len() {
        // A claim without consumers that was never reserved stays allocated: drivers may allocate before the
        // reservation.
        let mut status = claim.status.clone();
        status.reserved_for = left;
        if is_unused && finalizer::has(&claim.meta, FINALIZER) {
            status.deallocate();
        }
        let updated = update_status(host, &claim, &status)?;
        if finalizer::has(&updated.meta, FINALIZER) && !updated.status.is_allocated() {
            remove_finalizer(host, &updated)?;
        }
    } else if is_unused && finalizer::is_held(&claim.meta, FINALIZER) {
        let mut last = claim;
        if last.status.is_allocated() {
            let mut status = last.status.clone();
            status.deallocate();
            last = update_status(host, &last, &status)?;
        }
        remove_finalizer(host, &last)?;
    }
    if is_unused {
        delete_if_done(host, &owner)?;
    }
    Ok(())
}

/// Returns the claim as it is after the update.
fn update_status(host: &Host, claim: &Claim, status: &ClaimStatus) -> Result<Claim, Error> {
    let write =
        Write::update_status(Claim::KIND, &claim.meta, status).returning(&["metadata", "status"]);
    host.write(write)
        .doing(|| format!("releasing {}", claim.meta.key()))?
        .parse()
}

fn remove_finalizer(host: &Host, claim: &Claim) -> Result<(), Error> {
    host.write(finalizer::remove(Claim::KIND, &claim.meta, FINALIZER))
        .found()
        .doing(|| format!("removing the finalizer of {}", claim.meta.key()))?;
    Ok(())
}

/// The cache's answer to whether a consumer still uses a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Uses,
    IsDone,
    /// The cache does not have the consumer. It may be too new, and the scheduler may be about to use the reservation.
    Unknown,
}

/// Returns the consumers that may still use a claim, among them those of unknown kinds.
fn left(host: &Host, gates: Gates, claim: &Claim) -> Result<Vec<Consumer>, Error> {
    let namespace = &claim.meta.namespace;
    let mut verdicts = Vec::new();
    let mut reads = host.live().batch();
    for consumer in &claim.status.reserved_for {
        let verdict = match consumer {
            pod if pod.is_pod() => judge_pod(host.get(namespace, &pod.name)?, &pod.uid),
            group if gates.pod_groups && group.is_pod_group() => {
                judge_group(host.get(namespace, &group.name)?, &group.uid)
            }
            _ => Verdict::Uses,
        };
        if verdict == Verdict::Unknown {
            let kind = if consumer.is_pod() {
                Pod::KIND
            } else {
                host.kind::<PodGroup>()
            };
            reads = reads.with(Read::Get {
                kind: kind.into(),
                namespace: namespace.clone(),
                name: consumer.name.clone(),
                fields: vec!["metadata.uid".into()],
            });
        }
        verdicts.push(verdict);
    }
    let mut live = reads.run().into_iter();
    let mut left = Vec::new();
    for (consumer, verdict) in claim.status.reserved_for.iter().zip(verdicts) {
        let uses = match verdict {
            Verdict::Uses => true,
            Verdict::IsDone => false,
            Verdict::Unknown => {
                let read = live.next().expect("each read has a result");
                match read.found()? {
                    None => false,
                    Some(found) => found.parse::<Identity>()?.meta.uid == consumer.uid,
                }
            }
        };
        if uses {
            left.push(consumer.clone());
        }
    }
    Ok(left)
}

/// An object of any kind, of which only the UID is read.
#[derive(serde::Deserialize)]
struct Identity {
    #[serde(rename = "metadata")]
    meta: Meta,
}

fn judge_pod(cached: Option<Pod>, uid: &str) -> Verdict {
    match cached {
        None => Verdict::Unknown,
        Some(pod) if pod.meta.uid != uid || pod.is_done() => Verdict::IsDone,
        Some(_) => Verdict::Uses,
    }
}

fn judge_group(cached: Option<PodGroup>, uid: &str) -> Verdict {
    match cached {
        None => Verdict::Unknown,
        Some(group) if group.meta.uid != uid => Verdict::IsDone,
        Some(_) => Verdict::Uses,
    }
}

/// Deletes an unused claim that was created for a pod if that pod is done or was replaced. If the cache does not have
/// the pod, the garbage collector deletes the claim.
fn delete_if_done(host: &Host, claim: &Meta) -> Result<(), Error> {
    let owner = claim
        .controller()
        .filter(|owner| owner.is_of(Pod::KIND) && !claim.is_deleting());
    let Some(owner) = owner else {
        return Ok(());
    };
    let pod: Option<Pod> = host.get(&claim.namespace, &owner.name)?;
    if pod.is_some_and(|pod| pod.meta.uid != owner.uid || pod.is_done()) {
        host.delete(Claim::KIND, claim)
            .found()
            .doing(|| format!("delete unused generated claim {}", claim.key()))?;
    }
    Ok(())
}
