//! Subscriptions to a cache: each change as a delta, in order and without loss. They begin at `informer.rs` and end at
//! the router, which maps deltas to keys.
//!
//! # Example
//!
//! A subscriber is busy while the pod `web-1` changes. Its pending delta grows with each change:
//!
//! | change | `old` | `between` | `new` |
//! |---|---|---|---|
//! | version 5 becomes 6 | 5 | | 6 |
//! | version 6 becomes 7 | 5 | 6 | 7 |
//! | deleted, with the final state 8 | 5 | 6, 7, 8 | |
//! | created again, with another UID | another delta | | |
//!
//! The subscriber then takes one delta. Its mappings see all four versions, so that a ReplicaSet that owned the pod
//! only in version 6 is enqueued, too. client-go's DeltaFIFO keeps a list of deltas for each object for the same
//! reason; here a burst of changes becomes one delta.

use std::collections::HashMap;
use std::sync::Arc;

use flyball_types::description::DeltaType;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Object, Uid};

/// The most versions between the oldest and the newest that a pending delta keeps. A subscriber that lags further
/// behind misses the keys of the first ones.
const MAX_BETWEEN: usize = 64;

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Delta {
    /// The previous version; `None` if the object did not exist. A subscriber with a predicate may not have received
    /// it.
    pub old: Option<Arc<Object>>,
    /// The current version; `None` if the object was deleted.
    pub new: Option<Arc<Object>>,
    /// The versions between `old` and `new`, if several changes were merged, and the final state of a deleted object if
    /// it differs from `old`. Mappings apply to them as they do to `old`, so that no key is lost.
    pub between: Vec<Arc<Object>>,
    /// Whether the delta is part of the snapshot at the start of a subscription.
    pub initial: bool,
}

impl Delta {
    pub fn delta_type(&self) -> DeltaType {
        match (&self.old, &self.new) {
            (_, None) => DeltaType::Deleted,
            (None, Some(_)) => DeltaType::Added,
            (Some(_), Some(_)) => DeltaType::Modified,
        }
    }

    /// The newest known version: `new`, or the final state of a deleted object.
    pub fn object(&self) -> &Arc<Object> {
        let newest = self
            .new
            .as_ref()
            .or(self.between.last())
            .or(self.old.as_ref());
        newest.expect("a delta holds at least one version")
    }

    /// Every version in the delta, the oldest first.
    pub fn versions(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.old.iter().chain(&self.between).chain(&self.new)
    }
}

/// The deltas that [`Deltas::next`] returns together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// In the order in which their objects first changed.
    pub deltas: Vec<Delta>,
    /// Whether this batch or an earlier one completes the snapshot.
    pub initial_done: bool,
    /// Whether changes were lost since the last batch, because the subscriber fell too far behind (see
    /// [`Deltas::keep_at_most`]). A new snapshot took their place.
    pub restarted: bool,
}

/// The receiving end of a subscription: a snapshot as additions, then changes, without a gap.
///
/// Deltas that the subscriber has not taken yet are merged by object, and every version is kept. Memory grows with
/// these versions, so a subscriber should map them to keys soon and let the workqueue merge the keys.
/// [`Deltas::keep_at_most`] bounds it.
pub struct Deltas {
    pub(crate) pending: Arc<Pending>,
}

impl Deltas {
    /// Waits for deltas and returns at most `max` of them. Also returns when the snapshot becomes complete, then
    /// possibly without deltas. Returns `None` when the reflector has stopped. Cancel-safe.
    pub async fn next(&mut self, max: usize) -> Option<Batch> {
        loop {
            let notified = self.pending.notify.notified();
            if let Some(taken) = self.pending.take(max) {
                return taken;
            }
            notified.await;
        }
    }

    /// Bounds the memory of versions that are kept for this subscriber alone, which are all but the newest of each
    /// object.
    ///
    /// Beyond the bound, the versions in between are dropped, and the oldest version keeps only its identity, labels
    /// and owners. If these alone take more than half of the bytes, they are dropped, too, and a new snapshot follows.
    pub fn keep_at_most(&self, bytes: usize) {
        let mut queue = self.pending.queue.lock();
        queue.most = Some(bytes);
        queue.kept = queue.deltas.iter().map(Delta::kept).sum();
    }

    /// At most `max` deltas that are ready; `None` if none are.
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

/// The deltas that a subscriber has not taken yet.
#[derive(Default)]
pub(crate) struct Pending {
    queue: Mutex<Queue>,
    notify: Notify,
}

#[derive(Default)]
struct Queue {
    /// The deltas by the sequence number of their arrival, without gaps. The first has the number `taken`.
    deltas: std::collections::VecDeque<Delta>,
    /// How many deltas were taken from the front. `places` holds sequence numbers, so that it need not change then.
    taken: usize,
    /// The sequence number of each object's pending delta.
    places: HashMap<Uid, usize, RandomState>,
    /// Whether the whole snapshot was pushed.
    initial_pushed: bool,
    /// Whether the subscriber received a batch that says so.
    initial_delivered: bool,
    closed: bool,
    /// The most bytes of versions that are kept for the subscriber alone.
    most: Option<usize>,
    /// The bytes of these versions. Not counted without a bound.
    kept: usize,
    /// Whether deltas were dropped since the last batch.
    restarted: bool,
}

impl Pending {
    /// Whether the subscriber was dropped, or the reflector has stopped.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().closed
    }

