//! How long an idle plugin keeps its instances and its code. At a start, all built-in controllers are called at about the
//! same time, and most of them not again for long: a plugin keeps them for a moment at first, and longer the more it is
//! called.

use std::time::Duration;

use flyball_plugin::Plugin;
use tokio::time::{Instant, sleep};

/// How long they are kept at least.
const LEAST: Duration = Duration::from_millis(30);
/// How long they are kept at most. Without them, the next call takes longer by 0.2 ms, and by 5 ms in Python.
pub(crate) const MOST: Duration = Duration::from_secs(2);

/// How long a plugin keeps them now; none before its first call.
#[derive(Debug, Default)]
struct Patience(Option<Duration>);

impl Patience {
    /// Returns the time for a plugin that needed them again after it did without them for this time.
    fn after(&mut self, without: Duration) -> Duration {
        let next = match self.0 {
            Some(last) if without < MOST => (last * 2).min(MOST),
            _ => LEAST,
        };
        *self.0.insert(next)
    }
}

/// Gives the instances and the code of a plugin back whenever it is idle. Never returns.
pub(crate) async fn give_back(plugin: Plugin) {
    let mut patience = Patience::default();
    loop {
        let unloaded = Instant::now();
        plugin.loaded().await;
        let idle = patience.after(unloaded.elapsed());
        sleep(idle).await;
        plugin.trim_idle(idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_is_called_again_and_again_keeps_its_code_for_longer() {
        let mut patience = Patience::default();
        let times: Vec<u128> = (0..9)
            .map(|_| patience.after(Duration::from_millis(100)).as_millis())
            .collect();
        assert_eq!(times, [30, 60, 120, 240, 480, 960, 1920, 2000, 2000]);
    }

    #[test]
    fn a_plugin_that_did_without_its_code_for_long_begins_again() {
        let mut patience = Patience::default();
        patience.after(Duration::ZERO);
        assert_eq!(patience.after(Duration::ZERO), LEAST * 2);
        assert_eq!(patience.after(MOST), LEAST);
    }
}
