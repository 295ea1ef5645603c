//! The limits of a plugin, and the memory limit, which wasmtime enforces while a guest runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use wasmtime::ResourceLimiter;

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
    /// Linear memory of one instance, in bytes. Default: 256 MiB.
    pub memory: usize,
    /// Instances, and so concurrent calls. Default: 10.
    pub max_instances: usize,
    /// Whether the plugin may use the instance slots and the memory that are reserved, so that plugins for which nothing is
    /// reserved can't starve it. Default: false; the built-in controllers have it.
    pub is_reserved: bool,
    /// Bytes that one import may return. Default: 64 MiB.
    pub answer_bytes: usize,
    /// Bytes that the host holds for a call. Applies to the arguments of one import, and to all cursors and batches
    /// together. Default: 64 MiB.
    pub staged_bytes: usize,
    /// Bytes that the host holds for all calls of the plugin together: cursors, batches, and answers of the API server while
    /// they are read. Default: 256 MiB.
    pub held_bytes: usize,
    /// Connections for `wasi:http` that all calls of the plugin may have open together. Each may hold 128 KiB of a request
    /// and its response. Default: 16.
    pub connections: usize,
    /// Cursors and batches that an instance may hold. Default: 1,024.
    pub handles: usize,
    /// Calls after which an instance is dropped, so that leaks and fragmentation can't accumulate. Default: 10,000.
    pub recycle_calls: u32,
    /// Growth of an instance's memory since its creation after which it is dropped, in bytes. Linear memory never
    /// shrinks. Default: 64 MiB.
    pub recycle_growth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu_per_call: Duration::from_secs(1),
            cpu_share: None,
            cpu_burst: Duration::from_millis(100),
            wall_per_call: Duration::from_secs(300),
            memory: 256 * MIB,
            max_instances: 10,
            answer_bytes: 64 * MIB,
            staged_bytes: 64 * MIB,
            held_bytes: 256 * MIB,
            is_reserved: false,
            connections: 16,
            handles: 1024,
            recycle_calls: 10_000,
            recycle_growth: 64 * MIB,
        }
    }
}

/// The linear memory that the plugins without a reservation may have together.
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

/// Limits the linear memories of one instance together.
#[derive(Debug)]
pub(crate) struct MemoryMeter {
    limit: usize,
    /// None if the plugin has a reservation.
    shared: Option<Arc<SharedMemory>>,
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
    /// The limit in bytes.
    pub(crate) limit: usize,
    /// Whether the limit is that of all plugins together.
    pub(crate) of_all: bool,
}

impl MemoryMeter {
    /// `limit` is in bytes.
    pub(crate) fn new(limit: usize, shared: Option<Arc<SharedMemory>>) -> Self {
        Self {
            limit,
            shared,
            used: 0,
            last_growth: 0,
            refused: None,
        }
    }

    /// Bytes of linear memory.
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

impl Drop for MemoryMeter {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.shrink(self.used);
        }
    }
}

impl ResourceLimiter for MemoryMeter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let growth = desired.saturating_sub(current);
        let wanted = self.used.saturating_add(growth);
        let refused = |limit, of_all| {
            Some(Refused {
                wanted,
                limit,
                of_all,
            })
        };
        if wanted > self.limit {
            self.refused = refused(self.limit, false);
            return Ok(false);
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        if let Some(shared) = self.shared.as_ref().filter(|shared| !shared.grow(growth)) {
            self.refused = refused(shared.limit, true);
            return Ok(false);
        }
        self.used = wanted;
        self.last_growth = growth;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        let growth = std::mem::take(&mut self.last_growth).min(self.used);
        self.used -= growth;
        if let Some(shared) = &self.shared {
            shared.shrink(growth);
        }
        Ok(())
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // The engine's pool limits tables too.
        Ok(maximum.is_none_or(|maximum| desired <= maximum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memories_of_an_instance_share_its_limit() {
        let mut meter = MemoryMeter::new(100, None);
        assert!(meter.memory_growing(0, 60, None).unwrap());
        assert!(!meter.memory_growing(0, 60, None).unwrap());
        let refused = Refused {
            wanted: 120,
            limit: 100,
            of_all: false,
        };
        assert_eq!((meter.used(), meter.refused()), (60, Some(refused)));
        meter.begin_call();
        assert!(meter.memory_growing(60, 100, None).unwrap());
        assert_eq!((meter.used(), meter.refused()), (100, None));
    }

    #[test]
    fn the_instances_of_all_plugins_share_a_limit_and_give_it_back() {
        let shared = Arc::new(SharedMemory::new(100));
        let meter = || MemoryMeter::new(80, Some(shared.clone()));
        let (mut one, mut other) = (meter(), meter());
        assert!(one.memory_growing(0, 60, None).unwrap());
        assert!(!other.memory_growing(0, 60, None).unwrap());
        let refused = other.refused().unwrap();
        assert_eq!((refused.limit, refused.of_all), (100, true));
        drop(one);
        assert!(other.memory_growing(0, 60, None).unwrap());
        drop(other);
        assert_eq!(shared.used.load(Relaxed), 0);
    }

    #[test]
    fn a_growth_that_fails_is_not_counted() {
        let mut meter = MemoryMeter::new(100, None);
        assert!(meter.memory_growing(0, 60, None).unwrap());
        meter
            .memory_grow_failed(wasmtime::Error::msg("no memory"))
            .unwrap();
        assert_eq!(meter.used(), 0);
    }
}