    /// The number of deltas that the subscriber has not taken yet.
    pub(crate) fn len(&self) -> usize {
        self.queue.lock().deltas.len()
    }

    /// Appends deltas. A delta of an object with a pending one is merged into that. Returns false if the subscriber is
    /// too far behind, so that it must [`Pending::restart`].
    pub(crate) fn push(&self, deltas: impl IntoIterator<Item = Delta>) -> bool {
        let mut deltas = deltas.into_iter().peekable();
        if deltas.peek().is_none() {
            return true;
        }
        let mut queue = self.queue.lock();
        if queue.closed {
            return true;
        }
        deltas.for_each(|delta| queue.push(delta));
        self.notify.notify_one();
        queue.most.is_none_or(|most| {
            queue.kept <= most || {
                queue.reduce();
                queue.kept <= most / 2
            }
        })
    }

    /// Drops all deltas. A snapshot must follow.
    pub(crate) fn restart(&self) {
        let mut queue = self.queue.lock();
        queue.deltas.clear();
        queue.places.clear();
        queue.kept = 0;
        queue.restarted = true;
    }

    /// Records that the snapshot is complete.
    pub(crate) fn finish_initial(&self) {
        self.queue.lock().initial_pushed = true;
        self.notify.notify_one();
    }

    /// Ends the subscription: no more deltas follow.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.notify.notify_one();
    }

    /// The result of `Deltas::next`, or `None` if it has to wait.
    fn take(&self, max: usize) -> Option<Option<Batch>> {
        let mut queue = self.queue.lock();
        let count = queue.deltas.len().min(max.max(1));
        // Changes are pushed after the snapshot, so the snapshot is complete if the next delta is not part of it.
        let initial_done =
            queue.initial_pushed && !queue.deltas.get(count).is_some_and(|delta| delta.initial);
        if count == 0 && (queue.initial_delivered || !initial_done) {
            return queue.closed.then_some(None);
        }
        queue.initial_delivered |= initial_done;
        queue.taken += count;
        let deltas: Vec<Delta> = queue.deltas.drain(..count).collect();
        if queue.most.is_some() {
            queue.kept -= deltas.iter().map(Delta::kept).sum::<usize>();
        }
        for delta in &deltas {
            queue.places.remove(delta.object().uid());
        }
        if queue.deltas.is_empty() {
            (queue.deltas, queue.places) = Default::default();
        }
        Some(Some(Batch {
            deltas,
            initial_done,
            restarted: std::mem::take(&mut queue.restarted),
        }))
    }
}

impl Queue {
    fn push(&mut self, delta: Delta) {
        let end = self.taken + self.deltas.len();
        let uid = delta.object().uid().clone();
        match self.places.entry(uid) {
            std::collections::hash_map::Entry::Occupied(place) => {
                let pending = &mut self.deltas[*place.get() - self.taken];
                if self.most.is_some() {
                    self.kept -= pending.kept();
                }
                pending.merge(delta);
                if self.most.is_some() {
                    self.kept += pending.kept();
                }
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(end);
                if self.most.is_some() {
                    self.kept += delta.kept();
                }
                self.deltas.push_back(delta);
            }
        }
    }

    /// Reduces the versions that are kept for the subscriber alone.
    fn reduce(&mut self) {
        self.deltas.iter_mut().for_each(Delta::reduce);
        self.kept = self.deltas.iter().map(Delta::kept).sum();
    }
}

impl Delta {
    /// The bytes of the versions that the cache does not hold.
    fn kept(&self) -> usize {
        let versions = self.old.iter().chain(&self.between);
        versions.map(|version| version.size_alone()).sum()
    }

    /// Drops the versions in between, and the fields of the oldest one. If the object was created and deleted since the
    /// last take, the oldest kept version is its last one.
    fn reduce(&mut self) {
        let last = self.between.drain(..).next_back();
        match (&self.old, &self.new) {
            (Some(old), _) => self.old = Some(old.without_fields()),
            (None, None) => self.between.extend(last.map(|last| last.without_fields())),
            (None, Some(_)) => {}
        }
    }

    /// Merges the next delta of the same object into this one. Keeps the older `old` and all versions in between.
    fn merge(&mut self, next: Delta) {
        let is_known = |delta: &Delta, version: &Arc<Object>| {
            delta.versions().any(|own| Arc::ptr_eq(own, version))
        };
        let replaced = self.new.take();
        self.between.extend(replaced);
        for version in next.old.into_iter().chain(next.between) {
            if !is_known(self, &version) {
                self.between.push(version);
            }
        }
        self.new = next.new;
        let beyond = self.between.len().saturating_sub(MAX_BETWEEN);
        self.between.drain(..beyond);
    }
}

#[cfg(test)]
mod tests;
