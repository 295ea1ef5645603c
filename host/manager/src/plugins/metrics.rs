//! Metrics of one plugin's work and resource usage, and how often it reached its limits. They are read at each scrape.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::UNIX_EPOCH;

use flyball_limits::host_limits::HostLimits;
use flyball_limits::quarantine::QuarantineState;
use flyball_plugin::{Limit, Stats};
use flyball_runtime::history::History;
use flyball_serving::Metrics;
use flyball_serving::metrics::{CounterVec, GaugeVec, MetricsError, OnScrape};
use parking_lot::Mutex;

use crate::plugins::status::{PluginState, PluginStatus};

/// Exports one plugin's metrics while it lives.
#[must_use = "the plugin's gauges are removed when this is dropped"]
pub(crate) struct PluginMetrics {
    exporter: Arc<Exporter>,
    _scrape: OnScrape,
}

/// The sources of the values.
pub(crate) struct Measured {
    pub(crate) stats: Box<dyn Fn() -> Stats + Send + Sync>,
    /// Returns the memory in bytes that the host holds besides instances and calls, by its use.
    pub(crate) held: Box<dyn Fn() -> [(&'static str, usize); 6] + Send + Sync>,
    pub(crate) limits: Arc<HostLimits>,
    /// How often a request to the API server waited for its [`RateLimiter`](flyball_limits::rate::RateLimiter).
    pub(crate) waits: Vec<Arc<AtomicU64>>,
    /// Shared by all versions.
    pub(crate) history: Arc<History>,
    pub(crate) info: Info,
}

/// The labels of a version's `flyball_plugin_info`.
pub(crate) struct Info {
    pub(crate) version: String,
    pub(crate) digest: String,
    pub(crate) state: Box<dyn Fn() -> PluginState + Send + Sync>,
}

struct Exporter {
    name: Arc<str>,
    measured: Measured,
    families: Families,
    exported: Mutex<Exported>,
    info: Mutex<InfoSeries>,
}

/// The values that the counters hold.
#[derive(Default)]
struct Exported {
    stats: Stats,
    hits: Vec<u64>,
}

struct Families {
    memory: GaugeVec,
    held: GaugeVec,
    instances: GaugeVec,
    quarantined: GaugeVec,
    route_failing: GaugeVec,
    cpu: CounterVec,
    throttled: CounterVec,
    calls: CounterVec,
    failures: CounterVec,
    hits: CounterVec,
    last_success: GaugeVec,
}

/// The series of `flyball_plugin_info` of one plugin. It is removed when this is dropped.
struct InfoSeries {
    family: GaugeVec,
    /// The labels that are exported.
    labels: Option<[String; 4]>,
}

impl InfoSeries {
    fn family(metrics: &Metrics) -> Result<GaugeVec, MetricsError> {
        metrics.gauge(
            "flyball_plugin_info",
            "1 for each version of a plugin that runs or waits, by its version, the SHA-256 of its file, and its state as in \
             `flyball status`.",
            &["plugin", "version", "digest", "state"],
        )
    }

    fn new(family: GaugeVec) -> Self {
        Self {
            family,
            labels: None,
        }
    }

    /// Exports these values instead of the previous ones.
    fn show(&mut self, plugin: &str, version: &str, digest: &str, state: PluginState) {
        let labels = [plugin, version, digest, state.name()].map(str::to_owned);
        if self.labels.as_ref() != Some(&labels) {
            self.remove();
        }
        self.family.with_label_values(&labels).set(1.0);
        self.labels = Some(labels);
    }

    fn remove(&mut self) {
        if let Some(labels) = self.labels.take() {
            // Fails only if the series was removed before.
            let _ = self.family.remove_label_values(&labels);
        }
    }
}

impl Drop for InfoSeries {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Families {
    fn new(metrics: &Metrics) -> Result<Self, MetricsError> {
        let label = &["plugin"];
        Ok(Self {
            memory: metrics.gauge(
                "flyball_plugin_memory_bytes",
                "Memory of all instances of the plugin: linear memories, tables, stacks, and what the engine keeps of them.",
                label,
            )?,
            held: metrics.gauge(
                "flyball_plugin_held_bytes",
                "Memory that the host holds for the plugin besides its instances: data of its calls, keys of its queues, its last reconciles and the recordings of the last ones that failed, its memo, the series of its metrics, and the deltas that wait for its `route`.",
                &["plugin", "use"],
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
            last_success: metrics.gauge(
                "flyball_plugin_last_success_timestamp_seconds",
                "When the last reconcile of the plugin that did not fail ended, in seconds since 1970.",
                label,
            )?,
        })
    }
}

impl PluginMetrics {
    /// Starts the export. Fails if the host's metrics can't be declared, which is a fault of the host.
    pub(crate) fn new(
        metrics: &Metrics,
        name: Arc<str>,
        measured: Measured,
    ) -> Result<Self, MetricsError> {
        let exporter = Arc::new(Exporter {
            name,
            measured,
            families: Families::new(metrics)?,
            exported: Mutex::default(),
            info: Mutex::new(InfoSeries::new(InfoSeries::family(metrics)?)),
        });
        let scraped = exporter.clone();
        let scrape = metrics.on_scrape(move || scraped.export());
        Ok(Self {
            exporter,
            _scrape: scrape,
        })
    }
}

impl Exporter {
    fn export(&self) {
        let (measured, families) = (&self.measured, &self.families);
        let (stats, name) = ((measured.stats)(), &*self.name);
        let set = |family: &GaugeVec, value: f64| family.with_label_values(&[name]).set(value);
        set(&families.memory, stats.memory as f64);
        for (used_for, bytes) in [("calls", stats.held)].into_iter().chain((measured.held)()) {
            let gauge = families.held.with_label_values(&[name, used_for]);
            gauge.set(bytes as f64);
        }
        set(&families.instances, stats.live as f64);
        let is_running = measured.limits.quarantine.state() == QuarantineState::Running;
        set(&families.quarantined, if is_running { 0.0 } else { 1.0 });
        set(
            &families.route_failing,
            measured.limits.route.failing() as f64,
        );
        let success = measured.history.last_success();
        if let Some(since) = success.and_then(|at| at.duration_since(UNIX_EPOCH).ok()) {
            set(&families.last_success, since.as_secs_f64());
        }

        let mut exported = self.exported.lock();
        let before = std::mem::replace(&mut exported.stats, stats);
        let add = |family: &CounterVec, more: f64| family.with_label_values(&[name]).inc_by(more);
        let cpu = stats.cpu.saturating_sub(before.cpu);
        add(&families.cpu, cpu.as_secs_f64());
        let waited = stats.waited.saturating_sub(before.waited);
        add(&families.throttled, waited.as_secs_f64());
        add(
            &families.calls,
            stats.calls.saturating_sub(before.calls) as f64,
        );
        add(
            &families.failures,
            stats.failures.saturating_sub(before.failures) as f64,
        );
        let hits = self.hits(&stats);
        exported.hits.resize(hits.len(), 0);
        for ((limit, hits), exported) in hits.into_iter().zip(&mut exported.hits) {
            let more = hits.saturating_sub(*exported);
            let counter = families.hits.with_label_values(&[name, limit]);
            counter.inc_by(more as f64);
            *exported = hits;
        }
        let Info {
            version,
            digest,
            state,
        } = &measured.info;
        (self.info.lock()).show(name, version, digest, state());
    }

    /// Returns how often each limit was reached, always in the same order.
    fn hits(&self, stats: &Stats) -> Vec<(&'static str, u64)> {
        let of_guest = Limit::ALL.map(|limit| (limit.name(), stats.hits.of(limit)));
        let waits = self.measured.waits.iter().map(|waits| waits.load(Relaxed));
        of_guest
            .into_iter()
            .chain(self.measured.limits.hits())
            .chain([("writes-per-second", waits.sum())])
            .collect()
    }
}

/// Exports `flyball_plugin_info` for plugins without a running version.
pub(crate) struct WaitingInfo {
    family: GaugeVec,
    /// By the plugin's name.
    series: BTreeMap<String, InfoSeries>,
}

impl WaitingInfo {
    pub(crate) fn new(metrics: &Metrics) -> Result<Self, MetricsError> {
        Ok(Self {
            family: InfoSeries::family(metrics)?,
            series: BTreeMap::new(),
        })
    }

    pub(crate) fn show(&mut self, status: &PluginStatus) {
        let series = self.series.entry(status.name.clone());
        let series = series.or_insert_with(|| InfoSeries::new(self.family.clone()));
        series.show(&status.name, &status.version, &status.digest, status.state);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.series.remove(name);
    }
}

impl Drop for PluginMetrics {
    fn drop(&mut self) {
        // The counters include the last calls; the gauges are removed.
        self.exporter.export();
        for vec in [
            &self.exporter.families.memory,
            &self.exporter.families.instances,
            &self.exporter.families.quarantined,
            &self.exporter.families.route_failing,
            &self.exporter.families.last_success,
        ] {
            // Fails only if the series was removed before.
            let _ = vec.remove_label_values(&[&*self.exporter.name]);
        }
        let held = (self.exporter.measured.held)().into_iter();
        for (used_for, _) in held.chain([("calls", 0)]) {
            let labels = [&*self.exporter.name, used_for];
            let _ = self.exporter.families.held.remove_label_values(&labels);
        }
        self.exporter.info.lock().remove();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flyball_limits::quarantine::Admission;
    use flyball_policy::LimitPolicy;
    use flyball_runtime::history::HistoryEntry;
    use flyball_runtime::queue::Reason;
    use flyball_serving::Metrics;

    use super::*;

    fn limits(policy: &LimitPolicy) -> Arc<HostLimits> {
        HostLimits::new("faulty".into(), policy, false, Arc::default())
    }

    /// The sources of a version that has done nothing.
    fn measured(limits: Arc<HostLimits>) -> Measured {
        Measured {
            stats: Box::new(Stats::default),
            held: Box::new(|| {
                [
                    ("keys", 1),
                    ("history", 5),
                    ("memo", 2),
                    ("metrics", 3),
                    ("recordings", 6),
                    ("route", 4),
                ]
            }),
            limits,
            waits: Vec::new(),
            history: Arc::default(),
            info: Info {
                version: String::new(),
                digest: String::new(),
                state: Box::new(|| PluginState::Running),
            },
        }
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
        let state = Arc::new(Mutex::new(PluginState::Starting));
        let read_state = state.clone();
        let history = Arc::<History>::default();
        let measured = Measured {
            stats: Box::new(move || *read.lock()),
            waits: vec![Arc::new(AtomicU64::new(3)), Arc::new(AtomicU64::new(4))],
            history: history.clone(),
            info: Info {
                version: "1.0.0".into(),
                digest: "0123".into(),
                state: Box::new(move || *read_state.lock()),
            },
            ..measured(limits.clone())
        };
        let exported = PluginMetrics::new(&metrics, "faulty".into(), measured).unwrap();
        let text = metrics.render();
        assert!(!text.contains("last_success"), "none succeeded: {text}");
        history.add(HistoryEntry {
            at: UNIX_EPOCH + Duration::from_millis(1500),
            digest: "0123".into(),
            queue: "a".into(),
            key: "demo/web".into(),
            why: Reason::Resumed,
            coalesced: 0,
            attempt: 0,
            queued: Duration::ZERO,
            took: Duration::from_micros(10),
            failed: None,
            wrote: Vec::new(),
            trace: None,
            cause: None,
        });
        *state.lock() = PluginState::Running;
        assert!(limits.log_lines.pass() && !limits.log_lines.pass());
        for _ in 0..2 {
            let text = metrics.render();
            for series in [
                "flyball_plugin_instances{plugin=\"faulty\"} 1\n",
                "flyball_plugin_memory_bytes{plugin=\"faulty\"} 65536\n",
                "flyball_plugin_held_bytes{plugin=\"faulty\",use=\"memo\"} 2\n",
                "flyball_plugin_quarantined{plugin=\"faulty\"} 0\n",
                "flyball_plugin_cpu_seconds_total{plugin=\"faulty\"} 1.5\n",
                "flyball_plugin_calls_total{plugin=\"faulty\"} 3\n",
                "flyball_plugin_call_failures_total{plugin=\"faulty\"} 2\n",
                "flyball_plugin_limit_hits_total{limit=\"cpu\",plugin=\"faulty\"} 0\n",
                "flyball_plugin_limit_hits_total{limit=\"log-lines-per-second\",plugin=\"faulty\"} 1\n",
                "flyball_plugin_limit_hits_total{limit=\"writes-per-second\",plugin=\"faulty\"} 7\n",
                "flyball_plugin_last_success_timestamp_seconds{plugin=\"faulty\"} 1.5\n",
                "flyball_plugin_info{digest=\"0123\",plugin=\"faulty\",state=\"running\",version=\"1.0.0\"} 1\n",
            ] {
                assert!(text.contains(series), "{series} is missing in {text}");
            }
            assert!(!text.contains("starting"), "the state before: {text}");
        }
        stats.lock().calls = 4;
        drop(exported);
        let text = metrics.render();
        assert!(
            text.contains("flyball_plugin_calls_total{plugin=\"faulty\"} 4\n"),
            "the last call counts: {text}"
        );
        for gauge in [
            "instances",
            "held_bytes",
            "info",
            "last_success_timestamp_seconds",
        ] {
            assert!(
                !text.contains(&format!("flyball_plugin_{gauge}{{")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_plugin_that_waits_has_one_series_until_it_runs() {
        let metrics = Metrics::new();
        let mut waiting = WaitingInfo::new(&metrics).unwrap();
        let mut status =
            PluginStatus::not_loaded("greeter".into(), "greeter.wasm".into(), "it waits");
        for (state, name) in [
            (PluginState::Pending, "pending"),
            (PluginState::Failed, "failed"),
        ] {
            status.state = state;
            waiting.show(&status);
            let text = metrics.render();
            let series =
                format!("{{digest=\"\",plugin=\"greeter\",state=\"{name}\",version=\"\"}} 1\n");
            assert!(text.contains(&series), "{text}");
            assert_eq!(text.matches("flyball_plugin_info{").count(), 1, "{text}");
        }
        waiting.remove("greeter");
        assert!(!metrics.render().contains("flyball_plugin_info{"));
    }

    #[tokio::test]
    async fn a_quarantine_is_exported() {
        let metrics = Metrics::new();
        let limits = limits(&LimitPolicy::default());
        let measured = measured(limits.clone());
        let _exported = PluginMetrics::new(&metrics, "faulty".into(), measured).unwrap();
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
