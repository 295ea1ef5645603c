//! The operator's settings and the feature gates.
//!
//! Upstream: pkg/controller/resourcequota/config/types.go.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::pod_resources::Counting;

/// Configuration key: how often all quotas are reconciled.
pub const SYNC_PERIOD: &str = "sync-period";
/// Configuration key: the period of discovery.
pub const DISCOVERY_PERIOD: &str = "discovery-period";
/// The feature gate of devices that pods request as extended resources.
pub const EXTENDED_RESOURCES: &str = "DRAExtendedResource";
/// The feature gate of the resources of a pod as a whole.
pub const POD_LEVEL_RESOURCES: &str = "PodLevelResources";

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How often all quotas are reconciled; zero for never.
    pub sync_period: Duration,
    /// How often the kinds that the API server serves are discovered.
    pub discovery_period: Duration,
    /// Whether devices that pods request as extended resources count as such.
    pub extended_resources: bool,
    /// How the resources of pods count.
    pub counting: Counting,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sync_period: Duration::from_secs(300),
            discovery_period: Duration::from_secs(30),
            extended_resources: true,
            counting: Counting {
                pod_level: true,
                by_container: false,
            },
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
        Ok(Self {
            sync_period: host.config_duration(SYNC_PERIOD, default.sync_period)?,
            discovery_period: host.config_duration(DISCOVERY_PERIOD, default.discovery_period)?,
            extended_resources: host.feature_enabled(EXTENDED_RESOURCES),
            counting: Counting {
                pod_level: host.feature_enabled(POD_LEVEL_RESOURCES),
                by_container: !host.release_at_least(37),
            },
        })
    }
}
