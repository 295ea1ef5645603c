//! Writes as data: a target, an operation and its options. [`batch`](crate::batch) runs them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::meta::Meta;

/// The most writes that the host runs as one batch.
pub(crate) const MAX_BATCH: usize = 1000;

/// The object or collection that a write applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The kind, as in `apps/v1/ReplicaSet`.
    pub kind: String,
    /// Empty if the object is cluster-scoped.
    pub namespace: String,
    /// Empty for a create with the name in the object's metadata, and for a collection.
    pub name: String,
    /// Empty, or a subresource: `status`, `scale`, `eviction`, …
    pub subresource: String,
}

/// The operation of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates this object.
    Create(Vec<u8>),
    /// Updates the object with this resource version by this merge patch.
    Update(String, Vec<u8>),
    /// Replaces the status of the object with this resource version.
    UpdateStatus {
        resource_version: String,
        /// The whole new status.
        status: Vec<u8>,
        /// A merge patch of the metadata; empty if none.
        metadata: Vec<u8>,
    },
    /// Applies a patch of this type.
    Patch(PatchType, Vec<u8>),
    /// Deletes the object.
    Delete,
    /// Deletes all objects that match this label selector and this field selector.
    DeleteCollection(String, String),
}

/// The API's patch types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// A JSON patch: a list of operations.
    Json,
    Merge,
    /// A strategic merge patch, which merges lists by their keys.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// The name in the WIT world.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Merge => "merge",
            Self::Strategic => "strategic",
            Self::Apply => "apply",
        }
    }
}

/// The policy for an object's dependents when it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after the object.
    Background,
    /// They are deleted before the object.
    Foreground,
    /// They are kept.
    Orphan,
}

impl Propagation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// A write: target, operation, options and the fields to return.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a write does nothing until it is run"]
pub struct Write {
    pub target: Target,
    pub action: Action,
    /// The API's options object, such as DeleteOptions.
    pub options: Map<String, Value>,
    /// The paths of the response's fields to return; none if empty.
    pub returns: Vec<String>,
}

impl Write {
    fn new(kind: &str, namespace: &str, name: &str, action: Action) -> Self {
        let target = Target {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            subresource: String::new(),
        };
        Self {
            target,
            action,
            options: Map::new(),
            returns: Vec::new(),
        }
    }

    /// Creates an object. Its metadata must have a name or a `generateName`.
    pub fn create(kind: &str, namespace: &str, object: &impl Serialize) -> Self {
        Self::new(kind, namespace, "", Action::Create(bytes(object)))
    }

    /// Updates the object that was read with this metadata by a JSON merge patch. Fails with `Conflict` if the object
    /// has changed since.
    pub fn update(kind: &str, meta: &Meta, change: &impl Serialize) -> Self {
        let action = Action::Update(meta.resource_version.clone(), bytes(change));
        Self::new(kind, &meta.namespace, &meta.name, action)
    }

    /// Replaces the whole status of the object that was read with this metadata. Fails with `Conflict` if the object
    /// has changed since.
    pub fn update_status(kind: &str, meta: &Meta, status: &impl Serialize) -> Self {
        let action = Action::UpdateStatus {
            resource_version: meta.resource_version.clone(),
            status: bytes(status),
            metadata: Vec::new(),
        };
        Self::new(kind, &meta.namespace, &meta.name, action)
    }

    /// Patches an object in any version.
    pub fn patch(
        kind: &str,
        namespace: &str,
        name: &str,
        patch_type: PatchType,
        patch: &impl Serialize,
    ) -> Self {
        Self::new(
            kind,
            namespace,
            name,
            Action::Patch(patch_type, bytes(patch)),
        )
    }

    /// Deletes the object with this name.
    pub fn delete(kind: &str, namespace: &str, name: &str) -> Self {
        Self::new(kind, namespace, name, Action::Delete)
    }

