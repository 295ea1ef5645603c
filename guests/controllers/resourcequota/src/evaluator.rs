//! Evaluators. An evaluator counts the objects of one kind, for the limits that it tracks.
//!
//! Upstream: pkg/quota/v1/evaluator/core/registry.go: NewEvaluators.
//! Upstream: staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go: ObjectCountQuotaResourceNameFor,
//! NewObjectCountEvaluator.

use std::fmt;

use flyball_sdk::Kind;
use flyball_sdk::prelude::*;

use crate::kinds::Kinds;
use crate::resource_claims::DeviceClasses;
use crate::views::{Pod, Quota, ResourceClaim, Service, VolumeClaim};
use crate::{pods, resource_claims, services, volume_claims};

/// The prefix of a limit on the number of objects of a kind.
const COUNT: &str = "count/";
/// Kinds whose number can also be limited without the prefix, and which need no discovery.
const ALIASES: [(&str, &str); 4] = [
    ("configmaps", "v1/ConfigMap"),
    ("replicationcontrollers", "v1/ReplicationController"),
    ("resourcequotas", Quota::KIND),
    ("secrets", "v1/Secret"),
];

/// Counts the usage by the objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evaluator {
    Pods,
    Services,
    VolumeClaims,
    ResourceClaims,
    /// Counts the objects of this kind, which limits name by this resource.
    Objects {
        resource: String,
        kind: String,
    },
}

/// The evaluators of kinds that use more than their number.
const SPECIAL: [(&str, Evaluator); 4] = [
    (Pod::KIND, Evaluator::Pods),
    (Service::KIND, Evaluator::Services),
    (VolumeClaim::KIND, Evaluator::VolumeClaims),
    (ResourceClaim::KIND, Evaluator::ResourceClaims),
];

impl Evaluator {
    /// Whether the evaluator counts for a limit with this name.
    pub fn tracks(&self, name: &str, classes: &DeviceClasses) -> bool {
        match self {
            Self::Pods => pods::tracks(name),
            Self::Services => services::tracks(name),
            Self::VolumeClaims => volume_claims::tracks(name),
            Self::ResourceClaims => resource_claims::tracks(name, classes),
            Self::Objects { resource, .. } => counted(name) == Some(resource),
        }
    }
}

/// The resource in paths of the API, such as `deployments.apps`.
impl fmt::Display for Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pods => "pods",
            Self::Services => "services",
            Self::VolumeClaims => "persistentvolumeclaims",
            Self::ResourceClaims => "resourceclaims.resource.k8s.io",
            Self::Objects { resource, .. } => resource,
        })
    }
}

/// Returns the resource whose objects a limit counts, such as `deployments.apps`.
fn counted(name: &str) -> Option<&str> {
    let alias = || ALIASES.iter().any(|(resource, _)| *resource == name);
    name.strip_prefix(COUNT).or_else(|| alias().then_some(name))
}

/// Returns the resource that a limit counts, if discovery tells its kind.
pub fn discovered(name: &str) -> Option<&str> {
    let none = DeviceClasses::default();
    let is_special = SPECIAL.iter().any(|(_, own)| own.tracks(name, &none));
    let is_alias = |resource: &str| ALIASES.iter().any(|(own, _)| *own == resource);
    name.strip_prefix(COUNT)
        .filter(|resource| !is_special && !is_alias(resource))
}

/// Returns the evaluators that count for any of these limits, in a fixed order. Without `kinds`, the evaluators of
/// discovered kinds are left out.
pub fn of_limits<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    classes: &DeviceClasses,
    kinds: Option<&Kinds>,
) -> Vec<Evaluator> {
    let special = SPECIAL.into_iter().map(|(_, evaluator)| evaluator);
    let aliases = ALIASES
        .into_iter()
        .map(|(resource, kind)| objects(resource, kind));
    let mut found: Vec<Evaluator> = special
        .chain(aliases)
        .filter(|evaluator| names.clone().any(|name| evaluator.tracks(name, classes)))
        .collect();
    for resource in names.filter_map(discovered) {
        if let Some(kind) = kinds.and_then(|kinds| kinds.kind(resource)) {
            found.push(objects(resource, kind));
        }
    }
    found
}

/// Returns the evaluator of a kind's objects. Returns `None` if it is not known how limits name the kind.
pub fn of_kind(kind: &Kind, kinds: impl FnOnce() -> Option<Kinds>) -> Option<Evaluator> {
    let name = kind.to_string();
    if let Some((_, special)) = SPECIAL.into_iter().find(|(own, _)| *own == name) {
        return Some(special);
    }
    if let Some((resource, _)) = ALIASES.into_iter().find(|(_, own)| *own == name) {
        return Some(objects(resource, &name));
    }
    let kinds = kinds()?;
    Some(objects(kinds.resource(kind)?, &name))
}

fn objects(resource: &str, kind: &str) -> Evaluator {
    Evaluator::Objects {
        resource: resource.into(),
        kind: kind.into(),
    }
}
