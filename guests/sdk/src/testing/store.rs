//! The objects of the fake API server, and the server's processing of writes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use flyball_types::{ApiError, Kind};
use serde_json::{Value, json};

use crate::time::Time;
use crate::write::{PatchType, Propagation};

use super::apply::{Owners, Writer};
use super::{kind_of, metadata, namespace, patch};

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

/// The delete options that the fake supports.
#[derive(Default)]
pub(super) struct DeleteOptions {
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) grace_seconds: Option<i64>,
    pub(super) propagation: Option<Propagation>,
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
        let old = self.objects.get(id).expect("the object exists").clone();
        let mut new = old.clone();
        change(&mut new);
        self.touch(&mut new);
        let owners = self.owners.entry(id.clone()).or_default();
        owners.update(ANOTHER_CLIENT, "", &old, &new);
        self.objects.insert(id.clone(), new);
    }

    /// Sets the next resource version.
    pub(super) fn touch(&mut self, object: &mut Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
    }

    fn fill(&mut self, object: &mut Value) {
        if text(object, "/metadata/uid").is_empty() {
            self.uid += 1;
            object["metadata"]["uid"] = format!("uid-{}", self.uid).into();
        }
        if text(object, "/metadata/resourceVersion").is_empty() {
            self.touch(object);
        }
        if text(object, "/metadata/creationTimestamp").is_empty() {
            object["metadata"]["creationTimestamp"] = self.now.to_string().into();
        }
    }

    /// Creates an object. Fields that the server sets are overwritten.
    pub(super) fn create(
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
        if object.get("spec").is_some() {
            object["metadata"]["generation"] = 1.into();
        }
        self.fill(&mut object);
        self.objects.insert(id, object.clone());
        Ok(object)
    }

    /// The API's `update`: applies a merge patch to the object with this version.
    pub(super) fn update(
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
    pub(super) fn update_status(
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

    pub(super) fn patch(
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
        // As on the server, an apply to the object ignores the status, and one to `status` ignores
        // the rest.
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
            "status" => {
                let mut written = std::mem::replace(&mut new, old.clone());
                new["status"] = written["status"].take();
                metadata::of_status_write(&id.kind, &mut new["metadata"], &written["metadata"]);
            }
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
        if new == old {
            return Ok(old);
        }
        if new.get("spec") != old.get("spec") {
            new["metadata"]["generation"] =
                (old["metadata"]["generation"].as_i64().unwrap_or(0) + 1).into();
        }
        self.touch(&mut new);
        let deleted = !new["metadata"]["deletionTimestamp"].is_null();
        let graceful = new["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or(0)
            > 0;
        if deleted && !graceful && !has_finalizers(&new) && !namespace::is_held(id, &new) {
            self.remove(id);
        } else {
            self.objects.insert(id.clone(), new.clone());
        }
        Ok(new)
    }

    /// Deletes an object, or marks it as being deleted if it has finalizers or a grace period. A
    /// pod on a node has a grace period (30 s by default).
    pub(super) fn delete(&mut self, id: &Id, options: &DeleteOptions) -> Result<Value, ApiError> {
        let mut object = self.found(id)?.clone();
        let preconditions = [
            ("/metadata/uid", &options.uid),
            ("/metadata/resourceVersion", &options.resource_version),
        ];
        for (path, wanted) in preconditions {
            if wanted
                .as_ref()
                .is_some_and(|wanted| wanted != text(&object, path))
            {
                return Err(conflict(id, &format!("the precondition on {path} failed")));
            }
        }
        let finalizer = match options.propagation {
            Some(Propagation::Foreground) => Some("foregroundDeletion"),
            Some(Propagation::Orphan) => Some("orphan"),
            _ => None,
        };
        if let Some(finalizer) = finalizer {
            patch::strategic(
                &mut object,
                &json!({"metadata": {"finalizers": [finalizer]}}),
            );
        }
        let on_node = id.kind == "v1/Pod" && !text(&object, "/spec/nodeName").is_empty();
        let default = object
            .pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(30);
        let grace = if on_node {
            options.grace_seconds.unwrap_or(default)
        } else {
            0
        };
        if grace == 0 && !has_finalizers(&object) && !namespace::is_held(id, &object) {
            self.remove(id);
            return Ok(object);
        }
        if object["metadata"]["deletionTimestamp"].is_null() {
            let at = self.now + std::time::Duration::from_secs(grace.unsigned_abs());
            object["metadata"]["deletionTimestamp"] = at.to_string().into();
            object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            namespace::terminate(id, &mut object);
            self.touch(&mut object);
        }
        if let Entry::Occupied(mut entry) = self.objects.entry(id.clone()) {
            entry.insert(object.clone());
        }
        Ok(object)
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

/// Returns five characters for a number, as in a generated name. They don't repeat for the next
/// fourteen million numbers.
fn suffix(number: u64) -> String {
    let digits: Vec<u8> = (0..5)
        .rev()
        .map(|place| (number / 27_u64.pow(place) % 27) as u8)
        .collect();
    crate::hash::safe_letters(&digits)
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|all| !all.is_empty())
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
mod tests {
    use std::collections::HashSet;

    use super::*;

    const WRITER: Writer = Writer {
        manager: "test",
        force: false,
    };

    #[test]
    fn a_status_is_written_whole_with_changed_metadata() {
        let mut store = Store::new(Time::default());
        store.put(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                         "metadata": {"name": "web", "annotations": {"a": "1"}, "generation": 1},
                         "spec": {"replicas": 1}, "status": {"old": 1}}));
        let id = Id::new("apps/v1/ReplicaSet", "", "web");
        let change = json!({"metadata": {"annotations": {"a": null, "b": "2"}, "name": "other"},
                            "status": {"replicas": 3, "gone": null}});
        let web = store
            .update_status(&id, "1", &change, WRITER)
            .expect("it is of this version");
        assert_eq!(
            (&web["metadata"]["annotations"], &web["metadata"]["name"]),
            (&json!({"b": "2"}), &"web".into())
        );
        assert_eq!(
            (&web["spec"], &web["status"]),
            (&json!({"replicas": 1}), &json!({"replicas": 3}))
        );
        assert_eq!(
            (
                &web["metadata"]["generation"],
                &web["metadata"]["resourceVersion"]
            ),
            (&1.into(), &"2".into())
        );
    }

    #[test]
    fn generated_names_do_not_repeat() {
        let mut store = Store::new(Time::default());
        let mut made = HashSet::new();
        for _ in 0..1000 {
            let pod = store
                .create(
                    "v1/Pod",
                    "a",
                    json!({"metadata": {"generateName": "web-"}}),
                    WRITER,
                )
                .expect("it is new");
            made.insert(text(&pod, "/metadata/name").to_owned());
        }
        assert_eq!(made.len(), 1000);
        assert!(made.iter().all(|name| name.len() == "web-".len() + 5));
    }

    /// A store with one ConfigMap with this finalizer, and its ID.
    fn with_config_map(finalizer: &str) -> (Store, Id) {
        let mut store = Store::new(Time::default());
        store.put(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
                         "metadata": {"name": "m", "namespace": "d", "finalizers": [finalizer]}}),
        );
        (store, Id::new("v1/ConfigMap", "d", "m"))
    }

    #[test]
    fn a_write_of_an_old_version_is_a_conflict() {
        let (mut store, id) = with_config_map("x.io/a");
        let change = json!({"data": {"a": "2"}});
        let new = store
            .update(&id, "", "1", &change, WRITER)
            .expect("the version is current");
        assert_eq!(text(&new, "/metadata/resourceVersion"), "2");
        let stale = store
            .update(&id, "", "1", &change, WRITER)
            .expect_err("the version is old");
        assert!(stale.is_conflict());
        let patch = json!({"metadata": {"resourceVersion": "1"}, "data": {"a": "3"}});
        for patch_type in [PatchType::Merge, PatchType::Apply] {
            let error = store
                .patch(&id, "", patch_type, &patch, WRITER)
                .expect_err("it is old");
            assert!(error.is_conflict());
        }
        // A write without changes keeps the version.
        let same = store
            .update(&id, "", "2", &change, WRITER)
            .expect("the version is current");
        assert_eq!(text(&same, "/metadata/resourceVersion"), "2");
    }

    #[test]
    fn a_deleted_object_stays_until_its_last_finalizer_is_removed() {
        let (mut store, id) = with_config_map("x.io/a");
        let marked = store
            .delete(&id, &DeleteOptions::default())
            .expect("it exists");
        assert!(!text(&marked, "/metadata/deletionTimestamp").is_empty());
        assert!(store.get(&id).is_some() && store.take_deleted().is_empty());
        let patch = |finalizers| json!({"metadata": {"finalizers": finalizers}});
        let more = patch(json!(["x.io/a", "x.io/b"]));
        let error = store
            .patch(&id, "", PatchType::Merge, &more, WRITER)
            .expect_err("it is being deleted");
        assert_eq!((error.status, error.reason.as_str()), (422, "Invalid"));
        // The server keeps its own deletion time.
        let revived = json!({"metadata": {"deletionTimestamp": null}});
        let kept = store
            .patch(&id, "", PatchType::Merge, &revived, WRITER)
            .expect("it exists");
        assert!(!text(&kept, "/metadata/deletionTimestamp").is_empty());
        store
            .patch(&id, "", PatchType::Merge, &patch(json!([])), WRITER)
            .expect("it exists");
        assert_eq!(store.take_deleted().len(), 1);
        assert!(store.get(&id).is_none());
    }

    #[test]
    fn an_apply_creates_an_object_and_then_owns_its_fields() {
        let mut store = Store::new(Time::default());
        let id = Id::new("v1/ConfigMap", "d", "m");
        let apply = |store: &mut Store, data: Value, writer| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
            store.patch(&id, "", PatchType::Apply, &object, writer)
        };
        let created = apply(&mut store, json!({"a": "1", "b": "1"}), WRITER).expect("it is new");
        assert_eq!(text(&created, "/metadata/name"), "m");
        let same = apply(&mut store, json!({"a": "1", "b": "1"}), WRITER).expect("it is the same");
        assert_eq!(same, created);
        store.edit(&id, |object| object["data"]["a"] = "2".into());
        let error = apply(&mut store, json!({"a": "1"}), WRITER).expect_err("another owns it");
        assert!(error.is_conflict() && error.message.contains("\"another-client\": .data.a"));
        let forced = Writer {
            force: true,
            ..WRITER
        };
        let taken = apply(&mut store, json!({"a": "1"}), forced).expect("it is forced");
        assert_eq!(taken["data"], json!({"a": "1"}));
    }

    #[test]
    fn an_apply_to_the_status_changes_nothing_else() {
        let (mut store, id) = with_config_map("x.io/a");
        let applied = json!({"data": {"a": "2"}, "status": {"phase": "Ready"}});
        let new = store
            .patch(&id, "status", PatchType::Apply, &applied, WRITER)
            .expect("it exists");
        assert_eq!(
            (&new["data"], &new["status"]),
            (&json!({"a": "1"}), &json!({"phase": "Ready"}))
        );
        let new = store.patch(&id, "", PatchType::Apply, &json!({"status": {}}), WRITER);
        assert_eq!(new.expect("it exists")["status"], json!({"phase": "Ready"}));
    }
}
