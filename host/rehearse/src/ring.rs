//! The last failed, trapped and slow calls of a plugin, as lines of a recording. Each of the three has a third of the
//! memory, so that many failures don't push out the only trap.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use flyball_recording::Kept;
use tokio::time::Instant;

/// Calls of one sort are kept no faster than this: to write one down takes time, and many that fail at once are alike.
const PACE: Duration = Duration::from_millis(100);
/// The bytes of a line besides its text.
const LINE: usize = 64;

/// The last calls that ended badly.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Bytes that all lines may have together.
    limit: usize,
    failed: Lines,
    trapped: Lines,
    slow: Lines,
    /// Raised by each line, so that lines can be put in order.
    next: u64,
}

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<(u64, Bytes)>,
    bytes: usize,
    last: Option<Instant>,
}

impl Ring {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            failed: Lines::default(),
            trapped: Lines::default(),
            slow: Lines::default(),
            next: 0,
        }
    }

    fn lines(&mut self, kept: Kept) -> &mut Lines {
        match kept {
            Kept::Failed => &mut self.failed,
            Kept::Trapped => &mut self.trapped,
            Kept::Slow | Kept::Asked => &mut self.slow,
        }
    }

    /// The bytes that one call may have.
    fn share(&self) -> usize {
        self.limit / 3
    }

    /// Sets the bytes that all lines may have together, and drops the oldest ones beyond.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        let share = self.share();
        for lines in [&mut self.failed, &mut self.trapped, &mut self.slow] {
            lines.shrink(share);
        }
    }

    /// Whether a call of about this size would be kept. Counts as kept.
    pub(crate) fn admits(&mut self, kept: Kept, size: usize, now: Instant) -> bool {
        let share = self.share();
        let lines = self.lines(kept);
        if size > share || lines.last.is_some_and(|last| now - last < PACE) {
            return false;
        }
        lines.last = Some(now);
        true
    }

    /// Keeps a call, and drops the oldest ones of its sort that there is no room for.
    pub(crate) fn add(&mut self, kept: Kept, line: Bytes) {
        let (share, number) = (self.share(), self.next);
        self.next += 1;
        if line.len() + LINE > share {
            return;
        }
        let lines = self.lines(kept);
        lines.bytes += line.len() + LINE;
        lines.lines.push_back((number, line));
        lines.shrink(share);
    }

    /// Returns all calls, the oldest first.
    pub(crate) fn all(&self) -> Vec<Bytes> {
        let sorts = [&self.failed, &self.trapped, &self.slow];
        let mut all: Vec<&(u64, Bytes)> = sorts.iter().flat_map(|lines| &lines.lines).collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, line)| line.clone()).collect()
    }

    /// Bytes that the lines hold.
    pub(crate) fn bytes(&self) -> usize {
        self.failed.bytes + self.trapped.bytes + self.slow.bytes
    }
}

impl Lines {
    fn shrink(&mut self, share: usize) {
        while self.bytes > share {
            let Some((_, oldest)) = self.lines.pop_front() else {
                return;
            };
            self.bytes -= oldest.len() + LINE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, size: usize) -> Bytes {
        format!("{text:size$}").into()
    }

    fn all(ring: &Ring) -> Vec<String> {
        let text = |line: Bytes| String::from_utf8(line.to_vec()).unwrap().trim().to_owned();
        ring.all().into_iter().map(text).collect()
    }

    #[test]
    fn many_failures_do_not_push_out_the_only_trap() {
        let mut ring = Ring::new(3000);
        ring.add(Kept::Trapped, line("trap", 100));
        for number in 0..100 {
            ring.add(Kept::Failed, line(&format!("failure {number}"), 400));
            assert!(ring.bytes() <= 3000, "{}", ring.bytes());
        }
        ring.add(Kept::Slow, line("slow", 100));
        assert_eq!(all(&ring), ["trap", "failure 98", "failure 99", "slow"]);
    }

    #[test]
    fn a_call_that_is_too_large_pushes_out_no_other() {
        let mut ring = Ring::new(3000);
        ring.add(Kept::Failed, line("small", 100));
        ring.add(Kept::Failed, line("large", 1000));
        assert_eq!(all(&ring), ["small"]);
        ring.set_limit(0);
        assert_eq!((all(&ring).len(), ring.bytes()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_one_sort_are_kept_at_a_pace() {
        let mut ring = Ring::new(3000);
        let now = Instant::now();
        assert!(ring.admits(Kept::Failed, 10, now));
        assert!(!ring.admits(Kept::Failed, 10, now));
        assert!(ring.admits(Kept::Trapped, 10, now));
        assert!(ring.admits(Kept::Failed, 10, now + PACE));
        assert!(!ring.admits(Kept::Slow, 1001, now), "too large");
    }
}
