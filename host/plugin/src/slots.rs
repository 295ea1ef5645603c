//! Instance slots. The engine's pool has a fixed number of them, and instantiating beyond that number fails there
//! instead of waiting. So each instance holds slots while it lives. An instance that finds too few free slots first
//! evicts idle instances of any plugin, and then waits.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::pool::Pool;

/// The slots that the instances of all plugins share.
pub(crate) struct InstanceSlots {
    free: Arc<Semaphore>,
    /// The slots that plugins without a reservation may hold together, beside one of `free` for each.
    unreserved: Arc<Semaphore>,
    total: u32,
    /// Instances that wait for slots...
    waiting: AtomicUsize,
    /// ...and those that wait for slots that are not reserved.
    waiting_unreserved: AtomicUsize,
    /// The pools whose idle instances can be evicted.
    pools: Mutex<Vec<Weak<Pool>>>,
}

/// Slots that an instance occupies while it lives.
pub(crate) struct Slots {
    _free: OwnedSemaphorePermit,
    _unreserved: Option<OwnedSemaphorePermit>,
}

/// One of so many slots is reserved.
const RESERVED_PART: u32 = 4;

/// Counts as a waiter while it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl InstanceSlots {
    pub(crate) fn new(total: u32) -> Self {
        Self {
            free: Arc::new(Semaphore::new(total as usize)),
            unreserved: Arc::new(Semaphore::new((total - total / RESERVED_PART) as usize)),
            total,
            waiting: AtomicUsize::new(0),
            waiting_unreserved: AtomicUsize::new(0),
            pools: Mutex::new(Vec::new()),
        }
    }

    /// Registers a pool whose idle instances may be evicted when others need their slots.
    pub(crate) fn register(&self, pool: &Arc<Pool>) {
        let mut pools = self.pools.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    /// Takes `count` slots, waiting if necessary. Reserved slots are taken only if `is_reserved`. None once the engine has
    /// shut down.
    pub(crate) async fn acquire(&self, count: u32, is_reserved: bool) -> Option<Slots> {
        let mut unreserved = None;
        if !is_reserved {
            // Counted first, as in `acquire_free`.
            self.waiting_unreserved.fetch_add(1, SeqCst);
            let _waiting = Waiting(&self.waiting_unreserved);
            while self.unreserved.available_permits() < count as usize
                && self.evict_oldest_idle(|pool| !pool.limits().is_reserved)
            {}
            let most = self.total - self.total / RESERVED_PART;
            let permit = self.unreserved.clone().acquire_many_owned(count.min(most));
            unreserved = Some(permit.await.ok()?);
        }
        Some(Slots {
            _free: self.acquire_free(count).await?,
            _unreserved: unreserved,
        })
    }

    async fn acquire_free(&self, count: u32) -> Option<OwnedSemaphorePermit> {
        // An instance that needs more than all slots would wait forever. With all of them, the engine's pool reports
        // why it can't be instantiated.
        let count = count.min(self.total);
        if let Ok(slots) = self.free.clone().try_acquire_many_owned(count) {
            return Some(slots);
        }
        // Counted before the search for idle instances, so that an instance that becomes idle later is dropped instead.
        self.waiting.fetch_add(1, SeqCst);
        let _waiting = Waiting(&self.waiting);
        while self.free.available_permits() < count as usize && self.evict_oldest_idle(|_| true) {}
        self.free.clone().acquire_many_owned(count).await.ok()
    }

    /// True if an instance waits for slots, so that others should be dropped instead of becoming idle.
    /// An instance of a plugin with a reservation holds no slot that others wait for in vain.
    pub(crate) fn has_waiters(&self, is_reserved: bool) -> bool {
        self.waiting.load(SeqCst) > 0 || (!is_reserved && self.waiting_unreserved.load(SeqCst) > 0)
    }

    /// Drops the instance that has been idle for longest, of the plugins that `may_evict` selects. False if none is idle.
    fn evict_oldest_idle(&self, may_evict: impl Fn(&Pool) -> bool) -> bool {
        let pools: Vec<Arc<Pool>> = {
            let pools = self.pools.lock();
            pools.iter().filter_map(Weak::upgrade).collect()
        };
        let oldest = pools
            .iter()
            .filter(|pool| may_evict(pool))
            .filter_map(|pool| Some((pool.idle_since()?, pool)))
            .min_by_key(|(since, _)| *since);
        oldest.is_some_and(|(_, pool)| pool.drop_oldest_idle())
    }
}
