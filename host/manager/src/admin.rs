//! The operator's handle on a running manager. Its requests are answered by the supervisor, between two of its steps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::Catalogue;
use flyball_policy::Rollout;
use flyball_runtime::causes::{self, Chain, PluginHistory};
use flyball_runtime::history::Reconciled;
use flyball_runtime::object_name::ObjectName;
use flyball_runtime::trend::TrendBrief;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::plugins::canary::CanaryStatus;
use crate::plugins::details::PluginDetails;
use crate::plugins::recordings::Recordings;
use crate::plugins::requests::{Request, RequestError};
use crate::plugins::rollback::RollbackTo;
use crate::plugins::served::ServedKind;
use crate::plugins::shadows::ShadowStatus;
use crate::plugins::status::{PluginDescription, PluginStatus};

/// Sends requests to a running manager. Clones send to the same one.
#[derive(Clone, Debug)]
pub struct AdminHandle {
    requests: mpsc::Sender<Request>,
    /// One permit: those who ask for causes take no more than one core together.
    following: Arc<Semaphore>,
}

impl AdminHandle {
    pub(crate) fn new(requests: mpsc::Sender<Request>) -> Self {
        Self {
            requests,
            following: Arc::new(Semaphore::new(1)),
        }
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, RequestError> {
        let (reply, received) = oneshot::channel();
        let sent = self.requests.send(request(reply)).await;
        sent.map_err(|_| RequestError::Ended)?;
        received.await.map_err(|_| RequestError::Ended)
    }

    /// Returns all plugins, built-in ones first.
    ///
    /// # Errors
    /// The manager has ended.
    pub async fn status(&self) -> Result<Vec<PluginStatus>, RequestError> {
        self.ask(|reply| Request::Status { reply }).await
    }

    /// Returns the kinds that the API server serves.
    ///
    /// # Errors
    /// The API server can't be asked, or the manager has ended.
    pub async fn served_kinds(&self) -> Result<Vec<ServedKind>, RequestError> {
        let served = self.served().await?;
        let kinds = served.resources.iter();
        Ok(kinds
            .map(|resource| ServedKind::from(&**resource))
            .collect())
    }

    async fn served(&self) -> Result<Arc<Catalogue>, RequestError> {
        self.ask(|reply| Request::Served { reply }).await?
    }

    /// Returns the last reconciles that were of an object, triggered by it, or touched it, the oldest first.
    ///
    /// # Errors
    /// The API server serves no such kind, or the manager has ended.
    pub async fn why(&self, object: &str) -> Result<Vec<Reconciled>, RequestError> {
        let object = object.to_owned();
        // Without the API server, kinds have their usual plurals.
        let served = self.served().await.unwrap_or_default();
        self.ask(|reply| Request::Why {
            object,
            served,
            reply,
        })
        .await?
    }

    /// Returns the last reconciles of all plugins, the oldest first.
    ///
    /// # Errors
    /// The manager has ended.
    pub async fn recent(&self) -> Result<Vec<Reconciled>, RequestError> {
        self.ask(|reply| Request::Recent { reply }).await
    }

    /// Grants a plugin what it asks for, by writing the grant into the policy: in these namespaces or, if there are none,
    /// everywhere. Returns a sentence about the grant.
    ///
    /// # Errors
    /// There is no such plugin, its policy can't be written, or it can't work in these namespaces alone.
    pub async fn approve(
        &self,
        name: &str,
        namespaces: BTreeSet<String>,
    ) -> Result<String, RequestError> {
        let plugin = name.to_owned();
        self.ask(|reply| Request::Approve {
            plugin,
            namespaces,
            reply,
        })
        .await?
    }

    /// Rolls a plugin back to another version, or ends the rollback. A repeated call changes nothing. Returns a
    /// sentence about the version that runs now.
    ///
    /// # Errors
    /// There is no such plugin, or no such version.
    pub async fn roll_back(&self, name: &str, to: RollbackTo) -> Result<String, RequestError> {
        let plugin = name.to_owned();
        self.ask(|reply| Request::RollBack { plugin, to, reply })
            .await?
    }

    /// Ends the quarantine of a plugin. Returns a sentence about the plugin.
    ///
    /// # Errors
    /// There is no such plugin, or it is not quarantined.
    pub async fn resume(&self, name: &str) -> Result<String, RequestError> {
        let plugin = name.to_owned();
        self.ask(|reply| Request::Resume { plugin, reply }).await?
    }

    /// Starts a candidate in the shadow of a running plugin, for this time or until it is ended. Returns a sentence once
    /// it is loaded.
    ///
    /// # Errors
    /// There is no such plugin, it does not run, or the file can't be loaded as this plugin.
    pub async fn start_shadow(
        &self,
        name: &str,
        file: PathBuf,
        duration: Option<Duration>,
    ) -> Result<String, RequestError> {
        let plugin = name.to_owned();
        self.ask(|reply| Request::StartShadow {
            plugin,
            file,
            duration,
            reply,
        })
        .await?
    }

    /// Returns what the candidate in the shadow of a plugin has done until now.
    ///
    /// # Errors
    /// There is no such plugin, or it has no candidate.
    pub async fn shadow(&self, name: &str) -> Result<ShadowStatus, RequestError> {
        let plugin = name.to_owned();
        self.ask(|reply| Request::Shadow { plugin, reply }).await?
    }

    /// Ends the candidate in the shadow of a plugin. Returns a sentence about it.
    ///
    /// # Errors
    /// There is no such plugin, or it has no candidate.
    pub async fn end_shadow(&self, name: &str) -> Result<String, RequestError> {
        let plugin = name.to_owned();
        self.ask(|reply| Request::EndShadow { plugin, reply })
            .await?
    }

    /// Lets a candidate take over the keys of a running plugin, step by step. Returns a sentence once its first step is
    /// decided.
    ///
    /// # Errors
    /// There is no such plugin, it does not run, another process leads, the plugin has a canary already, or the file
    /// can't be loaded as a version of this plugin that watches and asks for the same.
    pub async fn start_canary(
        &self,
        name: &str,
        file: PathBuf,
        rollout: Rollout,
    ) -> Result<String, RequestError> {
        let (plugin, rollout) = (name.to_owned(), Box::new(rollout));
        self.ask(|reply| Request::StartCanary {
            plugin,
            file,
            rollout,
            reply,
        })
        .await?
    }

    /// Returns how far the canary of a plugin has come.
    ///
    /// # Errors
    /// There is no such plugin, or it has no canary.
    pub async fn canary(&self, name: &str) -> Result<CanaryStatus, RequestError> {
        let plugin = name.to_owned();
        let status = self
            .ask(|reply| Request::Canary { plugin, reply })
            .await??;
        Ok(*status)
    }

    /// Gives all keys of a canary back to the version that runs. Returns a sentence about it.
    ///
    /// # Errors
    /// There is no such plugin, it has no canary, or another process leads.
    pub async fn abort_canary(&self, name: &str) -> Result<String, RequestError> {
        let plugin = name.to_owned();
        self.ask(|reply| Request::AbortCanary { plugin, reply })
            .await?
    }

    /// Gives all keys to the canary of a plugin or, if it has none, puts the candidate in its shadow into the place of its file. Returns a sentence about it.
    ///
    /// # Errors
    /// There is no such plugin or no candidate, it does not come from a file, or the file can't be written.
    pub async fn promote(&self, name: &str) -> Result<String, RequestError> {
        let plugin = name.to_owned();
        self.ask(|reply| Request::Promote { plugin, reply }).await?
    }

    /// Returns the recorder of a running plugin, with the beginning of its recordings.
    ///
    /// # Errors
    /// There is no such plugin, or it does not run.
    pub async fn recordings(&self, name: &str) -> Result<Recordings, RequestError> {
        let plugin = name.to_owned();
        self.ask(|reply| Request::Recordings { plugin, reply })
            .await?
    }

    /// Returns all that operators can see of a plugin.
    ///
    /// # Errors
    /// There is no such plugin, file or package.
    pub async fn details(&self, name: &str) -> Result<PluginDetails, RequestError> {
        let plugin = name.to_owned();
        let details = self
            .ask(|reply| Request::Details { plugin, reply })
            .await??;
        Ok(*details)
    }

    /// Returns the last hour of each plugin that runs, in short.
    ///
    /// # Errors
    /// The manager has ended.
    pub async fn trends(&self) -> Result<BTreeMap<String, TrendBrief>, RequestError> {
        let histories = self.ask(|reply| Request::Histories { reply }).await?;
        let brief = |of: PluginHistory| (of.plugin, of.history.trend_brief());
        Ok(histories.into_iter().map(brief).collect())
    }

    /// Returns the reconciles of an object, their causes and effects in all plugins, and how these are linked.
    ///
    /// # Errors
    /// The API server serves no such kind, or the manager has ended.
    pub async fn causes(&self, object: &str) -> Result<Chain, RequestError> {
        let object = object.to_owned();
        // Without the API server, kinds have their usual plurals.
        let served = self.served().await.unwrap_or_default();
        let histories = self.ask(|reply| Request::Histories { reply }).await?;
        let permit = self.following.clone().acquire_owned().await;
        // The histories of a thousand plugins take a while.
        let following = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let asked = ObjectName::parse(&object, &served);
            let chain = causes::chain(&histories, &asked);
            match asked.unknown_kind() {
                Some(unknown) if chain.steps.is_empty() => Err(RequestError::Refused(unknown)),
                _ => Ok(chain),
            }
        });
        following.await.map_err(|_| RequestError::Ended)?
    }

    /// Returns a plugin's description and its grant.
    ///
    /// # Errors
    /// There is no such plugin.
    pub async fn describe(&self, name: &str) -> Result<PluginDescription, RequestError> {
        let plugin = name.to_owned();
        self.ask(|reply| Request::Describe { plugin, reply })
            .await?
    }
}