    /// Deletes the object that was read with this metadata, with its UID as a precondition.
    pub fn delete_exactly(kind: &str, meta: &Meta) -> Self {
        Self::delete(kind, &meta.namespace, &meta.name).uid(&meta.uid)
    }

    /// Deletes all objects of a kind in a namespace that match both selectors (empty: no restriction).
    pub fn delete_collection(kind: &str, namespace: &str, labels: &str, fields: &str) -> Self {
        Self::new(
            kind,
            namespace,
            "",
            Action::DeleteCollection(labels.into(), fields.into()),
        )
    }

    /// Creates a subresource of an object, such as an eviction.
    pub fn create_on(
        kind: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: &impl Serialize,
    ) -> Self {
        Self::new(kind, namespace, name, Action::Create(bytes(object))).on(subresource)
    }

    /// Updates metadata together with a status by a JSON merge patch. The API server accepts annotations with the
    /// status of some kinds, such as Deployments.
    ///
    /// # Panics
    /// If the write is not an [`update_status`](Self::update_status).
    pub fn with_metadata(mut self, change: &impl Serialize) -> Self {
        match &mut self.action {
            Action::UpdateStatus { metadata, .. } => *metadata = bytes(change),
            action => panic!("`with_metadata` needs an `update_status`, not {action:?}"),
        }
        self
    }

    /// Applies the write to this subresource.
    pub fn on(mut self, subresource: &str) -> Self {
        self.target.subresource = subresource.into();
        self
    }

    /// Returns these fields of the response, such as `metadata`; `.` means the whole object.
    pub fn returning(mut self, fields: &[&str]) -> Self {
        self.returns = fields.iter().map(|&field| field.to_owned()).collect();
        self
    }

    pub fn option(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    /// Sets the field manager; required for [`PatchType::Apply`].
    pub fn field_manager(self, manager: &str) -> Self {
        self.option("fieldManager", manager)
    }

    /// Takes over fields that another field manager owns.
    pub fn force(self) -> Self {
        self.option("force", true)
    }

    /// Deletes only if the object has this UID.
    pub fn uid(self, uid: &str) -> Self {
        self.precondition("uid", uid)
    }

    /// Deletes only if the object has this resource version.
    pub fn resource_version(self, version: &str) -> Self {
        self.precondition("resourceVersion", version)
    }

    /// Sets the policy for the dependents.
    pub fn propagation(self, policy: Propagation) -> Self {
        self.option("propagationPolicy", policy.as_str())
    }

    /// Sets the grace period; 0 deletes immediately.
    pub fn grace_seconds(self, seconds: u32) -> Self {
        self.option("gracePeriodSeconds", seconds)
    }

    fn precondition(mut self, name: &str, value: &str) -> Self {
        let all = self
            .options
            .entry("preconditions")
            .or_insert_with(|| Value::Object(Map::new()));
        all[name] = value.into();
        self
    }
}

/// Writes to run concurrently.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The writes, in order.
    pub writes: Vec<Write>,
    /// If set, starts with rounds of this size and doubles the size after each round without an error.
    pub slow_start: Option<u32>,
    /// Whether a failure prevents further writes from being started.
    pub stop_on_error: bool,
}

/// The returned fields of a write's response; empty if none were requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer(pub Vec<u8>);

impl Answer {
    /// Parses the fields as a `T`.
    ///
    /// # Errors
    /// The fields are not a valid `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        flyball_types::read(&self.0)
            .map_err(|error| Error::malformed("the response to a write", error))
    }
}

fn bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a map with string keys is valid JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Cluster;

    #[test]
    fn an_eviction_is_created_on_its_pod() {
        let cluster = Cluster::with([json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": "b"},
        })]);
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction"});
        let write = Write::create_on("v1/Pod", "a", "b", "eviction", &eviction);
        cluster.host().write(write).unwrap();
        assert_eq!(cluster.written(), ["create v1/Pod/eviction a/b"]);
        assert!(cluster.object("v1/Pod", "a", "b").is_none());
    }
}
