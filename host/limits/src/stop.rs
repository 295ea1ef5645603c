//! Stops writes of a plugin that have not started yet, because the plugin was removed, lost a grant, or is quarantined.

use tokio::sync::watch;

/// The number of the plugin's end.
const ENDED: u64 = u64::MAX;

/// Stops work that a plugin has asked for and that has not started.
#[derive(Debug)]
pub struct StopSignal(watch::Sender<u64>);

/// Work that a [`StopSignal`] may stop.
#[derive(Clone, Debug)]
pub struct Stoppable {
    stops: watch::Receiver<u64>,
    /// The number of stops when the work began.
    began: u64,
}

impl Default for StopSignal {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl StopSignal {
    /// Begins work, which later stops end.
    pub fn begin(&self) -> Stoppable {
        let stops = self.0.subscribe();
        let began = *stops.borrow();
        Stoppable { stops, began }
    }

    /// Stops all work that has begun. Later work goes on.
    pub fn stop(&self) {
        self.0.send_modify(|stops| *stops = stops.saturating_add(1));
    }

    /// Whether all work was stopped, including work that begins later.
    pub fn has_ended(&self) -> bool {
        *self.0.borrow() == ENDED
    }

    /// Stops all work, including work that begins later.
    pub fn end(&self) {
        self.0.send_replace(ENDED);
    }
}

impl Stoppable {
    /// Whether the work must not go on.
    pub fn is_stopped(&self) -> bool {
        self.began == ENDED || *self.stops.borrow() != self.began
    }

    /// Waits until the work must not go on.
    pub async fn stopped(&mut self) {
        let began = self.began;
        if began == ENDED {
            return;
        }
        // Fails if the signal was dropped, which happens only when the plugin has ended.
        let _ = self.stops.wait_for(|stops| *stops != began).await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_stop_ends_what_has_begun_and_an_end_all_that_follows() {
        let signal = StopSignal::default();
        let mut first = signal.begin();
        assert!(!first.is_stopped() && first.stopped().now_or_never().is_none());
        signal.stop();
        let second = signal.begin();
        assert!(first.is_stopped() && first.stopped().now_or_never().is_some());
        assert!(!second.is_stopped() && !signal.has_ended());
        signal.end();
        signal.stop();
        let mut third = signal.begin();
        assert!(second.is_stopped() && third.is_stopped() && signal.has_ended());
        assert!(third.stopped().now_or_never().is_some());
    }
}
