//! persistentvolume-binder-controller: binds PersistentVolumeClaims to PersistentVolumes, and reclaims volumes.
//!
//! A claim and a volume that are bound point to each other: `spec.volumeName` of the claim and `spec.claimRef` of the
//! volume. There are two queues, as in kube-controller-manager. The reconcile of a claim ([`claim`]) finds or
//! provisions its volume and binds both. The reconcile of a volume ([`volume`]) sets its phase, and reclaims it when its
//! claim is gone.
//!
//! Everything follows from the objects. The memo holds only what may be lost: since when a plugin or a pod works, and how
//! long an operation that failed is not repeated.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go.
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go: syncVolumeByKey, syncClaimByKey,
//! updateVolume, updateClaim, deleteVolume, deleteClaim.

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

mod backoff;
mod bind;
mod claim;
mod default_class;
mod delete;
mod describe;
mod fit;
mod in_tree;
mod metrics;
mod migration;
mod names;
mod provision;
mod reclaim;
mod recycle;
mod resync;
mod route;
mod search;
mod settings;
mod status;
#[cfg(test)]
mod tests;
mod users;
mod views;
mod volume;
mod write;

use metrics::{Operation, Started};
use recycle::NAMESPACE;
use settings::Settings;
use views::{Claim, Volume};

/// The controller.
pub struct Binder;

export!(Binder);

impl Controller for Binder {
    fn describe() -> Description {
        describe::description()
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let key = &request.key;
        match (request.queue.as_str(), key.name.as_str()) {
            (describe::CLAIMS, _) => return sync_claim(host, key),
            (_, describe::RESYNC) => resync::run(host)?,
            (_, describe::METRICS) => metrics::count(host)?,
            (_, event) if key.namespace == describe::EVENTS => {
                recycle::copy_event(host, &Key::new(NAMESPACE, event))?;
            }
            _ => sync_volume(host, key)?,
        }
        Ok(Outcome::Done)
    }

    fn route(_: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        route::route(deltas)
    }
}

fn sync_claim(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let Some(claim) = host.get_by_key::<Claim>(key)? else {
        // Its volume is enqueued with its deletion.
        return Ok(Outcome::Done);
    };
    claim::sync(host, &Settings::read(host), claim)
}

fn sync_volume(host: &Host, key: &Key) -> Result<(), Error> {
    let Some(volume) = host.get_by_key::<Volume>(key)? else {
        Started::new(Operation::Delete, key, "").end(host, &Ok(()));
        return Ok(());
    };
    volume::sync(host, volume)
}
