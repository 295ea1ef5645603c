//! The operator's settings.
//!
//! Upstream: pkg/controller/volume/attachdetach/attach_detach_controller.go: NewAttachDetachController.
//! Upstream: pkg/controller/volume/attachdetach/config/types.go.

use std::time::Duration;

use flyball_sdk::prelude::*;

const RETRY: &str = "reconciler-period";
const UNMOUNT: &str = "max-wait-for-unmount";
const FORCE: &str = "disable-force-detach-on-timeout";
const NO_VERIFICATION: &str = "disable-attach-detach-reconcile-sync";
/// The configuration key of the period of [`verify`](crate::verify).
pub const VERIFICATION: &str = "attach-detach-reconcile-sync-period";
/// The configuration key of the period in which changes of CSIDrivers are noticed.
pub const DRIVERS: &str = "populator-period";
/// The configuration key of the period in which all nodes are looked at.
pub const NODES: &str = "list-pods-period";

/// A shorter period than this turns the verification off.
const SHORTEST_VERIFICATION: Duration = Duration::from_secs(1);

/// The configuration keys with their defaults and descriptions.
pub const KEYS: &[(&str, &str, &str)] = &[
    (
        RETRY,
        "100ms",
        "how long a node waits after its status could not be written",
    ),
    (
        UNMOUNT,
        "6m",
        "how long a node that is not ready may keep a volume mounted that no pod uses",
    ),
    (
        FORCE,
        "false",
        "whether such a volume stays attached all the same",
    ),
    (
        VERIFICATION,
        "1m",
        "how often attached volumes are compared with their VolumeAttachments; never if shorter than a second",
    ),
    (
        NO_VERIFICATION,
        "false",
        "whether they are not compared at all",
    ),
    (
        DRIVERS,
        "1m",
        "how often CSIDrivers are compared with what they required before",
    ),
    (
        NODES,
        "3m",
        "how often all nodes are looked at, even if nothing changed",
    ),
];

/// The operator's settings; [`KEYS`] documents them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub retry: Duration,
    pub unmount: Duration,
    /// Whether volumes that are mounted are detached from nodes that are not ready, once [`unmount`](Self::unmount) has
    /// passed.
    pub forces: bool,
    pub verification: Duration,
    pub verifies: bool,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// A value is invalid. The error is terminal.
    pub fn read(host: &Host) -> Result<Self, Error> {
        let verification = host.config_duration(VERIFICATION, Duration::from_secs(60))?;
        Ok(Self {
            retry: host.config_duration(RETRY, Duration::from_millis(100))?,
            unmount: host.config_duration(UNMOUNT, Duration::from_secs(360))?,
            forces: !is_on(host, FORCE),
            verification,
            verifies: !is_on(host, NO_VERIFICATION) && verification >= SHORTEST_VERIFICATION,
        })
    }
}

/// Whether a flag is set, in the syntax of Go.
fn is_on(host: &Host, key: &str) -> bool {
    let text = host.config(key).unwrap_or_default();
    matches!(&*text, "1" | "t" | "T" | "true" | "True" | "TRUE")
}
