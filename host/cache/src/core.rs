//! The state that an informer's handles share with its reflector: the cache behind its lock, the wanted fields, the
//! reflector's position and the subscribers. Only the reflector changes the cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flyball_types::{FieldPath, Mask};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::{Notify, watch};

use crate::acknowledged::Acknowledged;
use crate::change::{Change, Select};
use crate::decode::{Decoder, Event};
use crate::delta::{Deltas, Pending};
use crate::indexer::{Indexer, PathIndex, SelectorIndex, ValueIndex};
use crate::intern::Interner;
use crate::{ApiResource, ApiResponse, DecodeError, Delta, Object, Scope, protobuf};

/// Why the last request failed.
#[derive(PartialEq)]
pub(crate) struct Problem {
    pub(crate) text: String,
    /// Whether the API server does not serve the kind.
    pub(crate) is_kind_missing: bool,
}

/// The shared state of one informer.
pub(crate) struct Core {
    /// Unique among the informers of the process.
    pub(crate) id: u64,
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) scope: Scope,
    metadata_only: AtomicBool,
    /// Set once the server's protobuf could not be decoded.
    json_only: AtomicBool,
    state: RwLock<CoreState>,
    interner: Mutex<Interner>,
    pub(crate) acknowledged: Acknowledged,
    wanted: Mutex<Wanted>,
    /// Wakes the reflector when the wanted mask may have become wider than the cache's.
    pub(crate) widen: Notify,
    /// A copy of the position in the state, for callers that wait for a version.
    position: watch::Sender<Position>,
    /// The highest version that a caller waits for.
    pub(crate) awaited: watch::Sender<u64>,
    /// The number of complete lists that the cache has received.
    lists: watch::Sender<u64>,
    events: AtomicU64,
    problem: Mutex<Option<Problem>>,
}

/// The position of a reflector.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The resource version up to which the cache is complete.
    pub(crate) version: u64,
    /// The number of times that the server's versions went back. Versions from before a reset are meaningless.
    pub(crate) resets: u64,
}

/// The part of the shared state that is behind the informer's lock.
pub(crate) struct CoreState {
    pub(crate) indexer: Indexer,
    /// The mask that the objects were pruned by.
    mask: Arc<Mask>,
    /// Whether the cache holds a complete list.
    listed: bool,
    /// The resource version up to which the cache is complete.
    pub(crate) position: u64,
    subscribers: Vec<Subscriber>,
    stopped: bool,
}

struct Subscriber {
    pending: Arc<Pending>,
    /// The fields that the cache must hold before the snapshot is taken.
    mask: Arc<Mask>,
    select: Arc<dyn Select>,
    /// The numbers of the paths that it shares, in the set of the indexer.
    numbers: Vec<usize>,
    /// Whether the subscriber has its snapshot, so that it receives changes.
    joined: bool,
}

/// The paths that a handle finds objects by.
#[derive(Default)]
pub(crate) struct Indexes {
    /// The paths whose values are indexed.
    pub(crate) values: Vec<FieldPath>,
    /// The paths whose label selectors are indexed.
    pub(crate) selectors: Vec<FieldPath>,
}

/// The masks of the handles.
#[derive(Default)]
struct Wanted {
    /// By the number of the handle.
    handles: HashMap<u64, Arc<Mask>>,
    last_number: u64,
    union: Arc<Mask>,
}

impl Core {
    pub(crate) fn new(resource: Arc<ApiResource>, scope: Scope, metadata_only: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            resource,
            scope,
            metadata_only: AtomicBool::new(metadata_only),
            json_only: AtomicBool::new(false),
            state: RwLock::new(CoreState {
                indexer: Indexer::new(),
                mask: Arc::default(),
                listed: false,
                position: 0,
                subscribers: Vec::new(),
                stopped: false,
            }),
            interner: Mutex::new(Interner::new()),
            acknowledged: Acknowledged::default(),
            wanted: Mutex::default(),
            widen: Notify::new(),
            position: watch::Sender::new(Position::default()),
            awaited: watch::Sender::new(0),
            lists: watch::Sender::new(0),
            events: AtomicU64::new(0),
            problem: Mutex::new(None),
        }
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, CoreState> {
        self.state.read()
    }

    pub(crate) fn is_metadata_only(&self) -> bool {
        self.metadata_only.load(Ordering::Relaxed)
    }

