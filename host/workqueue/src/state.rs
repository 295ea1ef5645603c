//! The queue's decisions: what each key is going through, and what has to be told to whom. No lock, no clock, no
//! `await`: every operation is given the time, which must never go back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use tokio::time::{Duration, Instant};

use crate::delayed::Delayed;
use crate::lanes::Lanes;
use crate::pending::Pending;
use crate::{Causes, Priority, Snapshot, trim};

/// How many times the shortest rest a rest is at most.
const LONGEST_REST: u32 = 4;

/// A key that is queued, processed or resting.
struct Key<R> {
    /// Why it must be processed. It has a ticket in a lane, unless it is processed or rests meanwhile: then it is dirty.
    pending: Option<Pending<R>>,
    /// Until when it rests, if it does.
    rests: Option<Due>,
    /// Whether its rest before was ended early, so that this one is not.
    roused: bool,
}

/// When a key has rested, and its last run, which keeps those of the same instant apart.
type Due = (Instant, u64);

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
    /// Every key that is queued or processed or rests, and no other.
    keys: HashMap<K, Key<R>>,
    lanes: Lanes<K>,
    /// Keys for later. Independent of `keys`: an add now leaves the add for later standing.
    delayed: Delayed<K, R>,
    /// The keys that were done, by when they have rested: what is added until then is folded into one run.
    resting: BTreeMap<Due, K>,
    /// Those of them that are dirty. Nobody need look when others have rested.
    awaited: BTreeSet<Due>,
    /// How long it is at least from one run of a key to the next.
    rest: Duration,
    /// When each run began, and how urgent it was. Runs are numbered in the order in which they begin: the first is the oldest.
    runs: BTreeMap<u64, (Instant, Priority)>,
    next_run: u64,
    /// How many keys are pending while they are processed or rest.
    dirty: usize,
    shut_down: bool,
    draining: bool,
    effects: Effects,
}

impl<K: Eq + Hash + Clone, R> State<K, R> {
    pub(crate) fn new(ageing: Duration, rest: Duration) -> Self {
        Self {
            keys: HashMap::new(),
            lanes: Lanes::new(ageing),
            delayed: Delayed::new(),
            resting: BTreeMap::new(),
            awaited: BTreeSet::new(),
            rest,
            runs: BTreeMap::new(),
            next_run: 0,
            dirty: 0,
            shut_down: false,
            draining: false,
            effects: Effects::default(),
        }
    }

