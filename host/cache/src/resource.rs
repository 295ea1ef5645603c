//! A kind as a resource of the API: its plural, its verbs, and the paths of requests.
//!
//! Namespaces and names come from untrusted guests, so each path segment is checked before it is used.

use std::collections::BTreeSet;

use flyball_types::{FieldPath, FieldSelector, Kind, LabelSelector};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::Object;

/// The characters that are escaped in a path segment or in the value of a query parameter.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// A kind as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    pub kind: Kind,
    /// The name in paths and in RBAC rules, as in `deployments`.
    pub plural: String,
    pub namespaced: bool,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verbs: BTreeSet<String>,
    pub subresources: Vec<Subresource>,
    /// Whether this is the server's preferred version of the group.
    pub preferred: bool,
}

/// A subresource of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// For example `status`.
    pub name: String,
    /// The kind of its objects, if the server names it: `autoscaling/v1/Scale` for `scale`.
    pub kind: Option<Kind>,
    pub verbs: BTreeSet<String>,
}

/// The objects of a kind that a reflector holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Only objects in this namespace; in all namespaces if empty.
    pub namespace: String,
    /// Only objects whose labels match.
    pub labels: LabelSelector,
    /// Only objects whose fields match. The server supports a few fields of each kind.
    pub fields: FieldSelector,
}

/// A string that is not a valid path segment. A retry can't help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid {what}")]
pub struct PathSegmentError {
    /// `namespace`, `name` or `subresource`.
    pub what: &'static str,
    pub text: String,
}

impl ApiResource {
    /// A resource without verbs, which is enough to build paths.
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

    /// The path of the objects of a namespace, or of all namespaces if it is empty:
    /// `/apis/apps/v1/namespaces/a/deployments`.
    ///
    /// # Errors
    /// The namespace is not a valid path segment, or the kind is cluster-scoped.
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

    /// The path of an object, or of its subresource if `subresource` is not empty.
    ///
    /// # Errors
    /// A part is not a valid path segment, or the namespace does not fit the kind's scope.
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

    /// Whether an object is in the scope. Its mask must cover [`Scope::paths`].
    pub fn contains(&self, object: &Object) -> bool {
        let in_namespace = self.namespace.is_empty() || self.namespace == object.namespace();
        in_namespace
            && object.labels().match_selector(&self.labels)
            && self.fields.matches(|path| object.field(path))
    }

    /// The paths that [`Scope::contains`] reads.
    pub fn paths(&self) -> impl Iterator<Item = &FieldPath> {
        self.fields
            .requirements()
            .iter()
            .map(|requirement| &requirement.path)
    }

    /// Appends the query parameters of this scope to a path.
    pub(crate) fn push_parameters(&self, parameters: &mut String) {
        if !self.labels.is_everything() {
            push_parameter(parameters, "labelSelector", &self.labels.to_string());
        }
        if !self.fields.is_everything() {
            push_parameter(parameters, "fieldSelector", &self.fields.to_string());
        }
    }
}

/// Appends a query parameter to a path: `?key=value` for the first one, else `&key=value`. Key and value are escaped.
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
    path.extend(utf8_percent_encode(text, ESCAPED));
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
    fn a_name_that_would_change_the_path_is_refused() {
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
