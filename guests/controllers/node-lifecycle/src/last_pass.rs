//! The monitor's state between two passes, in the memo. If the memo is emptied, all nodes count as heard of at that
//! time, as after a restart.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: tryUpdateNodeHealth.

use std::time::Duration;

use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::disruption::ZoneState;
use crate::observe::{Observation, millis};
use crate::settings::Settings;
use crate::zone::Zone;

/// The key of the memo.
const KEY: &str = "monitor";

/// The state that the monitor keeps between two passes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastPass {
    /// When the last pass ended, in milliseconds since 1970; 0 if it was interrupted.
    pub ended: u64,
    /// Whether a batch of writes of the last pass took very long.
    pub was_slow: bool,
    /// Whether the API server could not be reached in the last pass.
    pub outage: bool,
    /// The observations of nodes, in the order of their names.
    pub nodes: Vec<Observation>,
    pub zones: Vec<(Zone, ZoneState)>,
    /// The zones with nodes that wait for a taint.
    pub waiting: Vec<Zone>,
}

impl LastPass {
    /// Reads the state. Before the first pass it is empty, and counts as interrupted.
    pub fn recall(host: &Host) -> Self {
        host.memo().get(KEY).unwrap_or_default()
    }

    /// Ends a pass.
    ///
    /// # Errors
    /// The memo is full.
    pub fn store(&self, host: &Host) -> Result<(), Error> {
        Ok(host.memo().put(KEY, self, "", Duration::ZERO)?)
    }

    /// Whether the process was suspended, or the clock was set, since the last pass. The last observations of the nodes
    /// may then be out of date, and don't tell how long the nodes have been silent.
    pub fn is_interrupted(&self, now: Time, settings: &Settings) -> bool {
        match millis(now).checked_sub(self.ended) {
            None => true,
            Some(step) => Duration::from_millis(step) > settings.longest_step(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_step_and_a_step_back_are_interruptions() {
        let pass = LastPass {
            ended: 1_000_000,
            ..LastPass::default()
        };
        let settings = Settings::default();
        for (seconds, expected) in [
            (1000, false),
            (1005, false),
            (1020, false),
            (1021, true),
            (9999, true),
            (999, true),
        ] {
            let is = pass.is_interrupted(Time::of_seconds(seconds), &settings);
            assert_eq!(is, expected, "{seconds}");
        }
        let short = Settings {
            period: Duration::from_secs(1),
            grace: Duration::from_secs(10),
            ..settings
        };
        assert!(!pass.is_interrupted(Time::of_seconds(1005), &short));
        assert!(pass.is_interrupted(Time::of_seconds(1006), &short));
    }
}
