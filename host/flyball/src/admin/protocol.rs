//! The requests of the admin socket, and their responses. Each is one line of JSON. `logs` with `follow` has a further
//! response for each new line of the log.

use std::collections::BTreeSet;

use flyball_manager::{PluginDescription, PluginStatus, RollbackTo, ServedKind};
use flyball_runtime::history::Reconciled;
use serde::{Deserialize, Serialize};

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
    Error(String),
}
