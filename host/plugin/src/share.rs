//! A plugin's CPU quota: CPU time per second for all of its calls together, with a small burst. The limit on each call
//! stops a guest that never returns. The quota slows down a guest that always returns in time and is called again at
//! once.
//!
//! Each poll of a call first acquires a turn. (While the guest computes, a poll lasts at most one tick.) No more polls
//! run at once than the quota has cores, rounded up, and no poll starts while the plugin has overdrawn its quota. So a
//! call waits before it starts, and again at its ticks. Turns are granted in the order in which they were requested.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use cpu_time::ThreadTime;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::limits::Limits;

/// The host's CPU time for one call: a task, a journal, a log line and the queue's bookkeeping. It is charged to the
/// quota too, because a guest that returns at once and is called again at once would otherwise occupy the host's
/// threads.
pub(crate) const CALL_COST: Duration = Duration::from_micros(30);

/// The account of one plugin's CPU quota: its balance, and the turns that polls take.
#[derive(Debug)]
pub(crate) struct Share {
    /// The limit; none if the plugin may use all cores.
    limited: Option<Limited>,
    /// Whether calls start on the thread that makes them.
    runs_inline: bool,
    /// Whether the plugin was removed, so that its calls must end.
    is_stopped: AtomicBool,
}

#[derive(Debug)]
struct Limited {
    /// Nanoseconds of CPU time earned per nanosecond.
    rate: f64,
    /// The maximum balance, in nanoseconds.
    burst: f64,
    balance: Mutex<Balance>,
    /// One permit for each poll that may run at once.
    turns: Semaphore,
}

#[derive(Debug)]
struct Balance {
    /// CPU time in nanoseconds; negative if the plugin has overdrawn its quota.
    left: f64,
    /// When `left` was last updated.
    at: Instant,
}

/// A poll of a call may run while this lives.
pub(crate) type Turn<'a> = Option<SemaphorePermit<'a>>;

impl Share {
    pub(crate) fn new(limits: &Limits) -> Self {
        let limited = limits.cpu_share.map(|millicores| {
            let burst = limits.cpu_burst.as_nanos() as f64;
            Limited {
                rate: f64::from(millicores.max(1)) / 1000.0,
                burst,
                balance: Mutex::new(Balance {
                    left: burst,
                    at: Instant::now(),
                }),
                turns: Semaphore::new(millicores.div_ceil(1000).max(1) as usize),
            }
        });
        Self {
            runs_inline: limits.is_reserved && limited.is_none(),
            limited,
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Ends all calls of the plugin, wherever they are.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Relaxed)
    }

    /// True if the plugin has a CPU quota.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited.is_some()
    }

    /// Whether calls start on the thread that makes them: those of built-ins without a CPU quota.
    pub(crate) fn runs_inline(&self) -> bool {
        self.runs_inline
    }

    /// True if less than half of the burst is left.
    pub(crate) fn is_low(&self) -> bool {
        self.limited
            .as_ref()
            .is_some_and(|limited| limited.balance().left < limited.burst / 2.0)
    }

    /// Returns a turn if one is available at once.
    pub(crate) fn try_turn(&self) -> Option<Turn<'_>> {
        let Some(limited) = &self.limited else {
            return Some(None);
        };
        let turn = limited.turns.try_acquire().ok()?;
        limited.debt().is_zero().then_some(Some(turn))
    }

    /// Waits for a turn.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        let limited = self.limited.as_ref()?;
        // The semaphore is never closed.
        let turn = limited.turns.acquire().await.ok()?;
        loop {
            let debt = limited.debt();
            if debt.is_zero() {
                return Some(turn);
            }
            tokio::time::sleep(debt).await;
        }
    }

    /// Runs work on this thread within the quota, and charges it.
    pub(crate) async fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.limited.is_none() {
            return work();
        }
        let _turn = self.turn().await;
        let clock = ThreadTime::now();
        let result = work();
        self.charge(clock.elapsed());
        result
    }

    /// Deducts CPU time from the balance.
    pub(crate) fn charge(&self, used: Duration) {
        if let Some(limited) = &self.limited {
            limited.balance().left -= used.as_nanos() as f64;
        }
    }
}

impl Limited {
    /// Returns how long it takes until the balance is no longer negative.
    fn debt(&self) -> Duration {
        let left = self.balance().left;
        if left >= 0.0 {
            Duration::ZERO
        } else {
            Duration::from_nanos((-left / self.rate) as u64 + 1)
        }
    }

    /// Returns the balance, updated to the current time.
    fn balance(&self) -> MutexGuard<'_, Balance> {
        let mut balance = self.balance.lock();
        let now = Instant::now();
        let earned = now.saturating_duration_since(balance.at).as_nanos() as f64 * self.rate;
        balance.left = (balance.left + earned).min(self.burst);
        balance.at = now;
        balance
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn share(millicores: u32) -> Share {
        let cpu_burst = Duration::from_millis(40);
        Share::new(&Limits {
            cpu_share: Some(millicores),
            cpu_burst,
            ..Limits::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn the_burst_can_be_used_at_once_and_the_rest_at_the_rate() {
        let (share, start) = (share(250), Instant::now());
        for _ in 0..8 {
            assert!(share.try_turn().is_some());
            share.charge(Duration::from_millis(5));
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        share.charge(Duration::from_millis(5));
        assert!(share.try_turn().is_none());
        for _ in 0..100 {
            drop(share.turn().await);
            share.charge(Duration::from_millis(5));
        }
        let took = start.elapsed();
        assert!(
            took >= Duration::from_millis(2000) && took <= Duration::from_millis(2200),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_balance_never_exceeds_the_burst() {
        let share = share(250);
        tokio::time::advance(Duration::from_secs(3600)).await;
        share.charge(Duration::from_millis(41));
        assert!(share.try_turn().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_turns_exist_at_once_than_cores_rounded_up() {
        for (millicores, at_once) in [(1, 1), (250, 1), (1000, 1), (1001, 2), (4000, 4)] {
            let share = share(millicores);
            let turns: Vec<_> = std::iter::from_fn(|| share.try_turn()).collect();
            assert_eq!(turns.len(), at_once, "{millicores}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_calls_get_equal_parts_of_the_quota() {
        let share = Arc::new(share(250));
        let used: Vec<Arc<Mutex<u32>>> = (0..10).map(|_| Arc::default()).collect();
        let tasks = used.iter().map(|used| {
            let (share, used) = (share.clone(), used.clone());
            tokio::spawn(async move {
                loop {
                    let _turn = share.turn().await;
                    share.charge(Duration::from_millis(5));
                    *used.lock() += 1;
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        tokio::time::sleep(Duration::from_secs(10)).await;
        tasks.iter().for_each(|task| task.abort());
        let used: Vec<u32> = used.iter().map(|used| *used.lock()).collect();
        let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
        assert!(*least >= 40 && most - least <= 10, "{used:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_wait_does_not_block_later_ones() {
        let share = share(250);
        share.charge(Duration::from_secs(1));
        let waiting = tokio::time::timeout(Duration::from_millis(10), share.turn());
        assert!(waiting.await.is_err());
        drop(share.turn().await);
    }

    #[tokio::test]
    async fn a_call_without_a_quota_never_waits() {
        let share = Share::new(&Limits::default());
        share.charge(Duration::from_secs(1000));
        assert!(share.try_turn().is_some());
        assert!(share.turn().await.is_none());
    }
}
