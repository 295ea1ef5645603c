//! Lines of the log that clients without credentials can cause: at most one in an interval, so that nobody floods the
//! log.

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

/// The interval between two lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Lets a line pass once in an interval.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Whether a line may be written now.
    pub(crate) fn pass(&self) -> bool {
        let (mut last, now) = (self.0.lock(), Instant::now());
        let may = last.is_none_or(|last| now >= last + INTERVAL);
        if may {
            *last = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_of_many_lines_passes_in_each_interval() {
        let seldom = Seldom::default();
        let passed = || (0..1000).filter(|_| seldom.pass()).count();
        assert_eq!((passed(), passed()), (1, 0));
        tokio::time::advance(INTERVAL).await;
        assert_eq!(passed(), 1);
    }
}
