//! The provisioner: creates the volumes of claims, and deletes released ones.

use flyball_sdk::prelude::*;
use flyball_sdk::{StringMap, finalizer};

use crate::FIELD_MANAGER;
use crate::objects::{Claim, Class, Volume};
use crate::progress::{self, Step};
use crate::script::{Operation, PREFIX, Script};
use crate::settings::Settings;

/// The annotations with the name of a claim's driver: the present one, and the one that it replaced.
const PROVISIONER: [&str; 2] = [
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];
/// The annotation with the node of a claim's first pod.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation with the name of a volume's driver.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Keeps a volume until its storage is deleted.
pub const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// The prefix of parameters that are for the sidecars, and not for the driver.
const SIDECAR: &str = "csi.storage.k8s.io/";

/// Creates the volume of a claim without one.
///
/// # Errors
/// A write failed, or the script is invalid.
pub fn provision(host: &Host, settings: &Settings, claim: &Claim) -> Result<Step, Error> {
    let Some(driver) = driver_of(claim).filter(|driver| settings.plays(driver)) else {
        return Ok(Step::Done);
    };
    let class = match claim.class() {
        "" => None,
        name => host.get::<Class>("", name)?,
    };
    let Some(class) = class else {
        return Ok(Step::Done);
    };
    let annotations = &claim.meta.annotations;
    let is_delayed = class.binding_mode == "WaitForFirstConsumer";
    if claim.meta.is_deleting() || is_delayed && !annotations.contains_key(SELECTED_NODE) {
        return Ok(Step::Done);
    }
    let volume = volume_for(claim, driver, &class);
    let name = volume["metadata"]["name"].as_str().unwrap_or_default();
    if host.get::<Volume>("", name)?.is_some() {
        return Ok(Step::Done);
    }
    let script = Script {
        annotations,
        parameters: &class.parameters,
    };
    let step = progress::advance(host, &claim.meta.uid, Operation::Provision, script)?;
    match &step {
        Step::Wait(_) => {}
        Step::Fail(_) if annotations.contains_key(SELECTED_NODE) => reschedule(host, claim)?,
        Step::Fail(_) => {}
        Step::Done => create(host, &volume)?,
    }
    Ok(step)
}

/// The driver that is to provision a claim.
fn driver_of(claim: &Claim) -> Option<&str> {
    let annotations = &claim.meta.annotations;
    let driver = PROVISIONER.iter().find_map(|key| annotations.get(*key));
    driver.map(String::as_str)
}

/// Returns the volume of a claim. Its scripts come from the claim and, as attributes, from the class.
fn volume_for(claim: &Claim, driver: &str, class: &Class) -> Value {
    let Claim { meta, .. } = claim;
    let name = format!("pvc-{}", meta.uid);
    let scripts = meta.annotations.iter();
    let scripts = scripts.filter(|(key, _)| key.starts_with(PREFIX));
    let mut annotations: StringMap = scripts.map(|(k, v)| (k.clone(), v.clone())).collect();
    annotations.insert(PROVISIONED_BY.into(), driver.into());
    let attributes: StringMap = class
        .parameters
        .iter()
        .filter(|(key, _)| !key.starts_with(SIDECAR))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let finalizers: &[&str] = match class.reclaim_policy.as_str() {
        "Delete" => &[FINALIZER],
        _ => &[],
    };
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": annotations, "finalizers": finalizers},
        "spec": {
            "accessModes": claim.access_modes,
            "capacity": {"storage": claim.request},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace,
                "name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version,
            },
            "csi": {
                "driver": driver,
                "volumeHandle": name,
                "fsType": class.parameters.get("csi.storage.k8s.io/fstype"),
                "volumeAttributes": attributes,
            },
            "mountOptions": class.mount_options,
            "persistentVolumeReclaimPolicy": class.reclaim_policy,
            "storageClassName": claim.class(),
            "volumeAttributesClassName": claim.attributes_class,
            "volumeMode": claim.volume_mode,
        },
    })
}

/// Creates a volume. An earlier reconcile may have done it, and the cache not have seen it.
fn create(host: &Host, volume: &Value) -> Result<(), Error> {
    let create = Write::create(Volume::KIND, "", volume).field_manager(FIELD_MANAGER);
    match host.write(create) {
        Err(error) if error.reason != "AlreadyExists" => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes the scheduler select another node.
fn reschedule(host: &Host, claim: &Claim) -> Result<(), Error> {
    let Meta {
        namespace, name, ..
    } = &claim.meta;
    let patch = json!({"metadata": {"uid": claim.meta.uid, "annotations": {SELECTED_NODE: null}}});
    let patch = Write::patch(Claim::KIND, namespace, name, PatchType::Merge, &patch);
    host.write(patch.field_manager(FIELD_MANAGER)).found()?;
    Ok(())
}

/// Deletes a volume that was released, if its reclaim policy says so.
///
/// # Errors
/// A write failed, or the script is invalid.
pub fn delete(host: &Host, settings: &Settings, name: &str) -> Result<Step, Error> {
    let Some(volume) = host.get::<Volume>("", name)? else {
        return Ok(Step::Done);
    };
    let Volume { meta, .. } = &volume;
    let driver = meta.annotations.get(PROVISIONED_BY).map_or("", |by| by);
    let is_released = volume.phase == "Released" && volume.reclaim_policy == "Delete";
    let is_kept = meta.is_deleting() && !finalizer::has(meta, FINALIZER);
    if !settings.plays(driver) || !is_released || is_kept {
        return Ok(Step::Done);
    }
    let script = Script {
        annotations: &meta.annotations,
        parameters: &volume.attributes,
    };
    let step = progress::advance(host, &meta.uid, Operation::Delete, script)?;
    if step == Step::Done {
        remove(host, meta)?;
    }
    Ok(step)
}

/// Deletes a volume, and then removes the finalizer, which kept it until its storage was deleted.
fn remove(host: &Host, meta: &Meta) -> Result<(), Error> {
    if !meta.is_deleting() {
        host.write(Write::delete_exactly(Volume::KIND, meta))
            .found()?;
    }
    if finalizer::has(meta, FINALIZER) {
        let patch = json!({"metadata": {"uid": meta.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
        let patch = Write::patch(Volume::KIND, "", &meta.name, PatchType::Strategic, &patch);
        host.write(patch.field_manager(FIELD_MANAGER)).found()?;
    }
    Ok(())
}
