//! persistentvolume-protection-controller: keeps PersistentVolumes while they are bound.
//!
//! Each volume has a finalizer. When a volume is being deleted, the finalizer is removed once the volume is not bound
//! to a claim.
//!
//! Upstream: pkg/controller/volume/pvprotection/pv_protection_controller.go: NewPVProtectionController, processPV,
//! addFinalizer, removeFinalizer, isBeingUsed, pvAddedUpdated.
//! Upstream: pkg/controller/util/protectionutil/utils.go: IsDeletionCandidate, NeedToAddFinalizer.

use flyball_sdk::finalizer;
use flyball_sdk::prelude::*;

/// The finalizer.
pub const FINALIZER: &str = "kubernetes.io/pv-protection";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolume")]
struct Volume {
    #[view(path = "metadata", fields("deletionTimestamp", "finalizers"))]
    meta: Meta,
    #[view(path = "status.phase")]
    phase: String,
}

/// The controller. Keys are names of volumes.
pub struct VolumeProtection;

export!(VolumeProtection);

impl Controller for VolumeProtection {
    fn describe() -> Description {
        describe(
            "persistentvolume-protection-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(
            watch::<Volume>()
                .when_at(&[
                    "metadata.uid",
                    "metadata.deletionTimestamp",
                    "metadata.finalizers",
                    "status.phase",
                ])
                .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified])),
        )
        .queue("pvprotection")
        .permission(Volume::KIND, ["get", "update"])
        .concurrency(1)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let volume = host.get_by_key::<Volume>(&request.key)?;
        if let Some(update) = volume.and_then(|volume| due_update(&volume)) {
            host.write(update).found()?;
        }
        Ok(Outcome::Done)
    }
}

/// Returns the update that adds or removes the finalizer; `None` if there is nothing to do. The API server adds the
/// finalizer to new volumes, unless that admission plugin is off.
fn due_update(volume: &Volume) -> Option<Write> {
    let Volume { meta, phase } = volume;
    if finalizer::is_held(meta, FINALIZER) {
        let is_bound = phase == "Bound";
        return (!is_bound).then(|| finalizer::remove(Volume::KIND, meta, FINALIZER));
    }
    finalizer::is_missing(meta, FINALIZER).then(|| finalizer::add(Volume::KIND, meta, FINALIZER))
}
