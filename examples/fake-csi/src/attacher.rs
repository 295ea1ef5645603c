//! The attacher: attaches the volumes of VolumeAttachments, and detaches those of deleted ones.

use flyball_sdk::prelude::*;
use flyball_sdk::{StringMap, finalizer};

use crate::FIELD_MANAGER;
use crate::objects::{Attachment, Volume};
use crate::progress::{self, Step};
use crate::script::{Operation, Script};
use crate::settings::Settings;

/// Attaches or detaches the volume of a VolumeAttachment.
///
/// # Errors
/// A write failed, or the volume's script is invalid.
pub fn reconcile(host: &Host, settings: &Settings, name: &str) -> Result<Step, Error> {
    let Some(attachment) = host.get::<Attachment>("", name)? else {
        return Ok(Step::Done);
    };
    if !settings.plays(&attachment.driver) {
        return Ok(Step::Done);
    }
    let finalizer = finalizer_of(&attachment.driver);
    if finalizer::is_held(&attachment.meta, &finalizer) {
        return detach(host, &attachment, &finalizer);
    }
    if attachment.meta.is_deleting() || attachment.is_attached {
        return Ok(Step::Done);
    }
    if finalizer::is_missing(&attachment.meta, &finalizer) {
        let add = json!({"finalizers": [finalizer]});
        write(host, &attachment, "", json!({"metadata": add}))?;
    }
    attach(host, &attachment)
}

/// The finalizer of a driver's VolumeAttachments.
pub fn finalizer_of(driver: &str) -> String {
    format!("external-attacher/{}", driver.replace('.', "-"))
}

fn attach(host: &Host, attachment: &Attachment) -> Result<Step, Error> {
    let step = match volume_of(host, attachment)? {
        Some(volume) => advance(host, attachment, Operation::Attach, &volume)?,
        None => Step::Fail(format!(
            "persistentvolume \"{}\" not found",
            attachment.volume.as_deref().unwrap_or_default()
        )),
    };
    let status = match &step {
        Step::Wait(_) => return Ok(step),
        Step::Fail(error) => json!({"attached": false, "attachError": problem(host, error)}),
        Step::Done => json!({"attached": true, "attachError": null}),
    };
    write(host, attachment, "status", json!({"status": status}))?;
    Ok(step)
}

fn detach(host: &Host, attachment: &Attachment, finalizer: &str) -> Result<Step, Error> {
    let volume = volume_of(host, attachment)?.unwrap_or_default();
    let step = advance(host, attachment, Operation::Detach, &volume)?;
    match &step {
        Step::Wait(_) => {}
        Step::Fail(error) => {
            let status = json!({"detachError": problem(host, error)});
            write(host, attachment, "status", json!({"status": status}))?;
        }
        Step::Done => {
            let remove = json!({"$deleteFromPrimitiveList/finalizers": [finalizer]});
            write(host, attachment, "", json!({"metadata": remove}))?;
        }
    }
    Ok(step)
}

fn advance(
    host: &Host,
    attachment: &Attachment,
    operation: Operation,
    volume: &Volume,
) -> Result<Step, Error> {
    let script = Script {
        annotations: &volume.meta.annotations,
        parameters: &volume.attributes,
    };
    progress::advance(host, &attachment.meta.uid, operation, script)
}

/// Returns the volume of an attachment; `None` if it does not exist. That of a pod's volume has no script.
fn volume_of(host: &Host, attachment: &Attachment) -> Result<Option<Volume>, Error> {
    match &attachment.volume {
        Some(name) => host.get("", name),
        None => Ok(Some(Volume {
            attributes: StringMap::new(),
            ..Volume::default()
        })),
    }
}

fn problem(host: &Host, message: &str) -> Value {
    json!({"time": host.now(), "message": message})
}

/// Patches a VolumeAttachment, or its subresource, unless it no longer exists.
fn write(
    host: &Host,
    attachment: &Attachment,
    subresource: &str,
    mut patch: Value,
) -> Result<(), Error> {
    let Meta { name, uid, .. } = &attachment.meta;
    patch["metadata"]["uid"] = uid.as_str().into();
    let patch = Write::patch(Attachment::KIND, "", name, PatchType::Strategic, &patch);
    let patch = patch.on(subresource).field_manager(FIELD_MANAGER);
    host.write(patch).found()?;
    Ok(())
}
