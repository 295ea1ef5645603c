//! The limits of a plugin, and the one that wasmtime checks while a guest runs: its memory.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// One kibibyte, for limits.
const KIB: usize = 1024;
/// One mebibyte, for limits.
const MIB: usize = 1024 * KIB;

/// What one plugin may use. The defaults suit the built-in controllers in a cluster of 5,000 nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time on a core for one call, with the work that the host does for it there; waiting for the API server is not
    /// counted. A reconcile takes micro- to milliseconds, so a second means a loop. Default: 1 s.
    pub cpu_per_call: Duration,
    /// Time on cores for all calls together, in thousandths of a core, on average; none for no limit. A call waits for it
    /// before it starts, and where it computes for long it is slowed. Default: none, as the built-in controllers have it; a
    /// plugin that was dropped in gets a quarter of a core.
    pub cpu_share: Option<u32>,
    /// Time on cores that may be saved up and used at once, while `cpu_share` limits. Default: 100 ms.
    pub cpu_burst: Duration,
    /// Time from the start of a call to its end, with all waiting but that for the CPU share, which is the host's doing. A batch of slow-started writes against an overloaded
    /// API server takes minutes (each may wait for 60 s, and for the plugin's rate limit), so this is only for what would
    /// never end. Default: 5 min.
    pub wall_per_call: Duration,
    /// Linear memory of one instance, in bytes. Default: 256 MiB.
    pub memory: usize,
    /// Instances, and so calls at once. Default: 10.
    pub max_instances: usize,
    /// Bytes that one import may return. Default: 64 MiB.
    pub answer_bytes: usize,
    /// Bytes that the host holds for a call: one argument of an import, and all cursors and batches together.
    /// Default: 64 MiB.
    pub staged_bytes: usize,
    /// Cursors and batches that an instance may hold. Default: 1,024.
    pub handles: usize,
    /// An instance is thrown away after so many calls, so that leaks and fragments can't gather. Default: 10,000.
    pub recycle_calls: u32,
    /// An instance is thrown away if its memory has grown by more than this since it was created, in bytes: linear memory
    /// never shrinks. Default: 64 MiB.
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
            handles: 1024,
            recycle_calls: 10_000,
            recycle_growth: 64 * MIB,
        }
    }
}

/// The memory of one instance: what its linear memories hold together, and whether a growth was refused.
#[derive(Debug)]
pub(crate) struct MemoryMeter {
    limit: usize,
    used: usize,
    last_growth: usize,
    refused: Option<usize>,
}

impl MemoryMeter {
    /// A meter that lets all memories of an instance grow to `limit` bytes together.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            used: 0,
            last_growth: 0,
            refused: None,
        }
    }

    /// Bytes of linear memory.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Takes note of a new call, so that an earlier refusal does not explain its failure.
    pub(crate) fn begin_call(&mut self) {
        self.refused = None;
    }

    /// How many bytes the guest wanted when it was refused during this call.
    pub(crate) fn refused(&self) -> Option<usize> {
        self.refused
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
        if wanted > self.limit {
            self.refused = Some(wanted);
            return Ok(false);
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.used = wanted;
        self.last_growth = growth;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.used -= std::mem::take(&mut self.last_growth).min(self.used);
        Ok(())
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // The pool's own bound on a table holds too.
        Ok(maximum.is_none_or(|maximum| desired <= maximum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_of_an_instance_share_its_limit() {
        let mut meter = MemoryMeter::new(100);
        assert!(meter.memory_growing(0, 60, None).unwrap());
        assert!(!meter.memory_growing(0, 60, None).unwrap());
        assert_eq!((meter.used(), meter.refused()), (60, Some(120)));
        meter.begin_call();
        assert!(meter.memory_growing(60, 100, None).unwrap());
        assert_eq!((meter.used(), meter.refused()), (100, None));
    }

    #[test]
    fn a_growth_that_the_system_refuses_is_not_counted() {
        let mut meter = MemoryMeter::new(100);
        assert!(meter.memory_growing(0, 60, None).unwrap());
        meter
            .memory_grow_failed(wasmtime::Error::msg("no memory"))
            .unwrap();
        assert_eq!(meter.used(), 0);
    }
}
