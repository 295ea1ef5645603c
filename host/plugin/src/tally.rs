//! Counts what a plugin uses. Its calls, its instances and the host's functions for it write here; metrics read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::budget::Budget;
use crate::hits::{Counters, Hits};
use crate::limits::{Limits, MemoryShares};
use crate::meter::Meter;

/// The resource usage of a plugin, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instances that exist.
    pub live: usize,
    /// Existing instances that no call uses.
    pub idle: usize,
    /// Bytes of all instances: their linear memories, the elements of their tables, and what the engine keeps of them.
    pub memory: usize,
    /// Instances created since the start.
    pub instantiated: u64,
    /// Calls since the start.
    pub calls: u64,
    /// Calls that failed with a [`CallError`](crate::CallError).
    pub failures: u64,
    /// CPU time of all calls.
    pub cpu: Duration,
    /// Time for which all calls together have waited for the plugin's CPU quota or, if the plugin has one, for a core.
    pub waited: Duration,
    /// How often each limit was hit.
    pub hits: Hits,
    /// For how long calls have waited for instance slots while none has got any.
    pub starved: Duration,
    /// Bytes that the host holds for the calls.
    pub held: usize,
}

/// The resources that a plugin uses, and those that it shares with others.
pub(crate) struct Tally {
    /// The bytes that the host holds for its calls.
    pub(crate) budget: Arc<Budget>,
    /// The memory that its instances share.
    pub(crate) memory_shares: MemoryShares,
    /// One permit for each connection for `wasi:http` that may be open.
    pub(crate) connections: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
    pub(crate) live: AtomicUsize,
    instantiated: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) failures: AtomicU64,
    /// CPU time in nanoseconds.
    cpu: AtomicU64,
    /// Time waited for the CPU quota, in nanoseconds.
    waited: AtomicU64,
    pub(crate) hits: Counters,
}

/// The calls that wait for instance slots.
#[derive(Default)]
struct Waiting {
    calls: usize,
    /// Since when calls have waited while none has got an instance; none if none waits.
    since: Option<Instant>,
}

/// A call that waits for instance slots, until it is dropped.
pub(crate) struct WaitsForSlots<'a>(&'a Tally);

/// Adds the usage of a call to the tally when dropped, so that a call whose future is dropped is counted too.
pub(crate) struct UsageGuard<'a> {
    pub(crate) meter: &'a Meter,
    pub(crate) tally: &'a Tally,
}

impl Tally {
    pub(crate) fn new(limits: &Limits, memory_shares: MemoryShares) -> Self {
        Self {
            budget: Budget::new(limits.held_bytes),
            memory_shares,
            connections: Arc::new(Semaphore::new(
                limits.connections.min(Semaphore::MAX_PERMITS),
            )),
            waiting: Mutex::default(),
            live: AtomicUsize::new(0),
            instantiated: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            hits: Counters::default(),
        }
    }

    /// Counts a call as one that waits for slots until the returned value is dropped.
    pub(crate) fn wait_for_slots(&self) -> WaitsForSlots<'_> {
        let mut waiting = self.waiting.lock();
        waiting.calls += 1;
        waiting.since.get_or_insert_with(Instant::now);
        WaitsForSlots(self)
    }

    /// Notes that a call has got an instance.
    pub(crate) fn got_instance(&self) {
        let mut waiting = self.waiting.lock();
        waiting.since = (waiting.calls > 0).then(Instant::now);
    }

    /// For how long calls have waited for instance slots while none has got an instance.
    fn starved(&self) -> Duration {
        let since = self.waiting.lock().since;
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(crate) fn instance_created(&self) {
        self.live.fetch_add(1, Relaxed);
        self.instantiated.fetch_add(1, Relaxed);
    }

    pub(crate) fn instance_dropped(&self) {
        self.live.fetch_sub(1, Relaxed);
    }

    /// Returns the usage of a plugin with this number of idle instances.
    pub(crate) fn stats(&self, idle: usize) -> Stats {
        Stats {
            live: self.live.load(Relaxed),
            idle,
            memory: self.memory_shares.used(),
            instantiated: self.instantiated.load(Relaxed),
            calls: self.calls.load(Relaxed),
            failures: self.failures.load(Relaxed),
            cpu: Duration::from_nanos(self.cpu.load(Relaxed)),
            waited: Duration::from_nanos(self.waited.load(Relaxed)),
            hits: self.hits.read(),
            starved: self.starved(),
            held: self.budget.used(),
        }
    }
}

impl Drop for WaitsForSlots<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        waiting.calls -= 1;
        if waiting.calls == 0 {
            waiting.since = None;
        }
    }
}

impl Drop for UsageGuard<'_> {
    fn drop(&mut self) {
        self.tally.cpu.fetch_add(
            self.meter.spent().as_nanos().try_into().unwrap_or(u64::MAX),
            Relaxed,
        );
        self.tally.waited.fetch_add(
            self.meter
                .waited()
                .as_nanos()
                .try_into()
                .unwrap_or(u64::MAX),
            Relaxed,
        );
    }
}
