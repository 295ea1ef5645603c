//! The queue's handle: takes the lock, asks the state, and tells the others after the lock is released.

use std::fmt;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use crate::limiter::{FAR, Limiter};
use crate::state::{Effects, Got, Next, State};
use crate::{Causes, Metrics, NoMetrics, Priority, RateLimit, Snapshot};

/// How a queue behaves.
#[derive(Clone)]
pub struct Config {
    /// How long a rate-limited add waits. Default: client-go's.
    pub rate_limit: RateLimit,
    /// After this time in the low lane a key counts as aged (see [`Priority`]). Default: 1 s, which no one notices after
    /// an initial list or a reload, and which is far above the wait in a queue that keeps up.
    pub ageing: Duration,
    /// How long it is at least from one time that a key is given to a worker to the next. Where it was worked on for longer
    /// than half of that, it rests for as long as it was worked on, up to four times this. What is added until then is folded
    /// into one add, so that a burst of changes costs few runs. The first of a burst is not held up, nor is what comes after
    /// a run of low priority. Default: 0, no rest.
    pub rest: Duration,
    /// Who is told of adds, gets, dones and retries. Default: nobody.
    pub metrics: Arc<dyn Metrics>,
}

impl Default for Config {
    fn default() -> Self {
        let (rate_limit, metrics) = (RateLimit::default(), Arc::new(NoMetrics));
        Self {
            rate_limit,
            ageing: Duration::from_secs(1),
            rest: Duration::ZERO,
            metrics,
        }
    }
}

/// A handle on a queue of keys `K`, each queued for reasons `R`. Clones are handles on the same queue.
///
/// **Time.** The queue runs no task. Every operation first queues the delayed keys whose time has come, as of that
/// time, and a waiting [`get`](Self::get) sleeps no longer than until the next one. So what an observer sees doesn't
/// depend on whether any worker is there, or how late it is; and there is nothing to start, join or leak. The clock
/// is tokio's: a getter needs a runtime with time enabled, and tests may pause it. The other operations can be called
/// from anywhere.
///
/// **Locking.** Two mutexes, each held for a few map operations: never across an await, and never while metrics are told.
pub struct WorkQueue<K: Eq + Hash + Clone, R> {
    shared: Arc<Shared<K, R>>,
}

struct Shared<K, R> {
    state: Mutex<State<K, R>>,
    limiter: Mutex<Limiter<K>>,
    metrics: Arc<dyn Metrics>,
    /// Getters wait here. Each registers before it looks, so that no wake-up is missed.
    ready: Notify,
    /// Whoever waits for the drain.
    drained: Notify,
}

/// A key that a worker has. No other worker gets it until this is dropped, which is how a worker says that it is done:
/// also by panicking. If the key was added meanwhile, it is queued again then, or when it has rested (see [`Config::rest`]).
#[must_use = "dropping the item means that the key is done"]
pub struct Item<K: Eq + Hash + Clone, R> {
    got: Got<K, R>,
    queue: WorkQueue<K, R>,
}

impl<K: Eq + Hash + Clone, R> WorkQueue<K, R> {
    /// An empty queue.
    pub fn new(config: Config) -> Self {
        let shared = Shared {
            state: Mutex::new(State::new(config.ageing, config.rest)),
            limiter: Mutex::new(Limiter::new(config.rate_limit)),
            metrics: config.metrics,
            ready: Notify::new(),
            drained: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Queues a key now. Folded into the earlier add if the key is queued already; kept for later if a worker has it;
    /// ignored after a shutdown.
    pub fn add(&self, key: K, priority: Priority, reason: R) {
        self.with_state(|state, now| state.add(key, priority, reason, now));
    }

    /// As [`add`](Self::add), for what should not wait until the key has rested (see [`Config::rest`]). Of two rests that
    /// follow each other one is ended so at most: a burst of what is urgent is a burst, too.
    pub fn add_urgent(&self, key: K, priority: Priority, reason: R) {
        self.with_state(|state, now| {
            state.add(key.clone(), priority, reason, now);
            state.rouse(&key, now);
        });
    }

    /// Queues a key when the delay has passed; a zero delay means now. A key waits for one time only, the earliest that
    /// was asked for. An add now doesn't take back one for later. A shutdown does.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority, reason: R) {
        let open = self.with_state(|state, now| {
            if delay.is_zero() {
                state.add(key, priority, reason, now);
            } else {
                state.add_at(key, now + delay.min(FAR), priority, reason);
            }
            !state.is_shut_down()
        });
        if open {
            self.shared.metrics.on_retry();
        }
    }

    /// Queues a key after its backoff (see [`RateLimit`]), counts a requeue for it, and returns the wait. The caller
    /// decides by [`num_requeues`](Self::num_requeues) when to give up.
    pub fn add_rate_limited(&self, key: K, priority: Priority, reason: R) -> Duration {
        let delay = self.shared.limiter.lock().when(key.clone(), Instant::now());
        self.add_after(key, delay, priority, reason);
        delay
    }

    /// Ends a key's backoff: its next failure is its first. To be called when it succeeded or was given up; what is
    /// queued stays queued.
    pub fn forget(&self, key: &K) {
        self.shared.limiter.lock().forget(key);
    }

    /// How often a key was added rate-limited since it was last forgotten.
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.shared.limiter.lock().num_requeues(key)
    }

