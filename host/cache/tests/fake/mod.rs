//! An API server in memory: one kind, paged and streamed lists, watches with bookmarks, and the failures that a
//! reflector has to handle. Its clock is tokio's, so tests can pause it.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test crate uses only a part of this module"
)]

mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_cache::{
    ApiResource, Informer, InformerFactory, Interest, ListMode, Observe, Scope, SourceError,
};
use flyball_types::{Kind, LabelSelector, Mask};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use requests::Connection;

#[derive(Default)]
pub struct Server {
    inner: Mutex<Inner>,
}

#[derive(Default)]
pub struct Inner {
    pub version: u64,
    /// By `namespace/name`.
    pub objects: BTreeMap<String, Value>,
    history: Vec<Change>,
    compacted: u64,
    watchers: Vec<Watcher>,
    next_uid: u64,
    /// The queries of the requests, without the random timeouts of watches.
    pub requests: Vec<String>,
    pub accepts: Vec<&'static str>,
    pub no_stream_lists: bool,
    /// The body of each response to a request that accepts protobuf.
    pub protobuf: Option<Vec<u8>>,
    pub unreachable: bool,
    /// Whether the kind is not served.
    pub kind_is_missing: bool,
    /// While set, changes are not sent to watches.
    pub holding: bool,
    held: Vec<Change>,
    page_size: usize,
}

#[derive(Clone)]
struct Change {
    version: u64,
    old: Option<Value>,
    new: Option<Value>,
}

struct Watcher {
    sender: mpsc::UnboundedSender<Result<String, SourceError>>,
    labels: LabelSelector,
}

pub fn unreachable_error() -> SourceError {
    SourceError::Unreachable("connection refused".into())
}

pub fn refused(code: u16, reason: &str, message: &str) -> SourceError {
    let (causes, retry_after) = (Vec::new(), None);
    SourceError::Refused {
        code,
        reason: reason.into(),
        message: message.into(),
        causes,
        retry_after,
    }
}

impl Change {
    /// The event for a watch of these labels.
    fn event(&self, labels: &LabelSelector) -> Option<Value> {
        let matches = |object: &Option<Value>| {
            object
                .clone()
                .filter(|object| labels.matches(&labels_of(object)))
        };
        let (event_type, mut object) = match (matches(&self.old), matches(&self.new)) {
            (None, None) => return None,
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            (Some(old), None) => ("DELETED", old),
        };
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        Some(json!({"type": event_type, "object": object}))
    }
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default()
}

fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or("").to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

/// Writes, operations and failures.
impl Server {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                version: 100,
                page_size: 3,
                ..Inner::default()
            }),
        })
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    pub fn version(&self) -> u64 {
        self.inner().version
    }

    /// Creates or replaces an object, and returns the response.
    pub fn put(&self, namespace: &str, name: &str, mut object: Value) -> Value {
        let mut inner = self.inner();
        inner.version += 1;
        let old = inner.objects.get(&format!("{namespace}/{name}")).cloned();
        let uid = match &old {
            Some(old) => old["metadata"]["uid"].clone(),
            None => {
                inner.next_uid += 1;
                json!(format!("00000000-0000-0000-0000-{:012x}", inner.next_uid))
            }
        };
        let metadata = &mut object["metadata"];
        metadata["namespace"] = namespace.into();
        metadata["name"] = name.into();
        metadata["uid"] = uid;
        metadata["resourceVersion"] = inner.version.to_string().into();
        object["kind"] = "Pod".into();
        object["apiVersion"] = "v1".into();
        let is_removed = is_removed(&object);
        inner.change(&object, old, (!is_removed).then(|| object.clone()));
        object
    }

    /// Deletes an object immediately, and returns its UID.
    pub fn delete(&self, namespace: &str, name: &str) -> Option<String> {
        let mut inner = self.inner();
        let old = inner.objects.get(&format!("{namespace}/{name}")).cloned()?;
        inner.version += 1;
        inner.change(&old.clone(), Some(old.clone()), None);
        Some(old["metadata"]["uid"].as_str().unwrap().into())
    }

    /// Increments the version, like a change of another kind.
    pub fn pass(&self) {
        self.inner().version += 1;
    }

    /// Breaks all watches.
    pub fn cut(&self) {
        for watcher in self.inner().watchers.drain(..) {
            let _ = watcher.sender.send(Err(unreachable_error()));
        }
    }

    /// Ends all watches.
    pub fn end(&self) {
        self.inner().watchers.clear();
    }

    /// Sends an error to all watches.
    pub fn error_event(&self, code: u16, reason: &str) {
        let status =
            json!({"kind": "Status", "code": code, "reason": reason, "message": "by the test"});
        self.inner()
            .send(&json!({"type": "ERROR", "object": status}));
    }

    /// Sends a change with an old version to all watches.
    pub fn old_event(&self, version: u64) {
        let mut inner = self.inner();
        let mut object = inner.objects.values().next().unwrap().clone();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        inner.send(&json!({"type": "MODIFIED", "object": object}));
    }

    /// Drops the history, so that older watches expire.
    pub fn compact(&self) {
        let mut inner = self.inner();
        inner.compacted = inner.version;
        inner.history.clear();
    }

    /// Sends the held changes before a bookmark, since events are ordered by version.
    pub fn release_and_bookmark(&self) {
        self.release(usize::MAX);
        self.bookmark();
    }

    pub fn bookmark(&self) {
        let mut inner = self.inner();
        let bookmark = bookmark(inner.version, false);
        inner.send(&bookmark);
    }

    /// The state for `restore`.
    pub fn backup(&self) -> (u64, BTreeMap<String, Value>) {
        let inner = self.inner();
        (inner.version, inner.objects.clone())
    }

    pub fn restore(&self, backup: (u64, BTreeMap<String, Value>)) {
        let mut inner = self.inner();
        inner.held.clear();
        inner.watchers.clear();
        inner.history.clear();
        (inner.version, inner.objects) = backup;
        inner.compacted = inner.version;
    }

    /// Sends at most `count` of the held changes.
    pub fn release(&self, count: usize) {
        let mut inner = self.inner();
        let count = count.min(inner.held.len());
        let held: Vec<Change> = inner.held.drain(..count).collect();
        held.iter().for_each(|change| inner.send_change(change));
    }

    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().requests)
    }

    pub fn watchers(&self) -> usize {
        self.inner()
            .watchers
            .iter()
            .filter(|watcher| !watcher.sender.is_closed())
            .count()
    }

    /// `key=version` of each object.
    pub fn contents(&self) -> Vec<String> {
        let inner = self.inner();
        let version = |object: &Value| {
            object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        inner
            .objects
            .iter()
            .map(|(key, object)| format!("{key}={}", version(object)))
            .collect()
    }
}

