//! Operators' requests to the supervisor of a running manager. `admin.rs` sends them, `supervisor/operator.rs` handles
//! them.

use flyball_runtime::history::Reconciled;
use tokio::sync::oneshot;

use crate::plugins::rollback::RollbackTo;
use crate::plugins::status::{PluginDescription, PluginStatus};

/// A request with the channel for its response. The texts are names of plugins; the text of `Why` is an object.
#[derive(Debug)]
pub(crate) enum Request {
    Status(oneshot::Sender<Vec<PluginStatus>>),
    Why(String, oneshot::Sender<Vec<Reconciled>>),
    Approve(String, oneshot::Sender<Result<String, RequestError>>),
    RollBack(
        String,
        RollbackTo,
        oneshot::Sender<Result<String, RequestError>>,
    ),
    Resume(String, oneshot::Sender<Result<String, RequestError>>),
    Describe(
        String,
        oneshot::Sender<Result<PluginDescription, RequestError>>,
    ),
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