    /// Switches to whole objects. Must be called before the reflector starts.
    pub(crate) fn hold_all(&self) {
        self.metadata_only.store(false, Ordering::Relaxed);
    }

    /// Whether lists and watches request protobuf. Metadata in protobuf can be decoded for every kind.
    pub(crate) fn reads_protobuf(&self) -> bool {
        let is_known = self.is_metadata_only() || protobuf::knows(&self.resource.kind);
        is_known && !self.json_only.load(Ordering::Relaxed)
    }

    /// Requests JSON from now on. Returns whether protobuf was requested before.
    pub(crate) fn read_json_only(&self) -> bool {
        !self.json_only.swap(true, Ordering::Relaxed)
    }

    /// Decodes the response to a write. The same version is not decoded twice, whether the response or the watch event
    /// arrives first.
    pub(crate) fn decode(&self, response: &ApiResponse) -> Result<Arc<Object>, DecodeError> {
        let mask = self.wanted_mask();
        if let Some((uid, version)) = response.uid_and_version() {
            let state = self.state();
            let cached = state
                .indexer
                .by_uid(&uid)
                .filter(|own| own.resource_version == version);
            if let Some(cached) = cached.filter(|own| own.mask.covers(&mask)) {
                return Ok(Arc::clone(cached));
            }
        }
        let object = self
            .decoder(&mask, &mut Vec::new())
            .response(response.body())?;
        let is_whole = self.is_metadata_only() || !response.is_metadata();
        if is_whole && object.resource_version > self.position() {
            self.acknowledged.put(Arc::clone(&object));
        }
        Ok(object)
    }

    pub(crate) fn decoder<'a>(
        &'a self,
        mask: &'a Arc<Mask>,
        scratch: &'a mut Vec<u8>,
    ) -> Decoder<'a> {
        Decoder {
            mask,
            interner: &self.interner,
            acknowledged: &self.acknowledged,
            scratch,
        }
    }
}

/// The union of two masks; the whole mask if the union would be too complex. The cache may keep more than its readers
/// see, because each reader's view is pruned by the reader's own mask.
pub(crate) fn union(one: &Mask, other: &Mask) -> Mask {
    one.union(other).unwrap_or_else(|_| Mask::whole())
}

/// Called by handles.
impl Core {
    /// Registers a handle with its mask and indexes, and returns its number. Indexes that don't exist must be built.
    pub(crate) fn register(&self, mask: &Arc<Mask>, indexes: &Indexes) -> u64 {
        let number = {
            let mut wanted = self.wanted.lock();
            wanted.last_number += 1;
            let number = wanted.last_number;
            wanted.handles.insert(number, Arc::clone(mask));
            if !wanted.union.covers(mask) {
                wanted.union = Arc::new(union(&wanted.union, mask));
            }
            number
        };
        if !indexes.is_empty() {
            let indexer = &mut self.state.write().indexer;
            let Indexes { values, selectors } = indexes;
            values
                .iter()
                .for_each(|path| indexer.declare::<ValueIndex>(path));
            selectors
                .iter()
                .for_each(|path| indexer.declare::<SelectorIndex>(path));
        }
        self.widen.notify_one();
        number
    }

    /// Unregisters a handle and returns how many are left. The cache keeps the fields of the handle until the next
    /// list.
    pub(crate) fn unregister(&self, number: u64, indexes: &Indexes) -> usize {
        if !indexes.is_empty() {
            let unused = {
                let indexer = &mut self.state.write().indexer;
                let values = indexes.values.iter();
                let selectors = indexes.selectors.iter();
                (
                    Vec::from_iter(values.map(|path| indexer.withdraw::<ValueIndex>(path))),
                    Vec::from_iter(selectors.map(|path| indexer.withdraw::<SelectorIndex>(path))),
                )
            };
            // Only now, because the drop of a large index takes long.
            drop(unused);
        }
        let mut wanted = self.wanted.lock();
        wanted.handles.remove(&number);
        let union = wanted
            .handles
            .values()
            .fold(Mask::default(), |all, mask| union(&all, mask));
        wanted.union = Arc::new(union);
        wanted.handles.len()
    }

    /// Whether these indexes are built.
    pub(crate) fn has_built(&self, indexes: &Indexes) -> bool {
        let indexer = &self.state().indexer;
        let (mut values, mut selectors) = (indexes.values.iter(), indexes.selectors.iter());
        values.all(|path| indexer.is_built::<ValueIndex>(path))
            && selectors.all(|path| indexer.is_built::<SelectorIndex>(path))
    }

