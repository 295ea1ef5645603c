//! What an informer's handles and its reflector share: the cache behind its lock, the fields that are wanted, how far the
//! reflector has seen and who is to be told. Only the reflector changes the cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flyball_types::{FieldPath, Mask};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::{Notify, watch};

use crate::acknowledged::Acknowledged;
use crate::decode::{Decoder, Event};
use crate::delta::{Deltas, Pending};
use crate::indexer::Indexer;
use crate::intern::Interner;
use crate::{Answer, ApiResource, DecodeError, Delta, Object, Scope, protobuf};

/// One informer.
pub(crate) struct Core {
    /// Tells informers apart for as long as the process lives.
    pub(crate) id: u64,
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) scope: Scope,
    metadata_only: AtomicBool,
    /// Whether the server's protobuf could not be read.
    json_only: AtomicBool,
    state: RwLock<State>,
    interner: Mutex<Interner>,
    pub(crate) acknowledged: Acknowledged,
    wanted: Mutex<Wanted>,
    /// Wakes the reflector when the wanted mask may have become wider than the cache's.
    pub(crate) widen: Notify,
    /// How far the cache has seen; the same as in the state, for who waits.
    position: watch::Sender<Position>,
    /// How far somebody waits for.
    pub(crate) awaited: watch::Sender<u64>,
    /// How many whole lists were taken.
    lists: watch::Sender<u64>,
    events: AtomicU64,
    problem: Mutex<Option<String>>,
}

/// How far a cache has seen.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) version: u64,
    /// How many times the server's versions went back, so that versions known before mean nothing.
    pub(crate) resets: u64,
}

/// What the informer's lock guards.
pub(crate) struct State {
    pub(crate) indexer: Indexer,
    /// What the objects were pruned by.
    mask: Arc<Mask>,
    /// Whether there is a whole list.
    listed: bool,
    /// The resource version up to which everything was seen.
    pub(crate) position: u64,
    subscribers: Vec<Subscriber>,
    stopped: bool,
}

/// Of which changes a watcher is told.
pub(crate) type Wants = dyn Fn(&Delta) -> bool + Send + Sync;

struct Subscriber {
    pending: Arc<Pending>,
    /// What the cache must hold before the snapshot is taken.
    mask: Arc<Mask>,
    /// Of what it is told.
    wants: Arc<Wants>,
    /// Whether the snapshot was taken.
    joined: bool,
}

