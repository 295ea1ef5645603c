//! Measures the CPU time of a call: the sum of the durations of its polls.
//!
//! While the guest computes, a poll lasts at most one tick, because the guest then yields. A poll lasts longer if the
//! host computes for the guest, if one instruction moves much memory, or if the thread has to wait for a core. Only the
//! last is not the guest's doing, so long polls are charged by the thread's CPU clock. Reading that clock is a system
//! call, which short polls avoid.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;

use crate::hits::{Counters, Limit};
use crate::share::Share;
use crate::ticker::Ticker;

/// Polls up to this long are charged by the wall clock.
const SHORT_POLL: Duration = Duration::from_millis(5);

thread_local! {
    /// The last reading of this thread's CPU clock, and its time.
    static LAST_READING: Cell<Option<(Instant, ThreadTime)>> = const { Cell::new(None) };
}

/// Why a call is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stopped {
    #[error("the guest exceeded its limit of CPU time")]
    CpuExceeded,
    #[error("the plugin was removed")]
    Removed,
}

/// The CPU time of a call. Written by the thread that polls the call, read by any thread.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The zero point of `poll_started` and `waiting_since`.
    origin: Instant,
    /// CPU time of all polls that have ended, in nanoseconds.
    spent: AtomicU64,
    /// When the current poll began, in nanoseconds since `origin`.
    poll_started: AtomicU64,
    /// Time for which the call has waited for the plugin's CPU quota, in nanoseconds. If the plugin has a quota, this
    /// includes the wait for a core, because the quota may have lowered the call's priority.
    waited: AtomicU64,
    /// True if the poll ended because a tick interrupted the guest, not because the guest waits for the host.
    interrupted: AtomicBool,
    /// When the current wait for the quota began, in nanoseconds since `origin`; 0 if the call does not wait.
    waiting_since: AtomicU64,
    /// Time for which the call has waited for another plugin, in nanoseconds.
    elsewhere: AtomicU64,
    /// When the current wait for another plugin began, in nanoseconds since `origin`; 0 if the call does not wait.
    elsewhere_since: AtomicU64,
    /// The plugin's CPU quota.
    share: Arc<Share>,
    /// The CPU time that a call may use.
    limit: Duration,
}

impl Meter {
    pub(crate) fn new(share: Arc<Share>, limit: Duration) -> Self {
        Self {
            limit,
            origin: Instant::now(),
            spent: AtomicU64::new(0),
            poll_started: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            interrupted: AtomicBool::new(false),
            waiting_since: AtomicU64::new(0),
            elsewhere: AtomicU64::new(0),
            elsewhere_since: AtomicU64::new(0),
            share,
        }
    }

    /// Starts a new call at zero.
    pub(crate) fn reset(&self) {
        self.spent.store(0, Relaxed);
        self.waited.store(0, Relaxed);
        self.waiting_since.store(0, Relaxed);
        self.elsewhere.store(0, Relaxed);
        self.elsewhere_since.store(0, Relaxed);
    }

