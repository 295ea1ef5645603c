//! Watches of the overlay's changes. The base is not watched.

use std::rc::Rc;

use bytes::Bytes;
use flyball_testserver::api::request::Selection;
use flyball_testserver::api::writes::shown;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use serde_json::{Value, json};

/// The changes so far, and the clients that wait for more.
pub(crate) struct Watches {
    version: u64,
    /// All changes, in order. They are as many as the writes, which are bounded.
    changes: Vec<Change>,
    watchers: Vec<Watcher>,
}

struct Change {
    kind: String,
    version: u64,
    /// The object before; none if it was created.
    old: Option<Rc<Value>>,
    /// The object after, or its last state if it was deleted.
    new: Rc<Value>,
    deleted: bool,
}

/// What a client watches.
pub(crate) struct Watched {
    pub(crate) kind: String,
    pub(crate) selection: Selection,
    pub(crate) only_metadata: bool,
    pub(crate) bookmarks: bool,
}

struct Watcher {
    watched: Watched,
    sender: UnboundedSender<Bytes>,
}

impl Watches {
    pub(crate) fn new(version: u64) -> Self {
        Self {
            version,
            changes: Vec::new(),
            watchers: Vec::new(),
        }
    }

    /// The latest resource version.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn publish(
        &mut self,
        kind: &str,
        version: u64,
        old: Option<Rc<Value>>,
        new: Rc<Value>,
        deleted: bool,
    ) {
        self.version = self.version.max(version);
        let change = Change {
            kind: kind.to_owned(),
            version,
            old,
            new,
            deleted,
        };
        let latest = self.version;
        self.watchers.retain(|watcher| {
            // Clients of other kinds learn of the version, too: a read may make them wait for it.
            watcher.send(watcher.watched.event(&change))
                && (!watcher.watched.bookmarks || watcher.send(Some(bookmark(latest))))
        });
        self.changes.push(change);
    }

    /// Begins a watch of the changes after a version.
    pub(crate) fn watch(&mut self, watched: Watched, since: u64) -> UnboundedReceiver<Bytes> {
        let (sender, receiver) = unbounded();
        let watcher = Watcher { watched, sender };
        for change in self.changes.iter().filter(|change| change.version > since) {
            watcher.send(watcher.watched.event(change));
        }
        // The changes since then may all be of other kinds: without it, a client that waits for their version could wait
        // for ever.
        if watcher.watched.bookmarks && self.version > since {
            watcher.send(Some(bookmark(self.version)));
        }
        self.watchers.push(watcher);
        receiver
    }
}

impl Watched {
    /// Returns the event that this client gets for a change. It is a deletion if the object leaves the selection.
    fn event(&self, change: &Change) -> Option<Bytes> {
        if change.kind != self.kind {
            return None;
        }
        let before = change
            .old
            .as_ref()
            .is_some_and(|old| self.selection.matches(old));
        let kind = match (
            before,
            !change.deleted && self.selection.matches(&change.new),
        ) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        let object = shown(Value::clone(&change.new), self.only_metadata);
        Some(line(kind, &object))
    }
}

impl Watcher {
    /// Returns whether the client is still there.
    fn send(&self, line: Option<Bytes>) -> bool {
        line.is_none_or(|line| self.sender.unbounded_send(line).is_ok())
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({"type": kind, "object": object})).into()
}

fn bookmark(version: u64) -> Bytes {
    let metadata = json!({"resourceVersion": version.to_string()});
    // Clients look at the metadata alone.
    let object = json!({"apiVersion": "v1", "kind": "Bookmark", "metadata": metadata});
    line("BOOKMARK", &object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(version: u64, team: &str) -> Option<Rc<Value>> {
        let metadata =
            json!({"name": "p", "resourceVersion": version.to_string(), "labels": {"team": team}});
        Some(Rc::new(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}),
        ))
    }

    fn watched(labels: &str) -> Watched {
        Watched {
            kind: "v1/Pod".into(),
            selection: Selection {
                labels: labels.parse().expect("a selector"),
                ..Selection::everything("")
            },
            only_metadata: false,
            bookmarks: false,
        }
    }

    fn types(mut events: UnboundedReceiver<Bytes>) -> Vec<String> {
        let mut types = Vec::new();
        while let Ok(line) = events.try_recv() {
            let event: Value = serde_json::from_slice(&line).expect("a line of JSON");
            types.push(event["type"].as_str().unwrap_or_default().to_owned());
        }
        types
    }

    #[test]
    fn an_object_that_enters_or_leaves_a_selection_is_added_or_deleted() {
        let mut watches = Watches::new(1);
        let (red, all) = (
            watches.watch(watched("team=red"), 1),
            watches.watch(watched(""), 1),
        );
        let new = |version, team| pod(version, team).expect("a pod");
        watches.publish("v1/Pod", 2, None, new(2, "blue"), false);
        watches.publish("v1/Pod", 3, pod(2, "blue"), new(3, "red"), false);
        watches.publish("v1/Pod", 4, pod(3, "red"), new(4, "blue"), false);
        watches.publish("v1/Node", 5, None, new(5, "red"), false);
        watches.publish("v1/Pod", 6, pod(4, "blue"), new(6, "blue"), true);
        assert_eq!(types(red), ["ADDED", "DELETED"]);
        assert_eq!(types(all), ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]);
        // A client that resumes gets what it has missed.
        assert_eq!(types(watches.watch(watched(""), 4)), ["DELETED"]);
        let mut taking_bookmarks = |since| {
            let watched = Watched {
                bookmarks: true,
                ..watched("")
            };
            types(watches.watch(watched, since))
        };
        assert_eq!(taking_bookmarks(4), ["DELETED", "BOOKMARK"]);
        assert_eq!(taking_bookmarks(6), [""; 0]);
    }
}
