//! Gets a new volume for a claim: from an external provisioner, which is asked by annotations, or from a plugin.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: provisionClaim, findProvisionablePlugin,
//! provisionClaimOperationExternal, getProvisionerName.
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go: setClaimProvisioner.

use flyball_csi_translation::csi_name_from_in_tree_name;
use flyball_sdk::prelude::*;

use crate::backoff::Backoff;
use crate::in_tree;
use crate::metrics::{Operation, Started};
use crate::migration;
use crate::settings::{self, Settings};
use crate::views::{Claim, Class};
use crate::write;

/// The reason of events about volumes that can't be provisioned.
pub(crate) const FAILED: &str = "ProvisioningFailed";

/// Takes the next step of getting a volume for a claim. `class` is the claim's, if it exists.
///
/// # Errors
/// A read or a write failed.
pub(crate) fn sync(
    host: &Host,
    settings: &Settings,
    claim: Claim,
    class: Option<Class>,
) -> Result<Outcome, Error> {
    if !settings.provisions {
        return Ok(Outcome::Done);
    }
    let Some(class) = class else {
        let message = format!("storageclass.storage.k8s.io {:?} not found", claim.class());
        report(host, &claim.meta, FAILED, &message);
        return Ok(Outcome::Done);
    };
    let plugins = settings::plugins(host)?;
    let plugin = match plugins.find_by_provisioner(&class.provisioner) {
        Ok(plugin) => plugin,
        Err(error) => {
            report(host, &claim.meta, FAILED, &error.0);
            return Ok(Outcome::Done);
        }
    };
    let uid = claim.meta.uid.clone();
    if Backoff::new(Operation::Provision, &uid).is_waiting(host) {
        return Ok(Outcome::Done);
    }
    let external = csi_name_from_in_tree_name(&class.provisioner).unwrap_or(&class.provisioner);
    let key = claim.meta.key();
    let started = Started::new(Operation::Provision, &key, &uid);
    let name = plugin.map_or(external, |plugin| plugin.name());
    started.begin(host, || Ok(name.to_owned()))?;
    let result = match plugin {
        Some(plugin) => in_tree::provision(host, plugin, claim, &class),
        None => ask(host, claim, external).map(|()| Outcome::Done),
    };
    if result.is_err() {
        started.count_error(host);
    }
    result
}

/// Asks an external provisioner for a volume. It creates the volume, bound to the claim, in its own time.
fn ask(host: &Host, mut claim: Claim, provisioner: &str) -> Result<(), Error> {
    if let Err(error) = annotate(host, &mut claim, provisioner) {
        let message = format!("Error saving claim: {}", error.message());
        report(host, &claim.meta, FAILED, &message);
        return Err(error);
    }
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system \
         administrator. If volume creation is delayed, please verify that the provisioner is running and correctly \
         registered."
    );
    let about = claim.meta.reference(Claim::KIND);
    host.emit(Event::normal(&about, "ExternalProvisioning", &message));
    Ok(())
}

/// Annotates a claim with its provisioner.
///
/// # Errors
/// The write failed.
pub(crate) fn annotate(host: &Host, claim: &mut Claim, provisioner: &str) -> Result<(), Error> {
    if let Some(change) = migration::asking(&claim.meta, provisioner) {
        write::update(host, Claim::KIND, &mut claim.meta, &change.patch())?;
        change.apply(&mut claim.meta);
    }
    Ok(())
}

/// Emits a warning about a claim.
pub(crate) fn report(host: &Host, claim: &Meta, reason: &str, message: &str) {
    let about = claim.reference(Claim::KIND);
    host.emit(Event::warning(&about, reason, message));
}
