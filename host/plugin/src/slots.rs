//! Room for instances: the engine's pool has so many seats, and going beyond is an error there, not a wait. So each
//! instance holds seats while it lives, and one that finds none waits, after idle instances of any plugin made way.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::pool::Pool;

/// The seats of all plugins' instances.
pub(crate) struct Room {
    seats: Arc<Semaphore>,
    /// How many there are.
    total: u32,
    /// Instances that wait for seats.
    waiting: AtomicUsize,
    /// Where idle instances may be found.
    pools: Mutex<Vec<Weak<Pool>>>,
}

/// Counts who waits while it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Room {
    pub(crate) fn new(total: u32) -> Self {
        let seats = Arc::new(Semaphore::new(total as usize));
        Self {
            seats,
            total,
            waiting: AtomicUsize::new(0),
            pools: Mutex::new(Vec::new()),
        }
    }

    /// Adds a pool, whose idle instances make way where others need their seats.
    pub(crate) fn join(&self, pool: &Arc<Pool>) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    /// Takes so many seats, waiting for them if it must. None once the engine has ended.
    pub(crate) async fn seats(&self, count: u32) -> Option<OwnedSemaphorePermit> {
        // An instance that is larger than the whole room would wait for ever; the engine's pool tells why it can't be made.
        let count = count.min(self.total);
        if let Ok(seats) = self.seats.clone().try_acquire_many_owned(count) {
            return Some(seats);
        }
        // Announced before idle instances are looked for, so that one that becomes idle later sees it and makes way.
        self.waiting.fetch_add(1, SeqCst);
        let _waiting = Waiting(&self.waiting);
        while self.seats.available_permits() < count as usize && self.drop_one_idle() {}
        self.seats.clone().acquire_many_owned(count).await.ok()
    }

    /// Whether an instance should make way instead of becoming idle.
    pub(crate) fn is_short(&self) -> bool {
        self.waiting.load(SeqCst) > 0
    }

    /// Drops the instance, of all plugins, that has been idle for longest.
    fn drop_one_idle(&self) -> bool {
        let pools: Vec<Arc<Pool>> = {
            let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            pools.iter().filter_map(Weak::upgrade).collect()
        };
        let oldest = pools
            .iter()
            .filter_map(|pool| Some((pool.idle_since()?, pool)))
            .min_by_key(|(since, _)| *since);
        oldest.is_some_and(|(_, pool)| pool.drop_oldest())
    }
}
