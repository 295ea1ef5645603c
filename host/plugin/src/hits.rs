//! Counts how often each limit of a plugin has delayed or stopped a call. Operators need the counts to decide which
//! limit to raise.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A limit of [`crate::Limits`] that a call can hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A call computed for too long and was stopped.
    Cpu,
    /// A call waited for the plugin's CPU quota.
    CpuShare,
    /// A call took too long, waiting included, and was stopped.
    Wall,
    /// A guest's memory was not allowed to grow.
    Memory,
    /// The memory of all the plugin's instances was not allowed to grow.
    TotalMemory,
    /// A guest's memory was not allowed to grow, because other plugins use the memory that they share with it.
    SharedMemory,
    /// A call waited for another call of the plugin to end.
    Instances,
    /// The result of an import was too large.
    Answer,
    /// The data that the guest passed to the host, in arguments, batches or an outcome, was too large.
    Staged,
    /// A name, a path or another text that the guest passed to an import was too long.
    Argument,
    /// The guest held too many cursors and batches.
    Handles,
    /// The host held too much for all calls of the plugin together.
    Held,
    /// The plugin had too many connections for `wasi:http`.
    Connections,
}

impl Limit {
    pub const ALL: [Self; 13] = [
        Self::Cpu,
        Self::CpuShare,
        Self::Wall,
        Self::Memory,
        Self::TotalMemory,
        Self::SharedMemory,
        Self::Instances,
        Self::Answer,
        Self::Staged,
        Self::Argument,
        Self::Handles,
        Self::Held,
        Self::Connections,
    ];

    /// The name in policies and in the label of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::CpuShare => "cpu-share",
            Self::Wall => "wall",
            Self::Memory => "memory",
            Self::TotalMemory => "total-memory",
            Self::SharedMemory => "shared-memory",
            Self::Instances => "instances",
            Self::Answer => "answer",
            Self::Staged => "staged",
            Self::Argument => "argument",
            Self::Handles => "handles",
            Self::Held => "held",
            Self::Connections => "connections",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters([AtomicU64; Limit::ALL.len()]);

impl Counters {
    pub(crate) fn hit(&self, limit: Limit) {
        self.0[limit as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> Hits {
        Hits(std::array::from_fn(|limit| self.0[limit].load(Relaxed)))
    }
}

/// How often each limit was hit since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits([u64; Limit::ALL.len()]);

impl Hits {
    pub fn of(&self, limit: Limit) -> u64 {
        self.0[limit as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_own_count() {
        let counters = Counters::default();
        for (times, limit) in Limit::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| counters.hit(limit));
        }
        let hits = counters.read();
        for (times, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(hits.of(limit), times as u64, "{}", limit.name());
        }
    }
}
