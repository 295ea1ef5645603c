//! The kinds of the resources that a policy matches.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go: typesToCheck,
//! extractGroups, extractVersions, extractResources, sortGVKList, paramsGVK.
//! Upstream: staging/src/k8s.io/apimachinery/pkg/api/meta/restmapper.go: KindsFor.

use std::collections::BTreeSet;
use std::fmt;

use flyball_sdk::Kind;
use flyball_sdk::discovery::{Catalogue, ServedKind};

use crate::policy::{ParameterKind, Rule};

/// The most kinds that are found for one rule. The rules behind it are ignored then.
const MAX_KINDS: usize = 10;

/// A kind. Kinds are in the order of their groups, versions and names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersionKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl GroupVersionKind {
    fn of(kind: &str) -> Option<Self> {
        let kind: Kind = kind.parse().ok()?;
        Some(Self {
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
        })
    }

    /// Returns the kind of a policy's parameters; none if its API version is not one.
    pub fn of_parameters(parameters: &ParameterKind) -> Option<Self> {
        let (group, version) = match parameters.api_version.split_once('/') {
            None => ("", &*parameters.api_version),
            Some((_, version)) if version.contains('/') => return None,
            Some(both) => both,
        };
        Some(Self {
            group: group.into(),
            version: version.into(),
            kind: parameters.kind.clone(),
        })
    }
}

/// Writes the kind as warnings name it.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            version,
            kind,
        } = self;
        write!(f, "{group}/{version}, Kind={kind}")
    }
}

/// Returns the kinds that rules match, in order. Rules with wildcards, which match any kind, and subresources are left out.
pub fn matched(rules: &[Rule], served: &Catalogue) -> Vec<GroupVersionKind> {
    let mut found = BTreeSet::new();
    for rule in rules {
        let mut count = 0;
        for kind in kinds_of(rule, served) {
            found.insert(kind);
            count += 1;
            if count == MAX_KINDS {
                return found.into_iter().collect();
            }
        }
    }
    found.into_iter().collect()
}

/// Returns the groups and versions in which a resource of the rules is not served.
pub fn missing<'r>(rules: &'r [Rule], served: &Catalogue) -> BTreeSet<(&'r str, &'r str)> {
    let named = rules.iter().flat_map(named);
    named
        .filter(|(group, version, resource)| {
            let mut found = kinds_for(group, version, resource, served);
            !group.is_empty() && found.next().is_none()
        })
        .map(|(group, version, _)| (group, version))
        .collect()
}

/// Returns the kinds of a rule's groups, versions and resources. A kind that is named twice is returned twice.
fn kinds_of<'c>(
    rule: &'c Rule,
    served: &'c Catalogue,
) -> impl Iterator<Item = GroupVersionKind> + 'c {
    named(rule)
        .into_iter()
        .flat_map(|(group, version, resource)| kinds_for(group, version, resource, served))
}

/// Returns the groups, versions and resources that a rule names, in order; none if it has wildcards.
fn named(rule: &Rule) -> Vec<(&str, &str, &str)> {
    fn all_of(names: &[String]) -> Vec<&str> {
        let has_wildcard = names.iter().any(|name| name.contains('*'));
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.retain(|_| !has_wildcard);
        names.sort_unstable();
        names
    }
    let (groups, versions) = (all_of(&rule.api_groups), all_of(&rule.api_versions));
    let mut resources: Vec<&str> = rule.resources.iter().map(String::as_str).collect();
    resources.retain(|name| !name.contains(['*', '/']));
    resources.sort_unstable();
    let mut named = Vec::new();
    for group in groups {
        for version in &versions {
            let resources = resources.iter();
            named.extend(resources.map(|resource| (group, *version, *resource)));
        }
    }
    named
}

