//! The objects of the fake API server. `mutate` creates and changes them as the server does, and
//! `delete` deletes them.

mod delete;
mod mutate;

use std::collections::BTreeMap;

use flyball_types::{ApiError, Kind};
use serde_json::Value;

use crate::time::Time;

use super::apply::Owners;
use super::metadata;
pub(super) use delete::DeleteOptions;

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Id {
    pub(super) fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub(super) fn of_object(object: &Value) -> Self {
        let kind = Kind::of_object(text(object, "/apiVersion"), text(object, "/kind")).to_string();
        Self::new(
            &kind,
            text(object, "/metadata/namespace"),
            text(object, "/metadata/name"),
        )
    }
}

/// The field manager of changes made by the test.
const ANOTHER_CLIENT: &str = "another-client";

pub(super) struct Store {
    objects: BTreeMap<Id, Value>,
    /// The objects' field owners. Objects stored by the test have none.
    owners: BTreeMap<Id, Owners>,
    /// The UIDs of deleted objects, until `take_deleted`.
    deleted: Vec<String>,
    version: u64,
    uid: u64,
    pub(super) now: Time,
}

impl Store {
    pub(super) fn new(now: Time) -> Self {
        Self {
            objects: BTreeMap::new(),
            owners: BTreeMap::new(),
            deleted: Vec::new(),
            version: 0,
            uid: 0,
            now,
        }
    }

    pub(super) fn get(&self, id: &Id) -> Option<&Value> {
        self.objects.get(id)
    }

    pub(super) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects
            .iter()
            .filter(move |(id, _)| id.kind == kind)
            .map(|(_, object)| object)
    }

    /// The kinds that have objects.
    pub(super) fn kinds(&self) -> Vec<String> {
        let mut kinds: Vec<String> = self.objects.keys().map(|id| id.kind.clone()).collect();
        kinds.dedup();
        kinds
    }

    pub(super) fn remove(&mut self, id: &Id) {
        self.owners.remove(id);
        if let Some(object) = self.objects.remove(id) {
            self.deleted.push(text(&object, "/metadata/uid").into());
        }
    }

    /// Returns the UIDs of the objects deleted since the last call.
    pub(super) fn take_deleted(&mut self) -> Vec<String> {
        std::mem::take(&mut self.deleted)
    }

    /// Stores an object verbatim and fills in absent fields that a server would set.
    pub(super) fn put(&mut self, mut object: Value) {
        let id = Id::of_object(&object);
        assert!(!id.name.is_empty(), "an object has a name: {object}");
        self.fill(&mut object);
        self.owners.remove(&id);
        self.objects.insert(id, object);
    }

    /// Changes an object like another client.
    pub(super) fn edit(&mut self, id: &Id, change: impl FnOnce(&mut Value)) {
        let old = self.found(id).unwrap_or_else(|error| panic!("{error}"));
        let old = old.clone();
        let mut new = old.clone();
        change(&mut new);
        metadata::raise_generation(&old, &mut new);
        self.touch(&mut new);
        let owners = self.owners.entry(id.clone()).or_default();
        owners.update(ANOTHER_CLIENT, "", &old, &new);
        self.objects.insert(id.clone(), new);
    }

    /// Sets the next resource version.
    pub(super) fn touch(&mut self, object: &mut Value) {
        object["metadata"]["resourceVersion"] = self.next_version().to_string().into();
    }

    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn fill(&mut self, object: &mut Value) {
        if text(object, "/metadata/uid").is_empty() {
            self.uid += 1;
            object["metadata"]["uid"] = format!("uid-{}", self.uid).into();
        }
        match text(object, "/metadata/resourceVersion") {
            "" => self.touch(object),
            // Later versions must differ from one that the test has chosen.
            own => self.version = self.version.max(own.parse().unwrap_or(0)),
        }
        if text(object, "/metadata/creationTimestamp").is_empty() {
            object["metadata"]["creationTimestamp"] = self.now.to_string().into();
        }
    }

    fn found(&self, id: &Id) -> Result<&Value, ApiError> {
        let missing = || {
            ApiError::of_server(
                404,
                "NotFound",
                format!("{} {:?} not found", id.kind, id.name),
            )
        };
        self.objects.get(id).ok_or_else(missing)
    }

    fn is_terminating(&self, namespace: &str) -> bool {
        let namespace = self.get(&Id::new("v1/Namespace", "", namespace));
        namespace.is_some_and(|namespace| {
            !namespace["metadata"]["deletionTimestamp"].is_null()
                || namespace["status"]["phase"] == "Terminating"
        })
    }
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|all| !all.is_empty())
}

fn conflict(id: &Id, message: &str) -> ApiError {
    ApiError::of_server(
        409,
        "Conflict",
        format!(
            "operation cannot be fulfilled on {} {:?}: {message}",
            id.kind, id.name
        ),
    )
}

/// The text at a JSON pointer; empty if absent.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

#[cfg(test)]
mod tests;
