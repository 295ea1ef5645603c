//! The queue's handle. Each operation locks the state (`state.rs`), applies itself to it, and after the lock is
//! released wakes getters and reports metrics.

use std::fmt;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use crate::limiter::RateLimiter;
use crate::state::{Effects, Next, QueueState, Taken};
use crate::token_bucket::MAX_WAIT;
use crate::{Causes, Held, Metrics, NoMetrics, Priority, RateLimit, Snapshot};

/// The settings of a queue.
#[derive(Clone)]
pub struct Config<K> {
    /// The rate limit of [`WorkQueue::add_rate_limited`]. Default: client-go's.
    pub rate_limit: RateLimit,
    /// A key that has waited for this long in the low lane counts as aged (see [`Priority`]). Default: 1 s, which is
    /// short after an initial list or a reload, and far above the wait in a queue that keeps up.
    pub ageing: Duration,
    /// The minimum interval from the start of one run of a key to the start of the next. Adds in between are coalesced,
    /// so that a burst of changes costs few runs. Default: 0, for none.
    ///
    /// If a run took longer than half of the interval, the key waits after it for as long as the run took, but no
    /// longer than four intervals. The first add of a burst never waits, nor does an add after a run of low priority.
    pub minimum_interval: Duration,
    /// Returns the size of a key, for [`WorkQueue::held`]. Default: 0.
    pub key_bytes: fn(&K) -> usize,
    /// Receives the queue's events. Default: [`NoMetrics`].
    pub metrics: Arc<dyn Metrics>,
}

impl<K> Default for Config<K> {
    fn default() -> Self {
        let (rate_limit, metrics) = (RateLimit::default(), Arc::new(NoMetrics));
        Self {
            rate_limit,
            ageing: Duration::from_secs(1),
            minimum_interval: Duration::ZERO,
            key_bytes: |_| 0,
            metrics,
        }
    }
}

/// A queue of keys `K`, each queued for reasons `R`. Clones are handles to the same queue.
///
/// **Time.** The queue spawns no task. Every operation first queues the delayed keys that are due, as of the time at
/// which they became due, and a waiting [`get`](Self::get) sleeps until the next one is due at the latest. So what an
/// observer sees does not depend on whether a worker waits, and there is no task to join. The clock is tokio's: `get`
/// needs a runtime with time enabled, and tests may pause it. The other operations can be called from anywhere.
///
/// **Locking.** There are two mutexes, each held for a few map operations: never across an await, and never while
/// metrics are reported.
pub struct WorkQueue<K: Eq + Hash + Clone, R> {
    shared: Arc<Shared<K, R>>,
}

struct Shared<K, R> {
    state: Mutex<QueueState<K, R>>,
    limiter: Mutex<RateLimiter<K>>,
    metrics: Arc<dyn Metrics>,
    /// Wakes getters. A getter registers before it looks at the state, so that it misses no wake-up.
    ready: Notify,
    /// Wakes those who wait for a drain to end.
    drained: Notify,
}

/// A key that a worker is processing. No other worker gets the key until the item is dropped.
///
/// Dropping it marks the key as done, also when the worker panics. If the key was added in the meantime, it is queued
/// again then, or at the end of its minimum interval (see [`Config::minimum_interval`]).
#[must_use = "dropping the item means that the key is done"]
pub struct Item<K: Eq + Hash + Clone, R> {
    taken: Taken<K, R>,
    queue: WorkQueue<K, R>,
}

impl<K: Eq + Hash + Clone, R> WorkQueue<K, R> {
    pub fn new(config: Config<K>) -> Self {
        let shared = Shared {
            state: Mutex::new(QueueState::new(
                config.ageing,
                config.minimum_interval,
                config.key_bytes,
            )),
            limiter: Mutex::new(RateLimiter::new(config.rate_limit)),
            metrics: config.metrics,
            ready: Notify::new(),
            drained: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Queues a key now.
    ///
    /// The add is coalesced with the earlier one if the key is queued already, waits if a worker has the key, and is
    /// ignored after a shutdown.
    pub fn add(&self, key: K, priority: Priority, reason: R) {
        self.with_state(|state, now| state.add(key, priority, reason, now));
    }

    /// Queues a key now, without the minimum interval (see [`Config::minimum_interval`]). After a run that took longer
    /// than the interval, the key still waits for as long as the run took.
    pub fn add_urgent(&self, key: K, priority: Priority, reason: R) {
        self.with_state(|state, now| state.add_urgent(key, priority, reason, now));
    }

    /// Queues a key when the delay has passed; a zero delay means now.
    ///
    /// A delayed key waits for the earliest of the requested times. [`add`](Self::add) does not cancel a delayed add; a
    /// shutdown does.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority, reason: R) {
        let is_open = self.with_state(|state, now| {
            if delay.is_zero() {
                state.add(key, priority, reason, now);
            } else {
                state.add_at(key, now + delay.min(MAX_WAIT), priority, reason);
            }
            !state.is_shut_down()
        });
        if is_open {
            self.shared.metrics.on_retry();
        }
    }

    /// Queues a key after its backoff (see [`RateLimit`]), counts a requeue for it, and returns the delay.
    ///
    /// The caller gives up after as many requeues as it sees fit: see [`num_requeues`](Self::num_requeues).
    pub fn add_rate_limited(&self, key: K, priority: Priority, reason: R) -> Duration {
        let delay = self.shared.limiter.lock().when(key.clone(), Instant::now());
        self.add_after(key, delay, priority, reason);
        delay
    }

    /// Resets a key's backoff. Call it when the key succeeded or was given up. It does not remove the key from the
    /// queue.
    pub fn forget(&self, key: &K) {
        self.shared.limiter.lock().forget(key);
    }

    /// The number of rate-limited adds of a key since it was last forgotten.
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.shared.limiter.lock().num_requeues(key)
    }

