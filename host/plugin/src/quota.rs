//! A plugin's CPU quota as the host's own work for the plugin sees it. The calls of the guest are measured by
//! `meter.rs`.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use tokio::runtime::Handle;

use crate::limits::Limits;
use crate::share::Share;

/// The maximum charge for brief work. A longer time means that the thread waited for a core.
const BRIEF: Duration = Duration::from_micros(100);

/// The estimated CPU time for receiving a byte: decryption, HTTP and copies in the task of the connection.
const RECEIVED_BYTE: Duration = Duration::from_nanos(1);

/// Charges the host's own work for a plugin to the plugin's CPU quota. Clones charge the same quota.
#[derive(Clone, Debug)]
pub struct Quota {
    share: Arc<Share>,
    threads: Handle,
}

impl Quota {
    /// Creates a quota whose work runs on the threads of the current runtime. None if the limits have no quota.
    pub fn new(limits: &Limits) -> Option<Self> {
        Self::of(Arc::new(Share::new(limits)), Handle::current)
    }

    pub(crate) fn of(share: Arc<Share>, threads: impl FnOnce() -> Handle) -> Option<Self> {
        share.is_limited().then(|| Self {
            share,
            threads: threads(),
        })
    }

    /// Threads for work of the plugin that must not delay the host's other tasks.
    pub fn threads(&self) -> &Handle {
        &self.threads
    }

    /// Waits while the quota is overdrawn.
    pub async fn wait(&self) {
        drop(self.share.turn().await);
    }

    /// Waits for the quota, runs work, and charges it.
    pub async fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        self.share.run(work).await
    }

    /// Charges work that can't wait for the quota, and that may wait for something else. If it overdraws the quota, the
    /// plugin's next call and work are delayed.
    pub async fn charge<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            let clock = ThreadTime::now();
            let polled = work.as_mut().poll(context);
            self.share.charge(clock.elapsed());
            polled
        })
        .await
    }

    /// Charges the work of a connection that received this many bytes for the plugin.
    pub fn charge_received(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.share.charge(RECEIVED_BYTE * bytes);
    }

    /// Charges work that takes microseconds and can't wait. It costs less to measure than by [`Quota::charge`].
    pub fn charge_brief<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        self.share.charge(began.elapsed().min(BRIEF));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundredth of a core, with a burst of a millisecond.
    fn quota() -> Quota {
        let limits = Limits {
            cpu_share: Some(10),
            cpu_burst: Duration::from_millis(1),
            ..Limits::default()
        };
        Quota::new(&limits).expect("the limits have a quota")
    }

    fn compute(time: Duration) {
        let clock = ThreadTime::now();
        while clock.elapsed() < time {}
    }

    /// How long the next work waits, on a paused clock.
    async fn wait(quota: &Quota) -> Duration {
        let began = tokio::time::Instant::now();
        quota.wait().await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_wait_for_the_quota_delays_the_next_that_does() {
        let quota = quota();
        assert_eq!(wait(&quota).await, Duration::ZERO);
        let work = async {
            compute(Duration::from_millis(2));
            tokio::time::sleep(Duration::from_millis(1)).await;
            compute(Duration::from_millis(2));
        };
        quota.charge(work).await;
        // The burst of a millisecond is spent, and the quota is overdrawn by three milliseconds.
        let waited = wait(&quota).await;
        assert!(waited >= Duration::from_millis(290), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn brief_work_is_charged_and_no_more_than_it_may_take() {
        let quota = quota();
        quota.charge_brief(|| std::thread::sleep(Duration::from_millis(20)));
        assert_eq!(wait(&quota).await, Duration::ZERO);
        for _ in 0..100 {
            quota.charge_brief(|| compute(Duration::from_micros(50)));
        }
        let waited = wait(&quota).await;
        assert!(waited >= Duration::from_millis(390), "{waited:?}");
    }

    #[tokio::test]
    async fn without_a_limit_there_is_no_quota() {
        assert!(Quota::new(&Limits::default()).is_none());
    }
}
