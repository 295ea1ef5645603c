//! The queue's state machine: the state of each key, and which getters and metrics an operation affects.
//!
//! It has no lock, no clock and no `await`: `queue.rs` locks it and passes the time, which must never go back. A key is
//! ready (in a lane), processed, or in its minimum interval; in the latter two states it may be dirty, which means that
//! it was added again and becomes ready afterwards.
//!
//! client-go has the same states in two sets, `dirty` and `processing` (`util/workqueue/queue.go`). There, a key is in
//! the queue if it is in `dirty` alone. The minimum interval is Flyball's.
//!
//! # Example
//!
//! One key in a queue with a minimum interval of 25 ms:
//!
//! | time, ms | operation | the key afterwards |
//! |---|---|---|
//! | 0 | `add` | ready |
//! | 1 | `next`, by worker A | processed |
//! | 3 | `add` | processed and dirty: it has no ticket, so that `next` doesn't give it to worker B |
//! | 5 | `done` | in its interval, which ends 25 ms after the start of the run, at 26; dirty |
//! | 9 | `add` | the same: coalesced with the add at 3 |
//! | 26 | `advance` | ready, and has been queued since 3 |
//! | 27 | `next` | processed |
//! | 29 | `add_urgent`, for a deletion | processed, dirty and urgent |
//! | 30 | `done` | ready at once: the interval yields to an urgent add |
//! | 31 | `next` | processed |
//! | 91 | `done` | in its interval until 151, as long as the run of 60 ms took; this one does not yield |
//! | 151 | `advance` | unknown to the queue, because nothing was added in the meantime |

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use tokio::time::{Duration, Instant};

use crate::delayed::Delayed;
use crate::lanes::Lanes;
use crate::memory::{KEY_BLOCK, shrink_if_sparse};
use crate::pending::Pending;
use crate::{Causes, Held, Priority, Snapshot};

/// After a long run a key waits for as long as the run took, but no longer than this many minimum intervals.
const MAX_INTERVALS: u32 = 4;

/// A key that is ready, processed or in its minimum interval.
struct Key<R> {
    /// Why the key must be processed; `None` if it need not be. Has a ticket if the key is ready; else the key is
    /// dirty.
    pending: Option<Pending<R>>,
    /// The key's minimum interval, if the key is in one.
    interval: Option<Interval>,
    /// Whether an urgent add came since the key was queued.
    is_urgent: bool,
}

/// The minimum interval that a key is in.
#[derive(Clone, Copy)]
struct Interval {
    end: IntervalEnd,
    /// Whether an urgent add ends the interval. False if the run before took longer than the interval.
    yields: bool,
}

/// When a key's minimum interval ends, and the number of the run before it, which keeps keys of the same instant apart.
type IntervalEnd = (Instant, u64);

/// A run of a key: the time that a worker has it.
struct Run {
    started: Instant,
    priority: Priority,
}

/// A key that a worker takes.
pub(crate) struct Taken<K, R> {
    pub(crate) key: K,
    pub(crate) causes: Causes<R>,
    pub(crate) priority: Priority,
    /// How long the key was queued.
    pub(crate) queued: Duration,
    /// The number of the run that begins.
    pub(crate) run: u64,
}

/// The result of a get.
pub(crate) enum Next<K, R> {
    Taken(Taken<K, R>),
    /// No key is ready, nor will be before this time, unless one is added.
    Empty(Option<Instant>),
    /// The queue is shut down, and no key is left to get.
    Ended,
}

/// The effects of an operation on getters and metrics, to be applied once the lock is released.
#[derive(Default)]
pub(crate) struct Effects {
    /// The number of keys that were queued.
    pub(crate) added: usize,
    /// The number of keys that became ready.
    pub(crate) ready: usize,
    /// Whether all waiting getters must look again: the next deadline is earlier, or the queue has ended.
    pub(crate) wake_all: bool,
    /// Whether those who wait for the drain must look again.
    pub(crate) drained: bool,
}

/// The state of a queue, without its rate limiter.
pub(crate) struct QueueState<K, R> {
    /// Every key that is ready, processed or in its minimum interval, and no other.
    keys: HashMap<K, Key<R>>,
    key_bytes: fn(&K) -> usize,
    /// The bytes of all keys in `keys`.
    bytes: usize,
    lanes: Lanes<K>,
    /// The delayed keys. Independent of `keys`: an add does not cancel a delayed add of the same key.
    delayed: Delayed<K, R>,
    /// The keys in their minimum interval, by its end.
    in_interval: BTreeMap<IntervalEnd, K>,
    /// The ends at which a dirty key becomes ready. Getters need not wake up at the others.
    dirty_interval_ends: BTreeSet<IntervalEnd>,
    minimum_interval: Duration,
    /// The runs in progress. They are numbered in the order in which they start, so that the first is the oldest.
    runs: BTreeMap<u64, Run>,
    next_run: u64,
    /// The number of dirty keys.
    dirty: usize,
    shut_down: bool,
    draining: bool,
    effects: Effects,
}

