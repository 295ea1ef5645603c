//! The object that is scaled: its Scale is read and written live.
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: scaleForResourceMappings, reconcileAutoscaler.

use flyball_scale::{self as scale, Scale};
use flyball_sdk::prelude::*;

use crate::failure;
use crate::resources::{self, Resource};
use crate::views::{Autoscaler, ObjectName};

/// The most attempts of an update that conflicts with other clients' changes.
const TRIES: usize = 5;

/// A Scale with the resource that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    pub resource: Resource,
    pub scale: Scale,
}

/// Why the Scale can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unscalable {
    /// For the event and the condition.
    pub message: String,
    /// For the log.
    pub error: String,
    /// Whether the autoscaler itself is wrong.
    pub is_spec: bool,
}

/// Reads the Scale of an autoscaler's target.
///
/// # Errors
/// The target does not exist or has no Scale, or a request failed.
pub fn read(host: &Host, autoscaler: &Autoscaler) -> Result<Scaled, Unscalable> {
    let (namespace, target) = (&autoscaler.meta.namespace, &autoscaler.spec.target);
    let ObjectName { kind, name, .. } = target;
    let group = resources::group_of(&target.api_version).map_err(|message| Unscalable {
        error: format!("invalid API version in scale target reference: {message}"),
        message,
        is_spec: true,
    })?;
    let failed = |what: &str, message: String| Unscalable {
        error: format!("{what}: {message}"),
        message,
        is_spec: false,
    };
    let candidates = resources::of_kind(host, group, kind).map_err(|error| {
        let what = "unable to determine resource for scale target reference";
        failed(what, error.message())
    })?;
    let mut first = None;
    for resource in candidates {
        match read_one(host, &resource, namespace, name) {
            Ok(scale) => return Ok(Scaled { resource, scale }),
            Err(message) => drop(first.get_or_insert(message)),
        }
    }
    let what = format!("failed to query scale subresource for {kind}/{namespace}/{name}");
    Err(failed(&what, first.unwrap_or_default()))
}

fn read_one(
    host: &Host,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Scale, String> {
    let path = scale::path(&resource.kind, &resource.plural, namespace, name);
    let found: Result<Scale, _> = host.live().raw(&path);
    let scale = found.map_err(|error| failure::of_read(&error, &resource.plural, name))?;
    scale.check()?;
    Ok(scale)
}

/// Sets the replicas of a target. If another client has changed the Scale since it was read, it is read again.
///
/// # Errors
/// The server refused the update.
pub fn update(host: &Host, scaled: Scaled, replicas: i32) -> Result<(), ApiError> {
    let Scaled {
        resource,
        mut scale,
    } = scaled;
    let kind = resource.kind.to_string();
    let change = json!({"spec": {"replicas": replicas}});
    let mut result = Ok(());
    for _ in 0..TRIES {
        let update = Write::update(&kind, &scale.metadata, &change).on("scale");
        result = host.write(update).map(drop);
        if !result.as_ref().is_err_and(ApiError::is_conflict) {
            break;
        }
        let meta = &scale.metadata;
        if let Ok(latest) = read_one(host, &resource, &meta.namespace, &meta.name) {
            scale = latest;
        }
    }
    result
}
