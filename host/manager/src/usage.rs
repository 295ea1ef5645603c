//! What one plugin uses and how often it hit its limits, as metrics: read when they are scraped.

use std::sync::{Arc, Mutex};

use flyball_plugin::{Limit, Plugin, Stats};
use flyball_serving::Metrics;
use flyball_serving::metrics::{CounterVec, GaugeVec, MetricsError, OnScrape};

use crate::guard::Guard;
use crate::lock;
use crate::quarantine::State;
use crate::services::Services;

/// Tells of one plugin's use while it lives.
#[must_use = "the plugin's gauges go when this is dropped"]
pub(crate) struct Usage {
    read: Arc<Reading>,
    _scrape: OnScrape,
}

struct Reading {
    name: Arc<str>,
    plugin: Plugin,
    guard: Arc<Guard>,
    /// How often a call to the API server had to wait for its turn.
    waits: Arc<std::sync::atomic::AtomicU64>,
    families: Families,
    /// What the counters have been told.
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    stats: Stats,
    hits: Vec<u64>,
}

struct Families {
    memory: GaugeVec,
    instances: GaugeVec,
    quarantined: GaugeVec,
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
            cpu: metrics.counter("flyball_plugin_cpu_seconds_total", "Time on cores of the plugin's calls.", label)?,
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

impl Usage {
    /// Begins to tell of a plugin. Fails if the host's metrics can't be declared, which is a fault of the host.
    pub(crate) fn new(metrics: &Metrics, plugin: Plugin, services: &Services) -> Result<Self, MetricsError> {
        let read = Arc::new(Reading {
            name: services.name().into(),
            plugin,
            guard: services.guard.clone(),
            waits: services.writer.rate.waits.clone(),
            families: Families::new(metrics)?,
            told: Mutex::default(),
        });
        let reading = read.clone();
        let scrape = metrics.on_scrape(move || reading.tell());
        Ok(Self { read, _scrape: scrape })
    }
}

impl Reading {
    fn tell(&self) {
        let (stats, families, plugin) = (self.plugin.stats(), &self.families, &[&*self.name]);
        families.memory.with_label_values(plugin).set(stats.memory as f64);
        families.instances.with_label_values(plugin).set(stats.live as f64);
        let is_running = self.guard.quarantine.state() == State::Running;
        families.quarantined.with_label_values(plugin).set(if is_running { 0.0 } else { 1.0 });
        let hits = self.hits(&stats);
        let mut told = lock(&self.told);
        let count = |family: &CounterVec, labels: &[&str], more: f64| family.with_label_values(labels).inc_by(more);
        let before = std::mem::replace(&mut told.stats, stats);
        count(&families.cpu, plugin, stats.cpu.saturating_sub(before.cpu).as_secs_f64());
        count(&families.throttled, plugin, stats.waited.saturating_sub(before.waited).as_secs_f64());
        count(&families.calls, plugin, stats.calls.saturating_sub(before.calls) as f64);
        count(&families.failures, plugin, stats.failures.saturating_sub(before.failures) as f64);
        told.hits.resize(hits.len(), 0);
        for ((limit, hits), told) in hits.into_iter().zip(&mut told.hits) {
            count(&families.hits, &[&self.name, limit], hits.saturating_sub(*told) as f64);
            *told = hits;
        }
    }

    /// How often each limit was hit, always in the same order.
    fn hits(&self, stats: &Stats) -> Vec<(&'static str, u64)> {
        let of_guest = Limit::ALL.map(|limit| (limit.name(), stats.hits.of(limit)));
        let writes = ("writes-per-second", self.waits.load(std::sync::atomic::Ordering::Relaxed));
        of_guest.into_iter().chain(self.guard.hits()).chain([writes]).collect()
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        // The counters must not miss the end; the gauges go.
        self.read.tell();
        for vec in [&self.read.families.memory, &self.read.families.instances, &self.read.families.quarantined] {
            // It is an error only if the series is gone already.
            let _ = vec.remove_label_values(&[&*self.read.name]);
        }
    }
}
