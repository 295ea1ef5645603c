//! Measures the time that a call spends on a core: the sum of the times that its task is polled. A poll lasts a tick at
//! most while the guest computes, because it then yields; it lasts longer where the host computes for the guest, where one
//! instruction moves much memory, or where the thread itself had to wait for a core. Only the last is no fault of the
//! guest, so for long polls the thread's own clock decides. Reading that is a system call; short polls don't pay for it.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Poll as Progress;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;

use crate::hits::{Counters, Limit};
use crate::share::Share;
use crate::ticker::Ticker;

/// A poll up to this long is charged by the wall clock.
const SHORT: Duration = Duration::from_millis(5);

thread_local! {
    /// When this thread last read its own clock, and what it said.
    static READING: Cell<Option<(Instant, ThreadTime)>> = const { Cell::new(None) };
}

/// What a call has used of a core. Written by the thread that polls it, read by any.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Zero of `poll_started`.
    origin: Instant,
    /// Nanoseconds of all polls that have ended.
    spent: AtomicU64,
    /// When the current poll began, in nanoseconds since `origin`.
    poll_started: AtomicU64,
    /// Nanoseconds for which the call has waited for the plugin's share, and where it has one for a core: it may be at a lower
    /// priority for it.
    waited: AtomicU64,
    /// Whether the poll ended because the guest was interrupted, and not because it waits for the host.
    interrupted: AtomicBool,
    /// Since when it waits for it, in nanoseconds since `origin`; 0 while it does not.
    waiting_since: AtomicU64,
    /// What the plugin may use, over all calls.
    share: Arc<Share>,
}

impl Meter {
    pub(crate) fn new(share: Arc<Share>) -> Self {
        Self {
            origin: Instant::now(),
            spent: AtomicU64::new(0),
            poll_started: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            interrupted: AtomicBool::new(false),
            waiting_since: AtomicU64::new(0),
            share,
        }
    }

    /// Forgets what earlier calls have used.
    pub(crate) fn reset(&self) {
        self.spent.store(0, Relaxed);
        self.waited.store(0, Relaxed);
        self.waiting_since.store(0, Relaxed);
    }

    /// What the call has used, without the current poll.
    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Relaxed))
    }

    /// What the call has used, asked from within a poll.
    pub(crate) fn spent_until_now(&self) -> Duration {
        let started = self.origin + Duration::from_nanos(self.poll_started.load(Relaxed));
        self.spent() + charge(started.elapsed())
    }

    /// Takes note that the guest is interrupted, which ends the poll.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Relaxed);
    }

    /// Does what the host does for the call beyond its polls, measuring it.
    pub(crate) fn measure<T>(&self, work: impl FnOnce() -> T) -> T {
        let _poll = Poll::begin(self);
        work()
    }

    /// For how long the call has waited for the plugin's share, or because of it, with a wait that goes on.
    pub(crate) fn waited(&self) -> Duration {
        let waiting = match self.waiting_since.load(Relaxed) {
            0 => Duration::ZERO,
            since => (self.origin + Duration::from_nanos(since)).elapsed(),
        };
        Duration::from_nanos(self.waited.load(Relaxed)) + waiting
    }

    /// Runs a call to its end, measuring it, with the ticker awake while it computes. Each poll waits for its turn within
    /// the plugin's share.
    pub(crate) async fn run<F: Future>(
        &self,
        ticker: &Ticker,
        hits: &Counters,
        call: F,
    ) -> F::Output {
        let mut call = pin!(call);
        loop {
            let turn = match self.share.try_turn() {
                Some(turn) => turn,
                None => {
                    hits.hit(Limit::CpuShare);
                    self.waiting_since
                        .store(nanos(self.origin.elapsed()).max(1), Relaxed);
                    let turn = self.share.turn().await;
                    self.waited.store(nanos(self.waited()), Relaxed);
                    self.waiting_since.store(0, Relaxed);
                    turn
                }
            };
            let progress = poll_fn(|context| {
                let _running = ticker.enter();
                let _poll = Poll::begin(self);
                Progress::Ready(call.as_mut().poll(context))
            });
            if let Progress::Ready(output) = progress.await {
                return output;
            }
            drop(turn);
            let ended = self.interrupted.swap(false, Relaxed).then(Instant::now);
            woken().await;
            // It could have gone on at once: what lies between is the wait for a core.
            if let Some(ended) = ended.filter(|_| self.share.is_limited()) {
                self.waited.fetch_add(nanos(ended.elapsed()), Relaxed);
            }
        }
    }
}

