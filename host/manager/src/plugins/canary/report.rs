//! Reports how canaries go on: in the log, in metrics, and as events about the plugin's account.

use flyball_api::incidents::Incidents;
use flyball_runtime::split::Counts;
use flyball_serving::metrics::{CounterVec, GaugeVec, MetricsError};
use flyball_types::printable;

use super::judge::News;
use super::state::{Canary, NamedVersion, Position};
use crate::plugins::Telemetry;

/// The part of a digest that is shown.
const DIGEST: usize = 12;

pub(crate) struct CanaryReports {
    step: GaugeVec,
    reconciles: CounterVec,
    writes: CounterVec,
    ends: CounterVec,
}

impl CanaryReports {
    pub(crate) fn new(telemetry: &Telemetry) -> Result<Self, MetricsError> {
        let metrics = &telemetry.metrics;
        Ok(Self {
            step: metrics.gauge(
                "flyball_plugin_canary_step",
                "The step of the plugin's canary, from 1; 0 if a candidate has no keys, and -1 if it has all.",
                &["plugin"],
            )?,
            reconciles: metrics.counter(
                "flyball_plugin_canary_reconciles_total",
                "Reconciles while a candidate had keys, by version: running or candidate; and result: success, error, or \
                 trap (it trapped, or was stopped at a limit).",
                &["plugin", "version", "result"],
            )?,
            writes: metrics.counter(
                "flyball_plugin_canary_writes_total",
                "Successful writes while a candidate had keys, by version: running or candidate.",
                &["plugin", "version"],
            )?,
            ends: metrics.counter(
                "flyball_plugin_canary_ends_total",
                "Canaries that have ended, by result: promoted or went_back.",
                &["plugin", "result"],
            )?,
        })
    }

    /// Counts what both versions did.
    pub(super) fn count(&self, plugin: &str, version: &str, did: &Counts) {
        let well = did.calls.saturating_sub(did.failures + did.traps);
        for (result, count) in [
            ("success", well),
            ("error", did.failures),
            ("trap", did.traps),
        ] {
            let series = self
                .reconciles
                .with_label_values(&[plugin, version, result]);
            series.inc_by(count as f64);
        }
        let series = self.writes.with_label_values(&[plugin, version]);
        series.inc_by(did.writes as f64);
    }

    /// Counts what both versions did.
    pub(crate) fn did(&self, plugin: &str, news: &News) {
        self.count(plugin, "running", &news.running);
        self.count(plugin, "candidate", &news.candidate);
    }

    /// Shows where a canary is.
    pub(crate) fn show(&self, plugin: &str, canary: &Canary) {
        let step = match (canary.step(), &canary.position) {
            (Some(step), _) => step as f64 + 1.0,
            (None, Position::Promoted) => -1.0,
            (None, _) => 0.0,
        };
        self.step.with_label_values(&[plugin]).set(step);
    }

    /// Reports that a canary has come to its position. `incidents` are those of the version that runs.
    pub(crate) fn moved(&self, plugin: &str, canary: &Canary, incidents: Option<&Incidents>) {
        self.show(plugin, canary);
        let (reason, is_warning, message) = message(canary);
        match is_warning {
            true => tracing::warn!(plugin, "the canary went back: {message}"),
            false => tracing::info!(plugin, "{message}"),
        }
        let ended = match canary.position {
            Position::Step(_) => None,
            Position::Promoted => Some("promoted"),
            Position::WentBack(_) => Some("went_back"),
        };
        if let Some(result) = ended {
            self.ends.with_label_values(&[plugin, result]).inc();
        }
        if let Some(incidents) = incidents {
            let event_type = if is_warning { "Warning" } else { "Normal" };
            incidents.canary(event_type, reason, &message);
        }
    }
}

/// The reason of an event about a canary, whether it is a warning, and its text.
fn message(canary: &Canary) -> (&'static str, bool, String) {
    let candidate = named(&canary.candidate);
    match (&canary.position, canary.step()) {
        (Position::WentBack(reason), _) => {
            let message = format!(
                "all keys are {}'s again, and none is {candidate}'s: {reason}",
                named(&canary.running)
            );
            ("CanaryWentBack", true, message)
        }
        (_, Some(step)) => {
            let steps = &canary.rollout.steps.0;
            let keys = steps.get(step).map(ToString::to_string).unwrap_or_default();
            let message = format!(
                "step {} of {} of the canary: {candidate} reconciles {keys}",
                step + 1,
                steps.len()
            );
            let reason = if step == 0 {
                "CanaryStarted"
            } else {
                "CanaryAdvanced"
            };
            (reason, false, message)
        }
        (_, None) => (
            "CanaryPromoted",
            false,
            format!("{candidate} reconciles all keys"),
        ),
    }
}

/// A version in words.
pub(super) fn named(version: &NamedVersion) -> String {
    let digest = &version.digest[..version.digest.floor_char_boundary(DIGEST)];
    match version.version.as_str() {
        "" => format!("sha256:{digest}"),
        named => format!("{} (sha256:{digest})", printable(named)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::canary::state::tests::canary;

    #[test]
    fn each_position_has_a_sentence() {
        for (position, reason, text) in [
            (
                Position::Step(0),
                "CanaryStarted",
                "step 1 of 3 of the canary: 1 (sha256:new) reconciles 5% of the keys",
            ),
            (
                Position::Step(2),
                "CanaryAdvanced",
                "step 3 of 3 of the canary: 1 (sha256:new) reconciles 50% of the keys",
            ),
            (
                Position::Promoted,
                "CanaryPromoted",
                "1 (sha256:new) reconciles all keys",
            ),
            (
                Position::WentBack("it failed".into()),
                "CanaryWentBack",
                "all keys are 1 (sha256:old)'s again, and none is 1 (sha256:new)'s: it failed",
            ),
        ] {
            let (found, is_warning, message) = message(&canary(position));
            assert_eq!((found, &*message), (reason, text));
            assert_eq!(is_warning, reason == "CanaryWentBack");
        }
    }
}
