//! The admin socket, over which operators on the host's machine query and control the running host. A request is one
//! line of JSON, and so is its response. `logs` with `follow` sends a further response for each new line of the log.

mod client;
mod server;
mod table;

use std::path::PathBuf;

use flyball_manager::{PluginDescription, PluginStatus, Reconciled};
use serde::{Deserialize, Serialize};

pub(crate) use self::client::{AdminCommand, Host, describe, run};
pub(crate) use self::server::serve;
use crate::manager::user_folder;

/// A request to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub(crate) enum Request {
    Status,
    Why { object: String },
    Logs { plugin: String, follow: bool },
    Approve { plugin: String },
    Rollback { plugin: String },
    Resume { plugin: String },
    Describe { plugin: String },
}

/// A response of the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Response {
    Status(Vec<PluginStatus>),
    Why(Vec<Reconciled>),
    Logs(Vec<String>),
    Done(String),
    Described(Box<PluginDescription>),
    Error(String),
}

/// Returns the default path of the socket, in a private folder of the user; none if the user has no such folder.
pub(crate) fn default_socket() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    let folder = runtime.or_else(|| user_folder("XDG_STATE_HOME", ".local/state"))?;
    Some(folder.join("flyball").join("admin.sock"))
}
