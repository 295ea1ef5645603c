//! The thread that increments the engine's epoch. At each tick, guests that compute check their limits and yield. The
//! thread sleeps while no guest runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The number of ticks without a guest after which the thread sleeps. Waking it is a system call, which a busy host
/// should not make for each call.
const IDLE_TICKS: u32 = 50;
/// The maximum time between two ticks while no guest runs, in periods. A guest that starts in this time is interrupted
/// for the first time that much later.
const MAX_IDLE_PERIODS: u32 = 10;

/// The ticking thread. Dropping this ends and joins it.
pub(crate) struct Ticker {
    state: Arc<TickerState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct TickerState {
    /// Guests that are being polled.
    running: AtomicUsize,
    /// True while the thread sleeps and must be woken when a guest starts.
    asleep: AtomicBool,
    stop: AtomicBool,
}

/// Counts as a running guest while it lives.
pub(crate) struct Running<'a>(&'a Ticker);

impl Ticker {
    /// Starts the thread, which calls `tick` every `period` while guests run. Ticks that are missed on a busy machine
    /// are not made up for.
    pub(crate) fn start(
        period: Duration,
        tick: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        let state = Arc::new(TickerState::default());
        let shared = state.clone();
        let thread = thread::Builder::new()
            .name("flyball-tick".into())
            .spawn(move || run(&shared, period, tick))?;
        Ok(Self {
            state,
            thread: Some(thread),
        })
    }

    /// Counts a guest as running, and wakes the thread if it sleeps.
    pub(crate) fn enter(&self) -> Running<'_> {
        // The order matters. The thread sets `asleep` before it reads `running`, so at least one side sees the other's
        // change.
        self.state.running.fetch_add(1, SeqCst);
        if self.state.asleep.load(SeqCst) && self.state.asleep.swap(false, SeqCst) {
            self.wake();
        }
        Running(self)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state.running.fetch_sub(1, SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state.stop.store(true, SeqCst);
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(state: &TickerState, period: Duration, tick: impl Fn()) {
    let mut idle = 0;
    while !state.stop.load(SeqCst) {
        idle = if state.running.load(SeqCst) == 0 {
            idle + 1
        } else {
            0
        };
        if idle >= IDLE_TICKS {
            state.asleep.store(true, SeqCst);
            while state.asleep.load(SeqCst)
                && state.running.load(SeqCst) == 0
                && !state.stop.load(SeqCst)
            {
                thread::park();
            }
            state.asleep.store(false, SeqCst);
            idle = 0;
        }
        thread::park_timeout(period * idle.clamp(1, MAX_IDLE_PERIODS));
        tick();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Returns a ticker and the number of its ticks.
    fn counting_ticker() -> (Ticker, Arc<AtomicUsize>) {
        let ticks = Arc::new(AtomicUsize::new(0));
        let count = ticks.clone();
        let tick = move || {
            count.fetch_add(1, SeqCst);
        };
        (
            Ticker::start(Duration::from_micros(100), tick).unwrap(),
            ticks,
        )
    }

    /// Waits for a condition that another thread fulfils.
    fn until(condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(20), "timed out");
            thread::yield_now();
        }
    }

    #[test]
    fn the_ticker_sleeps_while_no_guest_runs_and_wakes_for_the_next() {
        let (ticker, ticks) = counting_ticker();
        for _ in 0..3 {
            until(|| ticker.state.asleep.load(SeqCst));
            let before = ticks.load(SeqCst);
            let running = ticker.enter();
            until(|| ticks.load(SeqCst) > before + 2 * IDLE_TICKS as usize);
            assert!(!ticker.state.asleep.load(SeqCst));
            drop(running);
        }
    }

    #[test]
    fn dropping_the_ticker_ends_its_thread_whether_asleep_or_awake() {
        drop(counting_ticker());
        let (ticker, _) = counting_ticker();
        until(|| ticker.state.asleep.load(SeqCst));
        drop(ticker);
    }
}
