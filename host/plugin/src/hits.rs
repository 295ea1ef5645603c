//! How often each limit of a plugin has delayed or ended a call. Operators look at it before they raise a limit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A limit of [`crate::Limits`], as it is named in a policy and in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A call computed for too long and was stopped.
    Cpu,
    /// A call waited until the plugin's share of a core had room for it.
    CpuShare,
    /// A call took too long and was stopped.
    Wall,
    /// A growth of memory was refused.
    Memory,
    /// A call waited for another of the plugin's to end.
    Instances,
    /// The result of an import was too large.
    Answer,
    /// What the guest gave to the host, in arguments, batches or an outcome, was too large.
    Staged,
    /// The guest held too many cursors and batches.
    Handles,
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Cpu,
        Self::CpuShare,
        Self::Wall,
        Self::Memory,
        Self::Instances,
        Self::Answer,
        Self::Staged,
        Self::Handles,
    ];

    /// Its key in a policy, and the value of the metrics' label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::CpuShare => "cpu-share",
            Self::Wall => "wall",
            Self::Memory => "memory",
            Self::Instances => "instances",
            Self::Answer => "answer",
            Self::Staged => "staged",
            Self::Handles => "handles",
        }
    }
}

/// Counts hits. Clones of what holds it count together.
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
    /// How often this one was.
    pub fn of(&self, limit: Limit) -> u64 {
        self.0[limit as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_counted_by_itself() {
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
