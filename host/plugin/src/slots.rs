//! Instance slots. The engine's pool has a fixed number of them, and instantiating beyond that number fails there
//! instead of waiting. So each instance holds slots while it lives. An instance that finds too few free slots first
//! evicts idle instances of any plugin, and then waits.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots that the instances of all plugins share.
pub(crate) struct InstanceSlots {
    free: Arc<Semaphore>,
    /// The slots that plugins without a reservation may hold together, in addition to one of `free` for each.
    unreserved: Arc<Semaphore>,
    /// The share of `unreserved` that plugins may hold beyond their first [`FIRST`] slots. The rest is kept for plugins
    /// that hold few.
    surplus: Arc<Semaphore>,
    total: u32,
    /// Instances that wait for slots...
    waiting: AtomicUsize,
    /// ...those that wait for slots that are not reserved...
    waiting_unreserved: AtomicUsize,
    /// ...and those that wait for slots beyond the first ones of their plugin.
    waiting_surplus: AtomicUsize,
    /// The pools whose idle instances can be evicted.
    pools: Mutex<Vec<Weak<dyn IdleInstances>>>,
}

/// The idle instances of a plugin, which occupy slots that others may need.
pub(crate) trait IdleInstances: Send + Sync {
    /// Counts the plugin's slots; none if it has a reservation.
    fn holder(&self) -> Option<&Arc<Holder>>;

    /// When the instance that has been idle for longest became idle; none if none is idle.
    fn oldest_since(&self) -> Option<Instant>;

    /// Drops the instance that has been idle for longest. False if none is idle.
    fn drop_oldest(&self) -> bool;
}

/// Counts the slots that a plugin without a reservation holds or waits for.
#[derive(Default)]
pub(crate) struct Holder(AtomicU32);

impl Holder {
    /// Whether the plugin holds slots beyond its first [`FIRST`] ones. Plugins with few slots take precedence over it.
    fn has_surplus(&self) -> bool {
        self.0.load(SeqCst) > FIRST
    }
}

/// Slots that an instance occupies while it lives.
pub(crate) struct Slots {
    _free: OwnedSemaphorePermit,
    _unreserved: Option<Unreserved>,
}

/// Slots of a plugin without a reservation.
struct Unreserved {
    _surplus: Option<OwnedSemaphorePermit>,
    _unreserved: OwnedSemaphorePermit,
    _held: Held,
}

/// Counts as held while it lives.
struct Held {
    holder: Arc<Holder>,
    count: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.holder.0.fetch_sub(self.count, SeqCst);
    }
}

/// One in this many slots is reserved.
const RESERVED_PART: u32 = 4;
/// The first slots of each plugin come from all slots that are not reserved. A third of the unreserved slots is kept
/// for first slots, so that plugins that hold many don't keep others from running.
const FIRST: u32 = 4;
const FIRST_PART: u32 = 3;

