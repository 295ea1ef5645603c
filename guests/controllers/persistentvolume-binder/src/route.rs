//! Turns deletions of volumes, and changes of recycler pods and events about them, into keys.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go: deleteVolume.

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

use crate::describe::{CLAIMS, EVENTS, VOLUMES};
use crate::recycle::volume_of;
use crate::views::{Pod, PodEvent, Volume};

/// Returns the keys of the changes.
///
/// # Errors
/// An object is malformed.
pub(crate) fn route(deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
    let mut keys = Vec::new();
    for delta in deltas {
        let key = match delta.watch.as_str() {
            Volume::KIND => delta.before()?.as_ref().and_then(claim_of),
            Pod::KIND => newest::<Pod>(delta)?.as_ref().and_then(volume_of_pod),
            PodEvent::KIND => newest::<PodEvent>(delta)?.as_ref().and_then(copied),
            other => return Err(Error::terminal(format!("unexpected change of {other}"))),
        };
        keys.extend(key);
    }
    Ok(keys)
}

fn newest<T: View>(delta: &Delta) -> Result<Option<T>, Error> {
    Ok(match delta.after()? {
        Some(after) => Some(after),
        None => delta.before()?,
    })
}

/// The claim that has lost a volume.
fn claim_of(volume: &Volume) -> Option<RoutedKey> {
    let claim = volume.claim.as_ref()?;
    let key = Key::new(&claim.namespace, &claim.name);
    Some(queued(CLAIMS, key))
}

/// The volume that a pod recycles.
fn volume_of_pod(pod: &Pod) -> Option<RoutedKey> {
    let volume = volume_of(&pod.meta.name)?;
    Some(queued(VOLUMES, Key::new("", volume)))
}

/// An event that is copied to a volume.
fn copied(event: &PodEvent) -> Option<RoutedKey> {
    volume_of(&event.pod)?;
    Some(queued(VOLUMES, Key::new(EVENTS, &event.meta.name)))
}

fn queued(queue: &str, key: Key) -> RoutedKey {
    RoutedKey {
        queue: queue.into(),
        ..RoutedKey::now(key)
    }
}
