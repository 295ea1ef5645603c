//! The operator's settings: which nodes there are, what they offer, and how pods behave that say
//! nothing themselves.

use std::fmt;
use std::time::Duration;

use flyball_sdk::{duration, prelude::*};

/// The default of `heartbeat-period`: what kubelets have.
pub const HEARTBEAT_PERIOD: Duration = Duration::from_secs(10);
/// As many nodes as there are ranges of 254 addresses for their pods.
const MOST_NODES: u32 = 1 << 16;

/// Each key, its default and what it does.
pub const KEYS: &[(&str, &str, &str)] = &[
    ("nodes", "3", "How many nodes there are; 65536 at most."),
    (
        "node-prefix",
        "node-",
        "What the nodes' names begin with; their number follows, from 0.",
    ),
    (
        "zones",
        "0",
        "Over how many zones (zone-0, zone-1, …) the nodes are spread; 0 for no label of a zone.",
    ),
    (
        "heartbeat-period",
        "10s",
        "How often each node's lease is renewed.",
    ),
    (
        "status-period",
        "5m",
        "How often each node's status is written though nothing changed.",
    ),
    ("pods-per-node", "110", "For how many pods a node has room."),
    ("cpu", "32", "How much CPU a node has, as a quantity."),
    (
        "memory",
        "256Gi",
        "How much memory a node has, as a quantity.",
    ),
    (
        "remove-not-ready-taint",
        "true",
        "Whether the taint node.kubernetes.io/not-ready:NoSchedule, which the API server puts on each new node, is taken \
         away: false where a node-lifecycle controller does it.",
    ),
    (
        "ready-delay",
        "0s",
        "How long after its start a container is ready, where the pod has no ready-after.",
    ),
    (
        "restart-backoff",
        "1s",
        "The wait before a container's second restart; doubled with each further one.",
    ),
    (
        "restart-backoff-limit",
        "30s",
        "The longest wait before a restart.",
    ),
];

/// The settings.
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
    pub ready_delay: Duration,
    pub restart_backoff: Duration,
    pub restart_backoff_limit: Duration,
}

/// A setting that makes no sense. Only the operator can help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What it should be.
    pub expected: &'static str,
}

/// Declares the keys.
pub fn declare(description: Description) -> Description {
    KEYS.iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        })
}

impl Settings {
    /// Reads the settings; `get` answers the operator's values.
    ///
    /// # Errors
    /// A value makes no sense.
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
        let nodes = parse(
            "nodes",
            text("nodes"),
            "a whole number, 65536 at most",
            |value| {
                value
                    .parse()
                    .ok()
                    .filter(|&nodes: &u32| nodes <= MOST_NODES)
            },
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
            remove_not_ready_taint: parse(
                "remove-not-ready-taint",
                text("remove-not-ready-taint"),
                "true or false",
                |value| value.parse().ok(),
            )?,
            ready_delay: time("ready-delay")?,
            restart_backoff: time("restart-backoff")?,
            restart_backoff_limit: time("restart-backoff-limit")?,
        })
    }

    /// The name of a node.
    pub fn node_name(&self, index: u32) -> String {
        format!("{}{index}", self.node_prefix)
    }

    /// The number of the node of this name; none if it is not one of ours.
    pub fn index_of(&self, node: &str) -> Option<u32> {
        let index = node.strip_prefix(self.node_prefix.as_str())?.parse().ok()?;
        (index < self.nodes && self.node_name(index) == node).then_some(index)
    }

    /// How long a container waits that was restarted so often before: not at all the first time, as
    /// with any kubelet.
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
            "the setting `{}` is `{}`, but must be {}",
            self.key, self.value, self.expected
        )
    }
}

impl std::error::Error for SettingError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(key: &str, value: &str) -> Result<Settings, SettingError> {
        Settings::read(|asked| (asked == key).then(|| value.into()))
    }

    #[test]
    fn the_defaults_make_sense() {
        let settings = Settings::read(|_| None).unwrap();
        assert_eq!(
            (settings.nodes, settings.heartbeat_period),
            (3, HEARTBEAT_PERIOD)
        );
        assert!(settings.remove_not_ready_taint);
    }

    #[test]
    fn a_setting_that_makes_no_sense_is_named() {
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
    fn a_node_is_ours_if_its_number_is_below_the_count() {
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
    fn the_first_restart_is_at_once_and_the_wait_doubles_up_to_its_limit() {
        let settings = settings("restart-backoff-limit", "5s").unwrap();
        let waits: Vec<u64> = [0, 1, 2, 3, 4, 99]
            .map(|restarts| settings.backoff(restarts).as_secs())
            .to_vec();
        assert_eq!(waits, [0, 1, 2, 4, 5, 5]);
    }
}
