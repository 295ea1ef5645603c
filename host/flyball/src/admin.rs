//! The admin socket, over which operators on the host's machine query and control the running host. A request is one
//! line of JSON, and so is its response. `logs` with `follow` sends a further response for each new line of the log.

mod client;
mod server;
mod table;

use std::path::{Path, PathBuf};

use flyball_manager::{PluginDescription, PluginStatus, RollbackTo};
use flyball_runtime::history::Reconciled;
use serde::{Deserialize, Serialize};

pub(crate) use self::client::{AdminCommand, RunningHost, describe, run};
pub(crate) use self::server::{Host, serve, serve_default};
use crate::manager::user_folder;

/// A request to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub(crate) enum Request {
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

/// Returns the default path of the socket, in a private folder of the user; none if the user has no such folder. A
/// second host serves `admin-PID.sock` beside it.
pub(crate) fn default_socket() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    let folder = runtime.or_else(|| user_folder("XDG_STATE_HOME", ".local/state"))?;
    Some(folder.join("flyball").join("admin.sock"))
}

/// Returns the path beside the default one for a process: `admin-PID.sock`.
fn numbered(path: &Path, process: u32) -> PathBuf {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}-{process}.sock"))
}

/// Returns the sockets beside the default one, whether they are served or not.
fn beside(path: &Path) -> Vec<PathBuf> {
    let prefix = format!(
        "{}-",
        path.file_stem().unwrap_or_default().to_string_lossy()
    );
    let is_numbered = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix(&prefix);
        let number = number.and_then(|rest| rest.strip_suffix(".sock"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let entries = path.parent().map(std::fs::read_dir);
    let mut found: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(is_numbered)
        .collect();
    found.sort();
    found
}
