//! The objects of a cluster at one time, and the changes between two times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_cache::{Delta, Object};
use flyball_sdk::testing::Cluster;
use flyball_types::Kind;
use serde_json::Value;

/// All objects of some kinds.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(BTreeMap<(Kind, String), Arc<Version>>);

/// A version of an object.
#[derive(Debug)]
pub struct Version {
    /// The object of the cluster.
    pub value: Value,
    /// The same object, as the host's cache holds it.
    pub object: Arc<Object>,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Change {
    pub kind: Kind,
    pub old: Option<Arc<Version>>,
    pub new: Option<Arc<Version>>,
}

impl Snapshot {
    /// Returns the objects that a cluster has now. Unchanged ones are shared with this snapshot.
    ///
    /// # Panics
    /// The host's cache can't hold an object.
    pub fn next(&self, cluster: &Cluster, kinds: &BTreeSet<Kind>) -> Self {
        let version = |kind: &Kind, value: Value| {
            let [namespace, name] = ["namespace", "name"].map(|field| &value["metadata"][field]);
            let id = (kind.clone(), key(namespace, name));
            match self.0.get(&id).filter(|known| known.is(&value)) {
                Some(known) => (id, known.clone()),
                None => (id, Arc::new(Version::new(value))),
            }
        };
        let objects = kinds.iter().flat_map(|kind| {
            let objects = cluster.objects(&kind.to_string()).into_iter();
            objects.map(move |object| version(kind, object))
        });
        Self(objects.collect())
    }

    /// Returns the changes from this snapshot to a later one.
    pub fn changes_to(&self, now: &Self) -> Vec<Change> {
        let changed = now.0.iter().filter_map(|(id, new)| {
            let old = self.0.get(id).cloned();
            let is_known = old.as_ref().is_some_and(|old| old.is(&new.value));
            (!is_known).then(|| Change {
                kind: id.0.clone(),
                old,
                new: Some(new.clone()),
            })
        });
        let deleted = self.0.iter().filter(|(id, _)| !now.0.contains_key(id));
        let deleted = deleted.map(|((kind, _), old)| Change {
            kind: kind.clone(),
            old: Some(old.clone()),
            new: None,
        });
        changed.chain(deleted).collect()
    }

    /// Returns all objects with their kinds.
    pub fn all(&self) -> impl Iterator<Item = (&Kind, &Arc<Object>)> {
        let versions = self.0.iter();
        versions.map(|((kind, _), version)| (kind, &version.object))
    }

    /// Returns the objects of a kind.
    pub fn of_kind<'a>(&'a self, kind: &Kind) -> impl Iterator<Item = &'a Arc<Object>> {
        self.all()
            .filter(move |(own, _)| *own == kind)
            .map(|(_, object)| object)
    }
}

impl Version {
    fn new(value: Value) -> Self {
        let object = Object::parse(value.to_string().as_bytes())
            .unwrap_or_else(|error| panic!("the cache can't hold {value}: {error}"));
        Self { value, object }
    }

    /// Whether an object of the same name is this version.
    fn is(&self, value: &Value) -> bool {
        self.value["metadata"]["resourceVersion"] == value["metadata"]["resourceVersion"]
    }
}

impl Change {
    /// The versions before and after.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        self.old.iter().chain(&self.new).map(|version| &**version)
    }

    /// The change as the host's router gets it.
    pub fn delta(&self) -> Delta {
        let object = |version: &Option<Arc<Version>>| {
            let version = version.as_ref();
            version.map(|version| version.object.clone())
        };
        Delta {
            old: object(&self.old),
            new: object(&self.new),
            between: Vec::new(),
            initial: false,
        }
    }
}

fn key(namespace: &Value, name: &Value) -> String {
    let [namespace, name] = [namespace, name].map(|part| part.as_str().unwrap_or_default());
    format!("{namespace}/{name}")
}
