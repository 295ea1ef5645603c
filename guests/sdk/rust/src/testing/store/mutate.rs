//! Creations and changes of objects: the API's `create`, `update` and `patch`.

use flyball_types::ApiError;
use serde_json::Value;

use crate::testing::apply::Writer;
use crate::testing::{kind_of, metadata, namespace, patch};
use crate::write::PatchType;

use super::{Id, Store, conflict, has_finalizers, text};

impl Store {
    /// Creates an object. Fields that the server sets are overwritten.
    pub(in crate::testing) fn create(
        &mut self,
        kind: &str,
        namespace: &str,
        object: Value,
        writer: Writer,
    ) -> Result<Value, ApiError> {
        let object = self.insert(kind, namespace, object)?;
        let owners = self.owners.entry(Id::of_object(&object)).or_default();
        owners.update(writer.manager, "", &Value::Null, &object);
        Ok(object)
    }

    fn insert(
        &mut self,
        kind: &str,
        namespace: &str,
        mut object: Value,
    ) -> Result<Value, ApiError> {
        let parsed = kind_of(kind);
        if !object.is_object() || !object["metadata"].is_object() {
            return Err(ApiError::of_server(
                422,
                "Invalid",
                "the object has no metadata",
            ));
        }
        object["apiVersion"] = parsed.api_version().into();
        object["kind"] = parsed.kind.into();
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        if text(&object, "/metadata/name").is_empty() {
            let prefix = text(&object, "/metadata/generateName").to_owned();
            if prefix.is_empty() {
                return Err(ApiError::of_server(
                    422,
                    "Invalid",
                    "name or generateName is required",
                ));
            }
            object["metadata"]["name"] = format!("{prefix}{}", suffix(self.version + 1)).into();
        }
        let id = Id::of_object(&object);
        if self.is_terminating(namespace) {
            return Err(ApiError::of_server(
                403,
                "NamespaceTerminating",
                format!(
                    "{kind} {:?} is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
                    id.name
                ),
            ));
        }
        if self.definitions.of(kind).is_some() && self.has_status(kind) {
            // It is written through the subresource alone.
            object
                .as_object_mut()
                .expect("it was checked")
                .remove("status");
        }
        self.conform(&id, &mut object, None)?;
        if self.objects.contains_key(&id) {
            return Err(ApiError::of_server(
                409,
                "AlreadyExists",
                format!("{kind} {:?} already exists", id.name),
            ));
        }
        let metadata = object["metadata"].as_object_mut().expect("it was checked");
        for own in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "deletionTimestamp",
            "generation",
        ] {
            metadata.remove(own);
        }
        metadata::begin_generation(kind, &mut object);
        self.fill(&mut object);
        self.store(id, object.clone());
        Ok(object)
    }

    /// The API's `update`: applies a merge patch to the object with this version.
    pub(in crate::testing) fn update(
        &mut self,
        id: &Id,
        subresource: &str,
        version: &str,
        change: &Value,
        writer: Writer,
    ) -> Result<Value, ApiError> {
        let mut new = self.of_version(id, version)?;
        patch::merge(&mut new, change);
        self.replace_as(writer, id, subresource, new)
    }

    /// The API's `update` of the subresource `status`: replaces the status of the object with this
    /// version and merges its metadata.
    pub(in crate::testing) fn update_status(
        &mut self,
        id: &Id,
        version: &str,
        change: &Value,
        writer: Writer,
    ) -> Result<Value, ApiError> {
        let mut new = self.of_version(id, version)?;
        new["status"] = Value::Null;
        patch::merge(&mut new, change);
        self.replace_as(writer, id, "status", new)
    }

    fn of_version(&self, id: &Id, version: &str) -> Result<Value, ApiError> {
        let object = self.found(id)?;
        if text(object, "/metadata/resourceVersion") != version {
            return Err(conflict(
                id,
                "the object has been modified; please apply your changes to the latest version",
            ));
        }
        Ok(object.clone())
    }

    pub(in crate::testing) fn patch(
        &mut self,
        id: &Id,
        subresource: &str,
        patch_type: PatchType,
        change: &Value,
        writer: Writer,
    ) -> Result<Value, ApiError> {
        if patch_type == PatchType::Apply {
            return self.apply(id, subresource, change, writer);
        }
        let old = self.found(id)?;
        let mut new = old.clone();
        match patch_type {
            PatchType::Json => patch::json(&mut new, change)?,
            PatchType::Merge => patch::merge(&mut new, change),
            PatchType::Strategic | PatchType::Apply => patch::strategic(&mut new, change),
        }
        check_preconditions(id, old, change)?;
        self.replace_as(writer, id, subresource, new)
    }

    /// A server-side apply. Creates the object if it does not exist.
    fn apply(
        &mut self,
        id: &Id,
        subresource: &str,
        applied: &Value,
        writer: Writer,
    ) -> Result<Value, ApiError> {
        if !applied["metadata"]["managedFields"].is_null() {
            let message = "metadata.managedFields must be nil";
            return Err(ApiError::of_server(400, "BadRequest", message));
        }
        // As on the server, an apply to the object ignores the status, and an apply to `status` ignores the rest.
        let mut applied = applied.clone();
        if let Some(fields) = applied.as_object_mut() {
            fields.retain(|name, _| match subresource {
                "status" => name == "status",
                _ => name != "status",
            });
        }
        if subresource.is_empty() && !self.objects.contains_key(id) {
            let mut object = applied.clone();
            object["metadata"]["name"] = id.name.clone().into();
            let object = self.insert(&id.kind, &id.namespace, object)?;
            let owners = self.owners.entry(id.clone()).or_default();
            owners.apply(writer, "", &Value::Null, &applied)?;
            return Ok(object);
        }
        let live = self.found(id)?.clone();
        check_preconditions(id, &live, &applied)?;
        let known = self.owners.get(id).cloned().unwrap_or_default();
        let mut owners = known.clone();
        let merged = owners.apply(writer, subresource, &live, &applied)?;
        let mut new = self.replace(id, subresource, merged)?;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        if self.objects.contains_key(id) {
            // Owners are part of the metadata, so a change of owners changes the object.
            if owners != known && version(&new) == version(&live) {
                self.touch(&mut new);
                self.objects.insert(id.clone(), new.clone());
            }
            self.owners.insert(id.clone(), owners);
        }
        Ok(new)
    }

    /// Replaces an object and records the writer's changes.
    fn replace_as(
        &mut self,
        writer: Writer,
        id: &Id,
        subresource: &str,
        new: Value,
    ) -> Result<Value, ApiError> {
        let old = self.found(id)?.clone();
        let new = self.replace(id, subresource, new)?;
        if self.objects.contains_key(id) {
            let owners = self.owners.entry(id.clone()).or_default();
            owners.update(writer.manager, subresource, &old, &new);
        }
        Ok(new)
    }

    /// Stores a new version of an object. A write without changes keeps the version. Removing the
    /// last finalizer of an object being deleted removes the object.
    fn replace(&mut self, id: &Id, subresource: &str, mut new: Value) -> Result<Value, ApiError> {
        let old = self.found(id)?.clone();
        match subresource {
            "status" if !self.has_status(&id.kind) => {
                let message = "the server could not find the requested resource";
                return Err(ApiError::of_server(404, "NotFound", message));
            }
            "status" => {
                let mut written = std::mem::replace(&mut new, old.clone());
                new["status"] = written["status"].take();
                metadata::of_status_write(&id.kind, &mut new["metadata"], &written["metadata"]);
            }
            _ if !self.has_status(&id.kind) => {}
            _ => match old.get("status") {
                Some(status) => new["status"] = status.clone(),
                None => drop(
                    new.as_object_mut()
                        .and_then(|fields| fields.remove("status")),
                ),
            },
        }
        for own in [
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "resourceVersion",
        ] {
            match old["metadata"].get(own) {
                Some(value) => new["metadata"][own] = value.clone(),
                None => drop(
                    new["metadata"]
                        .as_object_mut()
                        .and_then(|fields| fields.remove(own)),
                ),
            }
        }
        namespace::keep_finalizers(id, subresource, &old, &mut new);
        check_finalizers(id, &old, &new)?;
        self.conform(id, &mut new, Some(&old))?;
        if new == old {
            return Ok(old);
        }
        metadata::raise_generation(&old, &mut new);
        self.touch(&mut new);
        let deleted = !new["metadata"]["deletionTimestamp"].is_null();
        let graceful = new["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or(0)
            > 0;
        if deleted && !graceful && !has_finalizers(&new) && !namespace::is_held(id, &new) {
            self.remove(id);
        } else {
            self.store(id.clone(), new.clone());
        }
        Ok(new)
    }
}