    /// Builds the indexes that are not built yet. Takes long if the cache is large. The lock is held only for short
    /// steps.
    pub(crate) fn build(&self, indexes: &Indexes) {
        let Indexes { values, selectors } = indexes;
        values
            .iter()
            .for_each(|path| self.build_index::<ValueIndex>(path));
        selectors
            .iter()
            .for_each(|path| self.build_index::<SelectorIndex>(path));
        // Wakes those who wait for the indexes.
        self.lists.send_modify(|_| {});
    }

    fn build_index<I: PathIndex>(&self, path: &FieldPath) {
        loop {
            let step = self.state().indexer.next_step::<I>(path);
            let Some(step) = step else {
                return;
            };
            let entries = step.entries::<I>(path);
            self.state
                .write()
                .indexer
                .take_step::<I>(path, step, entries);
        }
    }

    pub(crate) fn handles(&self) -> usize {
        self.wanted.lock().handles.len()
    }

    /// The union of the masks of all handles.
    pub(crate) fn wanted_mask(&self) -> Arc<Mask> {
        Arc::clone(&self.wanted.lock().union)
    }

    /// Whether the cache holds a complete list with these fields.
    pub(crate) fn holds(&self, mask: &Mask) -> bool {
        self.state().holds(mask)
    }

    pub(crate) fn subscribe(&self, mask: &Arc<Mask>, select: Arc<dyn Select>) -> Deltas {
        let pending = Arc::new(Pending::default());
        let mut state = self.state.write();
        if state.stopped {
            pending.close();
        }
        let shared = &mut state.indexer.paths;
        let paths = select.shared_paths().iter();
        let mut subscriber = Subscriber {
            pending: Arc::clone(&pending),
            mask: Arc::clone(mask),
            numbers: paths.map(|path| shared.add(path)).collect(),
            select,
            joined: false,
        };
        if state.holds(mask) {
            subscriber.join(&state.indexer);
        }
        state.subscribers.push(subscriber);
        Deltas { pending }
    }

    pub(crate) fn position(&self) -> u64 {
        self.position.borrow().version
    }

    pub(crate) fn positions(&self) -> watch::Receiver<Position> {
        self.position.subscribe()
    }

    pub(crate) fn lists(&self) -> watch::Receiver<u64> {
        self.lists.subscribe()
    }

    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    pub(crate) fn problem(&self) -> Option<String> {
        let problem = self.problem.lock();
        problem.as_ref().map(|problem| problem.text.clone())
    }

    /// Whether the API server does not serve the kind, according to its last response.
    pub(crate) fn is_kind_missing(&self) -> bool {
        let problem = self.problem.lock();
        problem
            .as_ref()
            .is_some_and(|problem| problem.is_kind_missing)
    }
}

/// Called by the reflector.
impl Core {
    /// The mask that the objects of the cache were pruned by.
    pub(crate) fn held_mask(&self) -> Arc<Mask> {
        Arc::clone(&self.state().mask)
    }

    /// Whether some handle needs fields that the cache does not hold.
    pub(crate) fn is_too_narrow(&self) -> bool {
        !self.state().mask.covers(&self.wanted_mask())
    }

    /// Replaces the cache by a complete list as of a resource version. Subscribers that waited for fields of the list
    /// get their snapshot. `reset` means that the server's versions went back.
    pub(crate) fn replace(
        &self,
        objects: Vec<Arc<Object>>,
        position: u64,
        mask: Arc<Mask>,
        reset: bool,
    ) {
        let mut changes = Vec::new();
        let mut state = self.state.write();
        state.indexer.replace(objects, reset, &mut changes);
        state.mask = mask;
        state.listed = true;
        state.position = if reset {
            position
        } else {
            position.max(state.position)
        };
        state.publish(changes);
        let CoreState {
            indexer,
            mask,
            subscribers,
            position,
            ..
        } = &mut *state;
        for subscriber in subscribers
            .iter_mut()
            .filter(|own| !own.joined && mask.covers(&own.mask))
        {
            subscriber.join(indexer);
        }
        let version = *position;
        if reset {
            self.awaited.send_replace(0);
            self.acknowledged.clear();
        }
        self.acknowledged.pass(version);
        self.position.send_modify(|own| {
            *own = Position {
                version,
                resets: own.resets + u64::from(reset),
            }
        });
        self.lists.send_modify(|lists| *lists += 1);
    }

