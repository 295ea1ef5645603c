//! The queue's decisions: what each key is going through, and what has to be told to whom. No lock, no clock, no
//! `await`: every operation is given the time, which must never go back.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use tokio::time::{Duration, Instant};

use crate::delayed::Delayed;
use crate::lanes::Lanes;
use crate::pending::Pending;
use crate::{Causes, Priority, Snapshot, trim};

/// A key that is queued, processed, or both.
struct Key<R> {
    /// Why it must be processed. Not processed at the same time: it has a ticket in a lane. Else: it is dirty.
    pending: Option<Pending<R>>,
    processing: bool,
}

/// A key given to a worker.
pub(crate) struct Got<K, R> {
    pub(crate) key: K,
    pub(crate) causes: Causes<R>,
    pub(crate) priority: Priority,
    pub(crate) queued: Duration,
    /// Names this run when it is done.
    pub(crate) run: u64,
}

/// What a get found.
pub(crate) enum Next<K, R> {
    Got(Got<K, R>),
    /// Nothing is ready before this time, or before somebody adds a key.
    Empty(Option<Instant>),
    /// The queue is shut down, and nothing is left to get.
    Ended,
}

/// What an operation changed that others must be told of, once the lock is released.
#[derive(Default)]
pub(crate) struct Effects {
    /// So many keys became queued.
    pub(crate) added: usize,
    /// So many keys became ready for getters.
    pub(crate) ready: usize,
    /// All waiting getters must look again: the next deadline is earlier, or nothing more will come.
    pub(crate) wake_all: bool,
    /// Whoever waits for the drain must look again.
    pub(crate) drained: bool,
}

/// The whole queue but its limiter.
pub(crate) struct State<K, R> {
    /// Every key that is queued or processed, and no other.
    keys: HashMap<K, Key<R>>,
    lanes: Lanes<K>,
    /// Keys for later. Independent of `keys`: an add now leaves the add for later standing.
    delayed: Delayed<K, R>,
    /// When each run began. Runs are numbered in the order in which they begin: the first is the oldest.
    runs: BTreeMap<u64, Instant>,
    next_run: u64,
    /// How many keys are pending while they are processed.
    dirty: usize,
    shut_down: bool,
    draining: bool,
    effects: Effects,
}

impl<K: Eq + Hash + Clone, R> State<K, R> {
    pub(crate) fn new(ageing: Duration) -> Self {
        Self {
            keys: HashMap::new(),
            lanes: Lanes::new(ageing),
            delayed: Delayed::new(),
            runs: BTreeMap::new(),
            next_run: 0,
            dirty: 0,
            shut_down: false,
            draining: false,
            effects: Effects::default(),
        }
    }

    /// Queues the delayed keys whose time has come. Precedes every other operation, so that each key is queued as of its
    /// own time, and in the order of these times among all adds, however late somebody looks.
    pub(crate) fn settle(&mut self, now: Instant) {
        while let Some((at, key, priority, causes)) = self.delayed.pop_due(now) {
            self.queue(key, priority, causes, at);
        }
    }

    pub(crate) fn take_effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn add(&mut self, key: K, priority: Priority, reason: R, now: Instant) {
        if !self.shut_down {
            self.queue(key, priority, Causes::new(reason), now);
        }
    }

    pub(crate) fn add_at(&mut self, key: K, at: Instant, priority: Priority, reason: R) {
        if self.shut_down {
            return;
        }
        let before = self.delayed.next_due();
        self.delayed.add(key, at, priority, Causes::new(reason));
        self.effects.wake_all |= before.is_none_or(|before| at < before);
    }

