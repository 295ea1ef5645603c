//! The resizer: grows the volumes of claims.

use flyball_sdk::prelude::*;

use crate::FIELD_MANAGER;
use crate::objects::{Claim, Volume};
use crate::progress::{self, Step};
use crate::script::{Operation, Script};
use crate::settings::Settings;

/// The annotation with the name of the driver that resizes the volume of a migrated kind.
const RESIZER: &str = "volume.kubernetes.io/storage-resizer";
/// The type of the condition of a claim whose volume grows.
const RESIZING: &str = "Resizing";

/// Grows the volume of a bound claim that asks for more than it has.
///
/// # Errors
/// A write failed, or the script is invalid.
pub fn reconcile(host: &Host, settings: &Settings, claim: &Claim) -> Result<Step, Error> {
    let is_large_enough = claim.request <= claim.capacity;
    if claim.phase != "Bound" || claim.meta.is_deleting() || is_large_enough {
        return Ok(Step::Done);
    }
    let Some(volume) = host.get::<Volume>("", &claim.volume_name)? else {
        return Ok(Step::Done);
    };
    let of_migrated = claim.meta.annotations.get(RESIZER);
    let driver = of_migrated.unwrap_or(&volume.driver);
    if !settings.plays(driver) {
        return Ok(Step::Done);
    }
    let script = Script {
        annotations: &volume.meta.annotations,
        parameters: &volume.attributes,
    };
    let step = progress::advance(host, &claim.meta.uid, Operation::Resize, script)?;
    match &step {
        Step::Wait(_) => show(host, claim, None)?,
        Step::Fail(error) => show(host, claim, Some(error))?,
        Step::Done => finish(host, claim, &volume)?,
    }
    Ok(step)
}

/// Shows in the claim's condition that its volume grows, with the error of the last attempt.
fn show(host: &Host, claim: &Claim, error: Option<&str>) -> Result<(), Error> {
    let shown = claim
        .conditions
        .iter()
        .find(|one| one.condition_type == RESIZING);
    let is_shown = shown.is_some_and(|one| error.is_none_or(|error| one.message == error));
    if is_shown {
        return Ok(());
    }
    let mut condition =
        json!({"type": RESIZING, "status": "True", "message": error.unwrap_or_default()});
    if shown.is_none() {
        condition["lastTransitionTime"] = json!(host.now());
    }
    write_status(host, claim, json!({"conditions": [condition]}))
}

/// Writes the new size into the volume and then into the claim. The claim comes last: its status ends the operation.
fn finish(host: &Host, claim: &Claim, volume: &Volume) -> Result<(), Error> {
    if volume.capacity < claim.request {
        let patch = json!({
            "metadata": {"uid": volume.meta.uid},
            "spec": {"capacity": {"storage": claim.request}},
        });
        let name = &volume.meta.name;
        let patch = Write::patch(Volume::KIND, "", name, PatchType::Merge, &patch);
        host.write(patch.field_manager(FIELD_MANAGER))?;
    }
    let mut status = json!({"capacity": {"storage": claim.request}});
    if claim
        .conditions
        .iter()
        .any(|one| one.condition_type == RESIZING)
    {
        status["conditions"] = json!([{"type": RESIZING, "$patch": "delete"}]);
    }
    write_status(host, claim, status)
}

fn write_status(host: &Host, claim: &Claim, status: Value) -> Result<(), Error> {
    let Meta {
        namespace, name, ..
    } = &claim.meta;
    let patch = json!({"metadata": {"uid": claim.meta.uid}, "status": status});
    let patch = Write::patch(Claim::KIND, namespace, name, PatchType::Strategic, &patch);
    host.write(patch.on("status").field_manager(FIELD_MANAGER))
        .found()?;
    Ok(())
}
