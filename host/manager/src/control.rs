//! What an operator asks of a running manager, and what it answers.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::runtime::history::{Performance, Reconciled};

/// How a plugin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginState {
    /// It reconciles.
    Running,
    /// It fails on many keys, and is held back for a while.
    Quarantined,
    /// It is ready, and another process leads.
    Standby,
    /// It waits for its caches, or for kinds that the server does not serve yet.
    Starting,
    /// It waits for the operator's grant, or for its account's rights.
    Pending,
    /// It can't be loaded.
    Failed,
}

/// One plugin, as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// The name that it gives itself; its file, if it did not come so far.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// The SHA-256 of the file that runs, in hex.
    pub digest: String,
    /// The file, or `built-in`.
    pub origin: String,
    /// How it is.
    pub state: PluginState,
    /// What holds it, or a newer version of it, up.
    pub reason: Option<String>,
    /// Whether the operator went back to this version.
    pub rolled_back: bool,
    /// Keys that wait.
    pub queued: usize,
    /// How much it has done.
    #[serde(flatten)]
    pub performance: Performance,
    /// Bytes of linear memory.
    pub memory: usize,
    /// Bytes that the host remembers for it.
    pub memo: usize,
    /// Instances that exist.
    pub instances: usize,
    /// Seconds on a core.
    pub cpu_seconds: f64,
}

impl PluginStatus {
    /// Of a file that is no plugin that can run.
    pub(crate) fn of_file(path: &Path, problem: &str) -> Self {
        let path = path.display().to_string();
        Self {
            name: path.clone(),
            version: String::new(),
            digest: String::new(),
            origin: path,
            state: PluginState::Failed,
            reason: Some(problem.to_owned()),
            rolled_back: false,
            queued: 0,
            performance: Performance::default(),
            memory: 0,
            memo: 0,
            instances: 0,
            cpu_seconds: 0.0,
        }
    }
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// There is no such plugin.
    #[error("there is no plugin `{0}`; `flyball status` lists those that there are")]
    Unknown(String),
    /// It can't be done, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The manager has ended.
    #[error("the host is ending")]
    Ended,
}

/// What the supervisor is asked.
pub(crate) enum Command {
    Status(oneshot::Sender<Vec<PluginStatus>>),
    Why(String, oneshot::Sender<Vec<Reconciled>>),
    Approve(String, oneshot::Sender<Result<String, ControlError>>),
    Rollback(String, oneshot::Sender<Result<String, ControlError>>),
    Resume(String, oneshot::Sender<Result<String, ControlError>>),
    Describe(String, oneshot::Sender<Result<Described, ControlError>>),
}

/// A plugin's own description, and what it is granted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Described {
    /// What it says of itself.
    pub description: flyball_types::description::Description,
    /// What it is granted; none while it is pending.
    pub policy: Option<crate::policy::PluginPolicy>,
}

/// Talks to a running manager. Clones talk to the same.
#[derive(Clone, Debug)]
pub struct Control {
    commands: mpsc::Sender<Command>,
}

impl Control {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Command>) {
        let (commands, received) = mpsc::channel(16);
        (Self { commands }, received)
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ControlError> {
        let (sender, answer) = oneshot::channel();
        self.commands
            .send(command(sender))
            .await
            .map_err(|_| ControlError::Ended)?;
        answer.await.map_err(|_| ControlError::Ended)
    }

    /// All plugins, built-in ones first.
    ///
    /// # Errors
    /// The manager has ended.
    pub async fn status(&self) -> Result<Vec<PluginStatus>, ControlError> {
        self.ask(Command::Status).await
    }

    /// The last reconciles that were of an object, triggered by it, or touched it, the oldest first.
    ///
    /// # Errors
    /// The manager has ended.
    pub async fn why(&self, object: &str) -> Result<Vec<Reconciled>, ControlError> {
        self.ask(|answer| Command::Why(object.to_owned(), answer))
            .await
    }

    /// Grants a plugin what it asks for; answers with a sentence.
    ///
    /// # Errors
    /// There is no such plugin, or its policy can't be written.
    pub async fn approve(&self, name: &str) -> Result<String, ControlError> {
        self.ask(|answer| Command::Approve(name.to_owned(), answer))
            .await?
    }

    /// Goes back to the version of a plugin before; answers with a sentence.
    ///
    /// # Errors
    /// There is no such plugin, or no version before.
    pub async fn roll_back(&self, name: &str) -> Result<String, ControlError> {
        self.ask(|answer| Command::Rollback(name.to_owned(), answer))
            .await?
    }

    /// Lets a plugin that is in quarantine go on; answers with a sentence.
    ///
    /// # Errors
    /// There is no such plugin, or it is in none.
    pub async fn resume(&self, name: &str) -> Result<String, ControlError> {
        self.ask(|answer| Command::Resume(name.to_owned(), answer))
            .await?
    }

    /// What a plugin says of itself, and what it is granted.
    ///
    /// # Errors
    /// There is no such plugin.
    pub async fn describe(&self, name: &str) -> Result<Described, ControlError> {
        self.ask(|answer| Command::Describe(name.to_owned(), answer))
            .await?
    }
}
