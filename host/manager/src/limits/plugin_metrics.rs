//! Metrics of what one plugin uses and how often it reached its limits. They are read at each scrape.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flyball_plugin::{Limit, Stats};
use flyball_serving::Metrics;
use flyball_serving::metrics::{CounterVec, GaugeVec, MetricsError, OnScrape};
use parking_lot::Mutex;

use crate::limits::host_limits::HostLimits;
use crate::limits::quarantine::State;

/// Exports one plugin's metrics while it lives.
#[must_use = "the plugin's gauges are removed when this is dropped"]
pub(crate) struct PluginMetrics {
    source: Arc<Source>,
    _scrape: OnScrape,
}

/// Where the values come from.
struct Source {
    name: Arc<str>,
    stats: Box<dyn Fn() -> Stats + Send + Sync>,
    limits: Arc<HostLimits>,
    /// How often a request to the API server waited for its rate limiter.
    waits: Vec<Arc<AtomicU64>>,
    families: Families,
    exported: Mutex<Exported>,
}

/// The values that the counters hold.
#[derive(Default)]
struct Exported {
    stats: Stats,
    hits: Vec<u64>,
}

struct Families {
    memory: GaugeVec,
    instances: GaugeVec,
    quarantined: GaugeVec,
    route_failing: GaugeVec,
    cpu: CounterVec,
    throttled: CounterVec,
    calls: CounterVec,
    failures: CounterVec,
    hits: CounterVec,
}

impl Families {
    fn new(metrics: &Metrics) -> Result<Self, MetricsError> {
        let label = &["plugin"];
        Ok(Self {
            memory: metrics.gauge(
                "flyball_plugin_memory_bytes",
                "Linear memory of all instances of the plugin.",
                label,
            )?,
            instances: metrics.gauge(
                "flyball_plugin_instances",
                "Instances of the plugin, idle ones included.",
                label,
            )?,
            quarantined: metrics.gauge(
                "flyball_plugin_quarantined",
                "1 while the plugin is held back because it fails on every key.",
                label,
            )?,
            route_failing: metrics.gauge(
                "flyball_plugin_route_failing_objects",
                "Objects whose changes the plugin's `route` fails on.",
                label,
            )?,
            cpu: metrics.counter(
                "flyball_plugin_cpu_seconds_total",
                "Time on cores of the plugin's calls.",
                label,
            )?,
            throttled: metrics.counter(
                "flyball_plugin_throttled_seconds_total",
                "Time for which the plugin's calls have waited for its share of the cores.",
                label,
            )?,
            calls: metrics.counter("flyball_plugin_calls_total", "Calls of the plugin.", label)?,
            failures: metrics.counter(
                "flyball_plugin_call_failures_total",
                "Calls of the plugin that did not return: traps, panics and limits.",
                label,
            )?,
            hits: metrics.counter(
                "flyball_plugin_limit_hits_total",
                "How often a limit of the plugin held it back, by the limit's key in the policy.",
                &["plugin", "limit"],
            )?,
        })
    }
}

impl PluginMetrics {
    /// Starts the export. `waits` are those of the plugin's [`RateLimiter`](crate::limits::rate::RateLimiter)s. Fails if the
    /// host's metrics can't be declared, which is a fault of the host.
    pub(crate) fn new(
        metrics: &Metrics,
        name: Arc<str>,
        stats: impl Fn() -> Stats + Send + Sync + 'static,
        limits: Arc<HostLimits>,
        waits: Vec<Arc<AtomicU64>>,
    ) -> Result<Self, MetricsError> {
        let source = Arc::new(Source {
            name,
            stats: Box::new(stats),
            limits,
            waits,
            families: Families::new(metrics)?,
            exported: Mutex::default(),
        });
        let scraped = source.clone();
        let scrape = metrics.on_scrape(move || scraped.export());
        Ok(Self {
            source,
            _scrape: scrape,
        })
    }
}

impl Source {
    fn export(&self) {
        let (stats, families, plugin) = ((self.stats)(), &self.families, &[&*self.name]);
        families
            .memory
            .with_label_values(plugin)
            .set(stats.memory as f64);
        families
            .instances
            .with_label_values(plugin)
            .set(stats.live as f64);
        let is_running = self.limits.quarantine.state() == State::Running;
        families
            .quarantined
            .with_label_values(plugin)
            .set(if is_running { 0.0 } else { 1.0 });
        families
            .route_failing
            .with_label_values(plugin)
            .set(self.limits.route.failing() as f64);
        let hits = self.hits(&stats);
        let mut exported = self.exported.lock();
        let count = |family: &CounterVec, labels: &[&str], more: f64| {
            family.with_label_values(labels).inc_by(more)
        };
        let before = std::mem::replace(&mut exported.stats, stats);
        count(
            &families.cpu,
            plugin,
            stats.cpu.saturating_sub(before.cpu).as_secs_f64(),
        );
        count(
            &families.throttled,
            plugin,
            stats.waited.saturating_sub(before.waited).as_secs_f64(),
        );
        count(
            &families.calls,
            plugin,
            stats.calls.saturating_sub(before.calls) as f64,
        );
        count(
            &families.failures,
            plugin,
            stats.failures.saturating_sub(before.failures) as f64,
        );
        exported.hits.resize(hits.len(), 0);
        for ((limit, hits), exported) in hits.into_iter().zip(&mut exported.hits) {
            count(
                &families.hits,
                &[&self.name, limit],
                hits.saturating_sub(*exported) as f64,
            );
            *exported = hits;
        }
    }

