//! The kinds that the API server serves.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go:
//! tryRefreshRESTMapper.

use flyball_sdk::discovery::{Catalogue, ServedKind};
use flyball_sdk::live::push_segment;
use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::kinds;
use crate::policy::Rule;

/// The answer of the API server about a group in one version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    name: String,
    kind: String,
}

/// Returns the kinds among which those of a policy's rules are. The host's catalogue is up to a second old, and a custom
/// resource is often defined just before the policy for it, so groups in which a resource is missing are read again.
///
/// # Errors
/// Discovery failed.
pub(crate) fn of_rules(host: &Host, rules: &[Rule]) -> Result<Catalogue, Error> {
    let mut served = host.kinds()?;
    for (group, version) in kinds::missing(rules, &served) {
        for kind in resources(host, group, version) {
            // A kind that is there twice would be counted twice.
            if !served.kinds.iter().any(|own| own.kind == kind.kind) {
                served.kinds.push(kind);
            }
        }
    }
    Ok(served)
}

/// Returns the kinds of a group in one version; none if they can't be read.
fn resources(host: &Host, group: &str, version: &str) -> Vec<ServedKind> {
    let mut path = "/apis".to_owned();
    push_segment(&mut path, group);
    push_segment(&mut path, version);
    let found: Resources = host.live().raw(&path).unwrap_or_default();
    let kinds = found.resources.into_iter();
    kinds
        .filter(|resource| !resource.name.contains('/'))
        .map(|resource| ServedKind {
            kind: format!("{group}/{version}/{}", resource.kind),
            plural: resource.name,
            ..ServedKind::default()
        })
        .collect()
}
