//! Empties a released volume, with a pod that its plugin provides, and makes it available again.
//!
//! The pod runs between two reconciles: its changes wake the volume. The memo remembers which pod was created for the
//! volume. A pod with the same name that the memo doesn't know is of an earlier process, or a user's: it is deleted, and
//! the next attempt creates another one.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: recycleVolumeOperation,
//! newRecyclerEventRecorder.
//! Upstream: pkg/volume/util/recyclerclient/recycler_client.go: internalRecycleVolumeByWatchingPodUntilCompletion,
//! waitForPod.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_volume_plugins::recycler::{Failure, outcome, pod_name};
use flyball_volume_plugins::{Recycling, Volume as PluginVolume};
use serde::{Deserialize, Serialize};

use crate::bind::unbind;
use crate::reclaim::{self, Released};
use crate::settings;
use crate::users;
use crate::views::{Claim, Pod, PodEvent, Volume};
use crate::volume::named;
use crate::write;

/// The namespace of recycler pods, unless the operator's template has another one.
pub(crate) const NAMESPACE: &str = "default";
/// The reason of events about volumes that can't be recycled, or not yet.
const FAILED: &str = "VolumeFailedRecycle";

/// The pod that empties a volume.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Running {
    namespace: String,
    uid: String,
}

/// How far a recycling is.
type Progress = Result<Done, Failure>;

/// Whether a recycling is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Yes,
    NotYet,
}

/// The status of a recycler pod.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
struct PodStatus {
    #[view(path = "status.phase")]
    phase: String,
    #[view(path = "status.message")]
    message: String,
}

#[derive(Deserialize)]
struct Created {
    metadata: Meta,
}

/// Takes the next step of recycling a volume.
///
/// # Errors
/// A read or a write failed.
pub(crate) fn sync(host: &Host, volume: Volume) -> Result<(), Error> {
    if let Some(running) = running(host, &volume.meta.name) {
        let progress = follow(host, &volume.meta, &running)?;
        return finish(host, volume, progress);
    }
    let Some(released) = reclaim::newest(host, &volume)? else {
        return Ok(());
    };
    if let Some(message) = in_use(host, &released.volume)? {
        let about = volume.meta.reference(Volume::KIND);
        host.emit(Event::normal(&about, FAILED, &message));
        return Ok(());
    }
    let Released { volume, spec } = released;
    let name = volume.meta.name.clone();
    let as_plugin_volume = PluginVolume::persistent(&name, &spec);
    let plugins = settings::plugins(host)?;
    let Ok(plugin) = plugins.find_recycler(as_plugin_volume) else {
        let message = "No recycler plugin found for the volume!";
        return write::fail_volume(host, volume, FAILED, message);
    };
    let progress = match plugin.recycle(as_plugin_volume) {
        Recycling::Done => Ok(Done::Yes),
        Recycling::Pod(pod) => start(host, &volume.meta, &pod)?,
    };
    finish(host, volume, progress)
}

/// Says which pods still use a volume. A claim in the cache has taken the name of the former one, and the pods use it.
fn in_use(host: &Host, volume: &Volume) -> Result<Option<String>, Error> {
    let Some(named) = named(volume) else {
        return Ok(None);
    };
    let pods = users::using(host, &named.namespace, &named.name)?;
    if pods.is_empty() || host.get::<Claim>(&named.namespace, &named.name)?.is_some() {
        return Ok(None);
    }
    Ok(Some(format!("Volume is used by pods: {}", pods.join(","))))
}