/// Returns the kinds of a resource, which may be named in the singular. Stock takes the empty name of the core group for no
/// name, so a resource of the core group is looked up in all groups: `events` are those of `events.k8s.io`, too.
fn kinds_for<'c>(
    group: &'c str,
    version: &'c str,
    resource: &str,
    served: &'c Catalogue,
) -> impl Iterator<Item = GroupVersionKind> + 'c {
    let resource = resource.to_lowercase();
    let named = move |(served, kind): (&ServedKind, GroupVersionKind)| {
        let is_it = (group.is_empty() || kind.group == group)
            && (version.is_empty() || kind.version == version)
            && (served.plural == resource || kind.kind.to_lowercase() == resource);
        is_it.then_some(kind)
    };
    let kinds = served.kinds.iter();
    kinds
        .filter_map(|served| Some((served, GroupVersionKind::of(&served.kind)?)))
        .filter_map(named)
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::Cluster;

    use super::*;

    fn served() -> Catalogue {
        let cluster = Cluster::new();
        for (kind, plural) in [
            ("v1/Pod", "pods"),
            ("v1/Event", "events"),
            ("apps/v1/Deployment", "deployments"),
            ("apps/v1/ReplicaSet", "replicasets"),
            ("apps/v1beta2/Deployment", "deployments"),
            ("events.k8s.io/v1/Event", "events"),
        ] {
            cluster.serve(kind, plural, true, &["list"]);
        }
        for n in 0..12 {
            let (kind, plural) = (format!("many.io/v1/Kind{n:02}"), format!("kind{n:02}s"));
            cluster.serve(&kind, &plural, true, &["list"]);
        }
        cluster.host().kinds().unwrap()
    }

    fn rule(groups: &[&str], versions: &[&str], resources: &[&str]) -> Rule {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Rule {
            api_groups: owned(groups),
            api_versions: owned(versions),
            resources: owned(resources),
        }
    }

    fn names(rules: &[Rule]) -> Vec<String> {
        let kinds = matched(rules, &served()).into_iter();
        kinds.map(|kind| kind.to_string()).collect()
    }

    #[test]
    fn kinds_are_found_by_group_version_and_resource_in_order() {
        let rules = [
            rule(
                &["apps"],
                &["v1beta2", "v1"],
                &["deployments", "replicasets"],
            ),
            rule(&[""], &["v1"], &["Pods"]),
        ];
        assert_eq!(
            names(&rules),
            [
                "/v1, Kind=Pod",
                "apps/v1, Kind=Deployment",
                "apps/v1, Kind=ReplicaSet",
                "apps/v1beta2, Kind=Deployment",
            ]
        );
        assert_eq!(
            names(&[rule(&["apps"], &["v1"], &["deployment"])]),
            ["apps/v1, Kind=Deployment"]
        );
    }

    #[test]
    fn the_core_group_stands_for_all_groups() {
        assert_eq!(
            names(&[rule(&[""], &["v1"], &["events"])]),
            ["/v1, Kind=Event", "events.k8s.io/v1, Kind=Event"]
        );
    }

    #[test]
    fn wildcards_subresources_and_unknown_resources_are_left_out() {
        for rule in [
            rule(&["*"], &["v1"], &["pods"]),
            rule(&["", "*"], &["v1"], &["pods"]),
            rule(&[""], &["v1", "*"], &["pods"]),
            rule(&[""], &["v1"], &["*", "*/status", "pods/log"]),
            rule(&["example.com"], &["v1"], &["widgets"]),
            rule(&[], &["v1"], &["pods"]),
        ] {
            assert_eq!(names(&[rule]), [""; 0]);
        }
        let rule = rule(&[""], &["v1"], &["pods/exec", "pods"]);
        assert_eq!(names(&[rule]), ["/v1, Kind=Pod"]);
    }

    #[test]
    fn at_most_ten_kinds_are_found_for_a_rule_and_none_behind_it() {
        let plurals: Vec<String> = (0..12).rev().map(|n| format!("kind{n:02}s")).collect();
        let plurals: Vec<&str> = plurals.iter().map(String::as_str).collect();
        let many = rule(&["many.io"], &["v1"], &plurals);
        let pods = rule(&[""], &["v1"], &["pods"]);
        let found = names(&[pods.clone(), many.clone()]);
        assert_eq!((found.len(), &*found[10]), (11, "many.io/v1, Kind=Kind09"));
        assert_eq!(names(&[many, pods]).len(), 10);
    }

    #[test]
    fn what_is_not_served_is_missing() {
        let rules = [
            rule(
                &["apps"],
                &["v1", "v1beta2"],
                &["deployments", "replicasets"],
            ),
            rule(&["example.com", "*"], &["v1"], &["widgets"]),
            rule(&["example.com"], &["v1"], &["widgets", "gadgets"]),
            rule(&[""], &["v1"], &["nothing"]),
        ];
        let missing: Vec<_> = missing(&rules, &served()).into_iter().collect();
        assert_eq!(missing, [("apps", "v1beta2"), ("example.com", "v1")]);
    }

    #[test]
    fn parameters_have_a_group_and_a_version() {
        let of = |api_version: &str| {
            let kind = GroupVersionKind::of_parameters(&ParameterKind {
                api_version: api_version.into(),
                kind: "Limit".into(),
            });
            kind.map(|kind| kind.to_string())
        };
        assert_eq!(of("a.io/v1").as_deref(), Some("a.io/v1, Kind=Limit"));
        assert_eq!(of("v1").as_deref(), Some("/v1, Kind=Limit"));
        assert_eq!(of("a/b/c"), None);
    }
}
