//! The replicas of a controller, and live reads of its subresource `scale`, for controllers of any kind.
//!
//! Upstream: pkg/controller/disruption/disruption.go: getScaleController, implementsScale.

use std::time::Duration;

use flyball_sdk::Kind;
use flyball_sdk::discovery::{Catalogue, ServedKind};
use flyball_sdk::imports::Read;
use flyball_sdk::prelude::*;

/// A controller with its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    pub uid: String,
    pub replicas: i32,
}

impl Scale {
    /// Without a number, the API's default applies.
    pub fn of(meta: &Meta, replicas: Option<i32>) -> Self {
        Self {
            uid: meta.uid.clone(),
            replicas: replicas.unwrap_or(1),
        }
    }
}

/// Reads the scales of controllers in a namespace, concurrently. A controller that does not exist, or exists only under
/// another UID, has no scale. The result of discovering a kind is reused for `discovery_period`.
///
/// # Errors
/// A kind is not served or has no scale, or a read failed.
pub fn read(
    host: &Host,
    namespace: &str,
    owners: &[&OwnerReference],
    discovery_period: Duration,
) -> Result<Vec<Option<Scale>>, Error> {
    let mut batch = host.live().batch();
    let mut is_read = Vec::new();
    for owner in owners {
        let (kind, plural) = scalable(host, owner, discovery_period)?;
        is_read.push(is_plain(&owner.name));
        if is_plain(&owner.name) {
            let path = flyball_scale::path(&kind, &plural, namespace, &owner.name);
            batch = batch.with(Read::Raw { path });
        }
    }
    let mut results = batch.run().into_iter();
    let scale = |(owner, is_read): (&&OwnerReference, bool)| {
        let result = is_read.then(|| results.next()).flatten();
        let Some(found) = result.and_then(|result| result.found().transpose()) else {
            return Ok(None);
        };
        let scale: flyball_scale::Scale = found?.parse()?;
        scale.check().map_err(Error::failed)?;
        Ok(Some(scale.into()).filter(|scale: &Scale| scale.uid == owner.uid))
    };
    owners.iter().zip(is_read).map(scale).collect()
}

impl From<flyball_scale::Scale> for Scale {
    fn from(scale: flyball_scale::Scale) -> Self {
        Self {
            uid: scale.metadata.uid,
            replicas: scale.spec.replicas,
        }
    }
}

/// A kind, and its name in paths.
type Resource = (Kind, String);

/// Returns the resource whose subresource `scale` is read for a controller: the resource of the controller's kind, in
/// the version that the server prefers. The memo keeps it, because the discovery document is large.
fn scalable(host: &Host, owner: &OwnerReference, period: Duration) -> Result<Resource, Error> {
    let kind = Kind::of_object(&owner.api_version, &owner.kind);
    let key = format!("scale/{kind}");
    if let Some(known) = host.memo().get(&key) {
        return Ok(known);
    }
    let resource = find(&host.kinds()?, &kind)?;
    // If the memo is full, discovery is repeated.
    let _ = host.memo().put(&key, &resource, "", period);
    Ok(resource)
}

fn find(catalogue: &Catalogue, kind: &Kind) -> Result<Resource, Error> {
    let name = kind.to_string();
    let unserved = || {
        Error::failed(format!(
            "no matches for kind {:?} in version {:?}",
            kind.kind,
            kind.api_version()
        ))
    };
    let own = catalogue.kinds.iter().find(|served| served.kind == name);
    let own = own.ok_or_else(unserved)?;
    let is_same = |served: &&ServedKind| {
        let group = served.kind.parse::<Kind>().map(|kind| kind.group);
        served.plural == own.plural && group.as_ref() == Ok(&kind.group)
    };
    // The preferred version comes first.
    let preferred = catalogue.kinds.iter().find(is_same).unwrap_or(own);
    if preferred.subresources.iter().all(|own| own.name != "scale") {
        let dot = if kind.group.is_empty() { "" } else { "." };
        return Err(Error::failed(format!(
            "{}{dot}{} does not implement the scale subresource",
            own.plural, kind.group
        )));
    }
    let preferred_kind = preferred.kind.parse().map_err(|_| unserved())?;
    Ok((preferred_kind, preferred.plural.clone()))
}

/// Whether an object may have this name. A pod's author chooses the name of its owner, and it must not lead to another
/// path.
fn is_plain(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    !matches!(name, "" | "." | "..") && name.chars().all(is_allowed)
}
