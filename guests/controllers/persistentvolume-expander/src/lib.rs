//! persistentvolume-expander-controller: asks the drivers of volumes to expand them for their claims.
//!
//! A bound claim whose request is larger than its capacity needs a larger volume. The resizer of a CSI driver expands
//! it: for an in-tree kind that a driver has replaced, the claim's annotation names the driver; for all others, an
//! event says that the claim waits. FlexVolumes alone are expanded here (`flex.rs`), which means that the sizes in
//! the API are raised: only nodes have the drivers of FlexVolumes.
//!
//! kube-controller-manager has no other plugin that can expand a volume.
//!
//! Upstream: pkg/controller/volume/expand/expand_controller.go: NewExpandController, enqueuePVC, syncHandler,
//! getPersistentVolume.

use flyball_csi_translation::Plugin;
use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

mod claim_patch;
mod flex;
#[cfg(test)]
mod tests;
mod views;

use views::{CachedVolume, Claim, Expander, Volume};

/// The reason of events about claims whose volumes a driver expands.
const EXTERNAL_EXPANDING: &str = "ExternalExpanding";
/// The histogram of the durations of expansions.
const OPERATIONS: &str = "storage_operation_duration_seconds";
const OPERATION_BUCKETS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
];

/// The controller. Keys name claims.
pub struct Expansion;

export!(Expansion);

impl Controller for Expansion {
    fn describe() -> Description {
        describe(
            "persistentvolume-expander-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(
            watch::<Claim>()
                .when_at(&[
                    "metadata.uid",
                    "spec.resources.requests.storage",
                    "status.capacity.storage",
                ])
                .enqueue(
                    Mapping::route()
                        .on([DeltaType::Added, DeltaType::Modified])
                        .having("status.phase", "Bound"),
                ),
        )
        .watch(watch::<CachedVolume>())
        .queue("volume_expand")
        .event_source("volume_expand")
        .permission(Volume::KIND, ["get", "patch"])
        .permission_on(Claim::KIND, "status", ["patch"])
        .metric(
            MetricType::Histogram(OPERATION_BUCKETS.to_vec()),
            OPERATIONS,
            &["volume_plugin", "operation_name", "status", "migrated"],
            "Storage operation duration",
        )
        .concurrency(10)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Some(claim) = host.get_by_key::<Claim>(&request.key)? else {
            return Ok(Outcome::Done);
        };
        if !may_need_work(host, &claim)? {
            return Ok(Outcome::Done);
        }
        let volume = bound_volume(host, &claim)?;
        if !claim.wants_more() && !volume.is_resizing() {
            return Ok(Outcome::Done);
        }
        match volume.expander() {
            Expander::MigratedTo(plugin) => hand_over(host, &claim, plugin)?,
            Expander::Kubelet(driver) => flex::expand(host, claim, volume, &driver)?,
            Expander::External => {
                let about = claim.meta.reference(Claim::KIND);
                let waiting = "waiting for an external controller to expand this PVC";
                host.emit(Event::normal(&about, EXTERNAL_EXPANDING, waiting));
            }
        }
        Ok(Outcome::Done)
    }

    /// Enqueues bound claims that are new, or whose request or capacity has grown. A grown capacity means that a node
    /// has expanded the file system.
    fn route(_: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        let mut routed = Vec::new();
        for delta in deltas {
            let Some(claim) = delta.after::<Claim>()?.filter(Claim::is_bound) else {
                continue;
            };
            let before = delta.before::<Claim>()?;
            if before.is_none_or(|before| claim.has_grown_since(&before)) {
                routed.push(RoutedKey::now(claim.meta.key()));
            }
        }
        Ok(routed)
    }
}

/// Whether a claim may need work, as far as the cache shows. kube-controller-manager reads the volume of each claim from
/// the API server, at its start those of all claims.
fn may_need_work(host: &Host, claim: &Claim) -> Result<bool, Error> {
    if claim.wants_more() {
        return Ok(true);
    }
    let volume = host.get::<CachedVolume>("", &claim.volume_name)?;
    Ok(volume.is_none_or(|volume| volume.pre_resize_capacity.is_some()))
}

/// Reads the volume of a claim from the API server.
///
/// # Errors
/// The volume does not exist, or is not bound to the claim.
fn bound_volume(host: &Host, claim: &Claim) -> Result<Volume, Error> {
    let name = &claim.volume_name;
    let volume = match name.as_str() {
        "" => None,
        name => host.live().get::<Volume>("", name)?,
    };
    let missing = || Error::failed(format!("the PersistentVolume {name:?} does not exist"));
    let volume = volume.ok_or_else(missing)?;
    if !volume.is_bound_to(claim) {
        let claim = claim.meta.key();
        return Err(Error::failed(format!(
            "the PersistentVolume {name:?} is not bound to the claim {claim}"
        )));
    }
    Ok(volume)
}

/// Annotates a claim for the resizer of the driver that has replaced an in-tree plugin.
fn hand_over(host: &Host, claim: &Claim, plugin: &Plugin) -> Result<(), Error> {
    let about = claim.meta.reference(Claim::KIND);
    let waiting = format!(
        "CSI migration enabled for {}; waiting for external resizer to expand the pvc",
        plugin.name
    );
    host.emit(Event::normal(&about, EXTERNAL_EXPANDING, &waiting));
    if claim.has_resizer(plugin.driver) {
        return Ok(());
    }
    claim_patch::write(host, claim, claim_patch::resizer(plugin.driver))
        .map_err(|error| {
            let key = claim.meta.key();
            let failed =
                format!("error setting resizer annotation to pvc {key}, with error {error}");
            host.emit(Event::warning(&about, EXTERNAL_EXPANDING, &failed));
            Error::failed(failed)
        })
        .map(drop)
}
