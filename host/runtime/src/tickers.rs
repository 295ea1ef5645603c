//! Adds a key to a queue at fixed intervals, as a plugin's description asks; and random delays.

use std::time::Duration;

use flyball_types::description::Ticker;
use flyball_workqueue::Priority;
use tokio::time::MissedTickBehavior;

use crate::context::PluginContext;
use crate::queue::Reason;

/// The shortest period. A shorter one would cost CPU time outside of the plugin's quota.
const MINIMUM_PERIOD: Duration = Duration::from_millis(100);

/// Returns a time that is longer than this one by a random factor of up to 2, so that not all timers start at once.
pub(super) fn jittered(time: Duration) -> Duration {
    time.mul_f64(1.0 + rand::random::<f64>())
}

/// Ticks until it is dropped. The operator's configuration may set the period.
pub(super) async fn tick(context: &PluginContext, ticker: &Ticker) {
    let configured = context
        .settings
        .config(&ticker.config)
        .and_then(|text| flyball_types::duration::parse(&text).ok());
    let period = configured
        .unwrap_or(Duration::from_millis(ticker.period_ms.into()))
        .max(MINIMUM_PERIOD);
    let Ok(queue) = context.queue(&ticker.queue) else {
        return;
    };
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        interval.tick().await;
        let key = ticker.key.as_str().into();
        queue.keys.add(key, Priority::Normal, Reason::Tick.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jittered_time_is_at_most_twice_as_long() {
        let time = Duration::from_secs(10);
        let times: Vec<Duration> = (0..100).map(|_| jittered(time)).collect();
        assert!(times.iter().all(|one| (time..time * 2).contains(one)));
        assert!(times.iter().any(|one| *one != times[0]));
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
    }
}
