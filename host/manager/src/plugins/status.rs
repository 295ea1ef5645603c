//! The status of plugins, as operators see it.

use std::path::Path;

use flyball_policy::PluginPolicy;
use flyball_runtime::history::Performance;
use flyball_types::description::Description;
use serde::{Deserialize, Serialize};

/// The state of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginState {
    /// It reconciles keys.
    Running,
    /// All of its keys fail. It is paused for a while.
    Quarantined,
    /// It is ready, and another process holds the lease.
    Standby,
    /// Its file or package is read and compiled.
    Loading,
    /// It waits until its caches are synced, or until the server can be reached.
    Starting,
    /// It waits until the server serves a kind that it watches. The kind has not been defined yet, or was deleted.
    WaitingForKind,
    /// It waits for the operator's grant, or for the permissions of its service account.
    Pending,
    /// It can't be loaded or started.
    Failed,
}

impl PluginState {
    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Quarantined => "quarantined",
            Self::Standby => "standby",
            Self::Loading => "loading",
            Self::Starting => "starting",
            Self::WaitingForKind => "waiting-for-kind",
            Self::Pending => "pending",
            Self::Failed => "failed",
        }
    }
}

/// The current status of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// The name in its description, or its file if it has no valid description. A policy that is refused has a status
    /// too.
    pub name: String,
    /// The version in its description.
    pub version: String,
    /// The SHA-256 of the file that runs, in hex.
    pub digest: String,
    /// Its file or package, or `built-in`.
    pub origin: String,
    pub state: PluginState,
    /// Why it or a newer version of it does not run.
    pub reason: Option<String>,
    /// The candidate that reconciles some of its keys, in one sentence; none if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
    /// Whether the operator rolled back to this version.
    pub rolled_back: bool,
    /// Keys in its queues.
    pub queued: usize,
    /// Keys that are being reconciled.
    #[serde(default)]
    pub processing: usize,
    /// Keys that wait for their time: a requeue, or the retry of a failure.
    #[serde(default)]
    pub delayed: usize,
    /// In how many milliseconds the first of these is due; none if there are none.
    #[serde(default)]
    pub next_delayed_ms: Option<u64>,
    /// Objects whose changes wait for its `route`.
    #[serde(default)]
    pub route_waiting: usize,
    /// The objects of `route_waiting` on which `route` fails.
    #[serde(default)]
    pub route_failing: usize,
    #[serde(flatten)]
    pub performance: Performance,
    /// Linear memory of all instances, in bytes.
    pub memory: usize,
    /// Size of its memo, in bytes.
    pub memo: usize,
    /// Number of instances.
    pub instances: usize,
    /// CPU time, in seconds.
    pub cpu_seconds: f64,
}

impl PluginStatus {
    /// The status of a policy on disk that is refused, in a line of its own.
    pub(crate) fn refused_policy(path: &Path, problem: &str) -> Self {
        let reason = format!("{problem}; the policy before stays in force");
        let path = path.display().to_string();
        Self::not_loaded(path.clone(), path, &reason)
    }

    /// The status of a file or package that is loaded for the first time.
    pub(crate) fn loading(name: String, origin: String, reason: Option<String>) -> Self {
        Self {
            state: PluginState::Loading,
            reason,
            ..Self::not_loaded(name, origin, "")
        }
    }

    /// The status of a file or package that could not be loaded.
    pub(crate) fn not_loaded(name: String, origin: String, problem: &str) -> Self {
        Self {
            name,
            version: String::new(),
            digest: String::new(),
            origin,
            state: PluginState::Failed,
            reason: Some(problem.to_owned()),
            canary: None,
            rolled_back: false,
            queued: 0,
            processing: 0,
            delayed: 0,
            next_delayed_ms: None,
            route_waiting: 0,
            route_failing: 0,
            performance: Performance::default(),
            memory: 0,
            memo: 0,
            instances: 0,
            cpu_seconds: 0.0,
        }
    }
}

/// A plugin's description and grant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PluginDescription {
    pub description: Description,
    /// The policy that the plugin runs under; none while it does not run.
    pub policy: Option<PluginPolicy>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [PluginState; 8] = [
        PluginState::Running,
        PluginState::Quarantined,
        PluginState::Standby,
        PluginState::Loading,
        PluginState::Starting,
        PluginState::WaitingForKind,
        PluginState::Pending,
        PluginState::Failed,
    ];

    #[test]
    fn each_state_has_its_name_of_json_and_is_explained_in_the_docs() {
        let docs = include_str!("../../../../docs/operating.md");
        for state in ALL {
            let name = state.name();
            assert_eq!(serde_json::to_value(state).unwrap(), name);
            assert!(docs.contains(&format!("\n| `{name}` | ")), "{name}");
        }
    }
}
