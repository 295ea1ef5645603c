//! The operator's handle on a running manager. Its requests are answered by the supervisor, between two of its steps.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_cache::Catalogue;
use flyball_runtime::history::Reconciled;
use tokio::sync::{mpsc, oneshot};

use crate::plugins::requests::{Request, RequestError};
use crate::plugins::rollback::RollbackTo;
use crate::plugins::served::ServedKind;
use crate::plugins::status::{PluginDescription, PluginStatus};

/// Sends requests to a running manager. Clones send to the same one.
#[derive(Clone, Debug)]
pub struct AdminHandle {
    requests: mpsc::Sender<Request>,
}

impl AdminHandle {
    pub(crate) fn new(requests: mpsc::Sender<Request>) -> Self {
        Self { requests }
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
