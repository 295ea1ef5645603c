//! A plugin's share of the cores: so much computing per second, over all of its calls, with a small burst. A limit on each
//! call stops who never returns; this one slows who always returns in time and is called again at once.
//!
//! Each poll of a call, which lasts a tick at most while the guest computes, begins with a turn: no more polls run at once
//! than the share has cores, rounded up, and none begins while the plugin has used more than its share. So a call waits
//! before it starts, and again at its ticks. Turns are given in the order in which they were asked for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::limits::Limits;

/// What a call costs the host beside the guest's own time: a task, a journal, a line of the log and the queue's bookkeeping.
/// Charged with the share, so that a guest that returns at once and is called again at once does not own the host's threads
/// instead.
pub(crate) const CALL: Duration = Duration::from_micros(30);

/// The share of one plugin.
#[derive(Debug)]
pub(crate) struct Share {
    /// None where the plugin may use all cores.
    limited: Option<Limited>,
}

#[derive(Debug)]
struct Limited {
    /// Nanoseconds on a core per nanosecond.
    rate: f64,
    /// The most that may be saved up, in nanoseconds.
    burst: f64,
    balance: Mutex<Balance>,
    /// One permit for each poll that may run at once.
    turns: Semaphore,
}

#[derive(Debug)]
struct Balance {
    /// Nanoseconds on a core; below zero, so much was used in advance.
    left: f64,
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
        Self { limited }
    }

    /// Whether there is any.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited.is_some()
    }

    /// Whether less than half of what may be saved up is left.
    pub(crate) fn is_low(&self) -> bool {
        self.limited
            .as_ref()
            .is_some_and(|limited| limited.earn().left < limited.burst / 2.0)
    }

    /// A turn, if one can be had at once.
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
        // It is never closed.
        let turn = limited.turns.acquire().await.ok()?;
        loop {
            let debt = limited.debt();
            if debt.is_zero() {
                return Some(turn);
            }
            tokio::time::sleep(debt).await;
        }
    }

    /// Takes what was used out of the share.
    pub(crate) fn charge(&self, used: Duration) {
        if let Some(limited) = &self.limited {
            limited.earn().left -= used.as_nanos() as f64;
        }
    }
}

impl Limited {
    /// How long it takes until what was used in advance is paid.
    fn debt(&self) -> Duration {
        let left = self.earn().left;
        if left >= 0.0 {
            Duration::ZERO
        } else {
            Duration::from_nanos((-left / self.rate) as u64 + 1)
        }
    }

    /// The balance as of now.
    fn earn(&self) -> MutexGuard<'_, Balance> {
        let mut balance = self.balance.lock().unwrap_or_else(PoisonError::into_inner);
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
    async fn what_was_saved_up_is_used_at_once_and_the_rest_at_the_rate() {
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
    async fn no_more_is_saved_up_than_the_burst() {
        let share = share(250);
        tokio::time::advance(Duration::from_secs(3600)).await;
        share.charge(Duration::from_millis(41));
        assert!(share.try_turn().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_run_at_once_as_the_share_has_cores_rounded_up() {
        for (millicores, at_once) in [(1, 1), (250, 1), (1000, 1), (1001, 2), (4000, 4)] {
            let share = share(millicores);
            let turns: Vec<_> = std::iter::from_fn(|| share.try_turn()).collect();
            assert_eq!(turns.len(), at_once, "{millicores}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_share_alike() {
        let share = Arc::new(share(250));
        let used: Vec<Arc<Mutex<u32>>> = (0..10).map(|_| Arc::default()).collect();
        let tasks = used.iter().map(|used| {
            let (share, used) = (share.clone(), used.clone());
            tokio::spawn(async move {
                loop {
                    let _turn = share.turn().await;
                    share.charge(Duration::from_millis(5));
                    *used.lock().unwrap() += 1;
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        tokio::time::sleep(Duration::from_secs(10)).await;
        tasks.iter().for_each(|task| task.abort());
        let used: Vec<u32> = used.iter().map(|used| *used.lock().unwrap()).collect();
        let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
        assert!(*least >= 40 && most - least <= 10, "{used:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_stops_waiting_keeps_no_other_from_its_turn() {
        let share = share(250);
        share.charge(Duration::from_secs(1));
        let waiting = tokio::time::timeout(Duration::from_millis(10), share.turn());
        assert!(waiting.await.is_err());
        drop(share.turn().await);
    }

    #[tokio::test]
    async fn without_a_limit_nobody_waits() {
        let share = Share::new(&Limits::default());
        share.charge(Duration::from_secs(1000));
        assert!(share.try_turn().is_some());
        assert!(share.turn().await.is_none());
    }
}
