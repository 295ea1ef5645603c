//! The admin socket: operators on the host's machine ask the running host and tell it what to do. A request is one line of
//! JSON, and so is the answer; of `logs` that are followed, each further line is a line of the log.

mod client;
mod server;
mod table;

use std::path::PathBuf;

use flyball_manager::{PluginDescription, PluginStatus, Reconciled};
use serde::{Deserialize, Serialize};

pub(crate) use self::client::{Ask, Host, describe, run};
pub(crate) use self::server::serve;
use crate::manager::user_folder;

/// What is asked of the host.
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

/// What the host answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    Status(Vec<PluginStatus>),
    Why(Vec<Reconciled>),
    Logs(Vec<String>),
    Done(String),
    Described(Box<PluginDescription>),
    Error(String),
}

/// Where the socket is, unless the operator says otherwise: in a folder that is the user's alone; none if there is none.
pub(crate) fn default_socket() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    let folder = runtime.or_else(|| user_folder("XDG_STATE_HOME", ".local/state"))?;
    Some(folder.join("flyball").join("admin.sock"))
}