    /// Applies changes and bookmarks in order. If a version goes back, stops before it and returns false.
    pub(crate) fn apply(&self, events: Vec<Event>) -> bool {
        let mut changes = Vec::new();
        let mut in_order = true;
        self.events
            .fetch_add(events.len() as u64, Ordering::Relaxed);
        let mut state = self.state.write();
        for event in events {
            let version = match &event {
                Event::Upsert(object) | Event::Delete(object) => object.resource_version,
                // A server that lags behind the previous one sends old bookmarks, which are ignored.
                Event::Bookmark {
                    resource_version, ..
                } => state.position.max(*resource_version),
                Event::Error(_) => state.position,
            };
            // Events may share a version: etcd deletes all keys of an expired lease in one transaction.
            if version < state.position {
                in_order = false;
                break;
            }
            match event {
                Event::Upsert(object) => state.indexer.upsert(object, &mut changes),
                Event::Delete(object) => {
                    state
                        .indexer
                        .remove(&object.uid.clone(), Some(object), &mut changes)
                }
                Event::Bookmark { .. } | Event::Error(_) => {}
            }
            state.position = version;
        }
        state.publish(changes);
        let position = state.position;
        drop(state);
        self.acknowledged.pass(position);
        self.position
            .send_if_modified(|own| std::mem::replace(&mut own.version, position) != position);
        in_order
    }

    /// Records why the reflector can't list or watch, or `None` if it can. Returns whether this changed.
    pub(crate) fn set_problem(&self, problem: Option<Problem>) -> bool {
        let mut own = self.problem.lock();
        let is_change = *own != problem;
        *own = problem;
        is_change
    }

    /// Ends all subscriptions: the reflector has stopped.
    pub(crate) fn close(&self) {
        let mut state = self.state.write();
        state.stopped = true;
        state
            .subscribers
            .drain(..)
            .for_each(|subscriber| subscriber.pending.close());
    }
}

impl Indexes {
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.selectors.is_empty()
    }
}

impl CoreState {
    fn holds(&self, mask: &Mask) -> bool {
        self.listed && self.mask.covers(mask)
    }

    /// The number of deltas that wait for the subscriber that is furthest behind.
    pub(crate) fn queued(&self) -> usize {
        let subscribers = self.subscribers.iter();
        let waiting = subscribers.map(|subscriber| subscriber.pending.len());
        waiting.max().unwrap_or_default()
    }

    /// Sends changes to the subscribers that have their snapshot and that they concern.
    fn publish(&mut self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        self.drop_closed();
        let Self {
            subscribers,
            indexer,
            ..
        } = self;
        let mut joined: Vec<_> = subscribers.iter_mut().filter(|own| own.joined).collect();
        let mut concerned: Vec<Vec<Delta>> = joined.iter().map(|_| Vec::new()).collect();
        // The values of a change are found for all subscribers, and freed before those of the next one are found.
        for change in changes {
            for (subscriber, deltas) in joined.iter().zip(&mut concerned) {
                if subscriber.is_concerned(&change, indexer) {
                    deltas.push((*change).clone());
                }
            }
        }
        for (subscriber, deltas) in joined.iter_mut().zip(concerned) {
            if !subscriber.pending.push(deltas) {
                subscriber.pending.restart();
                subscriber.join(indexer);
            }
        }
    }

    /// Drops the subscribers that are gone, and what the cache finds for them.
    fn drop_closed(&mut self) {
        let paths = &mut self.indexer.paths;
        self.subscribers.retain(|subscriber| {
            let is_closed = subscriber.pending.is_closed();
            if is_closed {
                let numbers = subscriber.numbers.iter();
                numbers.for_each(|number| paths.remove(*number));
            }
            !is_closed
        });
    }
}

impl Subscriber {
    fn is_concerned(&self, change: &Change, indexer: &Indexer) -> bool {
        let seen = change.seen(indexer.paths.set(), &self.numbers);
        self.select.selects(&seen)
    }

    /// Sends the snapshot.
    fn join(&mut self, indexer: &Indexer) {
        self.joined = true;
        let add = |object: &Arc<Object>| Delta {
            old: None,
            new: Some(Arc::clone(object)),
            between: Vec::new(),
            initial: true,
        };
        let all = indexer.iter().map(add);
        self.pending
            .push(all.filter(|added| self.select.may_select(added)));
        self.pending.finish_initial();
    }
}

#[cfg(test)]
pub(crate) mod tests;
