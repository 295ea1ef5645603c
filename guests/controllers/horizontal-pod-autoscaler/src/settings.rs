//! The operator's settings and the feature gates.
//!
//! Upstream: pkg/controller/podautoscaler/config/types.go.

use std::time::Duration;

use flyball_sdk::prelude::*;

const SYNC_PERIOD: &str = "sync-period";
const DOWNSCALE_STABILIZATION: &str = "downscale-stabilization";
const CPU_INITIALIZATION_PERIOD: &str = "cpu-initialization-period";
const INITIAL_READINESS_DELAY: &str = "initial-readiness-delay";
const TOLERANCE: &str = "tolerance";

/// The feature gate of generations: a change of an autoscaler's spec counts at once.
const GENERATION: &str = "HPAGeneration";
/// The feature gate of the check for autoscalers of the same pods that ends with the second one.
const OPTIMIZED_STORE: &str = "HPAOptimizedSelectorStore";
/// The feature gate of targets that are scaled to zero.
const SCALE_TO_ZERO: &str = "HPAScaleToZero";
/// The feature gate of tolerances in autoscalers.
const CONFIGURABLE_TOLERANCE: &str = "HPAConfigurableTolerance";
/// The feature gate of the resources of a pod as a whole.
const POD_LEVEL_RESOURCES: &str = "PodLevelResources";

/// The configuration keys with their defaults and descriptions.
pub const KEYS: &[(&str, &str, &str)] = &[
    (SYNC_PERIOD, "15s", "how often an autoscaler is reconciled"),
    (
        DOWNSCALE_STABILIZATION,
        "5m",
        "for how long recommendations are remembered: the highest one prevails, unless the autoscaler says otherwise",
    ),
    (
        CPU_INITIALIZATION_PERIOD,
        "5m",
        "for how long after the start of a pod its CPU usage does not count while it is unready",
    ),
    (
        INITIAL_READINESS_DELAY,
        "30s",
        "a pod whose readiness last changed within this time after its start has never been ready",
    ),
    (
        TOLERANCE,
        "0.1",
        "the least relative deviation from the target at which an autoscaler acts",
    ),
];

/// The feature gates with their defaults.
pub const GATES: [(&str, bool); 5] = [
    (GENERATION, true),
    (OPTIMIZED_STORE, true),
    (SCALE_TO_ZERO, true),
    (CONFIGURABLE_TOLERANCE, true),
    (POD_LEVEL_RESOURCES, true),
];

/// The operator's settings; [`KEYS`] documents them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub sync_period: Duration,
    pub downscale_stabilization: Duration,
    pub readiness: Readiness,
    pub tolerance: f64,
    /// Whether the status has the generation that it is about, and a new one is reconciled at once.
    pub generation: bool,
    /// Whether at most two autoscalers of the same pods are named.
    pub optimized_store: bool,
    /// Whether the emulated release is Kubernetes 1.37 or later.
    pub since_1_37: bool,
    pub scale_to_zero: bool,
    pub configurable_tolerance: bool,
    pub pod_level_resources: bool,
}

/// When the CPU usage of a pod counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    pub cpu_initialization: Duration,
    pub initial_delay: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sync_period: Duration::from_secs(15),
            downscale_stabilization: Duration::from_secs(300),
            readiness: Readiness {
                cpu_initialization: Duration::from_secs(300),
                initial_delay: Duration::from_secs(30),
            },
            tolerance: 0.1,
            generation: true,
            optimized_store: true,
            since_1_37: true,
            scale_to_zero: true,
            configurable_tolerance: true,
            pod_level_resources: true,
        }
    }
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// A value is invalid. The error is terminal.
    pub fn read(host: &Host) -> Result<Self, Error> {
        let default = Self::default();
        let duration = |key: &str, default| host.config_duration(key, default);
        let readiness = default.readiness;
        Ok(Self {
            sync_period: duration(SYNC_PERIOD, default.sync_period)?,
            downscale_stabilization: duration(
                DOWNSCALE_STABILIZATION,
                default.downscale_stabilization,
            )?,
            readiness: Readiness {
                cpu_initialization: duration(
                    CPU_INITIALIZATION_PERIOD,
                    readiness.cpu_initialization,
                )?,
                initial_delay: duration(INITIAL_READINESS_DELAY, readiness.initial_delay)?,
            },
            tolerance: host.config_number(TOLERANCE, default.tolerance, 0.0..)?,
            // The description depends on it, too.
            generation: host.feature_enabled_or(GENERATION, default.generation),
            optimized_store: host.feature_enabled(OPTIMIZED_STORE),
            since_1_37: host.release_at_least(37),
            scale_to_zero: host.feature_enabled(SCALE_TO_ZERO),
            configurable_tolerance: host.feature_enabled(CONFIGURABLE_TOLERANCE),
            pod_level_resources: host.feature_enabled(POD_LEVEL_RESOURCES),
        })
    }
}
