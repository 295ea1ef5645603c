//! The operator's settings: the number and capacity of nodes, and the default behaviour of pods.

use std::fmt;
use std::time::Duration;

use flyball_sdk::{duration, prelude::*};

/// The default of `heartbeat-period`, as of kubelets.
pub const HEARTBEAT_PERIOD: Duration = Duration::from_secs(10);
/// The number of pod ranges with 254 addresses each.
const MAX_NODES: u32 = 1 << 16;

/// The configuration keys with their defaults and descriptions.
pub const KEYS: &[(&str, &str, &str)] = &[
    ("nodes", "3", "Number of nodes; at most 65536."),
    (
        "node-prefix",
        "node-",
        "Prefix of the nodes' names; their number follows, starting at 0.",
    ),
    (
        "zones",
        "0",
        "Number of zones (zone-0, zone-1, …) that the nodes are spread over; 0 for no zone labels.",
    ),
    (
        "heartbeat-period",
        "10s",
        "How often each node's lease is renewed.",
    ),
    (
        "status-period",
        "5m",
        "How often each node's unchanged status is written.",
    ),
    ("pods-per-node", "110", "Pod capacity of a node."),
    ("cpu", "32", "CPU capacity of a node, as a quantity."),
    (
        "memory",
        "256Gi",
        "Memory capacity of a node, as a quantity.",
    ),
    (
        "remove-not-ready-taint",
        "true",
        "Whether to remove the taint node.kubernetes.io/not-ready:NoSchedule, which the API server adds to each new node; \
         set it to false if a node-lifecycle controller does that.",
    ),
    (
        "external-cloud",
        "false",
        "Whether to register nodes with the taint node.cloudprovider.kubernetes.io/uninitialized, as a kubelet with \
         --cloud-provider=external does.",
    ),
    (
        "ready-delay",
        "0s",
        "Time between a container's start and its readiness, for pods without ready-after.",
    ),
    (
        "restart-backoff",
        "1s",
        "Backoff before a container's second restart; doubled with each further one.",
    ),
    (
        "restart-backoff-limit",
        "30s",
        "Maximum backoff before a restart.",
    ),
];

/// The parsed settings; [`KEYS`] documents them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub nodes: u32,
    pub node_prefix: String,
    pub zones: u32,
    pub heartbeat_period: Duration,
    pub status_period: Duration,
    pub pods_per_node: u32,
    pub cpu: String,
    pub memory: String,
    pub remove_not_ready_taint: bool,
    pub external_cloud: bool,
    pub ready_delay: Duration,
    pub restart_backoff: Duration,
    pub restart_backoff_limit: Duration,
}

/// A setting has an invalid value. Only the operator can fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    pub key: &'static str,
    pub value: String,
    /// Describes the valid values.
    pub expected: &'static str,
}

/// Adds the keys to a description.
pub fn declare(description: Description) -> Description {
    KEYS.iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        })
}

impl Settings {
    /// Reads the settings. `get` returns the operator's value of a key.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let text = |key: &'static str| {
            let default = KEYS
                .iter()
                .find(|known| known.0 == key)
                .map_or("", |known| known.1);
            get(key).unwrap_or_else(|| default.into())
        };
        let number = |key| parse(key, text(key), "a whole number", |value| value.parse().ok());
        let time = |key| {
            parse(key, text(key), "a duration such as 10s", |value| {
                duration::parse(value).ok()
            })
        };
        let flag = |key| parse(key, text(key), "true or false", |value| value.parse().ok());
        let nodes = parse(
            "nodes",
            text("nodes"),
            "a whole number, at most 65536",
            |value| value.parse().ok().filter(|&nodes: &u32| nodes <= MAX_NODES),
        )?;
        Ok(Self {
            nodes,
            node_prefix: text("node-prefix"),
            zones: number("zones")?,
            heartbeat_period: time("heartbeat-period")?,
            status_period: time("status-period")?,
            pods_per_node: number("pods-per-node")?,
            cpu: text("cpu"),
            memory: text("memory"),
            remove_not_ready_taint: flag("remove-not-ready-taint")?,
            external_cloud: flag("external-cloud")?,
            ready_delay: time("ready-delay")?,
            restart_backoff: time("restart-backoff")?,
            restart_backoff_limit: time("restart-backoff-limit")?,
        })
    }

    pub fn node_name(&self, index: u32) -> String {
        format!("{}{index}", self.node_prefix)
    }

    /// Returns the number of the node with this name; `None` if it is not one of the fake nodes.
    pub fn index_of(&self, node: &str) -> Option<u32> {
        let index = node.strip_prefix(self.node_prefix.as_str())?.parse().ok()?;
        (index < self.nodes && self.node_name(index) == node).then_some(index)
    }

    /// Backoff of a container that has been restarted this many times. The first restart is
    /// immediate, as with a kubelet.
    pub fn backoff(&self, restarts: u32) -> Duration {
        let Some(doublings) = restarts.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.restart_backoff
            .checked_mul(factor)
            .unwrap_or(Duration::MAX)
            .min(self.restart_backoff_limit)
    }
}

fn parse<T>(
    key: &'static str,
    value: String,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, SettingError> {
    parse(&value).ok_or(SettingError {
        key,
        value,
        expected,
    })
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid value of setting `{}`: `{}` must be {}",
            self.key, self.value, self.expected
        )
    }
}

impl std::error::Error for SettingError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(key: &str, value: &str) -> Result<Settings, SettingError> {
        Settings::read(|name| (name == key).then(|| value.into()))
    }

    #[test]
    fn the_defaults_are_valid() {
        let settings = Settings::read(|_| None).unwrap();
        assert_eq!(
            (settings.nodes, settings.heartbeat_period),
            (3, HEARTBEAT_PERIOD)
        );
        assert!(settings.remove_not_ready_taint);
    }

    #[test]
    fn the_error_names_the_invalid_setting() {
        for (key, value) in [
            ("nodes", "many"),
            ("nodes", "65537"),
            ("ready-delay", "5"),
            ("remove-not-ready-taint", "yes"),
        ] {
            let problem = settings(key, value).unwrap_err().to_string();
            assert!(
                problem.contains(key) && problem.contains(value),
                "{problem}"
            );
        }
    }

    #[test]
    fn a_fake_node_has_the_prefix_and_a_number_below_the_count() {
        let settings = settings("nodes", "11").unwrap();
        assert_eq!(
            (settings.index_of("node-0"), settings.index_of("node-10")),
            (Some(0), Some(10))
        );
        for other in [
            "node-11", "node-01", "node-+1", "node-", "node-x", "other-0", "",
        ] {
            assert_eq!(settings.index_of(other), None, "{other}");
        }
    }

    #[test]
    fn the_first_restart_is_immediate_and_the_backoff_doubles_up_to_its_limit() {
        let settings = settings("restart-backoff-limit", "5s").unwrap();
        let waits: Vec<u64> = [0, 1, 2, 3, 4, 99]
            .map(|restarts| settings.backoff(restarts).as_secs())
            .to_vec();
        assert_eq!(waits, [0, 1, 2, 4, 5, 5]);
    }
}
