//! Keeps the average CPU time of all child processes together below a share of a core, by stopping them for a while.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::work::ChildWork;

/// How often the child's CPU time is compared with its share, and whether the child must end.
const INTERVAL: Duration = Duration::from_millis(20);
/// The CPU time that a child may use at once. Most components need less.
const BURST: Duration = Duration::from_millis(200);

/// The children that run or are stopped for a while. They have equal parts of the share.
static CHILDREN: AtomicU32 = AtomicU32::new(0);

/// A child counts while this lives.
struct Counted;

impl Counted {
    fn new() -> Self {
        CHILDREN.fetch_add(1, Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        CHILDREN.fetch_sub(1, Relaxed);
    }
}

/// Waits until the child has ended, and meanwhile stops it whenever it is ahead of its part of the share, which is in
/// thousandths of a core. Returns false if that takes longer than the work may, or if nobody waits for the work any more.
pub(super) fn wait(
    child: Pid,
    share: Option<u32>,
    ended: &Receiver<()>,
    work: &ChildWork<'_>,
) -> bool {
    let _counted = Counted::new();
    let (started, mut is_stopped) = (Instant::now(), false);
    let (mut earned, mut since) = (BURST, started);
    loop {
        let left = work.wall.saturating_sub(started.elapsed());
        match ended.recv_timeout(left.min(INTERVAL)) {
            Ok(()) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) if left.is_zero() || work.stop.is_set() => return false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let Some(share) = share else { continue };
        let now = Instant::now();
        earned += (now - since) * share / (1000 * CHILDREN.load(Relaxed).max(1));
        since = now;
        let is_ahead = cpu_time(child).is_some_and(|used| used > earned);
        if is_ahead != is_stopped {
            let signal = if is_ahead { Signal::STOP } else { Signal::CONT };
            // Fails only if the child has ended.
            let _ = kill_process(child, signal);
            is_stopped = is_ahead;
        }
    }
}

/// The CPU time of all threads of a process; none if it is unknown.
fn cpu_time(process: Pid) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    // The second field is the name in parentheses, which may hold blanks. Then the first one is the state.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let (user, system) = (ticks()?, ticks()?);
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_millis((user + system) * 1000 / per_second))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;

    use super::*;
    use crate::compile::work::Stop;

    /// Runs a child that computes for two seconds, with this share. Returns the CPU time that it got.
    fn computed(share: u32) -> Duration {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "while :; do :; done"]);
        #[expect(
            clippy::disallowed_methods,
            reason = "the child is killed and waited for below"
        )]
        let mut child = command.spawn().unwrap();
        let process = Pid::from_child(&child);
        let (_ending, ended) = mpsc::channel();
        let stop = Stop::default();
        let work = ChildWork {
            task: "",
            cpu: Duration::MAX,
            wall: Duration::from_secs(2),
            memory: 0,
            output: 0,
            stop: &stop,
        };
        let is_in_time = wait(process, Some(share), &ended, &work);
        let used = cpu_time(process).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_in_time);
        used
    }

    #[test]
    fn a_child_that_computes_stays_within_its_share() {
        let used = computed(100);
        // It has earned the burst and a tenth of two seconds, and may run for an interval until it is stopped.
        assert!(used < Duration::from_millis(600), "{used:?}");
        assert!(used > Duration::from_millis(100), "{used:?}");
    }

    #[test]
    fn children_that_run_at_the_same_time_divide_the_share() {
        let children: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| computed(400)))
            .collect();
        let used = children.into_iter().map(|child| child.join().unwrap());
        let used: Duration = used.sum();
        // Together they have earned four bursts and 800 ms. Each may run for an interval until it is stopped.
        assert!(used < Duration::from_millis(2200), "{used:?}");
    }
}
