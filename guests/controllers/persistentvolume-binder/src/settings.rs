//! The operator's settings.
//!
//! Upstream: pkg/controller/volume/persistentvolume/config/types.go.
//! Upstream: cmd/kube-controller-manager/app/plugins.go: ProbeProvisionableRecyclableVolumePlugins.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_volume_plugins::{Operation, Plugins};

/// The configuration key of the period in which claims and volumes that wait for something are reconciled again.
pub(crate) const SYNC_PERIOD: &str = "sync-period";
/// The default of that period.
pub(crate) const DEFAULT_SYNC_PERIOD: Duration = Duration::from_secs(15);
/// The configuration key that says whether volumes are provisioned.
const PROVISIONS: &str = "enable-dynamic-provisioning";
/// The feature gate of VolumeAttributesClasses.
pub(crate) const ATTRIBUTES_CLASSES: &str = "VolumeAttributesClass";

/// The configuration keys with their defaults and descriptions.
pub(crate) const KEYS: &[(&str, &str, &str)] = &[
    (
        SYNC_PERIOD,
        "15s",
        "how often claims and volumes that wait for something are reconciled again",
    ),
    (
        PROVISIONS,
        "true",
        "whether volumes are provisioned for claims",
    ),
];

/// The settings of claims.
pub(crate) struct Settings {
    pub(crate) provisions: bool,
    pub(crate) has_attributes_classes: bool,
}

impl Settings {
    pub(crate) fn read(host: &Host) -> Self {
        Self {
            provisions: host.config(PROVISIONS).as_deref() != Some("false"),
            has_attributes_classes: host.feature_enabled(ATTRIBUTES_CLASSES),
        }
    }
}

/// Returns the plugins that the controller uses, with their settings. Those that only attach volumes don't exist for it.
///
/// # Errors
/// A value is invalid.
pub(crate) fn plugins(host: &Host) -> Result<Plugins, Error> {
    let used = [Operation::Recycle, Operation::Delete, Operation::Provision];
    Ok(Plugins::read(host)?.with_any_of(&used))
}