/// Waits until the task is woken, by whatever the poll before has left its waker with.
async fn woken() {
    let mut woken = false;
    poll_fn(|_| {
        if std::mem::replace(&mut woken, true) {
            Progress::Ready(())
        } else {
            Progress::Pending
        }
    })
    .await;
}

/// A poll that is going on. Ends it when dropped, by a panic too.
struct Poll<'a> {
    meter: &'a Meter,
    started: Instant,
    /// The thread's own clock, where the plugin has a share: on a machine that is busy with other things, a short poll too may
    /// have waited for a core, and a plugin that is charged for that would slow down for the load of others.
    thread: Option<ThreadTime>,
}

impl<'a> Poll<'a> {
    fn begin(meter: &'a Meter) -> Self {
        let started = Instant::now();
        meter
            .poll_started
            .store(nanos(started - meter.origin), Relaxed);
        if READING.get().is_none_or(|(at, _)| started - at > SHORT) {
            READING.set(Some((started, ThreadTime::now())));
        }
        Self {
            meter,
            started,
            thread: meter.share.is_limited().then(ThreadTime::now),
        }
    }
}

impl Drop for Poll<'_> {
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

/// What a poll that took so long is charged. Up to [`SHORT`] too much, since the thread's clock was read that long before.
fn charge(elapsed: Duration) -> Duration {
    match READING.get() {
        Some((_, reading)) if elapsed > SHORT => elapsed.min(reading.elapsed()),
        _ => elapsed,
    }
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn ticker() -> Ticker {
        Ticker::start(Duration::from_millis(1), || ()).unwrap()
    }

    fn meter() -> Meter {
        Meter::new(Share::new(&Limits::default()).into())
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
            .await;
        assert!(
            meter.spent() < Duration::from_millis(50),
            "{:?}",
            meter.spent()
        );
    }

    #[tokio::test]
    async fn a_thread_that_waits_for_a_core_is_not_charged() {
        let meter = meter();
        meter
            .run(&ticker(), &Counters::default(), async {
                std::thread::sleep(Duration::from_millis(200))
            })
            .await;
        assert!(
            meter.spent() < Duration::from_millis(50),
            "{:?}",
            meter.spent()
        );
    }

    #[tokio::test]
    async fn computing_is_charged_and_forgotten_by_a_reset() {
        let meter = meter();
        meter
            .run(&ticker(), &Counters::default(), async {
                let clock = ThreadTime::now();
                while clock.elapsed() < Duration::from_millis(30) {}
                assert!(meter.spent_until_now() >= Duration::from_millis(30));
            })
            .await;
        assert!(
            meter.spent() >= Duration::from_millis(30),
            "{:?}",
            meter.spent()
        );
        meter.reset();
        assert_eq!(meter.spent(), Duration::ZERO);
    }
    #[tokio::test]
    async fn a_call_beyond_the_share_waits_and_that_is_no_time_on_a_core() {
        let limits = Limits {
            cpu_share: Some(100),
            cpu_burst: Duration::from_millis(1),
            ..Limits::default()
        };
        let (meter, hits) = (Meter::new(Share::new(&limits).into()), Counters::default());
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
        meter.run(&ticker(), &hits, call).await;
        // After 5 ms of computing, 4 of them in advance, there are 40 to wait; and so on.
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
    async fn a_plugin_with_a_share_is_not_charged_for_short_waits_for_a_core() {
        let limits = Limits {
            cpu_share: Some(1000),
            ..Limits::default()
        };
        let meter = Meter::new(Share::new(&limits).into());
        let call = async {
            for _ in 0..50 {
                std::thread::sleep(SHORT / 2);
                tokio::task::yield_now().await;
            }
        };
        meter.run(&ticker(), &Counters::default(), call).await;
        assert!(meter.spent() < SHORT * 50 / 4, "{:?}", meter.spent());
    }
}
