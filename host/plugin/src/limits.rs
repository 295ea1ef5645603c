//! The limits of a plugin, and the memory limit, which wasmtime enforces while a guest runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use wasmtime::ResourceLimiter;

use crate::hits::Limit;

/// Bytes of an element of a table.
const ELEMENT: usize = 8;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The limits of one plugin. The defaults suit the built-in controllers in a cluster of 5,000 nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// CPU time of one call, including the host's work for it on the guest's thread, without waiting for the API
    /// server. A reconcile takes microseconds to milliseconds, so a second indicates an endless loop. Default: 1 s.
    pub cpu_per_call: Duration,
    /// The CPU quota: average CPU time of all calls together, in millicores; none for no quota. A call waits for the
    /// quota before it starts, and again while it computes. Default: none, which is what built-ins run with; drop-ins
    /// get a quarter of a core.
    pub cpu_share: Option<u32>,
    /// The CPU time that can accumulate under `cpu_share` and be used at once. Default: 100 ms.
    pub cpu_burst: Duration,
    /// Time from the start of a call to its end. It includes all waiting except for the CPU quota, which the host
    /// imposes. A batch with slow start against an overloaded API server takes minutes, because each write may wait for
    /// 60 s and for the plugin's rate limit. So this only stops calls that would never end. Default: 5 min.
    pub wall_per_call: Duration,
    /// Memory of one instance, in bytes: its linear memories, the elements of its tables, and what the engine keeps of
    /// it. Default: 256 MiB.
    pub memory: usize,
    /// Memory of all instances together, in bytes. Default: none, which means no limit if `is_reserved`, and else 512
    /// MiB or half of what such plugins share, whichever is less, but enough for one instance.
    pub total_memory: Option<usize>,
    /// Instances, and so concurrent calls. Default: 10.
    pub max_instances: usize,
    /// Instance slots that all instances may occupy together. An instance with several memories occupies one for each.
    /// Default: 100.
    pub max_slots: usize,
    /// Whether the plugin may use the reserved instance slots and the reserved memory, so that plugins without a
    /// reservation can't starve it. Default: false. It is true for the built-in controllers.
    pub is_reserved: bool,
    /// Bytes that one import may return. Default: 64 MiB.
    pub answer_bytes: usize,
    /// Bytes that the host holds for a call. Applies to the arguments of one import, and to all cursors and batches
    /// together. Default: 64 MiB.
    pub staged_bytes: usize,
    /// Bytes that the host holds for all calls of the plugin together: cursors, batches, and answers of the API server
    /// while they are read. Default: 256 MiB.
    pub held_bytes: usize,
    /// Connections for `wasi:http` that all calls of the plugin may have open together. Each may hold 128 KiB of a
    /// request and its response. Default: 16.
    pub connections: usize,
    /// Cursors and batches that an instance may hold. Default: 1,024.
    pub handles: usize,
    /// Calls after which an instance is dropped, so that leaks and fragmentation can't accumulate. Default: 10,000.
    pub recycle_calls: u32,
    /// Growth of an instance's memory since its creation after which it is dropped, in bytes. Linear memory never
    /// shrinks. Default: 64 MiB.
    pub recycle_growth: usize,
    /// Growth of an instance's memory after which it is dropped if the call took much longer than another instance with
    /// that memory costs, in bytes. A controller that rarely handles a large object then does not keep the memory for
    /// it. Default: 4 MiB.
    pub idle_growth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu_per_call: Duration::from_secs(1),
            cpu_share: None,
            cpu_burst: Duration::from_millis(100),
            wall_per_call: Duration::from_secs(300),
            memory: 256 * MIB,
            total_memory: None,
            max_instances: 10,
            max_slots: 100,
            answer_bytes: 64 * MIB,
            staged_bytes: 64 * MIB,
            held_bytes: 256 * MIB,
            is_reserved: false,
            connections: 16,
            handles: 1024,
            recycle_calls: 10_000,
            recycle_growth: 64 * MIB,
            idle_growth: 4 * MIB,
        }
    }
}

/// The most that the instances of a plugin without a reservation may have together by default, in bytes.
const TOTAL_MEMORY: usize = 512 * MIB;

impl Limits {
    /// The instances of a plugin that need this many slots each.
    pub(crate) fn instances(&self, slots: u32) -> usize {
        let fit = self.max_slots / (slots.max(1) as usize);
        self.max_instances.min(fit).max(1)
    }
}

/// Linear memory that several instances may have together.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    used: AtomicUsize,
    /// In bytes.
    limit: usize,
}

