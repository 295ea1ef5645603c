//! Objects that another API server has stored: they are taken over verbatim, saved and restored.

use serde_json::Value;

use super::{Id, Store};
use crate::testing::apply::Owners;

/// An object and the owners of its fields at one time; no object if it did not exist.
pub struct Saved {
    id: Id,
    object: Option<Value>,
    owners: Option<Owners>,
}

impl Store {
    /// Stores an object verbatim. The managers in its `metadata.managedFields`, which is removed, own its fields.
    pub(in crate::testing) fn adopt(&mut self, mut object: Value) {
        let managed = object["metadata"]
            .as_object_mut()
            .and_then(|metadata| metadata.remove("managedFields"));
        let id = Id::of_object(&object);
        let owners = managed.as_ref().map(Owners::of_managed_fields);
        self.owners.insert(id.clone(), owners.unwrap_or_default());
        self.store(id, object);
    }

    /// Replaces an object verbatim. The owners of its fields stay.
    pub(in crate::testing) fn overwrite(&mut self, object: Value) {
        self.store(Id::of_object(&object), object);
    }

    pub(in crate::testing) fn save(&self, id: Id) -> Saved {
        Saved {
            object: self.objects.get(&id).cloned(),
            owners: self.owners.get(&id).cloned(),
            id,
        }
    }

    pub(in crate::testing) fn restore(&mut self, saved: Saved) {
        let Saved { id, object, owners } = saved;
        match object {
            Some(object) => self.store(id.clone(), object),
            None => self.remove(&id),
        }
        match owners {
            Some(owners) => drop(self.owners.insert(id, owners)),
            None => drop(self.owners.remove(&id)),
        }
    }

    /// Numbers later UIDs from here on.
    pub(in crate::testing) fn skip_uids(&mut self, number: u64) {
        self.uid = self.uid.max(number);
    }

    /// Makes later resource versions greater than this one.
    pub(in crate::testing) fn skip_versions(&mut self, version: u64) {
        self.version = self.version.max(version);
    }
}