/// Counts as a waiter while it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl InstanceSlots {
    pub(crate) fn new(total: u32) -> Self {
        let semaphore = |count: u32| Arc::new(Semaphore::new(count as usize));
        let unreserved = total - total / RESERVED_PART;
        Self {
            free: semaphore(total),
            unreserved: semaphore(unreserved),
            surplus: semaphore(unreserved - unreserved / FIRST_PART),
            total,
            waiting: AtomicUsize::new(0),
            waiting_unreserved: AtomicUsize::new(0),
            waiting_surplus: AtomicUsize::new(0),
            pools: Mutex::new(Vec::new()),
        }
    }

    /// Registers a pool whose idle instances may be evicted when others need their slots.
    pub(crate) fn register(&self, pool: Weak<dyn IdleInstances>) {
        let mut pools = self.pools.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(pool);
    }

    /// Takes `count` slots, waiting if necessary. Reserved slots are taken only without a `holder`. None once the
    /// engine has shut down.
    pub(crate) async fn acquire(&self, count: u32, holder: Option<&Arc<Holder>>) -> Option<Slots> {
        let unreserved = match holder {
            Some(holder) => Some(self.acquire_unreserved(count, holder).await?),
            None => None,
        };
        Some(Slots {
            _free: self.acquire_free(count).await?,
            _unreserved: unreserved,
        })
    }

    async fn acquire_unreserved(&self, count: u32, holder: &Arc<Holder>) -> Option<Unreserved> {
        let before = holder.0.fetch_add(count, SeqCst);
        let held = Held {
            holder: holder.clone(),
            count,
        };
        let most = self.total - self.total / RESERVED_PART;
        let mut surplus = None;
        if before >= FIRST {
            // Counted first, as in `acquire_free`.
            let _waiting = Waiting::new(&self.waiting_surplus);
            let has_surplus =
                |holder: Option<&Arc<Holder>>| holder.is_some_and(|holder| holder.has_surplus());
            while self.surplus.available_permits() < count as usize
                && self.evict_oldest_idle(has_surplus)
            {}
            let most = most - most / FIRST_PART;
            let permit = self.surplus.clone().acquire_many_owned(count.min(most));
            surplus = Some(permit.await.ok()?);
        }
        let _waiting = Waiting::new(&self.waiting_unreserved);
        while self.unreserved.available_permits() < count as usize
            && self.evict_oldest_idle(|holder| holder.is_some())
        {}
        let permit = self.unreserved.clone().acquire_many_owned(count.min(most));
        Some(Unreserved {
            _surplus: surplus,
            _unreserved: permit.await.ok()?,
            _held: held,
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
        let _waiting = Waiting::new(&self.waiting);
        while self.free.available_permits() < count as usize && self.evict_oldest_idle(|_| true) {}
        self.free.clone().acquire_many_owned(count).await.ok()
    }

    /// True if an instance waits for slots, so that others should be dropped instead of becoming idle. An instance of a
    /// plugin with a reservation holds no slot that others wait for in vain.
    pub(crate) fn has_waiters(&self, holder: Option<&Arc<Holder>>) -> bool {
        let waits = |count: &AtomicUsize| count.load(SeqCst) > 0;
        waits(&self.waiting)
            || holder.is_some_and(|holder| {
                waits(&self.waiting_unreserved)
                    || (holder.has_surplus() && waits(&self.waiting_surplus))
            })
    }

    /// Drops the instance that has been idle for longest, of the plugins that `may_evict` selects by their holders.
    /// False if none is idle.
    fn evict_oldest_idle(&self, may_evict: impl Fn(Option<&Arc<Holder>>) -> bool) -> bool {
        let pools: Vec<Arc<dyn IdleInstances>> = {
            let pools = self.pools.lock();
            pools.iter().filter_map(Weak::upgrade).collect()
        };
        let oldest = pools
            .iter()
            .filter(|pool| may_evict(pool.holder()))
            .filter_map(|pool| Some((pool.oldest_since()?, pool)))
            .min_by_key(|(since, _)| *since);
        oldest.is_some_and(|(_, pool)| pool.drop_oldest())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Takes slots of one instance after the other until it would have to wait.
    fn take_all(slots: &InstanceSlots, holder: &Arc<Holder>) -> Vec<Slots> {
        let take = || slots.acquire(1, Some(holder)).now_or_never().flatten();
        std::iter::from_fn(take).collect()
    }

    #[test]
    fn plugins_with_many_slots_leave_some_for_plugins_with_few_and_for_reservations() {
        let slots = InstanceSlots::new(100);
        let (many, too, few, fewer) = Default::default();
        // Out of 75 slots that are not reserved, 25 are for the first ones of plugins.
        let mut taken = take_all(&slots, &many);
        assert_eq!(taken.len(), 4 + 50);
        let others = take_all(&slots, &too);
        assert_eq!(others.len(), 4);
        assert_eq!(take_all(&slots, &few).len(), 4);
        // Slots that one plugin gives back go to another.
        taken.truncate(10);
        assert_eq!(take_all(&slots, &fewer).len(), 4 + 44);
        assert!(slots.acquire(1, None).now_or_never().flatten().is_some());
    }

    #[test]
    fn slots_that_an_instance_waited_for_in_vain_are_not_held() {
        let slots = InstanceSlots::new(100);
        let holder = Default::default();
        let taken = take_all(&slots, &holder);
        assert_eq!(holder.0.load(SeqCst) as usize, taken.len());
        drop(taken);
        assert_eq!(holder.0.load(SeqCst), 0);
        assert!(!slots.has_waiters(Some(&holder)));
    }
}
