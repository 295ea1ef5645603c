//! Where a kind lies in the API: its plural, its scope, and the paths of requests. Names come from guests that nobody
//! trusts, so each segment of a path is checked before it is used.

use std::collections::BTreeSet;
use std::fmt::Write;

use flyball_types::{FieldPath, FieldSelector, Kind, LabelSelector};

use crate::Object;

/// A kind as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// The kind.
    pub kind: Kind,
    /// Its name in paths and in RBAC rules, as in `deployments`.
    pub plural: String,
    /// Whether its objects lie in namespaces.
    pub namespaced: bool,
    /// What can be done with it: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verbs: BTreeSet<String>,
    /// Its subresources.
    pub subresources: Vec<Subresource>,
    /// Whether this version is the one that the server prefers for the group.
    pub preferred: bool,
}

/// A subresource of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// As in `status`.
    pub name: String,
    /// What it answers, if the server says so: `autoscaling/v1/Scale` for `scale`.
    pub kind: Option<Kind>,
    /// What can be done with it.
    pub verbs: BTreeSet<String>,
}

/// Which objects of a kind a reflector holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Only those of this namespace; all if empty.
    pub namespace: String,
    /// Only those whose labels match.
    pub labels: LabelSelector,
    /// Only those whose fields match. The server knows a few fields for each kind.
    pub fields: FieldSelector,
}

/// A name that can't stand in a path. No retry can help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} can't be the {what} of an object")]
pub struct PathSegmentError {
    /// `namespace`, `name` or `subresource`.
    pub what: &'static str,
    /// What was given.
    pub text: String,
}

impl ApiResource {
    /// A resource of this kind and plural with no verbs: enough to build paths.
    pub fn new(kind: Kind, plural: &str, namespaced: bool) -> Self {
        let (verbs, subresources) = (BTreeSet::new(), Vec::new());
        Self {
            kind,
            plural: plural.into(),
            namespaced,
            verbs,
            subresources,
            preferred: true,
        }
    }

    /// The path of the objects of a namespace, or of all if it is empty: `/apis/apps/v1/namespaces/a/deployments`.
    ///
    /// # Errors
    /// The namespace can't stand in a path, or the kind has none.
    pub fn collection(&self, namespace: &str) -> Result<String, PathSegmentError> {
        let Kind { group, version, .. } = &self.kind;
        let mut path = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        if !namespace.is_empty() {
            if !self.namespaced {
                return Err(PathSegmentError {
                    what: "namespace",
                    text: namespace.into(),
                });
            }
            path.push_str("/namespaces");
            push_segment(&mut path, "namespace", namespace)?;
        }
        path.push('/');
        path.push_str(&self.plural);
        Ok(path)
    }

    /// The path of an object, or of a subresource of it if `subresource` is not empty.
    ///
    /// # Errors
    /// The namespace, the name or the subresource can't stand in a path, or the namespace does not fit the kind.
    pub fn object(
        &self,
        namespace: &str,
        name: &str,
        subresource: &str,
    ) -> Result<String, PathSegmentError> {
        if self.namespaced && namespace.is_empty() {
            return Err(PathSegmentError {
                what: "namespace",
                text: String::new(),
            });
        }
        let mut path = self.collection(namespace)?;
        push_segment(&mut path, "name", name)?;
        if !subresource.is_empty() {
            push_segment(&mut path, "subresource", subresource)?;
        }
        Ok(path)
    }
}

impl Scope {
    /// All objects of a kind.
    pub fn all() -> Self {
        Self::default()
    }

    /// Whether an object, masked at least by [`Scope::paths`], is in it.
    pub fn contains(&self, object: &Object) -> bool {
        let in_namespace = self.namespace.is_empty() || self.namespace == object.namespace();
        in_namespace
            && self.labels.matches(object.labels())
            && self.fields.matches(|path| object.field(path))
    }

    /// The fields that must be kept for [`Scope::contains`].
    pub fn paths(&self) -> impl Iterator<Item = &FieldPath> {
        self.fields
            .requirements()
            .iter()
            .map(|requirement| &requirement.path)
    }

    /// Appends the parameters that ask for this scope to a path with or without others.
    pub(crate) fn push_parameters(&self, parameters: &mut String) {
        if !self.labels.is_everything() {
            push_parameter(parameters, "labelSelector", &self.labels.to_string());
        }
        if !self.fields.is_everything() {
            push_parameter(parameters, "fieldSelector", &self.fields.to_string());
        }
    }
}

/// Appends a query parameter: `?key=value` as the first one, `&key=value` after it. Both are escaped.
pub fn push_parameter(path: &mut String, key: &str, value: &str) {
    path.push(if path.contains('?') { '&' } else { '?' });
    escape(path, key);
    path.push('=');
    escape(path, value);
}

fn push_segment(path: &mut String, what: &'static str, text: &str) -> Result<(), PathSegmentError> {
    let is_bad = |c: char| c.is_control() || matches!(c, '/' | '%' | '?' | '#' | '\\');
    if text.is_empty() || text.len() > 1024 || text == "." || text == ".." || text.contains(is_bad)
    {
        return Err(PathSegmentError {
            what,
            text: text.chars().take(80).collect(),
        });
    }
    path.push('/');
    escape(path, text);
    Ok(())
}

fn escape(path: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':') {
            path.push(byte as char);
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        let pods = ApiResource::new(Kind::new("", "v1", "Pod"), "pods", true);
        let roles = ApiResource::new(
            Kind::new("rbac.authorization.k8s.io", "v1", "ClusterRole"),
            "clusterroles",
            false,
        );
        assert_eq!(pods.collection("").unwrap(), "/api/v1/pods");
        assert_eq!(
            pods.object("a", "b", "status").unwrap(),
            "/api/v1/namespaces/a/pods/b/status"
        );
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b";
        assert_eq!(roles.object("", "system:a b", "").unwrap(), path);
    }

    #[test]
    fn a_name_that_would_leave_its_place_in_a_path_is_refused() {
        let pods = ApiResource::new(Kind::new("", "v1", "Pod"), "pods", true);
        for bad in [
            "",
            ".",
            "..",
            "../secrets",
            "a/b",
            "a?x=y",
            "a#b",
            "%2e%2e",
            "a\nb",
            "a\\b",
        ] {
            assert!(pods.object("a", bad, "").is_err(), "{bad}");
            assert!(pods.object(bad, "a", "").is_err(), "{bad}");
            assert!(
                bad.is_empty() || pods.object("a", "b", bad).is_err(),
                "{bad}"
            );
        }
        let nodes = ApiResource::new(Kind::new("", "v1", "Node"), "nodes", false);
        assert!(nodes.object("a", "n", "").is_err());
    }
}
