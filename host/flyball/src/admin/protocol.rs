//! The requests of the admin socket, and their responses. Each is one line of JSON. `logs` with `follow` has a further
//! response for each new line of the log, and `record` one for each line of a recording.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use flyball_manager::{
    CanaryStatus, PluginDescription, PluginDetails, PluginStatus, RollbackTo, ServedKind,
    ShadowStatus,
};
use flyball_policy::Rollout;
use flyball_runtime::causes::Chain;
use flyball_runtime::history::Reconciled;
use flyball_runtime::trend::TrendBrief;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::about::About;

/// A request to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub(super) enum Request {
    Status,
    Why {
        object: String,
    },
    Logs {
        plugin: String,
        follow: bool,
    },
    Approve {
        plugin: String,
        /// Empty for all that the plugin asks for.
        #[serde(default)]
        namespaces: BTreeSet<String>,
    },
    Rollback {
        plugin: String,
        #[serde(default)]
        to: RollbackTo,
    },
    Resume {
        plugin: String,
    },
    Describe {
        plugin: String,
    },
    /// The kinds that the API server serves.
    Kinds,
    Record(Record),
    StartShadow {
        plugin: String,
        /// An absolute path.
        file: PathBuf,
        for_ms: Option<u64>,
    },
    Shadow {
        plugin: String,
    },
    EndShadow {
        plugin: String,
    },
    Promote {
        plugin: String,
    },
    StartCanary {
        plugin: String,
        /// An absolute path.
        file: PathBuf,
        rollout: Box<Rollout>,
    },
    Canary {
        plugin: String,
    },
    AbortCanary {
        plugin: String,
    },
    /// The last reconciles of all plugins.
    Recent,
    /// The metrics, in the text format of Prometheus.
    Metrics,
    /// The process and its machine.
    About,
    /// The host itself.
    Host,
    /// All that can be seen of a plugin.
    Details {
        plugin: String,
    },
    /// The last hour of each plugin that runs, in short.
    Trends,
    /// The causes and effects of the reconciles of an object.
    Causes {
        object: String,
    },
}

/// Asks for a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Record {
    pub(super) plugin: String,
    /// Only reconciles of this key.
    pub(super) key: Option<String>,
    /// Also calls that end well.
    pub(super) all: bool,
    /// Without the calls that are kept.
    #[serde(default)]
    pub(super) new: bool,
    pub(super) with_secrets: bool,
    /// For how long; none for only what is kept or, with `all`, for ever.
    pub(super) for_ms: Option<u64>,
}

/// A response of the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Response {
    Status(Vec<PluginStatus>),
    Why(Vec<Reconciled>),
    Logs(Vec<String>),
    Done(String),
    Described(Box<PluginDescription>),
    Kinds(Vec<ServedKind>),
    Shadow(Box<ShadowStatus>),
    Canary(Box<CanaryStatus>),
    /// A line of a recording.
    Recorded(Box<RawValue>),
    Metrics(String),
    About(Box<About>),
    Host(HostInfo),
    Details(Box<PluginDetails>),
    Trends(BTreeMap<String, TrendBrief>),
    Causes(Chain),
    Error(String),
}

/// The host itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostInfo {
    /// Flyball's version.
    pub(crate) version: String,
    /// The release of Kubernetes that its controllers stand for.
    pub(crate) kubernetes: String,
    /// When the host started, in RFC 3339.
    pub(crate) since: String,
}