    /// Queues the delayed keys whose time has come, and those that have rested. Precedes every other operation, so that each
    /// key is queued as of its own time, and in the order of these times among all adds, however late somebody looks.
    pub(crate) fn settle(&mut self, now: Instant) {
        loop {
            let rested = self
                .resting
                .first_entry()
                .filter(|entry| entry.key().0 <= now);
            let delayed = self.delayed.next_due();
            if let Some(first) = rested.filter(|entry| delayed.is_none_or(|at| entry.key().0 <= at))
            {
                let (due, key) = first.remove_entry();
                self.awaited.remove(&due);
                if let Some(entry) = self.keys.get_mut(&key) {
                    entry.roused = false;
                }
                self.ready_again(key, due.0);
            } else if let Some((at, key, priority, causes)) = self.delayed.pop_due(now) {
                self.queue(key, priority, causes, at);
            } else {
                return;
            }
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

    /// Ends a key's rest, if it rests and the rest before was not ended so.
    pub(crate) fn rouse(&mut self, key: &K, now: Instant) {
        let Some(entry) = self.keys.get_mut(key).filter(|entry| !entry.roused) else {
            return;
        };
        if let Some(due) = entry.rests {
            entry.roused = true;
            self.awaited.remove(&due);
            self.resting.remove(&due);
            self.ready_again(key.clone(), now);
        }
    }

    pub(crate) fn add_at(&mut self, key: K, at: Instant, priority: Priority, reason: R) {
        if self.shut_down {
            return;
        }
        let before = self.next_due();
        self.delayed.add(key, at, priority, Causes::new(reason));
        self.effects.wake_all |= before.is_none_or(|before| at < before);
    }

    /// Gives the next key to a worker.
    pub(crate) fn next(&mut self, now: Instant) -> Next<K, R> {
        let keys = &self.keys;
        let Some(key) = self
            .lanes
            .pop(now, |key, ticket| holds_ticket(keys, key, ticket))
        else {
            return if self.ended() {
                Next::Ended
            } else {
                Next::Empty(self.next_due())
            };
        };
        let entry = self.keys.get_mut(&key);
        let Some(pending) = entry.and_then(|entry| entry.pending.take()) else {
            unreachable!("a live slot of a lane belongs to a pending key");
        };
        let run = self.next_run;
        self.next_run += 1;
        self.runs.insert(run, (now, pending.priority));
        self.effects.wake_all |= self.ended();
        let queued = now.saturating_duration_since(pending.added);
        Next::Got(Got {
            key,
            causes: pending.causes,
            priority: pending.priority,
            queued,
            run,
        })
    }

    /// Takes a key back from its worker and says how long it was had. Once it has rested, it is queued again if it is dirty.
    pub(crate) fn done(&mut self, key: &K, run: u64, now: Instant) -> Duration {
        let (began, priority) = self.runs.remove(&run).unwrap_or((now, Priority::Low));
        let worked = now.saturating_duration_since(began);
        // A run for what was there before does not hold up what happens now.
        let rests = priority > Priority::Low;
        // As long as it worked, where that is longer: it works half of the time at most, however slow its writes are.
        let rested =
            rests.then(|| (began + self.rest).max(now + worked.min(self.rest * LONGEST_REST)));
        let rested = rested.filter(|rested| *rested > now && !self.shut_down);
        match (rested, self.keys.get_mut(key)) {
            (Some(rested), Some(entry)) => {
                let due = (rested, run);
                entry.rests = Some(due);
                let is_dirty = entry.pending.is_some();
                self.resting.insert(due, key.clone());
                if is_dirty {
                    self.await_rest(due);
                }
            }
            _ => self.ready_again(key.clone(), now),
        }
        self.effects.drained |= self.drained();
        worked
    }

    /// Queues a key that was done if it is dirty, and forgets it otherwise.
    fn ready_again(&mut self, key: K, now: Instant) {
        let Some(entry) = self.keys.get_mut(&key) else {
            return;
        };
        entry.rests = None;
        if let Some(pending) = &mut entry.pending {
            pending.ticket = Some(self.lanes.push(key, pending.priority, now));
            self.dirty -= 1;
            self.effects.ready += 1;
        } else {
            self.keys.remove(&key);
            trim(&mut self.keys);
        }
    }

    /// A key that rests became dirty.
    fn await_rest(&mut self, due: Due) {
        let before = self.next_due();
        self.awaited.insert(due);
        self.effects.wake_all |= before.is_none_or(|before| due.0 < before);
    }

    /// When the next key is ready by itself.
    fn next_due(&self) -> Option<Instant> {
        let rested = self.awaited.first().map(|(at, _)| *at);
        rested.into_iter().chain(self.delayed.next_due()).min()
    }

    /// Stops taking adds and forgets what was for later. `draining`: whether somebody waits for the rest to be done.
    pub(crate) fn shut_down(&mut self, draining: bool) {
        self.shut_down = true;
        self.draining = draining;
        self.delayed.clear();
        self.awaited = BTreeSet::new();
        for ((at, _), key) in std::mem::take(&mut self.resting) {
            self.ready_again(key, at);
        }
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
        let ages = || {
            self.runs
                .values()
                .map(|(began, _)| now.saturating_duration_since(*began))
        };
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
            let pending = Some(Pending {
                causes,
                priority,
                added: now,
                ticket,
            });
            self.keys.insert(
                key,
                Key {
                    pending,
                    rests: None,
                    roused: false,
                },
            );
            self.effects.added += 1;
            self.effects.ready += 1;
            return;
        };
        let Some(pending) = &mut entry.pending else {
            // A worker has it, or it rests: it gets its ticket afterwards.
            entry.pending = Some(Pending {
                causes,
                priority,
                added: now,
                ticket: None,
            });
            let rests = entry.rests;
            self.dirty += 1;
            self.effects.added += 1;
            if let Some(due) = rests {
                self.await_rest(due);
            }
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
            self.lanes
                .promoted(|key, ticket| holds_ticket(keys, key, ticket));
        }
    }
}

fn holds_ticket<K: Eq + Hash, R>(keys: &HashMap<K, Key<R>>, key: &K, ticket: u64) -> bool {
    keys.get(key)
        .and_then(|key| key.pending.as_ref())
        .is_some_and(|pending| pending.ticket == Some(ticket))
}
