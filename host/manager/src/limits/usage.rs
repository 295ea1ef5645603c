//! What one plugin uses and how often it hit its limits, as metrics: read when they are scraped.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use flyball_plugin::{Limit, Plugin, Stats};
use flyball_serving::Metrics;
use flyball_serving::metrics::{CounterVec, GaugeVec, MetricsError, OnScrape};

use crate::limits::guard::Guard;
use crate::limits::quarantine::State;
use crate::lock;

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
    waits: Arc<AtomicU64>,
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

impl Usage {
    /// Begins to tell of a plugin, and of the waits of its [`RateLimiter`](crate::limits::rate::RateLimiter). Fails if the host's
    /// metrics can't be declared, which is a fault of the host.
    pub(crate) fn new(
        metrics: &Metrics,
        name: Arc<str>,
        plugin: Plugin,
        guard: Arc<Guard>,
        waits: Arc<AtomicU64>,
    ) -> Result<Self, MetricsError> {
        let (families, told) = (Families::new(metrics)?, Mutex::default());
        let read = Arc::new(Reading {
            name,
            plugin,
            guard,
            waits,
            families,
            told,
        });
        let reading = read.clone();
        let scrape = metrics.on_scrape(move || reading.tell());
        Ok(Self {
            read,
            _scrape: scrape,
        })
    }
}

impl Reading {
    fn tell(&self) {
        let (stats, families, plugin) = (self.plugin.stats(), &self.families, &[&*self.name]);
        families
            .memory
            .with_label_values(plugin)
            .set(stats.memory as f64);
        families
            .instances
            .with_label_values(plugin)
            .set(stats.live as f64);
        let is_running = self.guard.quarantine.state() == State::Running;
        families
            .quarantined
            .with_label_values(plugin)
            .set(if is_running { 0.0 } else { 1.0 });
        let hits = self.hits(&stats);
        let mut told = lock(&self.told);
        let count = |family: &CounterVec, labels: &[&str], more: f64| {
            family.with_label_values(labels).inc_by(more)
        };
        let before = std::mem::replace(&mut told.stats, stats);
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
        told.hits.resize(hits.len(), 0);
        for ((limit, hits), told) in hits.into_iter().zip(&mut told.hits) {
            count(
                &families.hits,
                &[&self.name, limit],
                hits.saturating_sub(*told) as f64,
            );
            *told = hits;
        }
    }

    /// How often each limit was hit, always in the same order.
    fn hits(&self, stats: &Stats) -> Vec<(&'static str, u64)> {
        let of_guest = Limit::ALL.map(|limit| (limit.name(), stats.hits.of(limit)));
        let writes = ("writes-per-second", self.waits.load(Relaxed));
        of_guest
            .into_iter()
            .chain(self.guard.hits())
            .chain([writes])
            .collect()
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        // The counters must not miss the end; the gauges go.
        self.read.tell();
        for vec in [
            &self.read.families.memory,
            &self.read.families.instances,
            &self.read.families.quarantined,
        ] {
            // It is an error only if the series is gone already.
            let _ = vec.remove_label_values(&[&*self.read.name]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use flyball_plugin::{Engine, EngineOptions, Limits};

    use super::*;
    use crate::limits::gate::Gate;
    use crate::plugins::describe::DescribeImports;
    use crate::policy::LimitPolicy;

    /// The guest that misbehaves as its key says.
    async fn faulty(limits: Limits) -> Plugin {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target =
            target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
        let path = target.join("guests/components/faulty.wasm");
        let wasm = std::fs::read(&path).expect("`cargo xtask guests rust` makes it");
        let engine = Engine::new(EngineOptions {
            max_instances: 4,
            ..EngineOptions::default()
        })
        .unwrap();
        Plugin::new(&engine, engine.load(wasm.into()).await.unwrap(), limits).unwrap()
    }

    async fn reconcile(plugin: &Plugin, key: &str) -> bool {
        let (config, log_lines) = (BTreeMap::new(), Gate::new(1.0, 1));
        let imports = Arc::new(DescribeImports {
            origin: "faulty".into(),
            config,
            log_lines,
        });
        plugin.reconcile(imports, "faulty", key, 0).await.is_ok()
    }

    #[tokio::test]
    async fn what_a_plugin_uses_and_which_limits_it_hits_are_told_at_each_scrape() {
        let metrics = Metrics::new();
        let policy = LimitPolicy {
            log_lines_burst: Some(1),
            ..LimitPolicy::default()
        };
        let guard = Guard::new("faulty".into(), &policy, false);
        let plugin = faulty(Limits {
            memory: 8 << 20,
            ..Limits::default()
        })
        .await;
        let usage = Usage::new(
            &metrics,
            "faulty".into(),
            plugin.clone(),
            guard.clone(),
            Arc::new(3.into()),
        )
        .unwrap();
        assert!(
            !reconcile(&plugin, "panic").await
                && !reconcile(&plugin, "grow").await
                && reconcile(&plugin, "a").await
        );
        assert!(guard.log_lines.pass() && !guard.log_lines.pass());
        for _ in 0..2 {
            let text = metrics.render();
            for series in [
                "flyball_plugin_instances{plugin=\"faulty\"} 1\n",
                "flyball_plugin_quarantined{plugin=\"faulty\"} 0\n",
                "flyball_plugin_calls_total{plugin=\"faulty\"} 3\n",
                "flyball_plugin_call_failures_total{plugin=\"faulty\"} 2\n",
                "flyball_plugin_limit_hits_total{limit=\"memory\",plugin=\"faulty\"} 1\n",
                "flyball_plugin_limit_hits_total{limit=\"cpu\",plugin=\"faulty\"} 0\n",
                "flyball_plugin_limit_hits_total{limit=\"log-lines-per-second\",plugin=\"faulty\"} 1\n",
                "flyball_plugin_limit_hits_total{limit=\"writes-per-second\",plugin=\"faulty\"} 3\n",
            ] {
                assert!(text.contains(series), "{series} is missing in {text}");
            }
            assert!(
                !text.contains("flyball_plugin_cpu_seconds_total{plugin=\"faulty\"} 0\n"),
                "{text}"
            );
            assert!(
                !text.contains("flyball_plugin_memory_bytes{plugin=\"faulty\"} 0\n"),
                "{text}"
            );
        }
        assert!(reconcile(&plugin, "b").await);
        drop(usage);
        let text = metrics.render();
        assert!(
            text.contains("flyball_plugin_calls_total{plugin=\"faulty\"} 4\n"),
            "the last call counts: {text}"
        );
        assert!(!text.contains("flyball_plugin_instances{"), "{text}");
    }

    #[tokio::test]
    async fn a_quarantine_is_told() {
        let metrics = Metrics::new();
        let guard = Guard::new("faulty".into(), &LimitPolicy::default(), false);
        let plugin = faulty(Limits::default()).await;
        let _usage = Usage::new(
            &metrics,
            "faulty".into(),
            plugin,
            guard.clone(),
            Arc::default(),
        )
        .unwrap();
        for key in 0..10 {
            let crate::limits::quarantine::Admission::Go(pass) =
                guard.quarantine.admit(0, &key.to_string().into()).await
            else {
                panic!("it runs");
            };
            pass.failed("it trapped");
        }
        assert!(
            metrics
                .render()
                .contains("flyball_plugin_quarantined{plugin=\"faulty\"} 1\n")
        );
    }
}
