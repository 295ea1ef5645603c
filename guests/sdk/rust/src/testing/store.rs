//! The objects of the fake API server. `mutate` creates and changes them as the server does,
//! `delete` deletes them, and `adopt` takes over objects of another server.

mod adopt;
mod delete;
mod mutate;

use std::collections::BTreeMap;

use flyball_types::{ApiError, Kind};
use serde_json::Value;

use crate::time::Time;

use super::apply::Owners;
use super::metadata;
use super::schema::{self, Definitions, FieldValidation};
pub use adopt::Saved;
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
    definitions: Definitions,
    /// What happens to unknown fields of the current write.
    pub(super) field_validation: FieldValidation,
    /// The server's warnings, until `take_warnings`.
    warnings: Vec<String>,
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
            definitions: Definitions::default(),
            field_validation: FieldValidation::default(),
            warnings: Vec::new(),
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
            if id.kind == schema::DEFINITION {
                self.definitions.remove(&object);
            }
            self.deleted.push(text(&object, "/metadata/uid").into());
        }
    }

    /// Returns the UIDs of the objects deleted since the last call.
    pub(super) fn take_deleted(&mut self) -> Vec<String> {
        std::mem::take(&mut self.deleted)
    }

    /// Returns the server's warnings since the last call.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    pub(super) fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Stores an object verbatim and fills in absent fields that a server would set. A custom resource must conform to
    /// its definition, and gets its defaults.
    pub(super) fn put(&mut self, mut object: Value) -> Result<(), String> {
        let id = Id::of_object(&object);
        if id.name.is_empty() {
            return Err(format!("an object has a name: {object}"));
        }
        self.conform_given(&id, &mut object, None)?;
        self.fill(&mut object);
        // The tests of built-in kinds choose whether they have one.
        if metadata::is_custom(&id.kind) {
            metadata::begin_generation(&id.kind, &mut object);
        }
        self.owners.remove(&id);
        self.store(id, object);
        Ok(())
    }

    /// Stores an object. A CustomResourceDefinition applies to the writes that follow.
    fn store(&mut self, id: Id, object: Value) {
        if id.kind == schema::DEFINITION {
            self.definitions.define(&object);
        }
        self.objects.insert(id, object);
    }

    /// Prunes, defaults and validates an object whose kind is defined. `old` is the version before.
    fn conform(
        &mut self,
        id: &Id,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let Some(definition) = self.definitions.of(&id.kind) else {
            return Ok(());
        };
        let dropped = definition.conform(&id.name, object, old, self.field_validation)?;
        if self.field_validation == FieldValidation::Warn {
            self.warnings.extend(schema::warnings(&dropped));
        }
        Ok(())
    }

    /// Does the same with an object of the test, in which an unknown field is a mistake, too.
    fn conform_given(
        &self,
        id: &Id,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), String> {
        let Some(definition) = self.definitions.of(&id.kind) else {
            return Ok(());
        };
        let conforming = definition.conform(&id.name, object, old, FieldValidation::Strict);
        conforming.map(drop).map_err(|error| {
            format!(
                "the test's {} {:?} does not fit the CustomResourceDefinition: {}",
                id.kind, id.name, error.message
            )
        })
    }

    /// Whether the status of a kind is a subresource. Kinds without a definition have one.
    fn has_status(&self, kind: &str) -> bool {
        let definition = self.definitions.of(kind);
        definition.is_none_or(|definition| definition.has_status)
    }

    /// Changes an object like another client.
    pub(super) fn edit(&mut self, id: &Id, change: impl FnOnce(&mut Value)) {
        let old = self.found(id).unwrap_or_else(|error| panic!("{error}"));
        let old = old.clone();
        let mut new = old.clone();
        change(&mut new);
        self.conform_given(id, &mut new, Some(&old))
            .unwrap_or_else(|mistake| panic!("{mistake}"));
        metadata::raise_generation(&old, &mut new);
        self.touch(&mut new);
        let owners = self.owners.entry(id.clone()).or_default();
        owners.update(ANOTHER_CLIENT, "", &old, &new);
        self.store(id.clone(), new);
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
