//! What a watcher of a cache is told: each change, in order, none lost. It comes out of `informer.rs` and goes to the
//! router, which makes keys of it.

use std::collections::HashMap;
use std::sync::Arc;

use flyball_types::description::DeltaType;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Object, Uid};

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Delta {
    /// What the watcher last knew of the object, or would, had it been told of all changes; none if there was none.
    pub old: Option<Arc<Object>>,
    /// The object as it is now; none if it is gone.
    pub new: Option<Arc<Object>>,
    /// Versions that came between the two while the watcher had not asked, and, of a deleted object, its final state where
    /// that is another than `old`. Mappings apply to them as they do to `old`: their keys must not be lost.
    pub between: Vec<Arc<Object>>,
    /// Whether it is part of the snapshot with which a subscription begins.
    pub initial: bool,
}

impl Delta {
    /// What kind of change it is.
    pub fn delta_type(&self) -> DeltaType {
        match (&self.old, &self.new) {
            (_, None) => DeltaType::Deleted,
            (None, Some(_)) => DeltaType::Added,
            (Some(_), Some(_)) => DeltaType::Modified,
        }
    }

    /// The newest version that is known: `new`, or the final state of what is gone.
    pub fn object(&self) -> &Arc<Object> {
        let newest = self
            .new
            .as_ref()
            .or(self.between.last())
            .or(self.old.as_ref());
        newest.expect("a delta holds at least one version")
    }

    /// Every version that it holds, the oldest first.
    pub fn versions(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.old.iter().chain(&self.between).chain(&self.new)
    }
}

/// What a subscription gives at once.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Changes, in the order in which their objects first changed.
    pub deltas: Vec<Delta>,
    /// Whether the snapshot is complete with this batch or was before.
    pub initial_done: bool,
}

/// The receiving end of a subscription: a snapshot as additions, then changes, with no gap.
///
/// What is not yet taken is merged by object, every version kept: memory grows with the versions that a slow watcher left,
/// so it should map them to keys, natively, and let the queue merge those.
pub struct Deltas {
    pub(crate) pending: Arc<Pending>,
}

impl Deltas {
    /// At most `max` changes, as soon as there are any, or as soon as the snapshot is complete (then perhaps none). None
    /// when the reflector has stopped. Safe to drop and call again.
    pub async fn next(&mut self, max: usize) -> Option<Batch> {
        loop {
            let notified = self.pending.notify.notified();
            if let Some(taken) = self.pending.take(max) {
                return taken;
            }
            notified.await;
        }
    }

    /// At most `max` changes that are there already; none if there are none.
    pub fn try_next(&mut self, max: usize) -> Option<Batch> {
        self.pending.take(max).flatten()
    }
}

impl Drop for Deltas {
    fn drop(&mut self) {
        let mut queue = self.pending.queue.lock();
        *queue = Queue {
            closed: true,
            ..Queue::default()
        };
    }
}

/// What a subscriber has not yet taken.
#[derive(Default)]
pub(crate) struct Pending {
    queue: Mutex<Queue>,
    notify: Notify,
}

#[derive(Default)]
struct Queue {
    /// Changes by the number of their arrival, without gaps but for those taken from the front.
    deltas: std::collections::VecDeque<Delta>,
    /// How many were taken from the front, so that `places` need no change then.
    taken: usize,
    /// Where the pending change of an object is.
    places: HashMap<Uid, usize, RandomState>,
    /// Whether the whole snapshot was pushed.
    initial_pushed: bool,
    /// Whether the watcher was told so.
    initial_told: bool,
    closed: bool,
}

impl Pending {
    /// Whether nobody listens any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().closed
    }

    /// Adds changes, each after those already there.
    pub(crate) fn push(&self, deltas: impl IntoIterator<Item = Delta>) {
        let mut deltas = deltas.into_iter().peekable();
        if deltas.peek().is_none() {
            return;
        }
        let mut queue = self.queue.lock();
        if !queue.closed {
            deltas.for_each(|delta| queue.push(delta));
            self.notify.notify_one();
        }
    }

    /// The snapshot is complete.
    pub(crate) fn finish_initial(&self) {
        self.queue.lock().initial_pushed = true;
        self.notify.notify_one();
    }

    /// No more will come.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.notify.notify_one();
    }

    /// What `Deltas::next` answers, if it need not wait.
    fn take(&self, max: usize) -> Option<Option<Batch>> {
        let mut queue = self.queue.lock();
        let count = queue.deltas.len().min(max.max(1));
        // Changes are pushed after the snapshot, so it is over where the next one is not of it.
        let initial_done =
            queue.initial_pushed && !queue.deltas.get(count).is_some_and(|delta| delta.initial);
        if count == 0 && (queue.initial_told || !initial_done) {
            return queue.closed.then_some(None);
        }
        queue.initial_told |= initial_done;
        queue.taken += count;
        let deltas: Vec<Delta> = queue.deltas.drain(..count).collect();
        for delta in &deltas {
            let place = queue.places.get(delta.object().uid()).copied();
            if place.is_some_and(|place| place < queue.taken) {
                queue.places.remove(delta.object().uid());
            }
        }
        if queue.deltas.is_empty() {
            (queue.deltas, queue.places) = Default::default();
        }
        Some(Some(Batch {
            deltas,
            initial_done,
        }))
    }
}

impl Queue {
    fn push(&mut self, delta: Delta) {
        let end = self.taken + self.deltas.len();
        let uid = delta.object().uid().clone();
        match self.places.entry(uid) {
            std::collections::hash_map::Entry::Occupied(place) => {
                self.deltas[*place.get() - self.taken].absorb(delta);
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(end);
                self.deltas.push_back(delta);
            }
        }
    }
}

impl Delta {
    /// Joins the next change of the same object. The oldest `old` stays, and versions in between are kept.
    fn absorb(&mut self, next: Delta) {
        let known = |delta: &Delta, version: &Arc<Object>| {
            delta.versions().any(|own| Arc::ptr_eq(own, version))
        };
        let replaced = self.new.take();
        self.between.extend(replaced);
        for version in next.old.into_iter().chain(next.between) {
            if !known(self, &version) {
                self.between.push(version);
            }
        }
        self.new = next.new;
    }
}
