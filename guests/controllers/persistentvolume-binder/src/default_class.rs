//! Gives a claim without a class the default class, which may have been created after the claim.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: assignDefaultStorageClass.
//! Upstream: pkg/volume/util/storageclass.go: GetDefaultClass, IsDefaultAnnotation.

use std::cmp::Reverse;

use flyball_sdk::prelude::*;

use crate::metrics;
use crate::names::{BETA_IS_DEFAULT, IS_DEFAULT};
use crate::views::{Claim, Class};

/// Writes the default class into a claim without a class, if there is one. Returns whether it did.
///
/// # Errors
/// A read or the write failed.
pub(crate) fn assign(host: &Host, claim: &Claim) -> Result<bool, Error> {
    if claim.has_class() {
        return Ok(false);
    }
    let Some(class) = default_of(host.list::<Class>().all()?) else {
        return Ok(false);
    };
    let change = json!({"spec": {"storageClassName": class.meta.name}});
    let written = host.update(Claim::KIND, &claim.meta, &change);
    metrics::count_assignment(host, written.is_ok());
    written.doing(|| format!("assigning the default class to claim {}", claim.meta.key()))?;
    Ok(true)
}

/// The newest default class; of several, the one whose name comes first.
pub(crate) fn default_of(classes: Vec<Class>) -> Option<Class> {
    let is_default = |class: &Class| {
        [IS_DEFAULT, BETA_IS_DEFAULT]
            .iter()
            .any(|key| class.meta.annotation(key) == Some("true"))
    };
    let rank = |class: &Class| {
        (
            Reverse(class.meta.creation_timestamp),
            class.meta.name.clone(),
        )
    };
    classes.into_iter().filter(is_default).min_by_key(rank)
}
