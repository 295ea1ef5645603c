//! The resources of kinds. An autoscaler names its target by group and kind, but a request needs the resource's name in
//! the path.
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: scaleForResourceMappings.

use std::time::Duration;

use flyball_sdk::discovery::Catalogue;
use flyball_sdk::prelude::*;
use flyball_sdk::{Kind, live};
use serde::{Deserialize, Serialize};

/// How long the resources of a kind are reused. Kinds that were not found are looked up each time.
const PERIOD: Duration = Duration::from_secs(30);

/// A resource in the version that the server prefers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    pub kind: Kind,
    /// The resource's name in paths, such as `deployments`.
    pub plural: String,
}

impl Resource {
    /// The name with the group: `deployments.apps`.
    pub fn qualified(&self) -> String {
        reader_name(&self.plural, &self.kind.group)
    }
}

fn reader_name(plural: &str, group: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    format!("{plural}{dot}{group}")
}

/// Returns the resources of a kind of a group, in any version, as their objects are requested. There is more than one
/// if the server has several names for the kind.
///
/// # Errors
/// The server does not serve the kind, or discovery failed.
pub fn of_kind(host: &Host, group: &str, kind: &str) -> Result<Vec<Resource>, Error> {
    let key = format!("resources/{group}/{kind}");
    if let Some(known) = host.memo().get(&key) {
        return Ok(known);
    }
    let found = find(&host.kinds()?, group, kind);
    if found.is_empty() {
        return Err(Error::failed(format!(
            "no matches for kind {kind:?} in group {group:?}"
        )));
    }
    // If the memo is full, discovery is repeated.
    let _ = host.memo().put(&key, &found, "", PERIOD);
    Ok(found)
}

fn find(catalogue: &Catalogue, group: &str, kind: &str) -> Vec<Resource> {
    let mut found: Vec<Resource> = Vec::new();
    // The preferred version of a group comes first.
    for served in &catalogue.kinds {
        let is_known = found.iter().any(|known| known.plural == served.plural);
        match served.kind.parse::<Kind>() {
            Ok(own) if own.group == group && own.kind == kind && !is_known => {
                found.push(Resource {
                    kind: own,
                    plural: served.plural.clone(),
                });
            }
            _ => {}
        }
    }
    found
}

/// Splits the `apiVersion` of an object into its group and version.
///
/// # Errors
/// The text has more than one slash.
pub fn group_of(api_version: &str) -> Result<&str, String> {
    match api_version.matches('/').count() {
        0 => Ok(""),
        1 => Ok(api_version.split_once('/').map_or("", |(group, _)| group)),
        _ => Err(format!("unexpected GroupVersion string: {api_version}")),
    }
}

/// Appends segments to a path, with escapes.
pub fn push_segments(path: &mut String, segments: &[&str]) {
    for segment in segments {
        live::push_segment(path, segment);
    }
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::Cluster;

    use super::*;

    #[test]
    fn a_kind_is_requested_in_the_preferred_version_of_its_group() {
        let cluster = Cluster::new();
        for (kind, plural) in [
            ("x.io/v2/Web", "webs"),
            ("x.io/v1/Web", "webs"),
            ("y.io/v1/Web", "webs"),
            ("x.io/v1/Web", "spiders"),
        ] {
            cluster.serve(kind, plural, true, &["get"]);
        }
        let found = of_kind(&cluster.host(), "x.io", "Web").unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|found| format!("{} {}", found.kind, found.qualified()))
            .collect();
        assert_eq!(found, ["x.io/v2/Web webs.x.io", "x.io/v1/Web spiders.x.io"]);
        let error = of_kind(&cluster.host(), "", "Web").unwrap_err().to_string();
        assert_eq!(error, r#"no matches for kind "Web" in group """#);
    }

    #[test]
    fn an_api_version_has_at_most_one_slash() {
        assert_eq!(group_of("apps/v1"), Ok("apps"));
        assert_eq!(group_of("v1"), Ok(""));
        assert_eq!(group_of(""), Ok(""));
        assert_eq!(
            group_of("a/b/c").unwrap_err(),
            "unexpected GroupVersion string: a/b/c"
        );
    }
}