/// Checks the UID and resource version of a patch, if it has any.
fn check_preconditions(id: &Id, object: &Value, patch: &Value) -> Result<(), ApiError> {
    for path in ["/metadata/uid", "/metadata/resourceVersion"] {
        let sent = text(patch, path);
        if !sent.is_empty() && sent != text(object, path) {
            return Err(conflict(id, &format!("{path} differs")));
        }
    }
    Ok(())
}

/// An object being deleted can't get new finalizers.
fn check_finalizers(id: &Id, old: &Value, new: &Value) -> Result<(), ApiError> {
    let finalizers = |object: &Value| {
        let list = object["metadata"]["finalizers"].as_array();
        list.cloned().unwrap_or_default()
    };
    let known = finalizers(old);
    let is_new = |finalizer: &Value| !known.contains(finalizer);
    if old["metadata"]["deletionTimestamp"].is_null() || !finalizers(new).iter().any(is_new) {
        return Ok(());
    }
    let message = format!(
        "{} {:?} is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the \
         object is being deleted",
        id.kind, id.name
    );
    Err(ApiError::of_server(422, "Invalid", message))
}

/// Returns five characters for a number, as in a generated name. They don't repeat for the next
/// fourteen million numbers.
fn suffix(number: u64) -> String {
    // The alphabet of apimachinery's `rand.String`.
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let digit = |place| (number / 27_u64.pow(place) % 27) as usize;
    let letter = |place| char::from(LETTERS[digit(place)]);
    (0..5).rev().map(letter).collect()
}