impl SharedMemory {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            limit,
        }
    }

    fn grow(&self, bytes: usize) -> bool {
        let grow = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, grow).is_ok()
    }

    fn shrink(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

/// The memory that an instance shares with others. Each part is none if it is not limited.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryShares {
    /// Shared by all instances of this plugin.
    pub(crate) of_plugin: Option<Arc<SharedMemory>>,
    /// Shared by all plugins without a reservation.
    pub(crate) of_all: Option<Arc<SharedMemory>>,
    /// Bytes of all instances of the plugin.
    used: Arc<AtomicUsize>,
}

impl MemoryShares {
    /// The shares of a plugin. The plugins without a reservation share `of_all`.
    pub(crate) fn new(limits: &Limits, of_all: &Arc<SharedMemory>) -> Self {
        let of_all = (!limits.is_reserved).then(|| of_all.clone());
        let default = of_all.as_ref().map(|of_all| {
            let fair = TOTAL_MEMORY.min(of_all.limit / 2);
            fair.max(limits.memory)
        });
        let of_plugin = limits.total_memory.or(default);
        Self {
            of_plugin: of_plugin.map(|limit| Arc::new(SharedMemory::new(limit))),
            of_all,
            used: Arc::default(),
        }
    }

    /// The most that the instances of the plugin may have together, in bytes; none for no limit.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.of_plugin.as_ref().map(|shared| shared.limit)
    }

    /// Bytes of all instances of the plugin.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Adds bytes to both, or to none and returns the limit that has fewer left.
    fn grow(&self, bytes: usize) -> Result<(), (MemoryOwner, usize)> {
        let grow = |shared: &Option<Arc<SharedMemory>>, owner| match shared {
            Some(shared) if !shared.grow(bytes) => Err((owner, shared.limit)),
            _ => Ok(()),
        };
        grow(&self.of_plugin, MemoryOwner::Plugin)?;
        grow(&self.of_all, MemoryOwner::AllPlugins).inspect_err(|_| {
            if let Some(shared) = &self.of_plugin {
                shared.shrink(bytes);
            }
        })?;
        self.used.fetch_add(bytes, Relaxed);
        Ok(())
    }

    fn shrink(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
        for shared in [&self.of_plugin, &self.of_all].into_iter().flatten() {
            shared.shrink(bytes);
        }
    }
}

/// The owner of the memory that a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOwner {
    Instance,
    /// The instances of the plugin together.
    Plugin,
    /// The plugins without a reservation together.
    AllPlugins,
    /// The machine: the operating system refused.
    System,
}

/// Limits the memory of one instance: its linear memories, the elements of its tables, and what the engine keeps of it.
#[derive(Debug)]
pub(crate) struct MemoryMeter {
    limit: usize,
    shares: MemoryShares,
    used: usize,
    last_growth: usize,
    /// The growth that was refused in this call.
    refused: Option<Refused>,
}

/// A growth of memory that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Bytes that the instance would have had.
    pub(crate) wanted: usize,
    /// The limit in bytes. For [`MemoryOwner::System`], the size of the instance's memory.
    pub(crate) limit: usize,
    pub(crate) owner: MemoryOwner,
}

impl MemoryMeter {
    /// `limit` is in bytes.
    pub(crate) fn new(limit: usize, shares: MemoryShares) -> Self {
        Self {
            limit,
            shares,
            used: 0,
            last_growth: 0,
            refused: None,
        }
    }

    /// Bytes of memory.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Forgets the refusals of earlier calls, which do not explain a failure of the new call.
    pub(crate) fn begin_call(&mut self) {
        self.refused = None;
    }

    /// The last growth that was refused in this call.
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.refused
    }
}

impl MemoryMeter {
    /// Adds bytes. Returns whether the limits allow it.
    pub(crate) fn grow(&mut self, growth: usize) -> bool {
        let wanted = self.used.saturating_add(growth);
        let refused = |owner, limit| {
            Some(Refused {
                wanted,
                limit,
                owner,
            })
        };
        if wanted > self.limit {
            self.refused = refused(MemoryOwner::Instance, self.limit);
            return false;
        }
        if let Err((owner, limit)) = self.shares.grow(growth) {
            self.refused = refused(owner, limit);
            return false;
        }
        self.used = wanted;
        self.last_growth = growth;
        true
    }
}

impl MemoryOwner {
    /// The limit that the owner has reached, if the host sets one.
    pub(crate) fn limit(self) -> Option<Limit> {
        match self {
            Self::Instance => Some(Limit::Memory),
            Self::Plugin => Some(Limit::TotalMemory),
            Self::AllPlugins => Some(Limit::SharedMemory),
            Self::System => None,
        }
    }
}

impl Drop for MemoryMeter {
    fn drop(&mut self) {
        self.shares.shrink(self.used);
    }
}

