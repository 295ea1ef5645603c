//! The metrics and health notes that tell operators how loading goes and which plugins don't run.

use std::collections::BTreeMap;

use flyball_serving::HealthChecks;
use flyball_serving::health::{CheckName, Note};
use flyball_serving::metrics::{CounterVec, GaugeVec, MetricsError};

use crate::plugins::Telemetry;
use crate::plugins::metrics::WaitingInfo;
use crate::plugins::status::PluginStatus;

pub(super) struct Reports {
    loads: CounterVec,
    held_up: GaugeVec,
    /// `flyball_plugin_info` of the plugins that do not run.
    waiting: WaitingInfo,
    health: HealthChecks,
    /// The notes about plugins that are held up, by name.
    notes: BTreeMap<String, Note>,
}

impl Reports {
    pub(super) fn new(telemetry: &Telemetry) -> Result<Self, MetricsError> {
        let metrics = &telemetry.metrics;
        Ok(Self {
            loads: metrics.counter(
                "flyball_plugin_loads_total",
                "Files of plugins that were loaded, by result: ok, or failed.",
                &["result"],
            )?,
            held_up: metrics.gauge(
                "flyball_plugin_held_up",
                "1 for a plugin of which a version can't run: it waits for a grant, or can't be loaded.",
                &["plugin"],
            )?,
            waiting: WaitingInfo::new(metrics)?,
            health: telemetry.health.clone(),
            notes: BTreeMap::new(),
        })
    }

    /// Counts a load.
    pub(super) fn loaded(&self, is_ok: bool) {
        let result = if is_ok { "ok" } else { "failed" };
        self.loads.with_label_values(&[result]).inc();
    }

    /// Shows that a version of a plugin can't run. `waiting` is the status of the plugin if it has no running version
    /// either.
    pub(super) fn hold_up(&mut self, name: &str, runs: bool, waiting: Option<&PluginStatus>) {
        let text = match runs {
            true => "a newer version is held up",
            false => "does not run",
        };
        let note = self.health.note(CheckName::Plugin(name.to_owned()), text);
        self.notes.insert(name.to_owned(), note);
        self.held_up.with_label_values(&[name]).set(1.0);
        match waiting {
            Some(status) => self.waiting.show(status),
            None => self.waiting.remove(name),
        }
    }

    /// Shows that a plugin runs in the wanted version.
    pub(super) fn release(&mut self, name: &str) {
        self.notes.remove(name);
        self.held_up.with_label_values(&[name]).set(0.0);
        self.waiting.remove(name);
    }

    /// Removes everything about a plugin that does not exist any more.
    pub(super) fn forget(&mut self, name: &str) {
        self.notes.remove(name);
        self.waiting.remove(name);
        // Fails if the plugin has no series.
        let _ = self.held_up.remove_label_values(&[name]);
    }
}
