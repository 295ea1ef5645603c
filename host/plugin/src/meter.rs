//! Measures the time that a call spends on a core: the sum of the times that its task is polled. A poll lasts a tick at
//! most while the guest computes, because it then yields; it lasts longer where the host computes for the guest, where one
//! instruction moves much memory, or where the thread itself had to wait for a core. Only the last is no fault of the
//! guest, so for long polls the thread's own clock decides. Reading that is a system call; short polls don't pay for it.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;

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
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), spent: AtomicU64::new(0), poll_started: AtomicU64::new(0) }
    }

    /// Forgets what earlier calls have used.
    pub(crate) fn reset(&self) {
        self.spent.store(0, Relaxed);
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

    /// Runs a call to its end, measuring it, with the ticker awake while it computes.
    pub(crate) async fn run<F: Future>(&self, ticker: &Ticker, call: F) -> F::Output {
        let mut call = pin!(call);
        poll_fn(|context| {
            let _running = ticker.enter();
            let _poll = Poll::begin(self);
            call.as_mut().poll(context)
        })
        .await
    }
}

/// A poll that is going on. Ends it when dropped, by a panic too.
struct Poll<'a> {
    meter: &'a Meter,
    started: Instant,
}

impl<'a> Poll<'a> {
    fn begin(meter: &'a Meter) -> Self {
        let started = Instant::now();
        meter.poll_started.store(nanos(started - meter.origin), Relaxed);
        if READING.get().is_none_or(|(at, _)| started - at > SHORT) {
            READING.set(Some((started, ThreadTime::now())));
        }
        Self { meter, started }
    }
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        self.meter.spent.fetch_add(nanos(charge(self.started.elapsed())), Relaxed);
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

    fn ticker() -> Ticker {
        Ticker::start(Duration::from_millis(1), || ()).unwrap()
    }

    #[tokio::test]
    async fn waiting_between_polls_is_not_charged() {
        let meter = Meter::new();
        meter.run(&ticker(), tokio::time::sleep(Duration::from_millis(200))).await;
        assert!(meter.spent() < Duration::from_millis(50), "{:?}", meter.spent());
    }

    #[tokio::test]
    async fn a_thread_that_waits_for_a_core_is_not_charged() {
        let meter = Meter::new();
        meter.run(&ticker(), async { std::thread::sleep(Duration::from_millis(200)) }).await;
        assert!(meter.spent() < Duration::from_millis(50), "{:?}", meter.spent());
    }

    #[tokio::test]
    async fn computing_is_charged_and_forgotten_by_a_reset() {
        let meter = Meter::new();
        meter
            .run(&ticker(), async {
                let clock = ThreadTime::now();
                while clock.elapsed() < Duration::from_millis(30) {}
                assert!(meter.spent_until_now() >= Duration::from_millis(30));
            })
            .await;
        assert!(meter.spent() >= Duration::from_millis(30), "{:?}", meter.spent());
        meter.reset();
        assert_eq!(meter.spent(), Duration::ZERO);
    }
}