impl ResourceLimiter for MemoryMeter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let is_allowed = maximum.is_none_or(|maximum| desired <= maximum);
        Ok(is_allowed && self.grow(desired.saturating_sub(current)))
    }

    /// A failed growth stays counted, so that a guest can't lower its count by provoking failures.
    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        if error.is::<std::io::Error>() || error.is::<rustix::io::Errno>() {
            self.refused = Some(Refused {
                wanted: self.used,
                limit: self.used.saturating_sub(self.last_growth),
                owner: MemoryOwner::System,
            });
        }
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // The engine's pool limits tables too.
        let is_allowed = maximum.is_none_or(|maximum| desired <= maximum);
        Ok(is_allowed && self.grow(desired.saturating_sub(current).saturating_mul(ELEMENT)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memories_of_an_instance_share_its_limit() {
        let mut meter = MemoryMeter::new(100, MemoryShares::default());
        assert!(meter.memory_growing(0, 60, None).unwrap());
        assert!(!meter.memory_growing(0, 60, None).unwrap());
        let refused = Refused {
            wanted: 120,
            limit: 100,
            owner: MemoryOwner::Instance,
        };
        assert_eq!((meter.used(), meter.refused()), (60, Some(refused)));
        meter.begin_call();
        assert!(meter.memory_growing(60, 100, None).unwrap());
        assert_eq!((meter.used(), meter.refused()), (100, None));
    }

    #[test]
    fn instances_share_the_limits_of_their_plugin_and_of_all_plugins_and_give_back_what_they_used()
    {
        let of_all = Arc::new(SharedMemory::new(100));
        let plugin = || MemoryShares {
            of_plugin: Some(Arc::new(SharedMemory::new(70))),
            of_all: Some(of_all.clone()),
            used: Arc::default(),
        };
        let (one, other) = (plugin(), plugin());
        let grow = |meter: &mut MemoryMeter, bytes| {
            let used = meter.used();
            meter.memory_growing(used, used + bytes, None).unwrap()
        };
        let [mut first, mut second] = [(); 2].map(|()| MemoryMeter::new(60, one.clone()));
        let mut third = MemoryMeter::new(60, other.clone());
        assert!(grow(&mut first, 50));
        assert!(!grow(&mut second, 30));
        let refused = second.refused().unwrap();
        assert_eq!((refused.limit, refused.owner), (70, MemoryOwner::Plugin));
        assert!(grow(&mut third, 40));
        // The memory that all plugins share is too small, so nothing is charged to the plugin's own memory either.
        assert!(!grow(&mut third, 20));
        let refused = third.refused().unwrap();
        assert_eq!(
            (refused.limit, refused.owner),
            (100, MemoryOwner::AllPlugins)
        );
        drop(first);
        assert!(grow(&mut third, 20) && grow(&mut second, 40));
        drop((second, third));
        for shared in [&one.of_plugin, &other.of_plugin, &one.of_all] {
            assert_eq!(shared.as_ref().unwrap().used.load(Relaxed), 0);
        }
    }

    #[test]
    fn a_plugin_without_a_reservation_can_not_take_all_that_such_plugins_share() {
        let limit_of = |shared: usize, limits: Limits| {
            let shares = MemoryShares::new(&limits, &Arc::new(SharedMemory::new(shared)));
            shares.of_plugin.map(|of_plugin| of_plugin.limit)
        };
        let limits = Limits::default;
        assert_eq!(limit_of(4096 * MIB, limits()), Some(512 * MIB));
        assert_eq!(limit_of(800 * MIB, limits()), Some(400 * MIB));
        let memory = 600 * MIB;
        assert_eq!(
            limit_of(800 * MIB, Limits { memory, ..limits() }),
            Some(memory)
        );
        let total_memory = Some(MIB);
        assert_eq!(
            limit_of(
                800 * MIB,
                Limits {
                    total_memory,
                    ..limits()
                }
            ),
            total_memory
        );
        assert_eq!(
            limit_of(
                800 * MIB,
                Limits {
                    is_reserved: true,
                    ..limits()
                }
            ),
            None
        );
    }

    #[test]
    fn instances_that_need_several_slots_are_fewer() {
        let limits = |max_instances| Limits {
            max_instances,
            max_slots: 100,
            ..Limits::default()
        };
        assert_eq!(
            [1, 8, 100, 256].map(|slots| limits(100).instances(slots)),
            [100, 12, 1, 1]
        );
        assert_eq!(
            [1, 2, 11].map(|slots| limits(10).instances(slots)),
            [10, 10, 9]
        );
    }

    #[test]
    fn a_growth_that_the_system_refuses_is_explained_and_stays_counted() {
        let mut meter = MemoryMeter::new(100, MemoryShares::default());
        assert!(meter.memory_growing(0, 60, None).unwrap());
        meter
            .memory_grow_failed(rustix::io::Errno::NOMEM.into())
            .unwrap();
        let refused = Refused {
            wanted: 60,
            limit: 0,
            owner: MemoryOwner::System,
        };
        assert_eq!((meter.used(), meter.refused()), (60, Some(refused)));
    }
}
