//! The thread that moves the engine's epoch: at each tick, guests that compute look at their limits and let others run.
//! It sleeps while no guest runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Ticks without a guest after which the thread sleeps. Waking it costs a system call, which a busy host must not pay
/// for each call.
const IDLE_TICKS: u32 = 50;
/// While ticks find no guest they are rarer, up to so many periods apart: who begins to compute then is first interrupted
/// that much later.
const RARER: u32 = 10;

/// The ticking thread. Dropping it ends and joins it.
pub(crate) struct Ticker {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the guests share.
#[derive(Default)]
struct State {
    /// Guests on a core now.
    running: AtomicUsize,
    /// Set while the thread sleeps: who starts a guest must wake it.
    asleep: AtomicBool,
    stop: AtomicBool,
}

/// A guest is on a core while this lives.
pub(crate) struct Running<'a>(&'a Ticker);

impl Ticker {
    /// Starts the thread, which calls `tick` every `period` while guests run. Ticks that the machine was too busy for are
    /// skipped, not made up for.
    pub(crate) fn start(
        period: Duration,
        tick: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        let state = Arc::new(State::default());
        let shared = state.clone();
        let thread = thread::Builder::new()
            .name("flyball-tick".into())
            .spawn(move || run(&shared, period, tick))?;
        Ok(Self {
            state,
            thread: Some(thread),
        })
    }

    /// Takes note that a guest goes on a core.
    pub(crate) fn enter(&self) -> Running<'_> {
        // The order matters: the thread sets `asleep` and then reads `running`, so one of both sides sees the other.
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

fn run(state: &State, period: Duration, tick: impl Fn()) {
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
        thread::park_timeout(period * idle.clamp(1, RARER));
        tick();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A ticker and what counts its ticks.
    fn counting() -> (Ticker, Arc<AtomicUsize>) {
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

    /// Waits for a condition that another thread brings about.
    fn until(condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(20), "waited in vain");
            thread::yield_now();
        }
    }

    #[test]
    fn the_ticker_sleeps_while_no_guest_runs_and_wakes_for_the_next() {
        let (ticker, ticks) = counting();
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
    fn dropping_the_ticker_ends_its_thread_asleep_or_awake() {
        drop(counting());
        let (ticker, _) = counting();
        until(|| ticker.state.asleep.load(SeqCst));
        drop(ticker);
    }
}