    /// Changes the rate limit for later adds (a reloaded plugin may ask for another). Keys and their backoffs stay.
    pub fn set_rate_limit(&self, limit: RateLimit) {
        self.shared.limiter.lock().set_limit(limit);
    }

    /// Waits for a key and takes it. `None` after a shutdown, when nothing is queued, nor dirty in a worker's hands.
    ///
    /// Can be cancelled at any time: no key is lost, because one is taken only in the poll that returns it. Yields to
    /// other tasks now and then, also when there is always a key.
    pub async fn get(&self) -> Option<Item<K, R>> {
        tokio::task::coop::consume_budget().await;
        loop {
            let mut woken = pin!(self.shared.ready.notified());
            woken.as_mut().enable();
            match self.with_state(|state, now| state.next(now)) {
                Next::Got(got) => {
                    let item = Item {
                        got,
                        queue: self.clone(),
                    };
                    self.shared.metrics.on_get(item.queued());
                    return Some(item);
                }
                Next::Ended => return None,
                Next::Empty(None) => woken.await,
                // Passed or woken: either way, look again.
                Next::Empty(Some(deadline)) => drop(tokio::time::timeout_at(deadline, woken).await),
            }
        }
    }

    /// How many keys are ready to be got. For information: others may add and get meanwhile.
    pub fn len(&self) -> usize {
        self.with_state(|state, _| state.ready())
    }

    /// Whether no key is ready to be got.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The queue's gauges. Takes time proportional to the number of keys that workers have.
    pub fn snapshot(&self) -> Snapshot {
        self.with_state(|state, now| state.snapshot(now))
    }

    /// Stops taking adds, forgets the delayed keys and wakes the getters, which serve what is queued and then get
    /// `None`. Cuts short a wait in [`shutdown_with_drain`](Self::shutdown_with_drain).
    pub fn shutdown(&self) {
        self.with_state(|state, _| state.shut_down(false));
    }

    /// Shuts down and waits until every key that is queued or processed is done. Needs workers that go on getting:
    /// without them it waits until [`shutdown`](Self::shutdown) is called. Cancelling it leaves the queue shut down.
    pub async fn shutdown_with_drain(&self) {
        self.with_state(|state, _| state.shut_down(true));
        loop {
            let mut woken = pin!(self.shared.drained.notified());
            woken.as_mut().enable();
            if self.with_state(|state, _| state.drained()) {
                return;
            }
            woken.await;
        }
    }

    /// Whether the queue was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.with_state(|state, _| state.is_shut_down())
    }

    /// Runs an operation on the settled state, under the lock, then tells the others what came of it.
    fn with_state<T>(&self, operation: impl FnOnce(&mut State<K, R>, Instant) -> T) -> T {
        let (result, effects) = {
            let mut state = self.shared.state.lock();
            // Within the lock, so that the state's time never goes back.
            let now = Instant::now();
            state.settle(now);
            (operation(&mut state, now), state.take_effects())
        };
        self.tell(&effects);
        result
    }

    fn tell(&self, effects: &Effects) {
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
    /// The key.
    pub fn key(&self) -> &K {
        &self.got.key
    }

    /// Why it was queued.
    pub fn causes(&self) -> &Causes<R> {
        &self.got.causes
    }

    /// The highest priority with which it was added.
    pub fn priority(&self) -> Priority {
        self.got.priority
    }

    /// How long it was queued, from the first of the coalesced adds.
    pub fn queued(&self) -> Duration {
        self.got.queued
    }
}

impl<K: Eq + Hash + Clone, R> Drop for Item<K, R> {
    fn drop(&mut self) {
        let worked = self
            .queue
            .with_state(|state, now| state.done(&self.got.key, self.got.run, now));
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