    /// Returns the CPU time of the call, without the current poll.
    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Relaxed))
    }

    /// Returns the CPU time of the call, with the current poll. Only called from within a poll.
    fn spent_until_now(&self) -> Duration {
        let started = self.origin + Duration::from_nanos(self.poll_started.load(Relaxed));
        self.spent() + charge(started.elapsed())
    }

    /// Whether the call has used more CPU time than it may. Only called from within a poll.
    pub(crate) fn is_used_up(&self) -> bool {
        self.spent_until_now() > self.limit
    }

    /// The CPU time that the call has left. Only called from within a poll.
    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.spent_until_now())
    }

    /// Whether the polls that have ended have used more CPU time than the call may.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent() > self.limit
    }

    /// Whether all calls of the plugin must end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.share.is_stopped()
    }

    /// Fails if the guest must not go on. Only called from within a poll.
    pub(crate) fn check(&self) -> Result<(), Stopped> {
        match () {
            () if self.is_stopped() => Err(Stopped::Removed),
            () if self.is_used_up() => Err(Stopped::CpuExceeded),
            () => Ok(()),
        }
    }

    /// Marks the current poll as ended by an interruption of the guest.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Relaxed);
    }

    /// Charges the call for work that the host does for it outside of its polls.
    pub(crate) fn measure<T>(&self, work: impl FnOnce() -> T) -> T {
        let _poll = MeasuredPoll::begin(self);
        work()
    }

    /// Charges the call and the plugin's CPU quota for CPU time of the host's threads.
    pub(crate) fn charge(&self, used: Duration) {
        self.spend(used);
        self.share.charge(used);
    }

    /// Charges the call alone.
    pub(crate) fn spend(&self, used: Duration) {
        self.spent.fetch_add(nanos(used), Relaxed);
    }

    /// Returns how long the call has waited for the plugin's CPU quota or because of it, or for another plugin, with the
    /// current wait.
    pub(crate) fn waited(&self) -> Duration {
        let elsewhere = Duration::from_nanos(self.elsewhere.load(Relaxed));
        self.waited_for_quota() + elsewhere + self.since(&self.elsewhere_since)
    }

    fn waited_for_quota(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Relaxed)) + self.since(&self.waiting_since)
    }

    /// The time since an instant that is stored as nanoseconds since `origin`; zero if there is none.
    fn since(&self, instant: &AtomicU64) -> Duration {
        match instant.load(Relaxed) {
            0 => Duration::ZERO,
            since => (self.origin + Duration::from_nanos(since)).elapsed(),
        }
    }

    /// Awaits work of another plugin, whose own limits apply to it: it does not count against the wall-clock limit of
    /// this call.
    pub(crate) async fn elsewhere<F: Future>(&self, work: F) -> F::Output {
        let begun = nanos(self.origin.elapsed()).max(1);
        self.elsewhere_since.store(begun, Relaxed);
        let output = work.await;
        let waited = self.since(&self.elsewhere_since);
        self.elsewhere_since.store(0, Relaxed);
        self.elsewhere.fetch_add(nanos(waited), Relaxed);
        output
    }

    /// Runs a call to its end and measures it. The ticker is awake while the call is polled. Each poll waits for its
    /// turn within the plugin's CPU quota.
    ///
    /// # Errors
    /// Fails after the poll in which the call has used up its CPU time, whether the guest computed or the host for it, or
    /// in which the plugin was removed. So a host function that yields now and then needs no check of its own.
    pub(crate) async fn run<F: Future>(
        &self,
        ticker: &Ticker,
        hits: &Counters,
        call: F,
    ) -> Result<F::Output, Stopped> {
        let mut call = pin!(call);
        loop {
            let turn = match self.share.try_turn() {
                Some(turn) => turn,
                None => {
                    hits.hit(Limit::CpuShare);
                    self.waiting_since
                        .store(nanos(self.origin.elapsed()).max(1), Relaxed);
                    let turn = self.share.turn().await;
                    self.waited.store(nanos(self.waited_for_quota()), Relaxed);
                    self.waiting_since.store(0, Relaxed);
                    turn
                }
            };
            let polled = poll_fn(|context| {
                let _running = ticker.enter();
                let _poll = MeasuredPoll::begin(self);
                Poll::Ready(call.as_mut().poll(context))
            });
            if let Poll::Ready(output) = polled.await {
                return Ok(output);
            }
            drop(turn);
            if self.is_stopped() {
                return Err(Stopped::Removed);
            }
            if self.spent() > self.limit {
                return Err(Stopped::CpuExceeded);
            }
            let interrupted_at = self.interrupted.swap(false, Relaxed).then(Instant::now);
            woken().await;
            // An interrupted guest could have continued at once, so it has waited for a core since.
            if let Some(at) = interrupted_at.filter(|_| self.share.is_limited()) {
                self.waited.fetch_add(nanos(at.elapsed()), Relaxed);
            }
        }
    }
}

