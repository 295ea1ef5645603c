//! The workloads, in the order in which they are measured, and the bounds of their figures.

/// A workload on a control plane.
#[derive(Clone, Copy)]
pub(super) struct OnCluster {
    pub(super) name: &'static str,
    /// Measured once, since it takes long or varies little.
    pub(super) is_once: bool,
    /// Whether stock can run the workload.
    pub(super) has_stock: bool,
    /// The bounds of Flyball's figures.
    pub(super) bounds: Bounds,
}

/// The most that a figure whose name contains the text may be, as a part of stock's in the same run.
pub(super) type Bounds = &'static [(&'static str, f64)];

const BOUNDS: Bounds = &[
    ("CPU", 0.6),
    ("memory", 0.35),
    ("time, s", 1.05),
    ("API writes", 1.05),
];
/// The bounds for workloads of volumes.
const BOUNDS_OF_VOLUMES: Bounds = &[
    ("CPU", 0.5),
    ("memory", 0.35),
    ("time, s", 1.0),
    ("API writes", 1.0),
];
/// The bounds for workloads of clouds.
const BOUNDS_OF_CLOUDS: Bounds = &[("CPU", 0.5), ("memory", 0.35), ("cloud calls", 1.0)];
/// The bounds for workloads whose objects are much larger than usual.
const BOUNDS_OF_LARGE: Bounds = &[("CPU", 1.0), ("memory", 1.0), ("API writes", 1.05)];

impl OnCluster {
    const fn repeated(name: &'static str) -> Self {
        Self {
            name,
            is_once: false,
            has_stock: true,
            bounds: &[],
        }
    }

    const fn bounded(name: &'static str) -> Self {
        Self {
            bounds: BOUNDS,
            ..Self::once(name)
        }
    }

    const fn of_volumes(name: &'static str) -> Self {
        Self {
            bounds: BOUNDS_OF_VOLUMES,
            ..Self::once(name)
        }
    }

    const fn of_clouds(name: &'static str) -> Self {
        Self {
            bounds: BOUNDS_OF_CLOUDS,
            ..Self::once(name)
        }
    }

    const fn large(name: &'static str) -> Self {
        Self {
            bounds: BOUNDS_OF_LARGE,
            ..Self::once(name)
        }
    }

    const fn once(name: &'static str) -> Self {
        Self {
            is_once: true,
            ..Self::repeated(name)
        }
    }

    const fn once_without_stock(name: &'static str) -> Self {
        Self {
            has_stock: false,
            ..Self::once(name)
        }
    }
}

/// The workloads on a control plane, in the order in which they are measured.
pub(super) const ON_CLUSTERS: [OnCluster; 40] = [
    OnCluster::repeated("converge-small"),
    OnCluster::repeated("converge-wide"),
    OnCluster::repeated("converge-deep"),
    OnCluster::repeated("jobs"),
    OnCluster::repeated("rollout"),
    OnCluster::repeated("requests"),
    OnCluster::repeated("latency"),
    OnCluster::repeated("sync"),
    OnCluster::bounded("sets-parallel"),
    OnCluster::bounded("sets-ordered"),
    OnCluster::bounded("daemons"),
    OnCluster::bounded("cronjobs"),
    OnCluster::bounded("budgets"),
    OnCluster::bounded("services"),
    OnCluster::bounded("endpoints-5000"),
    OnCluster::bounded("heartbeats"),
    OnCluster::bounded("heartbeats-5000"),
    OnCluster::bounded("certificates"),
    OnCluster::bounded("autoscalers"),
    OnCluster::of_volumes("volumes-provisioned"),
    OnCluster::of_volumes("volumes-moved"),
    OnCluster::of_volumes("volumes-10000"),
    OnCluster::of_clouds("load-balancers"),
    OnCluster::bounded("empty"),
    OnCluster::once_without_stock("built-ins"),
    OnCluster::once("standby"),
    OnCluster::once("steady"),
    OnCluster::once("cascade"),
    OnCluster::once("sync-50000"),
    OnCluster::large("job-10000"),
    OnCluster::large("job-100000"),
    OnCluster::large("replicaset-20000"),
    OnCluster::large("owner-20000"),
    OnCluster::large("owner-200000"),
    OnCluster::large("deployment-2000"),
    OnCluster::once_without_stock("growth"),
    OnCluster::once_without_stock("copies"),
    OnCluster::once_without_stock("ring"),
    OnCluster::once_without_stock("reload"),
    OnCluster::once_without_stock(IDLE_PLUGINS),
];
/// The workload that measures built-in controllers one by one.
pub(super) const MARGINAL: &str = "marginal";
/// The workloads of the runtime alone.
pub(super) const OF_RUNTIME: [&str; 4] = ["call", "hostile", "idle", LANGUAGES];
/// The workloads that compare languages. They run the greeters of all.
pub(super) const LANGUAGES: &str = "languages";
pub(super) const IDLE_PLUGINS: &str = "idle-plugins";
/// Measured in a whole run only if they are named: each takes more than half an hour.
pub(super) const IF_NAMED: [&str; 4] = ["hostile", "job-100000", MARGINAL, "owner-200000"];
/// A quick run leaves these out: they differ from others only in size.
pub(super) const SAME_IF_QUICK: [&str; 8] = [
    "converge-wide",
    "converge-deep",
    "endpoints-5000",
    "heartbeats-5000",
    "sync-50000",
    "job-100000",
    MARGINAL,
    "owner-200000",
];

/// The names of all workloads.
pub(super) fn all_names() -> impl Iterator<Item = &'static str> {
    ON_CLUSTERS
        .into_iter()
        .map(|workload| workload.name)
        .chain([MARGINAL])
        .chain(OF_RUNTIME)
}

/// Whether a workload compares languages, so that its figures are in docs/languages.md.
pub(super) fn of_languages(workload: &str) -> bool {
    [LANGUAGES, IDLE_PLUGINS].contains(&workload)
}
