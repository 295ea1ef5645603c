//! Writes: what a guest asks the API server to change, alone or as a batch that the host runs concurrently.

use flyball_types::ApiError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::imports::Imports;
use crate::meta::Meta;

/// What a write is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The kind, as in `apps/v1/ReplicaSet`.
    pub kind: String,
    /// Empty if it is cluster-scoped.
    pub namespace: String,
    /// Empty where an object is created under the name in its body.
    pub name: String,
    /// Empty, or a subresource: `status`, `scale`, `eviction`, …
    pub subresource: String,
}

/// What a write does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates this object.
    Create(Vec<u8>),
    /// Updates the object of this resource version by this merge patch.
    Update(String, Vec<u8>),
    /// Replaces the status of the object of this resource version.
    UpdateStatus {
        resource_version: String,
        /// The whole new status.
        status: Vec<u8>,
        /// A merge patch of the metadata; empty for none.
        metadata: Vec<u8>,
    },
    /// Patches with this type of patch.
    Patch(PatchType, Vec<u8>),
    /// Deletes the object.
    Delete,
    /// Deletes all objects that match this label selector and this field selector.
    DeleteCollection(String, String),
}

/// The API's types of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// A JSON patch: a list of operations.
    Json,
    /// A JSON merge patch.
    Merge,
    /// A strategic merge patch: lists merge by their keys.
    Strategic,
    /// A server-side apply.
    Apply,
}

impl PatchType {
    /// As the world writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Merge => "merge",
            Self::Strategic => "strategic",
            Self::Apply => "apply",
        }
    }
}

/// What becomes of an object's dependents when it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
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

/// One write: what it is about, what it does, its options and what it wants back.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a write does nothing until it is run"]
pub struct Write {
    /// What it is about.
    pub target: Target,
    /// What it does.
    pub action: Action,
    /// The API's own options object.
    pub options: Map<String, Value>,
    /// The field paths that are wanted of the answer; none, if empty.
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

    /// Creates this object, under the name (or `generateName`) in its metadata.
    pub fn create(kind: &str, namespace: &str, object: &impl Serialize) -> Self {
        Self::new(kind, namespace, "", Action::Create(bytes(object)))
    }

    /// Updates the object that was read with this metadata: `change` is a JSON merge patch. If the object has changed since
    /// then, it is a `Conflict`.
    pub fn update(kind: &str, meta: &Meta, change: &impl Serialize) -> Self {
        let action = Action::Update(meta.resource_version.clone(), bytes(change));
        Self::new(kind, &meta.namespace, &meta.name, action)
    }

    /// Replaces the status of the object that was read with this metadata: `status` is the whole new status. If the object
    /// has changed since then, it is a `Conflict`.
    pub fn update_status(kind: &str, meta: &Meta, status: &impl Serialize) -> Self {
        let action = Action::UpdateStatus {
            resource_version: meta.resource_version.clone(),
            status: bytes(status),
            metadata: Vec::new(),
        };
        Self::new(kind, &meta.namespace, &meta.name, action)
    }

    /// Patches an object, whatever its version.
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

    /// Deletes the object of this name.
    pub fn delete(kind: &str, namespace: &str, name: &str) -> Self {
        Self::new(kind, namespace, name, Action::Delete)
    }

    /// Deletes the object that was read with this metadata, and no other of its name.
    pub fn delete_exactly(kind: &str, meta: &Meta) -> Self {
        Self::delete(kind, &meta.namespace, &meta.name).uid(&meta.uid)
    }

    /// Deletes all objects of a kind in a namespace that match both selectors (empty: all).
    pub fn delete_collection(kind: &str, namespace: &str, labels: &str, fields: &str) -> Self {
        Self::new(
            kind,
            namespace,
            "",
            Action::DeleteCollection(labels.into(), fields.into()),
        )
    }

    /// Posts to a subresource of an object, as in an eviction.
    pub fn create_on(
        kind: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: &impl Serialize,
    ) -> Self {
        Self::new(kind, namespace, name, Action::Create(bytes(object))).on(subresource)
    }

