//! Counts what a plugin does: its reconciles and its writes.

use std::sync::Arc;

use flyball_serving::Metrics;
use flyball_serving::metrics::{CounterVec, MetricsError};

/// The counters of one plugin. All its versions count together.
pub struct PluginCounters {
    plugin: Arc<str>,
    reconciles: CounterVec,
    writes: CounterVec,
}

impl PluginCounters {
    /// Fails if the host's metrics can't be declared, which is a fault of the host.
    pub fn new(metrics: &Metrics, plugin: Arc<str>) -> Result<Self, MetricsError> {
        Ok(Self {
            plugin,
            reconciles: metrics.counter(
                "flyball_plugin_reconciles_total",
                "Reconciles of the plugin, by result: success, requeue_after, error (it is retried), terminal_error (it is not), \
                 or call_failed (the call did not return).",
                &["plugin", "result"],
            )?,
            writes: metrics.counter(
                "flyball_plugin_api_writes_total",
                "Writes of the plugin to the API server, by verb and result: success, conflict, not_found, refused (another \
                 response 4xx), unknown (no response, or a response 5xx), or not_sent (the host denied it, or it was stopped).",
                &["plugin", "verb", "result"],
            )?,
        })
    }

    pub fn reconciled(&self, result: &str) {
        let labels = [&*self.plugin, result];
        self.reconciles.with_label_values(&labels).inc();
    }

    pub fn wrote(&self, verb: &str, result: &str) {
        let labels = [&*self.plugin, verb, result];
        self.writes.with_label_values(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconciles_and_writes_are_counted_by_their_results() {
        let metrics = Metrics::new();
        let counters = PluginCounters::new(&metrics, "faulty".into()).unwrap();
        counters.reconciled("error");
        counters.reconciled("error");
        counters.wrote("create", "conflict");
        drop(counters);
        let text = metrics.render();
        for series in [
            "flyball_plugin_reconciles_total{plugin=\"faulty\",result=\"error\"} 2\n",
            "flyball_plugin_api_writes_total{plugin=\"faulty\",result=\"conflict\",verb=\"create\"} 1\n",
        ] {
            assert!(text.contains(series), "{series} is missing in {text}");
        }
    }
}
