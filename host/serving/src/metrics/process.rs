//! The resource usage of the process, and its build.

use procfs::process::{Limit, LimitValue, Process};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge};

use super::Metrics;
use crate::KUBERNETES;

/// Adds the `process_*` metrics and `kubernetes_build_info`.
pub(super) fn register(metrics: &Metrics) {
    match ProcessCollector::new() {
        Ok(collector) => metrics.collect("process", collector),
        Err(error) => tracing::warn!(%error, "can't collect the process_* metrics"),
    }
    // kube-controller-manager's labels. The labels about its repository and the Go toolchain are empty.
    let labels = [
        "major",
        "minor",
        "git_version",
        "git_commit",
        "git_tree_state",
        "build_date",
        "go_version",
        "compiler",
        "platform",
    ];
    let mut parts = KUBERNETES.split('.');
    let mut part = || parts.next().unwrap_or_default();
    let (major, minor) = (part(), part());
    let version = format!("v{KUBERNETES}+flyball-{}", env!("CARGO_PKG_VERSION"));
    let platform = format!(
        "{}/{}",
        std::env::consts::OS,
        go_arch(std::env::consts::ARCH)
    );
    match metrics.gauge(
        "kubernetes_build_info",
        "Always 1. The labels have the version of Kubernetes that this build implements.",
        &labels,
    ) {
        Ok(info) => {
            info.with_label_values(&[major, minor, &version, "", "", "", "", "rustc", &platform])
                .set(1.0);
        }
        Err(error) => tracing::warn!(%error, "can't declare kubernetes_build_info"),
    }
}

/// Returns the start time of the process in seconds since the Unix epoch; `None` if the system does not provide it.
pub(crate) fn process_start_time() -> Option<f64> {
    let stat = Process::myself().ok()?.stat().ok()?;
    let boot = procfs::boot_time_secs().ok()?;
    Some(boot as f64 + stat.starttime as f64 / procfs::ticks_per_second() as f64)
}

/// Go's name of an architecture, which Kubernetes uses.
fn go_arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The limit that applies. An unlimited value is shown as the largest number of 64 bits, as by Prometheus' library for
/// Go.
fn soft(limit: &Limit) -> f64 {
    match limit.soft_limit {
        LimitValue::Value(limit) => limit as f64,
        LimitValue::Unlimited => u64::MAX as f64,
    }
}

struct ProcessCollector {
    cpu: Counter,
    open_fds: Gauge,
    max_fds: Gauge,
    virtual_memory: Gauge,
    max_virtual_memory: Gauge,
    resident_memory: Gauge,
    start_time: Gauge,
}

impl ProcessCollector {
    fn new() -> Result<Self, prometheus::Error> {
        Ok(Self {
            cpu: Counter::new(
                "process_cpu_seconds_total",
                "Total user and system CPU time spent in seconds.",
            )?,
            open_fds: Gauge::new("process_open_fds", "Number of open file descriptors.")?,
            max_fds: Gauge::new(
                "process_max_fds",
                "Maximum number of open file descriptors.",
            )?,
            virtual_memory: Gauge::new(
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes.",
            )?,
            max_virtual_memory: Gauge::new(
                "process_virtual_memory_max_bytes",
                "Maximum amount of virtual memory available in bytes.",
            )?,
            resident_memory: Gauge::new(
                "process_resident_memory_bytes",
                "Resident memory size in bytes.",
            )?,
            start_time: Gauge::new(
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
            )?,
        })
    }

    /// Reads the values from `/proc`. A value that can't be read stays as it was.
    fn update(&self) {
        let Ok(process) = Process::myself() else {
            return;
        };
        if let Ok(count) = process.fd_count() {
            self.open_fds.set(count as f64);
        }
        if let Ok(limits) = process.limits() {
            self.max_fds.set(soft(&limits.max_open_files));
            self.max_virtual_memory.set(soft(&limits.max_address_space));
        }
        let Ok(stat) = process.stat() else { return };
        let ticks = procfs::ticks_per_second() as f64;
        let cpu = (stat.utime + stat.stime) as f64 / ticks;
        self.cpu.inc_by((cpu - self.cpu.get()).max(0.0));
        self.virtual_memory.set(stat.vsize as f64);
        self.resident_memory
            .set((stat.rss * procfs::page_size()) as f64);
        if let Ok(boot) = procfs::boot_time_secs() {
            self.start_time
                .set(boot as f64 + stat.starttime as f64 / ticks);
        }
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = [
            &self.open_fds,
            &self.max_fds,
            &self.virtual_memory,
            &self.max_virtual_memory,
            &self.resident_memory,
            &self.start_time,
        ];
        self.cpu
            .desc()
            .into_iter()
            .chain(gauges.into_iter().flat_map(|gauge| gauge.desc()))
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.update();
        let gauges = [
            &self.open_fds,
            &self.max_fds,
            &self.virtual_memory,
            &self.max_virtual_memory,
            &self.resident_memory,
            &self.start_time,
        ];
        self.cpu
            .collect()
            .into_iter()
            .chain(gauges.into_iter().flat_map(|gauge| gauge.collect()))
            .collect()
    }
}
