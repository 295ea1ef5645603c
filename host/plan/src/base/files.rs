//! Objects of files, for a plan without a cluster.

use std::collections::BTreeMap;
use std::ops::Bound;

use flyball_testserver::api::discovery::Served;
use flyball_testserver::api::writes::shown;
use flyball_types::Kind;
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::{Listing, Page};
use crate::overlay::FIRST_VERSION;

/// The objects of files, and the kinds that are served.
pub struct FileBase {
    kinds: Vec<Served>,
    /// By kind, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
}

/// An object that can't be part of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileError {
    /// It has no `apiVersion`, no `kind` or no `metadata.name`.
    Unnamed,
    /// Its kind is not among the served ones.
    UnknownKind(String),
    /// It is cluster-scoped, and has a namespace.
    HasNamespace(String),
    /// There are two of this kind and name.
    Twice(String, String),
}

impl std::error::Error for FileError {}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unnamed => {
                f.write_str("an object has no apiVersion, kind or metadata.name: add it")
            }
            Self::UnknownKind(kind) => write!(
                f,
                "the kind {kind} is not known: add the file of its CustomResourceDefinition"
            ),
            Self::HasNamespace(kind) => {
                write!(
                    f,
                    "the kind {kind} is cluster-scoped: remove the object's namespace"
                )
            }
            Self::Twice(kind, name) => {
                write!(f, "{kind} {name} is there twice: remove one of them")
            }
        }
    }
}

impl FileBase {
    /// Takes objects as a cluster has stored them. What a server sets and these lack is filled in: UIDs, resource versions
    /// and the namespace `default`. An object of an earlier plan gets a version before those of this one.
    ///
    /// # Errors
    /// An object that can't be part of a cluster.
    pub fn new(kinds: Vec<Served>, objects: Vec<Value>) -> Result<Self, FileError> {
        let mut base = Self {
            kinds,
            objects: BTreeMap::new(),
        };
        for (number, object) in objects.into_iter().enumerate() {
            base.add(object, number + 1)?;
        }
        Ok(base)
    }

    fn add(&mut self, mut object: Value, number: usize) -> Result<(), FileError> {
        let text = |object: &Value, pointer: &str| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let (version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
        let name = text(&object, "/metadata/name");
        if version.is_empty() || kind.is_empty() || name.is_empty() {
            return Err(FileError::Unnamed);
        }
        let kind = Kind::of_object(&version, &kind);
        let served = self.kinds.iter().find(|served| served.kind == kind);
        let kind = kind.to_string();
        let Some(served) = served else {
            return Err(FileError::UnknownKind(kind));
        };
        let metadata = object["metadata"].as_object_mut().expect("it has a name");
        if served.namespaced {
            metadata.entry("namespace").or_insert("default".into());
        } else if metadata.contains_key("namespace") {
            return Err(FileError::HasNamespace(kind));
        }
        metadata
            .entry("uid")
            .or_insert_with(|| format!("file-{number}").into());
        let stored = metadata.get("resourceVersion").and_then(Value::as_str);
        let is_earlier = |version: &str| version.parse().is_ok_and(|at: u64| at < FIRST_VERSION);
        if !stored.is_some_and(is_earlier) {
            metadata.insert("resourceVersion".to_owned(), number.to_string().into());
        }
        let namespace = text(&object, "/metadata/namespace");
        let shown = format!("{namespace}/{name}");
        let key = (kind.clone(), namespace, name);
        match self.objects.insert(key, object) {
            None => Ok(()),
            Some(_) => Err(FileError::Twice(kind, shown)),
        }
    }

    pub(super) fn kinds(&self) -> &[Served] {
        &self.kinds
    }

    pub(super) fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        self.objects.get(&key).cloned()
    }

    /// A page of the list. Its token is the key of its last object.
    pub(super) fn list(&self, listing: &Listing<'_>) -> Page {
        let kind = listing.resource.kind.to_string();
        let from = match listing.token.split_once('/') {
            Some((namespace, name)) => {
                Bound::Excluded((kind.clone(), namespace.to_owned(), name.to_owned()))
            }
            None => Bound::Included((kind.clone(), listing.namespace.to_owned(), String::new())),
        };
        let of_kind = self
            .objects
            .range((from, Bound::Unbounded))
            .take_while(|(key, _)| {
                key.0 == kind && (listing.namespace.is_empty() || key.1 == listing.namespace)
            });
        let mut selected = of_kind
            .filter(|(_, object)| listing.selection.matches(object))
            .peekable();
        let limit = listing.limit.parse().unwrap_or(usize::MAX);
        let mut page = Page {
            items: Vec::new(),
            next: String::new(),
            // Objects of files don't change.
            version: u64::MAX,
        };
        while let Some(((_, namespace, name), object)) = selected.next() {
            let object = shown(object.clone(), listing.only_metadata);
            page.items
                .push(to_raw_value(&object).expect("JSON is written"));
            if page.items.len() >= limit && selected.peek().is_some() {
                page.next = format!("{namespace}/{name}");
                break;
            }
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn base(objects: &[Value]) -> Result<FileBase, FileError> {
        let served = |kind: &str, plural: &str, namespaced| Served {
            kind: kind.parse().expect("a kind"),
            plural: plural.into(),
            namespaced,
        };
        let kinds = vec![
            served("v1/ConfigMap", "configmaps", true),
            served("v1/Node", "nodes", false),
        ];
        FileBase::new(kinds, objects.to_vec())
    }

    #[test]
    fn what_a_server_sets_is_filled_in_and_kept_if_it_is_there() {
        let stored = json!({"name": "b", "namespace": "x", "uid": "u", "resourceVersion": "9"});
        let base = base(&[
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": stored}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "resourceVersion": (FIRST_VERSION + 7).to_string()}}),
        ]);
        let base = base.expect("they are valid");
        let planned = base.get("v1/ConfigMap", "default", "c").expect("it exists");
        assert_eq!(planned["metadata"]["resourceVersion"], "3");
        let new = base.get("v1/ConfigMap", "default", "a").expect("it exists");
        assert_eq!(
            (&new["metadata"]["uid"], &new["metadata"]["resourceVersion"]),
            (&json!("file-1"), &json!("1"))
        );
        assert_eq!(
            base.get("v1/ConfigMap", "x", "b").expect("it exists")["metadata"],
            stored
        );
    }

    #[test]
    fn an_object_that_no_cluster_can_hold_is_refused() {
        let refused = |object: Value| {
            base(&[object.clone(), object])
                .map(drop)
                .expect_err("it is wrong")
        };
        let node =
            |metadata: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
        assert_eq!(refused(node(json!({}))), FileError::Unnamed);
        assert_eq!(
            refused(node(json!({"name": "a", "namespace": "b"}))),
            FileError::HasNamespace("v1/Node".into())
        );
        assert_eq!(
            refused(node(json!({"name": "a"}))),
            FileError::Twice("v1/Node".into(), "/a".into())
        );
        let other = json!({"apiVersion": "a.b/v1", "kind": "Mouse", "metadata": {"name": "c"}});
        assert_eq!(
            refused(other),
            FileError::UnknownKind("a.b/v1/Mouse".into())
        );
    }
}
