//! `/metrics/slis`: the results of the health checks as metrics, with the names of Kubernetes' components.

use prometheus::GaugeVec;

use crate::metrics::{CounterVec, Metrics, MetricsError, process_start_time};

/// The metrics of the health checks. Clones share them.
#[derive(Clone)]
pub(crate) struct Slis {
    metrics: Metrics,
    families: Option<Families>,
}

#[derive(Clone)]
struct Families {
    healthcheck: GaugeVec,
    healthchecks_total: CounterVec,
    start_time: GaugeVec,
}

impl Default for Slis {
    fn default() -> Self {
        let metrics = Metrics::default();
        let families = Families::declare(&metrics)
            .inspect_err(
                |error| tracing::warn!(%error, "can't declare the metrics of health checks"),
            )
            .ok();
        Self { metrics, families }
    }
}

impl Families {
    fn declare(metrics: &Metrics) -> Result<Self, MetricsError> {
        let families = Self {
            healthcheck: metrics.gauge(
                "kubernetes_healthcheck",
                "[STABLE] This metric records the result of a single healthcheck.",
                &["name", "type"],
            )?,
            healthchecks_total: metrics.counter(
                "kubernetes_healthchecks_total",
                "[STABLE] This metric records the results of all healthcheck.",
                &["name", "type", "status"],
            )?,
            start_time: metrics.gauge(
                "process_start_time_seconds",
                "[ALPHA] Start time of the process since unix epoch in seconds.",
                &[],
            )?,
        };
        if let Some(seconds) = process_start_time() {
            families
                .start_time
                .with_label_values::<&str>(&[])
                .set(seconds);
        }
        Ok(families)
    }
}

impl Slis {
    /// Records the result of a check that was run for an endpoint, such as `healthz`.
    pub(crate) fn observe(&self, check: &str, endpoint: &str, is_healthy: bool) {
        let Some(families) = &self.families else {
            return;
        };
        let (value, status) = match is_healthy {
            true => (1.0, "success"),
            false => (0.0, "error"),
        };
        families
            .healthcheck
            .with_label_values(&[check, endpoint])
            .set(value);
        families
            .healthchecks_total
            .with_label_values(&[check, endpoint, status])
            .inc();
    }

    /// All metrics in Prometheus' text format.
    pub(crate) fn render(&self) -> String {
        self.metrics.render()
    }

    /// Removes all series.
    pub(crate) fn reset(&self) {
        if let Some(families) = &self.families {
            families.healthcheck.reset();
            families.healthchecks_total.reset();
            families.start_time.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_result_and_the_counts_of_all_results_are_shown_until_a_reset() {
        let slis = Slis::default();
        slis.observe("ping", "healthz", true);
        slis.observe("a", "healthz", true);
        slis.observe("a", "healthz", false);
        let text = slis.render();
        for line in [
            "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n",
            "# TYPE kubernetes_healthcheck gauge\n",
            "kubernetes_healthcheck{name=\"a\",type=\"healthz\"} 0\n",
            "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n",
            "# TYPE kubernetes_healthchecks_total counter\n",
            "kubernetes_healthchecks_total{name=\"a\",status=\"error\",type=\"healthz\"} 1\n",
            "kubernetes_healthchecks_total{name=\"a\",status=\"success\",type=\"healthz\"} 1\n",
            "\nprocess_start_time_seconds ",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
        slis.reset();
        assert_eq!(slis.render(), "");
    }
}