fn is_removed(object: &Value) -> bool {
    let count = |finalizers: &Value| finalizers.as_array().map_or(0, Vec::len);
    let metadata = &object["metadata"];
    let finalizers = count(&metadata["finalizers"]) + count(&object["spec"]["finalizers"]);
    metadata["deletionTimestamp"].is_string()
        && finalizers == 0
        && metadata["deletionGracePeriodSeconds"].is_null()
}

fn bookmark(version: u64, initial_end: bool) -> Value {
    let mut object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}});
    if initial_end {
        object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    json!({"type": "BOOKMARK", "object": object})
}

impl Inner {
    fn change(&mut self, object: &Value, old: Option<Value>, new: Option<Value>) {
        match &new {
            Some(new) => self.objects.insert(key_of(object), new.clone()),
            None => self.objects.remove(&key_of(object)),
        };
        let change = Change {
            version: self.version,
            old,
            new,
        };
        self.history.push(change.clone());
        if self.holding {
            self.held.push(change)
        } else {
            self.send_change(&change)
        }
    }

    fn send_change(&mut self, change: &Change) {
        for watcher in &self.watchers {
            if let Some(event) = change.event(&watcher.labels) {
                let _ = watcher.sender.send(Ok(format!("{event}\n")));
            }
        }
    }

    fn send(&mut self, event: &Value) {
        for watcher in &self.watchers {
            let _ = watcher.sender.send(Ok(format!("{event}\n")));
        }
    }
}

pub fn pods() -> Arc<ApiResource> {
    Arc::new(ApiResource::new(Kind::new("", "v1", "Pod"), "pods", true))
}

/// All pods, with these fields.
pub fn interest(fields: &[&str]) -> Interest {
    Interest {
        resource: pods(),
        scope: Scope::all(),
        metadata_only: false,
        mask: Mask::parse(fields).unwrap(),
        indexes: Vec::new(),
        selectors: Vec::new(),
    }
}

/// A factory and a running informer.
pub async fn started(server: &Arc<Server>, interest: Interest) -> (InformerFactory, Informer) {
    listing(server, interest, ListMode::default()).await
}

/// The same with a mode for lists.
pub async fn listing(
    server: &Arc<Server>,
    interest: Interest,
    list_mode: ListMode,
) -> (InformerFactory, Informer) {
    observed(server, interest, list_mode, Arc::new(|_, _| {})).await
}

/// The same with a function that observes the reflector.
pub async fn observed(
    server: &Arc<Server>,
    interest: Interest,
    list_mode: ListMode,
    observe: Arc<Observe>,
) -> (InformerFactory, Informer) {
    let source = Arc::new(Connection(Arc::clone(server)));
    let factory = InformerFactory::sharing(source, Arc::default(), list_mode, observe);
    let informer = factory.informer(interest);
    factory.start();
    (factory, informer)
}
