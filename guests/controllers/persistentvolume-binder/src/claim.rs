//! Brings a claim to its volume.
//!
//! A claim that was never bound gets the volume that it names, or the best one ([`crate::search`]), or a new one
//! ([`crate::provision`]). A claim that was bound keeps its volume: the links are repaired, or the claim is lost.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: syncClaim, syncUnboundClaim, syncBoundClaim,
//! emitEventForUnboundDelayBindingClaim.
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go: updateClaimMigrationAnnotations.
//! Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go: IsDelayBindingMode,
//! IsDelayBindingProvisioning.

use flyball_sdk::prelude::*;

use crate::bind::{bind, lose};
use crate::default_class;
use crate::fit;
use crate::metrics::{Operation, Started};
use crate::migration;
use crate::names::{BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE};
use crate::provision;
use crate::search::Search;
use crate::settings::Settings;
use crate::status;
use crate::users;
use crate::views::{Claim, Class, Volume, claim_phase};
use crate::write;

/// The text for a claim of a volume that belongs to another claim.
const TAKEN: &str = "already bound to a different claim.";

/// Reconciles a claim.
///
/// # Errors
/// A read or a write failed.
pub(crate) fn sync(host: &Host, settings: &Settings, claim: Claim) -> Result<Outcome, Error> {
    let claim = migrated(host, claim)?;
    if claim.has(BIND_COMPLETED) {
        sync_bound(host, settings, claim)?;
    } else if claim.volume.is_empty() {
        return sync_free(host, settings, claim);
    } else {
        sync_naming(host, settings, claim)?;
    }
    Ok(Outcome::Done)
}

/// Annotates a claim whose in-tree provisioner is migrated with the driver.
fn migrated(host: &Host, mut claim: Claim) -> Result<Claim, Error> {
    if let Some(change) = migration::of_claim(&claim.meta) {
        write::update(host, Claim::KIND, &mut claim.meta, &change.patch())
            .doing(|| format!("annotating claim {}", claim.meta.key()))?;
        change.apply(&mut claim.meta);
    }
    Ok(claim)
}

/// A claim that may get any volume.
fn sync_free(host: &Host, settings: &Settings, claim: Claim) -> Result<Outcome, Error> {
    let class = match claim.class() {
        "" => None,
        name => host.get::<Class>("", name)?,
    };
    let is_delayed = class.as_ref().map_or(Ok(false), is_delayed)?;
    let search = Search {
        claim: &claim,
        is_delayed,
        has_attributes_classes: settings.has_attributes_classes,
    };
    if let Some(name) = search.run(host)? {
        bind_found(host, settings, claim, &name)?;
        return Ok(Outcome::Done);
    }
    if default_class::assign(host, &claim)? {
        // The change wakes the claim again.
        return Ok(Outcome::Done);
    }
    if is_delayed && !claim.has(SELECTED_NODE) {
        report_waiting(host, &claim)?;
    } else if !claim.class().is_empty() {
        return provision::sync(host, settings, claim, class);
    } else {
        let message = "no persistent volumes available for this claim and no storage class is set";
        let about = claim.meta.reference(Claim::KIND);
        host.emit(Event::normal(&about, "FailedBinding", message));
    }
    set_pending(host, claim)?;
    Ok(Outcome::Done)
}

/// Binds a claim to the volume that the search found.
fn bind_found(host: &Host, settings: &Settings, claim: Claim, name: &str) -> Result<(), Error> {
    let volume: Option<Volume> = host.get("", name)?;
    let (key, uid) = (claim.meta.key(), claim.meta.uid.clone());
    // It may have changed since the search.
    let volume =
        volume.filter(|volume| volume.claim.is_none() || claim.is_named_by(volume.claim.as_ref()));
    let Some(volume) = volume else {
        return Err(Error::failed(format!("volume {name} is no longer free")));
    };
    let bound = bind(host, volume, claim, settings.has_attributes_classes);
    Started::new(Operation::Provision, &key, &uid).end(host, &bound);
    bound
}

/// Whether the scheduler chooses the volume.
fn is_delayed(class: &Class) -> Result<bool, Error> {
    match class.binding_mode.as_deref() {
        Some(mode) => Ok(mode == "WaitForFirstConsumer"),
        None => Err(Error::failed(format!(
            "VolumeBindingMode not set for StorageClass {:?}",
            class.meta.name
        ))),
    }
}

/// Says that a claim waits for a pod, or which pods wait to be scheduled.
fn report_waiting(host: &Host, claim: &Claim) -> Result<(), Error> {
    let pods = users::unscheduled(host, &claim.meta)?;
    let (reason, message) = match &pods[..] {
        [] => (
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding".to_owned(),
        ),
        [pod] => (
            "WaitForPodScheduled",
            format!("waiting for pod {pod} to be scheduled"),
        ),
        pods => (
            "WaitForPodScheduled",
            format!("waiting for pods {} to be scheduled", pods.join(",")),
        ),
    };
    let about = claim.meta.reference(Claim::KIND);
    host.emit(Event::normal(&about, reason, &message));
    Ok(())
}

/// A claim that names a volume to which it was never bound.
fn sync_naming(host: &Host, settings: &Settings, claim: Claim) -> Result<(), Error> {
    let Some(volume) = host.get::<Volume>("", &claim.volume)? else {
        return set_pending(host, claim);
    };
    let about = claim.meta.reference(Claim::KIND);
    let has_attributes_classes = settings.has_attributes_classes;
    if claim.is_named_by(volume.claim.as_ref()) {
        return bind(host, volume, claim, has_attributes_classes);
    }
    let name = volume.meta.name.clone();
    if volume.claim.is_none() {
        let Err(problem) = fit::check(&volume, &claim, has_attributes_classes) else {
            return bind(host, volume, claim, has_attributes_classes);
        };
        let message = format!("Cannot bind to requested volume {name:?}: {problem}");
        host.emit(Event::warning(&about, "VolumeMismatch", &message));
        return set_pending(host, claim);
    }
    let message = format!("volume {name:?} {TAKEN}");
    host.emit(Event::warning(&about, "FailedBinding", &message));
    if claim.has(BOUND_BY_CONTROLLER) {
        // The controller writes this name together with the annotation that this claim lacks.
        return Err(Error::failed(format!(
            "claim {} names volume {name}, which belongs to another claim",
            claim.meta.key()
        )));
    }
    set_pending(host, claim)
}

/// A claim that was bound before.
fn sync_bound(host: &Host, settings: &Settings, claim: Claim) -> Result<(), Error> {
    if claim.volume.is_empty() {
        let message =
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return lose(host, claim, "ClaimLost", message);
    }
    let Some(volume) = host.get::<Volume>("", &claim.volume)? else {
        let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        return lose(host, claim, "ClaimLost", message);
    };
    let is_ours = |named: &str| named == claim.meta.uid;
    if volume
        .claim
        .as_ref()
        .is_none_or(|named| is_ours(&named.uid))
    {
        return bind(host, volume, claim, settings.has_attributes_classes);
    }
    let message = "Two claims are bound to the same volume, this one is bound incorrectly";
    lose(host, claim, "ClaimMisbound", message)
}

fn set_pending(host: &Host, claim: Claim) -> Result<(), Error> {
    let pending = status::of_unbound(&claim, claim_phase::PENDING);
    write::claim_status(host, claim, pending).map(drop)
}