impl<K: Eq + Hash + Clone, R> QueueState<K, R> {
    pub(crate) fn new(
        ageing: Duration,
        minimum_interval: Duration,
        key_bytes: fn(&K) -> usize,
    ) -> Self {
        Self {
            keys: HashMap::new(),
            key_bytes,
            bytes: 0,
            lanes: Lanes::new(ageing),
            delayed: Delayed::new(key_bytes),
            in_interval: BTreeMap::new(),
            dirty_interval_ends: BTreeSet::new(),
            minimum_interval,
            runs: BTreeMap::new(),
            next_run: 0,
            dirty: 0,
            shut_down: false,
            draining: false,
            effects: Effects::default(),
        }
    }

    /// Queues the delayed keys that are due, and the dirty keys whose minimum interval has ended.
    ///
    /// Precedes every other operation, so that each key is queued as of its own time and in the order of these times,
    /// however late the next operation is.
    pub(crate) fn advance(&mut self, now: Instant) {
        loop {
            let due = self.delayed.next_due();
            let ended = self.in_interval.first_entry().filter(|entry| {
                let (end, _) = *entry.key();
                end <= now && due.is_none_or(|due| end <= due)
            });
            if let Some(first) = ended {
                let (end, key) = first.remove_entry();
                self.dirty_interval_ends.remove(&end);
                self.requeue_or_remove(key, end.0);
            } else if let Some(due) = self.delayed.pop_due(now) {
                self.enqueue(due.key, due.priority, due.causes, due.due);
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
            self.enqueue(key, priority, Causes::new(reason), now);
        }
    }

    /// Adds a key, and ends its minimum interval, or skips the one after its run, if the interval yields.
    pub(crate) fn add_urgent(&mut self, key: K, priority: Priority, reason: R, now: Instant) {
        if self.shut_down {
            return;
        }
        self.enqueue(key.clone(), priority, Causes::new(reason), now);
        let Some(entry) = self.keys.get_mut(&key) else {
            return;
        };
        entry.is_urgent = true;
        if let Some(Interval { end, yields: true }) = entry.interval {
            self.dirty_interval_ends.remove(&end);
            self.in_interval.remove(&end);
            self.requeue_or_remove(key, now);
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
        let is_current = |key: &K, ticket| holds_ticket(keys, key, ticket);
        let Some(key) = self.lanes.pop(now, is_current) else {
            return if self.has_ended() {
                Next::Ended
            } else {
                Next::Empty(self.next_due())
            };
        };
        let entry = self.keys.get_mut(&key);
        let pending = entry.and_then(|entry| {
            entry.is_urgent = false;
            entry.pending.take()
        });
        let Some(pending) = pending else {
            unreachable!("a current slot of a lane belongs to a pending key");
        };
        let run = self.next_run;
        self.next_run += 1;
        let priority = pending.priority;
        self.runs.insert(
            run,
            Run {
                started: now,
                priority,
            },
        );
        self.effects.wake_all |= self.has_ended();
        let queued = now.saturating_duration_since(pending.added);
        Next::Taken(Taken {
            key,
            causes: pending.causes,
            priority,
            queued,
            run,
        })
    }

    /// Ends a run of a key and returns how long it took. The key's minimum interval begins, if it has one; else the key
    /// is queued again if it is dirty.
    pub(crate) fn done(&mut self, key: &K, run: u64, now: Instant) -> Duration {
        let Run { started, priority } = self.runs.remove(&run).unwrap_or(Run {
            started: now,
            priority: Priority::Low,
        });
        let worked = now.saturating_duration_since(started);
        let interval = self.interval(run, started, priority, now);
        match (interval, self.keys.get_mut(key)) {
            (Some(interval), Some(entry)) if !(interval.yields && entry.is_urgent) => {
                entry.interval = Some(interval);
                let is_dirty = entry.pending.is_some();
                self.in_interval.insert(interval.end, key.clone());
                if is_dirty {
                    self.await_interval_end(interval.end);
                }
            }
            _ => self.requeue_or_remove(key.clone(), now),
        }
        self.effects.drained |= self.is_drained();
        worked
    }

    /// The minimum interval after a run; `None` if the key need not wait.
    fn interval(
        &self,
        run: u64,
        started: Instant,
        priority: Priority,
        now: Instant,
    ) -> Option<Interval> {
        // A run for an initial list or a reload must not delay the changes after it.
        if priority == Priority::Low || self.shut_down {
            return None;
        }
        // A key whose runs take long is processed for half of the time at most.
        let worked = now.saturating_duration_since(started);
        let pause = worked.min(self.minimum_interval * MAX_INTERVALS);
        let end = (started + self.minimum_interval).max(now + pause);
        (end > now).then_some(Interval {
            end: (end, run),
            yields: worked <= self.minimum_interval,
        })
    }

    /// Makes a key that is neither processed nor in its minimum interval any more ready if it is dirty. Removes it
    /// otherwise.
    fn requeue_or_remove(&mut self, key: K, now: Instant) {
        let Some(entry) = self.keys.get_mut(&key) else {
            return;
        };
        entry.interval = None;
        if let Some(pending) = &mut entry.pending {
            pending.ticket = Some(self.lanes.push(key, pending.priority, now));
            self.dirty -= 1;
            self.effects.ready += 1;
        } else {
            self.bytes -= (self.key_bytes)(&key);
            self.keys.remove(&key);
            shrink_if_sparse(&mut self.keys);
        }
    }

    /// Records that a key in its minimum interval became dirty.
    fn await_interval_end(&mut self, end: IntervalEnd) {
        let before = self.next_due();
        self.dirty_interval_ends.insert(end);
        self.effects.wake_all |= before.is_none_or(|before| end.0 < before);
    }

    /// When the next key becomes ready without an operation on it.
    fn next_due(&self) -> Option<Instant> {
        let interval_end = self.dirty_interval_ends.first().map(|(end, _)| *end);
        interval_end
            .into_iter()
            .chain(self.delayed.next_due())
            .min()
    }

    /// In how long the first delayed key is due.
    pub(crate) fn next_delayed(&self, now: Instant) -> Option<Duration> {
        let due = self.delayed.next_due()?;
        Some(due.saturating_duration_since(now))
    }

    /// Ignores later adds, drops the delayed keys and ends all minimum intervals. `draining` says that the caller waits
    /// for the queued and processed keys to be done.
    pub(crate) fn shut_down(&mut self, draining: bool) {
        self.shut_down = true;
        self.draining = draining;
        self.delayed.clear();
        self.dirty_interval_ends = BTreeSet::new();
        for ((end, _), key) in std::mem::take(&mut self.in_interval) {
            self.requeue_or_remove(key, end);
        }
        self.effects.wake_all = true;
        self.effects.drained |= self.is_drained();
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    /// Whether a wait for the drain is over: every key is done, or a plain shutdown ended the wait.
    pub(crate) fn is_drained(&self) -> bool {
        self.shut_down && (!self.draining || self.keys.is_empty())
    }

    /// The number of ready keys.
    pub(crate) fn ready(&self) -> usize {
        self.lanes.len()
    }

    pub(crate) fn held(&self) -> Held {
        Held {
            keys: self.keys.len() + self.delayed.len(),
            bytes: self.bytes + self.delayed.bytes(),
            memory: self.bytes + self.keys.len() * Self::KEY + self.delayed.memory(),
        }
    }

    /// The bytes of memory of a key besides its text. A map or a lane that has just grown has twice the entries it needs.
    const KEY: usize = KEY_BLOCK + 2 * (size_of::<(K, Key<R>)>() + Lanes::<K>::SLOT);

    pub(crate) fn snapshot(&self, now: Instant) -> Snapshot {
        let ages = || {
            let starts = self.runs.values().map(|run| run.started);
            starts.map(|started| now.saturating_duration_since(started))
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

    /// Whether no key is left to get, now or after a worker is done.
    fn has_ended(&self) -> bool {
        self.shut_down && self.dirty == 0 && self.lanes.len() == 0
    }

    /// Makes a key pending. If it is pending already, the add is coalesced.
    fn enqueue(&mut self, key: K, priority: Priority, causes: Causes<R>, now: Instant) {
        let pending = |causes, ticket| Pending {
            causes,
            priority,
            added: now,
            ticket,
        };
        let Some(entry) = self.keys.get_mut(&key) else {
            let ticket = self.lanes.push(key.clone(), priority, now);
            let entry = Key {
                pending: Some(pending(causes, Some(ticket))),
                interval: None,
                is_urgent: false,
            };
            self.bytes += (self.key_bytes)(&key);
            self.keys.insert(key, entry);
            self.effects.added += 1;
            self.effects.ready += 1;
            return;
        };
        match &mut entry.pending {
            Some(pending) => {
                pending.causes.merge(causes);
                if priority <= pending.priority {
                    return;
                }
                pending.priority = priority;
                if pending.ticket.is_some() {
                    pending.ticket = Some(self.lanes.push(key, priority, now));
                    let keys = &self.keys;
                    self.lanes
                        .record_promotion(|key, ticket| holds_ticket(keys, key, ticket));
                }
            }
            none => {
                // The key is processed or in its minimum interval: it gets its ticket afterwards.
                *none = Some(pending(causes, None));
                let interval = entry.interval;
                self.dirty += 1;
                self.effects.added += 1;
                if let Some(interval) = interval {
                    self.await_interval_end(interval.end);
                }
            }
        }
    }
}

/// Whether a ticket is the key's current one.
fn holds_ticket<K: Eq + Hash, R>(keys: &HashMap<K, Key<R>>, key: &K, ticket: u64) -> bool {
    keys.get(key)
        .and_then(|key| key.pending.as_ref())
        .is_some_and(|pending| pending.ticket == Some(ticket))
}
