//! Deletes the storage of a released volume with its plugin, and then the volume.
//!
//! The storage goes first, then the finalizer, then the object. Each step can be repeated, so that a process that ends in
//! between leaves nothing behind that the next reconcile does not find. The object is deleted only in the version
//! without the finalizer that this reconcile wrote, or in the version that was found to be released.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: deleteVolumeOperation, doDeleteVolume,
//! removeDeletionProtectionFinalizer, findDeletablePlugin, getProvisionerNameFromVolume.

use flyball_sdk::finalizer;
use flyball_sdk::prelude::*;
use flyball_volume_plugins::{Deletion, NOT_AVAILABLE, Volume as PluginVolume, VolumePlugin};

use crate::backoff::Backoff;
use crate::metrics::{self, Operation, Started};
use crate::names::{IN_TREE_FINALIZER, MIGRATED_TO, PROVISIONED_BY};
use crate::reclaim::{self, Released};
use crate::settings;
use crate::views::{Volume, VolumeSpec};
use crate::write;

/// The reason of the event and of the phase Failed.
const FAILED: &str = "VolumeFailedDelete";

/// Deletes a volume, unless an external provisioner does, or the last attempt has failed just now.
///
/// # Errors
/// A read or a write failed.
pub(crate) fn sync(host: &Host, volume: Volume) -> Result<(), Error> {
    let Some(VolumeSpec { spec }) = host.get("", &volume.meta.name)? else {
        return Ok(());
    };
    let name = volume.meta.name.clone();
    let plugins = settings::plugins(host)?;
    let found = plugins.find_deleter(
        PluginVolume::persistent(&name, &spec),
        volume.meta.annotation(PROVISIONED_BY),
        volume.has(MIGRATED_TO),
    );
    let started = Started::new(Operation::Delete, &volume.meta.key(), "");
    started.begin(host, || match &found {
        Ok(Some(plugin)) => Ok(plugin.name().to_owned()),
        Ok(None) => reclaim::external_provisioner(host, &volume),
        Err(_) => Ok(NOT_AVAILABLE.to_owned()),
    })?;
    let plugin = match found {
        Ok(Some(plugin)) => plugin,
        Ok(None) => return Ok(()),
        Err(error) => return write::fail_volume(host, volume, FAILED, &error.0),
    };
    let backoff = Backoff::new(Operation::Delete, &volume.meta.uid);
    if backoff.is_waiting(host) {
        return Ok(());
    }
    let Some(released) = reclaim::newest(host, &volume)? else {
        return Ok(());
    };
    if let Err(problem) = destroy(host, plugin, &released) {
        started.count_error(host);
        backoff.fail(host);
        return write::fail_volume(host, released.volume, FAILED, &problem);
    }
    backoff.succeed(host);
    delete_object(host, released.volume)
}

/// Deletes the storage of a volume.
fn destroy(host: &Host, plugin: &dyn VolumePlugin, released: &Released) -> Deletion {
    let Released { volume, spec } = released;
    let start = host.now();
    let deleted = plugin.delete(PluginVolume::persistent(&volume.meta.name, spec));
    metrics::observe_step(host, plugin.name(), "volume_delete", start, deleted.is_ok());
    deleted
}

/// Releases and deletes the object of a volume whose storage is gone.
fn delete_object(host: &Host, mut volume: Volume) -> Result<(), Error> {
    let is_deleting = volume.meta.is_deleting();
    if finalizer::has(&volume.meta, IN_TREE_FINALIZER) {
        let others = { volume.meta.finalizers.iter() }.filter(|own| *own != IN_TREE_FINALIZER);
        let change = json!({"metadata": {"finalizers": others.collect::<Vec<_>>()}});
        write::update(host, Volume::KIND, &mut volume.meta, &change)
            .doing(|| format!("removing the finalizer of volume {}", volume.meta.name))?;
    }
    if is_deleting {
        return Ok(());
    }
    let write = Write::delete_exactly(Volume::KIND, &volume.meta)
        .resource_version(&volume.meta.resource_version);
    host.write(write).found()?;
    Ok(())
}