    /// Changes the rate limit of later adds, as for a reloaded plugin. Queued keys and backoffs stay.
    pub fn set_rate_limit(&self, limit: RateLimit) {
        self.shared.limiter.lock().set_limit(limit);
    }

    /// Waits for a key and takes it. Returns `None` after a shutdown, once no key is queued or dirty.
    ///
    /// Cancel-safe: a key is taken only in the poll that returns it. Yields to other tasks now and then, even if a key
    /// is always ready.
    pub async fn get(&self) -> Option<Item<K, R>> {
        tokio::task::coop::consume_budget().await;
        loop {
            let mut woken = pin!(self.shared.ready.notified());
            woken.as_mut().enable();
            match self.with_state(|state, now| state.next(now)) {
                Next::Taken(taken) => {
                    let item = Item {
                        taken,
                        queue: self.clone(),
                    };
                    self.shared.metrics.on_get(item.queued());
                    return Some(item);
                }
                Next::Ended => return None,
                Next::Empty(None) => woken.await,
                // Look again after a wake-up as well as after the deadline.
                Next::Empty(Some(deadline)) => drop(tokio::time::timeout_at(deadline, woken).await),
            }
        }
    }

    /// The number of ready keys. Others may add and get keys at the same time.
    pub fn len(&self) -> usize {
        self.with_state(|state, _| state.ready())
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number and the size of the keys that the queue holds.
    pub fn held(&self) -> Held {
        self.with_state(|state, _| state.held())
    }

    /// In how long the first delayed key is due; `None` if no key is delayed.
    pub fn next_delayed(&self) -> Option<Duration> {
        self.with_state(|state, now| state.next_delayed(now))
    }

    /// The queue's gauges. Takes time proportional to the number of keys being processed.
    pub fn snapshot(&self) -> Snapshot {
        self.with_state(|state, now| state.snapshot(now))
    }

    /// Ignores later adds, drops the delayed keys and wakes the getters, which serve the queued keys and then get
    /// `None`. Ends a wait in [`shutdown_with_drain`](Self::shutdown_with_drain).
    pub fn shutdown(&self) {
        self.with_state(|state, _| state.shut_down(false));
    }

    /// Shuts down and waits until every queued or processed key is done.
    ///
    /// Needs workers that continue to get keys: without them it waits until [`shutdown`](Self::shutdown) is called. If
    /// it is cancelled, the queue stays shut down.
    pub async fn shutdown_with_drain(&self) {
        self.with_state(|state, _| state.shut_down(true));
        loop {
            let mut woken = pin!(self.shared.drained.notified());
            woken.as_mut().enable();
            if self.with_state(|state, _| state.is_drained()) {
                return;
            }
            woken.await;
        }
    }

    pub fn is_shut_down(&self) -> bool {
        self.with_state(|state, _| state.is_shut_down())
    }

    /// Runs an operation on the state as of now, under the lock. Then wakes getters and reports metrics.
    fn with_state<T>(&self, operation: impl FnOnce(&mut QueueState<K, R>, Instant) -> T) -> T {
        let (result, effects) = {
            let mut state = self.shared.state.lock();
            // Read under the lock, so that the state's time never goes back.
            let now = Instant::now();
            state.advance(now);
            (operation(&mut state, now), state.take_effects())
        };
        self.notify(&effects);
        result
    }

    fn notify(&self, effects: &Effects) {
        for _ in 0..effects.added {
            self.shared.metrics.on_add();
        }
        if effects.wake_all || effects.ready > 1 {
            self.shared.ready.notify_waiters();
        } else if effects.ready == 1 {
            self.shared.ready.notify_one();
        }
        if effects.drained {
            self.shared.drained.notify_waiters();
        }
    }
}

impl<K: Eq + Hash + Clone, R> Item<K, R> {
    pub fn key(&self) -> &K {
        &self.taken.key
    }

    /// Why the key was queued.
    pub fn causes(&self) -> &Causes<R> {
        &self.taken.causes
    }

    /// The highest priority of the coalesced adds.
    pub fn priority(&self) -> Priority {
        self.taken.priority
    }

    /// How long the key was queued, from the first of the coalesced adds.
    pub fn queued(&self) -> Duration {
        self.taken.queued
    }
}

impl<K: Eq + Hash + Clone, R> Drop for Item<K, R> {
    fn drop(&mut self) {
        let worked = self
            .queue
            .with_state(|state, now| state.done(&self.taken.key, self.taken.run, now));
        self.queue.shared.metrics.on_done(worked);
    }
}

impl<K: Eq + Hash + Clone, R> Clone for WorkQueue<K, R> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<K: Eq + Hash + Clone, R> fmt::Debug for WorkQueue<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.snapshot()).finish()
    }
}

impl<K: Eq + Hash + Clone + fmt::Debug, R: fmt::Debug> fmt::Debug for Item<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", self.key())
            .field("causes", self.causes())
            .finish_non_exhaustive()
    }
}