/// Waits until the waker that the preceding poll registered is called.
async fn woken() {
    let mut woken = false;
    poll_fn(|_| {
        if std::mem::replace(&mut woken, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// The current poll. Charges the call when dropped, also by a panic.
struct MeasuredPoll<'a> {
    meter: &'a Meter,
    started: Instant,
    /// The thread's CPU clock, if the plugin has a CPU quota. On a busy machine even a short poll may have waited for a
    /// core, and a plugin that were charged for that would be slowed down by the load of others.
    thread: Option<ThreadTime>,
}

impl<'a> MeasuredPoll<'a> {
    fn begin(meter: &'a Meter) -> Self {
        let started = Instant::now();
        meter
            .poll_started
            .store(nanos(started - meter.origin), Relaxed);
        if LAST_READING
            .get()
            .is_none_or(|(at, _)| started - at > SHORT_POLL)
        {
            LAST_READING.set(Some((started, ThreadTime::now())));
        }
        Self {
            meter,
            started,
            thread: meter.share.is_limited().then(ThreadTime::now),
        }
    }
}

impl Drop for MeasuredPoll<'_> {
    fn drop(&mut self) {
        let elapsed = self.started.elapsed();
        let used = match self.thread {
            None => charge(elapsed),
            Some(thread) => {
                let used = elapsed.min(thread.elapsed());
                self.meter.waited.fetch_add(nanos(elapsed - used), Relaxed);
                used
            }
        };
        self.meter.spent.fetch_add(nanos(used), Relaxed);
        self.meter.share.charge(used);
    }
}

/// Returns the CPU time to charge for a poll of this duration. It may be up to [`SHORT_POLL`] too much, because the
/// last reading of the thread's CPU clock may be that much older than the poll.
fn charge(elapsed: Duration) -> Duration {
    match LAST_READING.get() {
        Some((_, reading)) if elapsed > SHORT_POLL => elapsed.min(reading.elapsed()),
        _ => elapsed,
    }
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowance::Allowance;
    use crate::limits::Limits;

    fn ticker() -> Ticker {
        Ticker::start(Duration::from_millis(1), || ()).unwrap()
    }

    fn meter() -> Meter {
        meter_of(&Limits::default())
    }

    fn meter_of(limits: &Limits) -> Meter {
        Meter::new(Share::new(limits).into(), limits.cpu_per_call)
    }

    #[tokio::test]
    async fn work_for_a_call_learns_that_its_cpu_time_is_used_up() {
        let meter = Arc::new(meter_of(&Limits {
            cpu_per_call: Duration::from_millis(20),
            ..Limits::default()
        }));
        let allowance = Allowance::of(&meter);
        let compute = |time| {
            let clock = ThreadTime::now();
            while clock.elapsed() < time {}
        };
        let call = async {
            let first = allowance.check();
            compute(Duration::from_millis(15));
            tokio::task::yield_now().await;
            compute(Duration::from_millis(15));
            (first, allowance.each(0..1000).find_map(Result::err))
        };
        let result = meter.run(&ticker(), &Counters::default(), call).await;
        let (first, second) = result.unwrap();
        assert_eq!(first, Ok(()));
        assert_eq!(second.map(|error| error.reason).as_deref(), Some("Full"));
    }

    #[tokio::test]
    async fn documents_are_read_and_merged_only_while_the_call_has_cpu_time() {
        let meter = Arc::new(meter_of(&Limits {
            cpu_per_call: Duration::from_millis(20),
            ..Limits::default()
        }));
        let allowance = Allowance::of(&meter);
        let call = async {
            let (small, large) = (
                allowance.check_document(1000),
                allowance.check_document(100_000_000),
            );
            let merge = || {
                let clock = ThreadTime::now();
                while clock.elapsed() < Duration::from_millis(30) {}
                Ok(())
            };
            (
                small,
                large,
                allowance.work_apart(merge),
                allowance.work_apart(merge),
            )
        };
        let (small, large, first, second) = meter
            .run(&ticker(), &Counters::default(), call)
            .await
            .unwrap();
        assert_eq!((small, first), (Ok(()), Ok(())));
        for refused in [large, second] {
            assert_eq!(refused.unwrap_err().reason, "Full");
        }
        assert!(meter.spent() >= Duration::from_millis(30));
        meter.share.stop();
        let stopped = allowance.work_apart(|| Ok(()));
        assert_eq!(stopped.unwrap_err().reason, "Skipped");
    }

    #[tokio::test]
    async fn work_for_a_call_ends_when_the_plugin_is_removed() {
        let meter = Arc::new(meter_of(&Limits::default()));
        let (allowance, share) = (Allowance::of(&meter), meter.share.clone());
        let call = async {
            let visits = allowance.each(0_u64..).map_while(|item| {
                let item = item.ok()?;
                // Another thread removes the plugin, while this one does not return.
                if item == 10_000 {
                    std::thread::scope(|scope| drop(scope.spawn(|| share.stop())));
                }
                Some(item)
            });
            visits.count()
        };
        let visited = meter.run(&ticker(), &Counters::default(), call).await;
        let visited = visited.expect("it has ended by itself");
        assert!((10_000..10_100).contains(&visited), "{visited}");
        let next = std::future::pending::<()>();
        let next = meter.run(&ticker(), &Counters::default(), next).await;
        assert_eq!(next, Err(Stopped::Removed));
    }

    #[tokio::test]
    async fn a_host_function_that_yields_is_stopped_when_the_cpu_time_is_used_up() {
        let meter = meter_of(&Limits {
            cpu_per_call: Duration::from_millis(20),
            ..Limits::default()
        });
        let call = async {
            loop {
                let clock = ThreadTime::now();
                while clock.elapsed() < Duration::from_millis(5) {}
                tokio::task::yield_now().await;
            }
        };
        let result: Result<(), _> = meter.run(&ticker(), &Counters::default(), call).await;
        assert!(result.is_err());
        assert!(
            meter.spent() < Duration::from_millis(60),
            "{:?}",
            meter.spent()
        );
    }

    #[tokio::test]
    async fn waiting_between_polls_is_not_charged() {
        let meter = meter();
        meter
            .run(
                &ticker(),
                &Counters::default(),
                tokio::time::sleep(Duration::from_millis(200)),
            )
            .await
            .unwrap();
        assert!(
            meter.spent() < Duration::from_millis(50),
            "{:?}",
            meter.spent()
        );
    }

    #[tokio::test]
    async fn a_long_poll_is_charged_only_for_the_time_on_a_core() {
        let meter = meter();
        meter
            .run(&ticker(), &Counters::default(), async {
                std::thread::sleep(Duration::from_millis(200))
            })
            .await
            .unwrap();
        assert!(
            meter.spent() < Duration::from_millis(50),
            "{:?}",
            meter.spent()
        );
    }

    #[tokio::test]
    async fn computing_is_charged_until_a_reset() {
        let meter = meter();
        meter
            .run(&ticker(), &Counters::default(), async {
                let clock = ThreadTime::now();
                while clock.elapsed() < Duration::from_millis(30) {}
                assert!(meter.spent_until_now() >= Duration::from_millis(30));
            })
            .await
            .unwrap();
        assert!(
            meter.spent() >= Duration::from_millis(30),
            "{:?}",
            meter.spent()
        );
        meter.reset();
        assert_eq!(meter.spent(), Duration::ZERO);
    }

    #[tokio::test]
    async fn waiting_for_the_quota_is_counted_and_not_charged() {
        let limits = Limits {
            cpu_share: Some(100),
            cpu_burst: Duration::from_millis(1),
            ..Limits::default()
        };
        let (meter, hits) = (meter_of(&limits), Counters::default());
        let compute = || {
            let clock = ThreadTime::now();
            while clock.elapsed() < Duration::from_millis(5) {}
        };
        let call = async {
            for _ in 0..4 {
                compute();
                tokio::task::yield_now().await;
            }
        };
        meter.run(&ticker(), &hits, call).await.unwrap();
        // The first 5 ms of computing overdraw the balance by 4 ms, which takes 40 ms to earn; later ones take longer.
        assert!(
            meter.waited() >= Duration::from_millis(3 * 40),
            "{:?}",
            meter.waited()
        );
        assert!(meter.spent() < meter.waited(), "{:?}", meter.spent());
        assert!(hits.read().of(Limit::CpuShare) >= 3);
        meter.reset();
        assert_eq!(meter.waited(), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_short_poll_with_a_quota_is_charged_only_for_the_time_on_a_core() {
        let limits = Limits {
            cpu_share: Some(1000),
            ..Limits::default()
        };
        let meter = meter_of(&limits);
        let call = async {
            for _ in 0..50 {
                std::thread::sleep(SHORT_POLL / 2);
                tokio::task::yield_now().await;
            }
        };
        let run = meter.run(&ticker(), &Counters::default(), call).await;
        run.unwrap();
        assert!(meter.spent() < SHORT_POLL * 50 / 4, "{:?}", meter.spent());
    }
}
