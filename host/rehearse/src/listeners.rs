//! Those who hear of calls as they end: recordings of operators, and candidates in the shadow of a version. They never
//! delay a call: what they don't take in time is dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use flyball_recording::Kept;
use tokio::sync::mpsc;

/// The most calls that wait for one listener.
const WAITING: usize = 1024;
/// The most bytes that wait for one listener.
const WAITING_BYTES: usize = 32 << 20;

/// The calls that a listener wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Reconciles of this key only.
    pub key: Option<String>,
    /// All calls, not only those that fail, trap or take long.
    pub all: bool,
}

/// Hears of calls until it is dropped.
pub struct Listener {
    calls: mpsc::Receiver<Bytes>,
    waiting: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

/// A call that a listener hears of: a line of a recording, with its end and with the data of Secrets.
pub type Heard = Bytes;

/// The host's end of a listener.
pub(crate) struct Sender {
    wanted: Wanted,
    calls: mpsc::Sender<Bytes>,
    waiting: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

/// Creates a listener.
pub(crate) fn listen(wanted: Wanted) -> (Sender, Listener) {
    let (sender, receiver) = mpsc::channel(WAITING);
    let (waiting, dropped) = (Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
    let listener = Listener {
        calls: receiver,
        waiting: waiting.clone(),
        dropped: dropped.clone(),
    };
    let sender = Sender {
        wanted,
        calls: sender,
        waiting,
        dropped,
    };
    (sender, listener)
}

impl Listener {
    /// Waits for the next call. None if the plugin has been removed.
    pub async fn next(&mut self) -> Option<Heard> {
        let line = self.calls.recv().await?;
        self.waiting.fetch_sub(line.len(), Relaxed);
        Some(line)
    }

    /// How many calls were dropped, because they were too large, or ended faster than they were taken.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// The count of [`dropped`](Self::dropped), for those who look at it while the listener is at work.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        self.dropped.clone()
    }
}

impl Sender {
    /// Whether the listener still lives.
    pub(crate) fn is_open(&self) -> bool {
        !self.calls.is_closed()
    }

    /// Whether the listener wants a call. `kept` is none for one that ended well.
    pub(crate) fn wants(&self, key: Option<&str>, kept: Option<Kept>) -> bool {
        let is_of_key = self
            .wanted
            .key
            .as_deref()
            .is_none_or(|own| key == Some(own));
        self.is_open() && is_of_key && (self.wanted.all || kept.is_some())
    }

    pub(crate) fn send(&self, line: &Bytes) {
        let grow = |waiting: usize| {
            waiting
                .checked_add(line.len())
                .filter(|sum| *sum <= WAITING_BYTES)
        };
        if self.waiting.fetch_update(Relaxed, Relaxed, grow).is_err() {
            return self.drop_one();
        }
        if self.calls.try_send(line.clone()).is_err() {
            self.waiting.fetch_sub(line.len(), Relaxed);
            self.drop_one();
        }
    }

    /// Counts a call that the listener wanted and does not get.
    pub(crate) fn drop_one(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_wants_what_it_asked_for() {
        let wants = |key: Option<&str>, all, of: Option<&str>, kept| {
            let key = key.map(str::to_owned);
            let (sender, _listener) = listen(Wanted { key, all });
            sender.wants(of, kept)
        };
        let failed = Some(Kept::Failed);
        assert!(wants(None, false, Some("a/b"), failed));
        assert!(!wants(None, false, Some("a/b"), None));
        assert!(wants(None, true, None, None));
        assert!(wants(Some("a/b"), true, Some("a/b"), None));
        assert!(!wants(Some("a/b"), true, Some("a/c"), failed));
        assert!(
            !wants(Some("a/b"), true, None, failed),
            "`route` has no key"
        );
    }

    #[tokio::test]
    async fn what_is_not_taken_in_time_is_dropped_and_counted() {
        let (sender, mut listener) = listen(Wanted::default());
        let line = Bytes::from(vec![b' '; WAITING_BYTES / 2]);
        for _ in 0..3 {
            sender.send(&line);
        }
        assert_eq!(listener.dropped(), 1);
        assert!(listener.next().await.is_some());
        sender.send(&line);
        assert_eq!(listener.dropped(), 1);
        drop(listener);
        assert!(!sender.wants(None, Some(Kept::Failed)));
    }
}