    /// Gives the next key to a worker.
    pub(crate) fn next(&mut self, now: Instant) -> Next<K, R> {
        let keys = &self.keys;
        let Some(key) = self.lanes.pop(now, |key, ticket| holds_ticket(keys, key, ticket)) else {
            return if self.ended() { Next::Ended } else { Next::Empty(self.delayed.next_due()) };
        };
        let entry = self.keys.get_mut(&key);
        let Some((entry, pending)) = entry.and_then(|entry| entry.pending.take().map(|pending| (entry, pending)))
        else {
            unreachable!("a live slot of a lane belongs to a pending key");
        };
        entry.processing = true;
        let run = self.next_run;
        self.next_run += 1;
        self.runs.insert(run, now);
        self.effects.wake_all |= self.ended();
        let queued = now.saturating_duration_since(pending.added);
        Next::Got(Got { key, causes: pending.causes, priority: pending.priority, queued, run })
    }

    /// Takes a key back from its worker and says how long it was had; queues it again if it is dirty.
    pub(crate) fn done(&mut self, key: &K, run: u64, now: Instant) -> Duration {
        let worked = self.runs.remove(&run).map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        if let Some(entry) = self.keys.get_mut(key) {
            entry.processing = false;
            if let Some(pending) = &mut entry.pending {
                pending.ticket = Some(self.lanes.push(key.clone(), pending.priority, now));
                self.dirty -= 1;
                self.effects.ready += 1;
            } else {
                self.keys.remove(key);
                trim(&mut self.keys);
            }
        }
        self.effects.drained |= self.drained();
        worked
    }

    /// Stops taking adds and forgets what was for later. `draining`: whether somebody waits for the rest to be done.
    pub(crate) fn shut_down(&mut self, draining: bool) {
        self.shut_down = true;
        self.draining = draining;
        self.delayed.clear();
        self.effects.wake_all = true;
        self.effects.drained |= self.drained();
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    /// Whether a wait for the drain is over: all is done, or a plain shutdown cut it short.
    pub(crate) fn drained(&self) -> bool {
        self.shut_down && (!self.draining || self.keys.is_empty())
    }

    pub(crate) fn ready(&self) -> usize {
        self.lanes.len()
    }

    pub(crate) fn snapshot(&self, now: Instant) -> Snapshot {
        let ages = || self.runs.values().map(|began| now.saturating_duration_since(*began));
        Snapshot {
            normal: self.lanes.normal_len(),
            low: self.lanes.low_len(),
            dirty: self.dirty,
            delayed: self.delayed.len(),
            processing: self.runs.len(),
            unfinished_work: ages().sum(),
            longest_running: ages().next().unwrap_or_default(),
        }
    }

    /// Whether there is nothing left to get, now or after a worker is done.
    fn ended(&self) -> bool {
        self.shut_down && self.dirty == 0 && self.lanes.len() == 0
    }

    /// Makes a key pending, or folds the add into what is pending.
    fn queue(&mut self, key: K, priority: Priority, causes: Causes<R>, now: Instant) {
        let Some(entry) = self.keys.get_mut(&key) else {
            let ticket = Some(self.lanes.push(key.clone(), priority, now));
            let pending = Some(Pending { causes, priority, added: now, ticket });
            self.keys.insert(key, Key { pending, processing: false });
            self.effects.added += 1;
            self.effects.ready += 1;
            return;
        };
        let Some(pending) = &mut entry.pending else {
            // A worker has it: it gets its ticket when the worker is done.
            entry.pending = Some(Pending { causes, priority, added: now, ticket: None });
            self.dirty += 1;
            self.effects.added += 1;
            return;
        };
        pending.causes.absorb(causes);
        if priority <= pending.priority {
            return;
        }
        pending.priority = priority;
        if pending.ticket.is_some() {
            pending.ticket = Some(self.lanes.push(key, priority, now));
            let keys = &self.keys;
            self.lanes.promoted(|key, ticket| holds_ticket(keys, key, ticket));
        }
    }
}

fn holds_ticket<K: Eq + Hash, R>(keys: &HashMap<K, Key<R>>, key: &K, ticket: u64) -> bool {
    keys.get(key).and_then(|key| key.pending.as_ref()).is_some_and(|pending| pending.ticket == Some(ticket))
}
