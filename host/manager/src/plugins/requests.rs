//! Operators' requests to the supervisor of a running manager. `admin.rs` sends them, `supervisor/operator.rs` handles
//! them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::Catalogue;
use flyball_policy::Rollout;
use flyball_runtime::causes::PluginHistory;
use flyball_runtime::history::Reconciled;
use tokio::sync::oneshot;

use crate::plugins::canary::CanaryStatus;
use crate::plugins::details::PluginDetails;
use crate::plugins::recordings::Recordings;
use crate::plugins::rollback::RollbackTo;
use crate::plugins::shadows::ShadowStatus;
use crate::plugins::status::{PluginDescription, PluginStatus};

/// A request with the channel for its response.
#[derive(Debug)]
pub(crate) enum Request {
    Status {
        reply: oneshot::Sender<Vec<PluginStatus>>,
    },
    /// The kinds that the API server serves.
    Served {
        reply: oneshot::Sender<Result<Arc<Catalogue>, RequestError>>,
    },
    Why {
        object: String,
        /// The kinds that the API server serves; empty if they are not known.
        served: Arc<Catalogue>,
        reply: oneshot::Sender<Result<Vec<Reconciled>, RequestError>>,
    },
    Recent {
        reply: oneshot::Sender<Vec<Reconciled>>,
    },
    Approve {
        plugin: String,
        /// Empty for all that the plugin asks for.
        namespaces: BTreeSet<String>,
        reply: oneshot::Sender<Result<String, RequestError>>,
    },
    RollBack {
        plugin: String,
        to: RollbackTo,
        reply: oneshot::Sender<Result<String, RequestError>>,
    },
    Resume {
        plugin: String,
        reply: oneshot::Sender<Result<String, RequestError>>,
    },
    Describe {
        plugin: String,
        reply: oneshot::Sender<Result<PluginDescription, RequestError>>,
    },
    /// Starts a candidate in the shadow of a plugin.
    StartShadow {
        plugin: String,
        file: PathBuf,
        duration: Option<Duration>,
        reply: oneshot::Sender<Result<String, RequestError>>,
    },
    Shadow {
        plugin: String,
        reply: oneshot::Sender<Result<ShadowStatus, RequestError>>,
    },
    EndShadow {
        plugin: String,
        reply: oneshot::Sender<Result<String, RequestError>>,
    },
    Promote {
        plugin: String,
        reply: oneshot::Sender<Result<String, RequestError>>,
    },
    /// Starts a canary of a plugin.
    StartCanary {
        plugin: String,
        file: PathBuf,
        rollout: Box<Rollout>,
        reply: oneshot::Sender<Result<String, RequestError>>,
    },
    Canary {
        plugin: String,
        reply: oneshot::Sender<Result<Box<CanaryStatus>, RequestError>>,
    },
    AbortCanary {
        plugin: String,
        reply: oneshot::Sender<Result<String, RequestError>>,
    },
    Recordings {
        plugin: String,
        reply: oneshot::Sender<Result<Recordings, RequestError>>,
    },
    Details {
        plugin: String,
        reply: oneshot::Sender<Result<Box<PluginDetails>, RequestError>>,
    },
    /// The histories of the plugins that run.
    Histories {
        reply: oneshot::Sender<Vec<PluginHistory>>,
    },
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No plugin has this name.
    #[error("there is no plugin `{0}`; `flyball status` lists all plugins")]
    Unknown(String),
    /// The plugin's state does not allow the request. The text is a sentence with the reason and what to do.
    #[error("{0}")]
    Refused(String),
    /// The manager has ended.
    #[error("the host is ending")]
    Ended,
}
