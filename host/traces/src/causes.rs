//! Remembers which write led to which version of which object, so that the change that a watch reports continues the
//! trace of the write.
//!
//! # Example
//!
//! | what happens | what the change of the pod continues |
//! |---|---|
//! | a reconcile creates the pod, the server answers with version 5, the watch reports version 5 | the write |
//! | the watch reports version 5 before the answer has arrived | the write, since it is in flight |
//! | the kubelet reports the pod's status, version 6 | the write, since nobody changed what is wanted of the pod |
//! | a user deletes the pod | nothing: a trace begins |
//!
//! The third rule keeps a rollout in one trace: most of its steps wait for a status that other programs report.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::trace::{Shared, Trace};

/// How long after a write the changes by others continue its trace. This is the default of a Deployment's
/// `progressDeadlineSeconds`.
const CONTINUES: Duration = Duration::from_secs(600);
/// How many objects are remembered at least. The memory is at most twice as large.
const OBJECTS: usize = 8192;
/// How many versions of an object are remembered.
const VERSIONS: usize = 8;

/// A change of an object, as a watch reports it.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    pub change_type: ChangeType,
    /// The kind and its group, as in `Deployment.apps`. Versions of the API are views of one object.
    pub kind: &'a str,
    /// Empty for a cluster-scoped object.
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    /// The resource versions that the change led to, the newest first. There are several if changes were merged.
    pub versions: &'a [u64],
    /// Whether the change is one of what is wanted: an addition, another generation, or the begin of a deletion. Such
    /// a change begins a trace, unless the host wrote it.
    pub is_of_intent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeType {
    Added,
    Modified,
    Deleted,
}

/// The object of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kind and its group, as in `Deployment.apps`.
    pub kind: String,
    pub namespace: String,
    /// The name, or its beginning if the server completes it.
    pub name: String,
    pub is_prefix: bool,
}

/// A write in flight. Dropped when the answer has been read, or when there will be none.
pub struct Writing {
    shared: Arc<Shared>,
    id: u64,
    trace: Trace,
}

/// What a change comes from.
pub(crate) enum Origin {
    /// Another watch reported the same change, in this trace.
    Seen(Trace),
    /// This trace wrote the object.
    Written(Trace),
    Unknown,
}

#[derive(Default)]
pub(crate) struct Causes {
    /// The objects that were written or changed lately. When they are many, they become `older`.
    objects: HashMap<Box<str>, Known>,
    older: HashMap<Box<str>, Known>,
    in_flight: HashMap<u64, (Target, Trace)>,
    next: u64,
}

/// What is known of an object.
#[derive(Default)]
struct Known {
    /// The last versions, the newest last.
    versions: Vec<Version>,
    written: Option<Written>,
}

struct Version {
    number: u64,
    trace: Trace,
    /// Whether the trace is that of the change; otherwise it is that of the write.
    is_change: bool,
}

/// The last write of an object.
struct Written {
    trace: Trace,
    at: Instant,
    is_deletion: bool,
}

impl Causes {
    /// Finds what a change comes from.
    pub(crate) fn origin(&mut self, change: &Change<'_>, now: Instant) -> Origin {
        let in_flight = self.find_in_flight(change);
        let Some(known) = self.known(change.uid) else {
            return in_flight.map_or(Origin::Unknown, Origin::Written);
        };
        let find = |number: &u64| known.versions.iter().find(|known| known.number == *number);
        match change.versions.first().and_then(find) {
            Some(newest) if newest.is_change => return Origin::Seen(newest.trace.clone()),
            Some(newest) => return Origin::Written(newest.trace.clone()),
            None => {}
        }
        if let Some(merged) = change.versions.iter().find_map(find) {
            return Origin::Written(merged.trace.clone());
        }
        if let Some(trace) = in_flight {
            return Origin::Written(trace);
        }
        let follows = |written: &&Written| {
            let is_deleted = change.change_type == ChangeType::Deleted && written.is_deletion;
            (!change.is_of_intent || is_deleted) && now - written.at <= CONTINUES
        };
        match known.written.as_ref().filter(follows) {
            Some(written) => Origin::Written(written.trace.clone()),
            None => Origin::Unknown,
        }
    }

    /// Remembers the trace of a change, for other watches that report it.
    pub(crate) fn note_change(&mut self, change: &Change<'_>, trace: &Trace) {
        if let Some(number) = change.versions.first() {
            let known = self.known_or_new(change.uid);
            known.versions.retain(|version| version.number != *number);
            known.add(*number, trace, true);
        }
    }

    fn note_write(&mut self, uid: &str, version: Option<u64>, written: Written) {
        let known = self.known_or_new(uid);
        if let Some(number) = version
            && !known.versions.iter().any(|known| known.number == number)
        {
            known.add(number, &written.trace, false);
        }
        known.written = Some(written);
    }

    /// The write in flight that a change may come from. If another client changes the same object in the same
    /// milliseconds, its change is taken for the write's.
    fn find_in_flight(&self, change: &Change<'_>) -> Option<Trace> {
        let writes = self.in_flight.values();
        let mut writes = writes.filter(|(target, _)| target.may_be(change));
        writes.next().map(|(_, trace)| trace.clone())
    }

    /// How many objects are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.objects.len() + self.older.len()
    }

    fn known(&mut self, uid: &str) -> Option<&Known> {
        if let Some((uid, known)) = self.older.remove_entry(uid) {
            self.insert(uid, known);
        }
        self.objects.get(uid)
    }

    fn known_or_new(&mut self, uid: &str) -> &mut Known {
        if self.known(uid).is_none() {
            self.insert(uid.into(), Known::default());
        }
        self.objects.entry(uid.into()).or_default()
    }

    fn insert(&mut self, uid: Box<str>, known: Known) {
        if self.objects.len() >= OBJECTS {
            self.older = std::mem::take(&mut self.objects);
        }
        self.objects.insert(uid, known);
    }
}

impl Known {
    fn add(&mut self, number: u64, trace: &Trace, is_change: bool) {
        if self.versions.len() == VERSIONS {
            self.versions.remove(0);
        }
        self.versions.push(Version {
            number,
            trace: trace.clone(),
            is_change,
        });
    }
}

impl Target {
    fn may_be(&self, change: &Change<'_>) -> bool {
        let is_name = match self.is_prefix {
            true => change.change_type == ChangeType::Added && change.name.starts_with(&self.name),
            false => change.name == self.name,
        };
        is_name && self.kind == change.kind && self.namespace == change.namespace
    }
}

impl Writing {
    /// Notes that a write of this trace is about to be sent.
    pub(crate) fn begin(shared: &Arc<Shared>, target: Target, trace: &Trace) -> Self {
        let mut causes = shared.causes.lock();
        let id = causes.next;
        causes.next += 1;
        causes.in_flight.insert(id, (target, trace.clone()));
        drop(causes);
        Self {
            shared: shared.clone(),
            id,
            trace: trace.clone(),
        }
    }

    /// Notes that the server acknowledged the write. It led to this version, unless the object was deleted at once.
    pub fn acknowledged(self, uid: &str, version: Option<u64>, is_deletion: bool) {
        let written = Written {
            trace: self.trace.clone(),
            at: Instant::now(),
            is_deletion,
        };
        self.shared.causes.lock().note_write(uid, version, written);
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.shared.causes.lock().in_flight.remove(&self.id);
    }
}
