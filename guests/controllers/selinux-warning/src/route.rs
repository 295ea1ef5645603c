//! Turns changes into keys.
//!
//! Upstream: pkg/controller/volume/selinuxwarning/selinux_warning_controller.go: updatePod, addPVC, updatePVC,
//! addPV, updatePV, enqueueAllPodsForPVC, addCSIDriver, updateCSIDriver, deleteCSIDriver.

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

use crate::views::{BY_CLAIM, Claim, Driver, PersistentVolume, Pod, PodState, is_done};

pub(crate) fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
    let mut keys = Vec::new();
    for delta in deltas {
        match delta.watch.as_str() {
            Pod::KIND => keys.extend(changed_pod(delta)?),
            Claim::KIND => {
                if let Some(claim) = delta.after::<Claim>()?.filter(Claim::is_bound) {
                    add_users(host, &claim.meta.key(), &mut keys)?;
                }
            }
            PersistentVolume::KIND => {
                let volume = delta.after::<PersistentVolume>()?;
                if let Some((claim, _)) = volume.as_ref().and_then(PersistentVolume::claim) {
                    add_users(host, &claim, &mut keys)?;
                }
            }
            _ => keys.extend(changed_driver(delta)?),
        }
    }
    Ok(keys.into_iter().map(RoutedKey::now).collect())
}

/// Returns the key of a pod that is new, has ended, or was deleted.
fn changed_pod(delta: &Delta) -> Result<Option<Key>, Error> {
    let pods = (delta.before::<PodState>()?, delta.after::<PodState>()?);
    Ok(match pods {
        (Some(before), Some(pod)) => {
            let is_new = before.meta.uid != pod.meta.uid;
            let has_ended = before.phase != pod.phase && is_done(&pod.phase);
            (is_new || has_ended).then(|| pod.meta.key())
        }
        (Some(pod), None) | (None, Some(pod)) => Some(pod.meta.key()),
        (None, None) => None,
    })
}

/// Returns the key of a CSI driver if its volumes can now be mounted with a label, or no longer. Each pod is reconciled at
/// the start, so that the drivers of that time need nothing.
fn changed_driver(delta: &Delta) -> Result<Option<Key>, Error> {
    if delta.initial {
        return Ok(None);
    }
    let [before, after] = [delta.before::<Driver>()?, delta.after::<Driver>()?];
    let supports =
        |driver: &Option<Driver>| driver.as_ref().is_some_and(|driver| driver.supports_labels);
    let has_changed = supports(&before) != supports(&after);
    let driver = after.or(before).filter(|_| has_changed);
    Ok(driver.map(|driver| driver.meta.key()))
}

/// Adds the keys of the pods that use a claim.
fn add_users(host: &Host, claim: &Key, keys: &mut Vec<Key>) -> Result<(), Error> {
    let pods = host.list::<PodState>().namespace(&claim.namespace);
    pods.index(BY_CLAIM, &claim.name).each(|pod| {
        keys.push(pod.meta.key());
        Ok(())
    })?;
    // The claim of an ephemeral volume has a name of the form `POD-VOLUME`, and the pod as its controller.
    let own = host.get_by_key::<Claim>(claim)?;
    if let Some(pod) = own.as_ref().and_then(|claim| claim.meta.controller()) {
        let pod = host.get::<PodState>(&claim.namespace, &pod.name)?;
        keys.extend(pod.map(|pod| pod.meta.key()));
    }
    Ok(())
}