/// Creates the pod that recycles a volume. A pod in its place is deleted.
fn start(host: &Host, volume: &Meta, pod: &Value) -> Result<Progress, Error> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or(NAMESPACE);
    let write = Write::create(Pod::KIND, namespace, pod).returning(&["metadata.uid"]);
    match host.write(write) {
        Ok(answer) => {
            let created: Created = answer.parse()?;
            let running = Running {
                namespace: namespace.into(),
                uid: created.metadata.uid,
            };
            let memo = host.memo();
            memo.put(&key(&volume.name), &running, &volume.uid, Duration::ZERO)?;
            Ok(Ok(Done::NotYet))
        }
        Err(error) if error.is_already_exists() => {
            let name = pod_name(&volume.name);
            let deleted = host.write(Write::delete(Pod::KIND, namespace, &name));
            Ok(Err(match deleted {
                Ok(_) => Failure::OldPod,
                Err(error) => Failure::OldPodStays(format!("{namespace}/{name}"), error.message),
            }))
        }
        Err(error) if error.is_unreachable() => Err(error.into()),
        Err(error) => Ok(Err(Failure::NotCreated(error.message))),
    }
}

/// Looks how far the pod of a volume is. A pod that has ended is deleted.
fn follow(host: &Host, volume: &Meta, running: &Running) -> Result<Progress, Error> {
    let name = pod_name(&volume.name);
    let pod: Option<Pod> = host.get(&running.namespace, &name)?;
    let Some(pod) = pod.filter(|pod| pod.meta.uid == running.uid) else {
        forget(host, &volume.name);
        return Ok(Err(Failure::PodDeleted));
    };
    if !flyball_pods::has_ended(&pod.phase) {
        return Ok(Ok(Done::NotYet));
    }
    // Only the status of a pod that has ended has the message, so that it is not cached.
    let newest: Option<PodStatus> = host.live().get(&running.namespace, &name)?;
    let Some(ended) = newest.and_then(|newest| outcome(&newest.phase, &newest.message)) else {
        // It is being replaced. The change wakes the volume.
        return Ok(Ok(Done::NotYet));
    };
    let deleted = host.write(Write::delete_exactly(Pod::KIND, &pod.meta));
    forget(host, &volume.name);
    Ok(match (ended, deleted) {
        (Err(failure), _) => Err(failure),
        (Ok(()), Err(error)) => Err(Failure::NotDeleted(error.message)),
        (Ok(()), Ok(_)) => Ok(Done::Yes),
    })
}

/// Makes a volume available that is empty, or marks it as failed. It is then recycled again in the next period.
fn finish(host: &Host, volume: Volume, progress: Progress) -> Result<(), Error> {
    match progress {
        Ok(Done::NotYet) => Ok(()),
        Ok(Done::Yes) => {
            let about = volume.meta.reference(Volume::KIND);
            host.emit(Event::normal(&about, "VolumeRecycled", "Volume recycled"));
            unbind(host, volume)
        }
        Err(failure) => {
            let message = format!("Recycle failed: {failure}");
            write::fail_volume(host, volume, FAILED, &message)
        }
    }
}

/// Copies an event about the pod of a volume to the volume.
///
/// # Errors
/// A read failed.
pub(crate) fn copy_event(host: &Host, key: &Key) -> Result<(), Error> {
    let Some(event) = host.get_by_key::<PodEvent>(key)? else {
        return Ok(());
    };
    let Some(name) = volume_of(&event.pod) else {
        return Ok(());
    };
    let is_ours = |running: Running| running.uid == event.pod_uid;
    let volume: Option<Volume> = host.get("", name)?;
    let Some(volume) = volume.filter(|_| running(host, name).is_some_and(is_ours)) else {
        return Ok(());
    };
    let about = volume.meta.reference(Volume::KIND);
    let message = format!("Recycler pod: {}", event.message);
    host.emit(match event.event_type.as_str() {
        "Warning" => Event::warning(&about, "RecyclerPod", &message),
        _ => Event::normal(&about, "RecyclerPod", &message),
    });
    Ok(())
}

/// The volume that a pod with this name recycles.
pub(crate) fn volume_of(pod: &str) -> Option<&str> {
    pod.strip_prefix(&pod_name(""))
        .filter(|name| !name.is_empty())
}

fn running(host: &Host, volume: &str) -> Option<Running> {
    host.memo().get(&key(volume))
}

fn forget(host: &Host, volume: &str) {
    host.memo().remove(&key(volume));
}

fn key(volume: &str) -> String {
    format!("recycling/{volume}")
}