    /// Returns how often each limit was reached, always in the same order.
    fn hits(&self, stats: &Stats) -> Vec<(&'static str, u64)> {
        let of_guest = Limit::ALL.map(|limit| (limit.name(), stats.hits.of(limit)));
        let waits = self.waits.iter().map(|waits| waits.load(Relaxed)).sum();
        of_guest
            .into_iter()
            .chain(self.limits.hits())
            .chain([("writes-per-second", waits)])
            .collect()
    }
}

impl Drop for PluginMetrics {
    fn drop(&mut self) {
        // The counters include the last calls; the gauges are removed.
        self.source.export();
        for vec in [
            &self.source.families.memory,
            &self.source.families.instances,
            &self.source.families.quarantined,
            &self.source.families.route_failing,
        ] {
            // Fails only if the series was removed before.
            let _ = vec.remove_label_values(&[&*self.source.name]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flyball_serving::Metrics;

    use super::*;
    use crate::limits::quarantine::Admission;
    use crate::policy::LimitPolicy;

    fn limits(policy: &LimitPolicy) -> Arc<HostLimits> {
        HostLimits::new("faulty".into(), policy, false, Arc::default())
    }

    #[test]
    fn each_scrape_exports_what_a_plugin_uses_and_which_limits_it_reached() {
        let metrics = Metrics::new();
        let limits = limits(&LimitPolicy {
            log_lines_burst: Some(1),
            ..LimitPolicy::default()
        });
        let stats = Arc::new(Mutex::new(Stats {
            cpu: Duration::from_millis(1500),
            calls: 3,
            failures: 2,
            live: 1,
            memory: 65536,
            ..Stats::default()
        }));
        let read = stats.clone();
        let waits = vec![Arc::new(AtomicU64::new(3)), Arc::new(AtomicU64::new(4))];
        let exported = PluginMetrics::new(
            &metrics,
            "faulty".into(),
            move || *read.lock(),
            limits.clone(),
            waits,
        )
        .unwrap();
        assert!(limits.log_lines.pass() && !limits.log_lines.pass());
        for _ in 0..2 {
            let text = metrics.render();
            for series in [
                "flyball_plugin_instances{plugin=\"faulty\"} 1\n",
                "flyball_plugin_memory_bytes{plugin=\"faulty\"} 65536\n",
                "flyball_plugin_quarantined{plugin=\"faulty\"} 0\n",
                "flyball_plugin_cpu_seconds_total{plugin=\"faulty\"} 1.5\n",
                "flyball_plugin_calls_total{plugin=\"faulty\"} 3\n",
                "flyball_plugin_call_failures_total{plugin=\"faulty\"} 2\n",
                "flyball_plugin_limit_hits_total{limit=\"cpu\",plugin=\"faulty\"} 0\n",
                "flyball_plugin_limit_hits_total{limit=\"log-lines-per-second\",plugin=\"faulty\"} 1\n",
                "flyball_plugin_limit_hits_total{limit=\"writes-per-second\",plugin=\"faulty\"} 7\n",
            ] {
                assert!(text.contains(series), "{series} is missing in {text}");
            }
        }
        stats.lock().calls = 4;
        drop(exported);
        let text = metrics.render();
        assert!(
            text.contains("flyball_plugin_calls_total{plugin=\"faulty\"} 4\n"),
            "the last call counts: {text}"
        );
        assert!(!text.contains("flyball_plugin_instances{"), "{text}");
    }

    #[tokio::test]
    async fn a_quarantine_is_exported() {
        let metrics = Metrics::new();
        let limits = limits(&LimitPolicy::default());
        let _exported = PluginMetrics::new(
            &metrics,
            "faulty".into(),
            Stats::default,
            limits.clone(),
            Vec::new(),
        )
        .unwrap();
        for key in 0..10 {
            match limits.quarantine.admit(0, &key.to_string().into()).await {
                Admission::Go(pass) => pass.failed("it trapped"),
                _ => panic!("the plugin is not quarantined yet"),
            };
        }
        let text = metrics.render();
        assert!(
            text.contains("flyball_plugin_quarantined{plugin=\"faulty\"} 1\n"),
            "{text}"
        );
    }
}
