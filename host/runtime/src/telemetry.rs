//! The telemetry of a plugin: events, denials, its history, its own metrics, and its lines of the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_api::events::Recorder;
use flyball_api::incidents::Incidents;
use flyball_limits::counters::PluginCounters;
use flyball_limits::rate::RateGate;
use flyball_plugin::LogLevel;
use flyball_serving::Metrics;
use flyball_serving::metrics::{Group, Kind, MetricsError};
use flyball_traces::Tracer;
use flyball_types::description::{Description, MetricType};
use tracing::Span;

use crate::history::History;

/// Bytes of a guest's message and fields that one line of the log takes.
const LINE: usize = 8192;

/// The telemetry of one plugin.
pub struct PluginTelemetry {
    pub recorder: Recorder,
    pub incidents: Incidents,
    /// Shared by all versions.
    pub history: Arc<History>,
    pub counters: Arc<PluginCounters>,
    pub metrics: CustomMetrics,
    pub tracer: Tracer,
}

/// The metrics that a plugin describes.
pub struct CustomMetrics {
    group: Group,
    /// Whether a wrong use was logged. It is logged only once.
    has_warned: AtomicBool,
}

impl CustomMetrics {
    /// Declares the metrics of a description. Metrics that can't be declared are logged and left out. A built-in uses
    /// the names of kube-controller-manager. The metrics of a dropped-in plugin have a prefix, so that they can't take
    /// the name of another component.
    pub fn declare(metrics: &Metrics, description: &Description, is_builtin: bool) -> Self {
        let plugin = description.name.as_str();
        let mut group = match is_builtin {
            true => metrics.group(plugin),
            false => metrics.group_with_prefix(plugin, metric_prefix(plugin)),
        };
        for metric in &description.metrics {
            let labels: Vec<&str> = metric.labels.iter().map(String::as_str).collect();
            let kind = match &metric.metric_type {
                MetricType::Counter => Kind::Counter,
                MetricType::Gauge => Kind::Gauge,
                MetricType::Sum => Kind::Sum,
                MetricType::Histogram(buckets) => Kind::Histogram(buckets.clone()),
            };
            if let Err(error) = group.declare(&metric.name, &metric.help, &labels, kind) {
                tracing::warn!(plugin, %error, "can't declare a metric of the plugin: it is left out");
            }
        }
        Self {
            group,
            has_warned: AtomicBool::new(false),
        }
    }

    /// The size of all series in bytes.
    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// Updates a metric. The first failure is logged.
    pub fn update(
        &self,
        update: impl FnOnce(&Group, &[&str]) -> Result<(), MetricsError>,
        labels: &[String],
    ) {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        if let Err(error) = update(&self.group, &labels)
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "can't update a metric of the plugin; later failures are not logged");
        }
    }
}

/// Returns the prefix of a dropped-in plugin's metrics, for a name that is a DNS label. No plugin's prefix begins with
/// the prefix of another plugin: the first `__` ends a prefix, because each dash of the name becomes `_`, or `D` after
/// a dash.
fn metric_prefix(plugin: &str) -> String {
    let mut prefix = "plugin_".to_owned();
    for c in plugin.chars() {
        prefix.push(match c {
            '-' if prefix.ends_with('_') && prefix != "plugin_" => 'D',
            '-' => '_',
            c => c,
        });
    }
    prefix + "__"
}

/// Returns the start of a text, at most this many bytes.
pub(crate) fn clip(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns the span of one reconcile. Every line that is logged in it shows its fields, the guest's own lines included.
/// The span has the level `ERROR`, so that it is enabled wherever lines of any level are.
pub fn reconcile_span(plugin: &str, queue: &str, key: &str, attempt: u32) -> Span {
    tracing::error_span!(target: "flyball", "reconcile", plugin, queue, key, attempt)
}

/// Returns the span of a call that isn't a reconcile, such as `describe`. Its lines have the name of the call as the key.
pub fn call_span(plugin: &str, call: &str) -> Span {
    tracing::error_span!(target: "flyball", "call", plugin, key = call)
}

/// Writes a guest's line to the log, with its fields after the message, if the gate lets it pass. The plugin and the key
/// are fields of the call's span.
pub fn log_guest(gate: &RateGate, level: LogLevel, message: &str, fields: &[(String, String)]) {
    let mut text = clip(message, LINE).to_owned();
    for (name, value) in fields {
        if text.len() >= LINE {
            break;
        }
        text.push_str(&format!(" {}={:?}", clip(name, LINE), clip(value, LINE)));
    }
    let text = clip(&text, LINE);
    if !gate.pass_line(text) {
        return;
    }
    match level {
        LogLevel::Trace => tracing::trace!(target: "flyball::guest", "{text}"),
        LogLevel::Debug => tracing::debug!(target: "flyball::guest", "{text}"),
        LogLevel::Info => tracing::info!(target: "flyball::guest", "{text}"),
        LogLevel::Warn => tracing::warn!(target: "flyball::guest", "{text}"),
        LogLevel::Error => tracing::error!(target: "flyball::guest", "{text}"),
    }
}

#[cfg(test)]
mod tests {
    use flyball_types::description::Metric;

    use super::*;

    #[test]
    fn a_dropped_in_plugin_takes_no_name_of_a_metric_that_a_built_in_may_have() {
        let metrics = Metrics::new();
        let metric = Metric {
            name: "syncs_total".into(),
            help: "Syncs.".into(),
            labels: Vec::new(),
            metric_type: MetricType::Counter,
        };
        let declare = |name: &str, is_builtin| {
            let description = Description {
                name: name.into(),
                metrics: vec![metric.clone()],
                ..Description::default()
            };
            let own = CustomMetrics::declare(&metrics, &description, is_builtin);
            own.update(|group, labels| group.add("syncs_total", labels, 1.0), &[]);
            own
        };
        let _all = [
            declare("a-b", false),
            declare("a", false),
            declare("job-controller", true),
        ];
        let text = metrics.render();
        for line in [
            "\nplugin_a_b__syncs_total 1\n",
            "\nplugin_a__syncs_total 1\n",
            "\nsyncs_total 1\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn no_two_plugins_share_a_name_of_a_metric() {
        let plugins = [
            "a", "a-b", "a--b", "a---b", "a----b", "ab", "a-d-b", "a--d", "d", "b",
        ];
        let metrics = [
            "x", "_x", "__x", "b__x", "_b__x", "__b__x", "D", "Db__x", "_Db__x", "d__x",
        ];
        let names = plugins
            .iter()
            .flat_map(|plugin| metrics.map(|metric| format!("{}{metric}", metric_prefix(plugin))));
        let names: Vec<String> = names.collect();
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert_eq!(metric_prefix("a--b"), "plugin_a_Db__");
    }
}