    /// Changes metadata along with a status: `change` is a JSON merge patch of it. The API server takes annotations with the
    /// status of some kinds, such as Deployments.
    ///
    /// # Panics
    /// If the write is not an [`update_status`](Self::update_status).
    pub fn with_metadata(mut self, change: &impl Serialize) -> Self {
        match &mut self.action {
            Action::UpdateStatus { metadata, .. } => *metadata = bytes(change),
            action => panic!("metadata goes along with a status, not with {action:?}"),
        }
        self
    }

    /// Writes to this subresource.
    pub fn on(mut self, subresource: &str) -> Self {
        self.target.subresource = subresource.into();
        self
    }

    /// Wants these fields of the answer: `metadata`, or `.` for all.
    pub fn returning(mut self, fields: &[&str]) -> Self {
        self.returns = fields.iter().map(|&field| field.to_owned()).collect();
        self
    }

    /// Sets one of the API's options.
    pub fn option(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    /// Writes as this field manager; needed by [`PatchType::Apply`].
    pub fn field_manager(self, manager: &str) -> Self {
        self.option("fieldManager", manager)
    }

    /// Applies over fields that another manager owns.
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

    /// What becomes of the dependents.
    pub fn propagation(self, policy: Propagation) -> Self {
        self.option("propagationPolicy", policy.as_str())
    }

    /// Deletes after this time; 0 at once.
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

/// Writes to be run concurrently.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The writes, in order.
    pub writes: Vec<Write>,
    /// Start with so many at once, and double after each round without an error.
    pub slow_start: Option<u32>,
    /// Whether none is started after one has failed.
    pub stop_on_error: bool,
}

/// A batch being put together: [`Host::batch`](crate::Host::batch).
#[must_use = "a batch does nothing until it is run"]
pub struct BatchBuilder<'a> {
    imports: &'a dyn Imports,
    batch: Batch,
}

impl<'a> BatchBuilder<'a> {
    pub(crate) fn new(imports: &'a dyn Imports) -> Self {
        Self {
            imports,
            batch: Batch::default(),
        }
    }

    /// Adds a write.
    pub fn with(mut self, write: Write) -> Self {
        self.batch.writes.push(write);
        self
    }

    /// Adds writes.
    pub fn extend(mut self, writes: impl IntoIterator<Item = Write>) -> Self {
        self.batch.writes.extend(writes);
        self
    }

    /// Adds [`Write::create`].
    pub fn create(self, kind: &str, namespace: &str, object: &impl Serialize) -> Self {
        self.with(Write::create(kind, namespace, object))
    }

    /// Adds [`Write::delete_exactly`].
    pub fn delete(self, kind: &str, meta: &Meta) -> Self {
        self.with(Write::delete_exactly(kind, meta))
    }

    /// Starts with so many writes at once and doubles after each round without an error; from the first error on no round
    /// is started, and the rest are `Skipped`.
    pub fn slow_start(mut self, initial: u32) -> Self {
        self.batch.slow_start = Some(initial);
        self
    }

    /// Starts no write after one has failed: the rest are `Skipped`.
    pub fn stop_on_error(mut self) -> Self {
        self.batch.stop_on_error = true;
        self
    }

    /// Makes the calls. One result for each write, in the order in which they were added. An empty batch makes no call.
    pub fn run(self) -> Vec<Result<Answer, ApiError>> {
        if self.batch.writes.is_empty() {
            return Vec::new();
        }
        self.imports
            .writer_run(self.batch)
            .into_iter()
            .map(|result| result.map(Answer))
            .collect()
    }
}

/// What a write answered: the fields that it asked for; empty if none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer(pub Vec<u8>);

impl Answer {
    /// Reads the fields as a `T`.
    ///
    /// # Errors
    /// They are not as `T` wants them.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        flyball_types::read(&self.0)
            .map_err(|error| Error::Malformed("the answer to a write".into(), error))
    }
}

/// The JSON of a value.
fn bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a map with string keys is valid JSON")
}