/// Which masks the handles want.
#[derive(Default)]
struct Wanted {
    handles: HashMap<u64, Arc<Mask>>,
    next: u64,
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
            state: RwLock::new(State {
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

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    pub(crate) fn is_metadata_only(&self) -> bool {
        self.metadata_only.load(Ordering::Relaxed)
    }

    /// Makes it hold whole objects. Only before its reflector has started.
    pub(crate) fn hold_all(&self) {
        self.metadata_only.store(false, Ordering::Relaxed);
    }

    /// Whether what is listed and watched can be read in protobuf: the metadata of all kinds can be.
    pub(crate) fn reads_protobuf(&self) -> bool {
        let is_known = self.is_metadata_only() || protobuf::knows(&self.resource.kind);
        is_known && !self.json_only.load(Ordering::Relaxed)
    }

    /// Makes it read JSON from now on. Answers whether that is news.
    pub(crate) fn read_json_only(&self) -> bool {
        !self.json_only.swap(true, Ordering::Relaxed)
    }

    /// Decodes what the server answered to a write. The event that tells the same is not decoded again; nor is the answer,
    /// where the event was quicker.
    pub(crate) fn decode(&self, answer: &Answer) -> Result<Arc<Object>, DecodeError> {
        let mask = self.wanted_mask();
        if let Some((uid, version)) = answer.version() {
            let state = self.state();
            let cached = state
                .indexer
                .by_uid(&uid)
                .filter(|own| own.resource_version == version);
            if let Some(cached) = cached.filter(|own| own.mask.covers(&mask)) {
                return Ok(Arc::clone(cached));
            }
        }
        let object = self.decoder(&mask, &mut Vec::new()).answer(answer.body())?;
        let is_whole = self.is_metadata_only() || !answer.is_metadata();
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

/// The handles' side.
impl Core {
    /// A new handle with what it wants; answers its number.
    pub(crate) fn register(
        &self,
        mask: &Arc<Mask>,
        indexes: &[FieldPath],
        selectors: &[FieldPath],
    ) -> u64 {
        let number = {
            let mut wanted = self.wanted.lock();
            wanted.next += 1;
            let number = wanted.next;
            wanted.handles.insert(number, Arc::clone(mask));
            if !wanted.union.covers(mask) {
                wanted.union = Arc::new(wanted.union.union(mask));
            }
            number
        };
        if !indexes.is_empty() || !selectors.is_empty() {
            let mut state = self.state.write();
            indexes.iter().for_each(|path| state.indexer.add_path(path));
            selectors
                .iter()
                .for_each(|path| state.indexer.add_selector(path));
        }
        self.widen.notify_one();
        number
    }

    /// A handle is gone; answers how many are left. What only it wanted is kept until the next list.
    pub(crate) fn unregister(&self, number: u64) -> usize {
        let mut wanted = self.wanted.lock();
        wanted.handles.remove(&number);
        let union = wanted
            .handles
            .values()
            .fold(Mask::default(), |union, mask| union.union(mask));
        wanted.union = Arc::new(union);
        wanted.handles.len()
    }

    pub(crate) fn handles(&self) -> usize {
        self.wanted.lock().handles.len()
    }

    /// The fields that all handles want together.
    pub(crate) fn wanted_mask(&self) -> Arc<Mask> {
        Arc::clone(&self.wanted.lock().union)
    }

    /// Whether the cache holds a whole list with these fields.
    pub(crate) fn holds(&self, mask: &Mask) -> bool {
        self.state().holds(mask)
    }

    pub(crate) fn subscribe(&self, mask: &Arc<Mask>, wants: Arc<Wants>) -> Deltas {
        let pending = Arc::new(Pending::default());
        let mut state = self.state.write();
        if state.stopped {
            pending.close();
        }
        let mut subscriber = Subscriber {
            pending: Arc::clone(&pending),
            mask: Arc::clone(mask),
            wants,
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
        self.problem.lock().clone()
    }
}

/// The reflector's side.
impl Core {
    /// What the objects of the cache were pruned by.
    pub(crate) fn held_mask(&self) -> Arc<Mask> {
        Arc::clone(&self.state().mask)
    }

    /// Whether some handle wants fields that the cache does not hold.
    pub(crate) fn is_too_narrow(&self) -> bool {
        !self.state().mask.covers(&self.wanted_mask())
    }

    /// Takes a whole list as of a resource version. Who subscribed for wider fields that it holds joins with it. `reset`
    /// if the server's versions went back.
    pub(crate) fn replace(
        &self,
        objects: Vec<Arc<Object>>,
        position: u64,
        mask: Arc<Mask>,
        reset: bool,
    ) {
        let mut deltas = Vec::new();
        let mut state = self.state.write();
        state.indexer.replace(objects, reset, &mut deltas);
        state.mask = mask;
        state.listed = true;
        state.position = if reset {
            position
        } else {
            position.max(state.position)
        };
        state.tell(&deltas);
        let State {
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

    /// Takes changes and bookmarks in their order. Answers false if a version went back, and takes nothing from there on.
    pub(crate) fn apply(&self, events: Vec<Event>) -> bool {
        let mut deltas = Vec::new();
        let mut in_order = true;
        self.events
            .fetch_add(events.len() as u64, Ordering::Relaxed);
        let mut state = self.state.write();
        for event in events {
            let version = match &event {
                Event::Upsert(object) | Event::Delete(object) => object.resource_version,
                // A server that lags behind the one before sends old bookmarks; they say nothing.
                Event::Bookmark {
                    resource_version, ..
                } => state.position.max(*resource_version),
                Event::Error(_) => state.position,
            };
            // Events may share a version: what a lease held in etcd goes in one transaction.
            if version < state.position {
                in_order = false;
                break;
            }
            match event {
                Event::Upsert(object) => state.indexer.upsert(object, &mut deltas),
                Event::Delete(object) => {
                    state
                        .indexer
                        .remove(&object.uid.clone(), Some(object), &mut deltas)
                }
                Event::Bookmark { .. } | Event::Error(_) => {}
            }
            state.position = version;
        }
        state.tell(&deltas);
        let position = state.position;
        drop(state);
        self.acknowledged.pass(position);
        self.position
            .send_if_modified(|own| std::mem::replace(&mut own.version, position) != position);
        in_order
    }

    /// Why it can't list or watch, or that it can. Answers whether that is news.
    pub(crate) fn set_problem(&self, problem: Option<String>) -> bool {
        let mut own = self.problem.lock();
        let is_news = *own != problem;
        *own = problem;
        is_news
    }

    /// The reflector has stopped.
    pub(crate) fn close(&self) {
        let mut state = self.state.write();
        state.stopped = true;
        state
            .subscribers
            .drain(..)
            .for_each(|subscriber| subscriber.pending.close());
    }
}

impl State {
    fn holds(&self, mask: &Mask) -> bool {
        self.listed && self.mask.covers(mask)
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Tells all who have joined.
    fn tell(&mut self, deltas: &[Delta]) {
        if deltas.is_empty() {
            return;
        }
        self.subscribers
            .retain(|subscriber| !subscriber.pending.is_closed());
        for subscriber in self
            .subscribers
            .iter()
            .filter(|subscriber| subscriber.joined)
        {
            subscriber.pending.push(
                deltas
                    .iter()
                    .filter(|delta| (subscriber.wants)(delta))
                    .cloned(),
            );
        }
    }
}

impl Subscriber {
    fn join(&mut self, indexer: &Indexer) {
        self.joined = true;
        let add = |object: &Arc<Object>| Delta {
            old: None,
            new: Some(Arc::clone(object)),
            between: Vec::new(),
            initial: true,
        };
        self.pending
            .push(indexer.iter().map(add).filter(|delta| (self.wants)(delta)));
        self.pending.finish_initial();
    }
}
