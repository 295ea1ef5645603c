//! Watches: turns the changes of objects into events, for clients that follow them and for those that resume.

use std::collections::BTreeMap;

use bytes::Bytes;
use flyball_types::ApiError;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use serde_json::{Value, json};

use super::request::{Call, Selection, Target};
use super::writes::shown;
use super::{Reply, State};

/// The events so far, and the clients that wait for more.
pub(super) struct Watches {
    version: u64,
    /// The objects of each kind as of the last event, by namespace and name.
    known: BTreeMap<String, Objects>,
    /// All changes, in order. A server for one test need not forget any.
    changes: Vec<Change>,
    watchers: Vec<Watcher>,
}

type Objects = BTreeMap<(String, String), Value>;

struct Change {
    kind: String,
    version: u64,
    /// The object before; none if it was created.
    old: Option<Value>,
    /// The object after, or its last state if it was deleted.
    new: Value,
    deleted: bool,
}

struct Watcher {
    kind: String,
    selection: Selection,
    only_metadata: bool,
    bookmarks: bool,
    sender: UnboundedSender<Bytes>,
}

impl Watches {
    pub(super) fn new(version: u64) -> Self {
        Self {
            version,
            known: BTreeMap::new(),
            changes: Vec::new(),
            watchers: Vec::new(),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }
}

impl State {
    /// Publishes what has changed among the objects of a kind.
    pub(super) fn publish(&mut self, kind: &str) {
        let objects = self.cluster.objects(kind).into_iter();
        let now: Objects = objects.map(|object| (key(&object), object)).collect();
        let watches = &mut self.watches;
        let known = watches.known.entry(kind.to_owned()).or_default();
        let mut changes: Vec<Change> = Vec::new();
        for (key, object) in &now {
            let old = known.get(key);
            if old.is_none_or(|old| version(old) != version(object)) {
                changes.push(Change {
                    kind: kind.to_owned(),
                    version: version(object),
                    old: old.cloned(),
                    new: object.clone(),
                    deleted: false,
                });
            }
        }
        changes.sort_by_key(|change| change.version);
        for (_, object) in known.iter().filter(|(key, _)| !now.contains_key(key)) {
            let version = self.cluster.next_version();
            let mut last = object.clone();
            last["metadata"]["resourceVersion"] = version.to_string().into();
            changes.push(Change {
                kind: kind.to_owned(),
                version,
                old: Some(object.clone()),
                new: last,
                deleted: true,
            });
        }
        *known = now;
        let Some(last) = changes.last() else {
            return;
        };
        watches.version = watches.version.max(last.version);
        let version = watches.version;
        watches.watchers.retain(|watcher| {
            let mut sent = true;
            for change in &changes {
                sent &= watcher.send(watcher.event(change));
            }
            // Clients of other kinds learn of the version, too: a read may make them wait for it.
            sent && (!watcher.bookmarks || watcher.send(Some(bookmark(version, false))))
        });
        watches.changes.extend(changes);
    }

    pub(super) fn watch(&mut self, call: &Call<'_>, target: &Target) -> Result<Reply, ApiError> {
        let (sender, receiver) = unbounded();
        let watcher = Watcher {
            kind: target.kind.clone(),
            selection: call.selection(target)?,
            only_metadata: call.wants_metadata(),
            bookmarks: call.parameter("allowWatchBookmarks") == "true",
            sender,
        };
        let since: u64 = call.parameter("resourceVersion").parse().unwrap_or(0);
        let is_list = call.parameter("sendInitialEvents") == "true";
        if is_list || since == 0 {
            for object in self.cluster.objects(&target.kind) {
                if watcher.selection.matches(&object) {
                    watcher.send(Some(event("ADDED", shown(object, watcher.only_metadata))));
                }
            }
            if is_list {
                watcher.send(Some(bookmark(self.watches.version, true)));
            }
        } else {
            let later = |change: &&Change| change.version > since;
            for change in self.watches.changes.iter().filter(later) {
                watcher.send(watcher.event(change));
            }
            // The changes since then may all be of other kinds: without it, a client that waits for their version could
            // wait for ever.
            if watcher.bookmarks && self.watches.version > since {
                watcher.send(Some(bookmark(self.watches.version, false)));
            }
        }
        self.watches.watchers.push(watcher);
        Ok(Reply::Events(receiver))
    }
}

impl Watcher {
    /// Returns the event that this client gets for a change. It is a deletion if the object leaves the selection.
    fn event(&self, change: &Change) -> Option<Bytes> {
        if change.kind != self.kind {
            return None;
        }
        let selects = |object: &Value| self.selection.matches(object);
        let before = change.old.as_ref().is_some_and(selects);
        let kind = match (before, !change.deleted && selects(&change.new)) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        Some(event(kind, shown(change.new.clone(), self.only_metadata)))
    }

    /// Returns whether the client is still there.
    fn send(&self, line: Option<Bytes>) -> bool {
        line.is_none_or(|line| self.sender.unbounded_send(line).is_ok())
    }
}

fn event(kind: &str, object: Value) -> Bytes {
    format!("{}\n", json!({"type": kind, "object": object})).into()
}

fn bookmark(version: u64, ends_list: bool) -> Bytes {
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if ends_list {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    // Clients look at the metadata alone.
    event(
        "BOOKMARK",
        json!({"apiVersion": "v1", "kind": "Bookmark", "metadata": metadata}),
    )
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn key(object: &Value) -> (String, String) {
    let text = |name: &str| {
        let value = object["metadata"][name].as_str();
        value.unwrap_or_default().to_owned()
    };
    (text("namespace"), text("name"))
}
