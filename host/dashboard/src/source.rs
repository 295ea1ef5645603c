//! Where the dashboard's data comes from.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;

/// A question about the running host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// The host itself: an object.
    Host,
    /// The status of all plugins: an array of objects, each with `name` and `origin`.
    Plugins,
    /// The last hour of all plugins in short: an object by plugin.
    Trends,
    /// One plugin: an object.
    Plugin(String),
    /// The causes and effects of the reconciles of an object, in any spelling: an object.
    Object(String),
}

/// Answers queries about one host.
pub trait Source: Send + Sync {
    /// Returns the document that answers a query.
    fn document<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Value, Problem>>;

    /// Returns the last lines of the log about a plugin, the oldest first, and a channel that receives each further
    /// one. The channel is closed when the log can't be followed any more.
    fn follow<'a>(&'a self, plugin: &'a str) -> BoxFuture<'a, Result<Followed, Problem>>;
}

/// The last lines of a log, and the further ones.
pub type Followed = (Vec<String>, mpsc::Receiver<String>);

/// Why a query has no answer. Each is a sentence for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The host can't be reached. A retry may help.
    #[error("the host can't be reached: {0}")]
    Unreachable(String),
    /// The host refuses the query, because there is no such plugin or kind, for example.
    #[error("{0}")]
    Refused(String),
}

/// A source that becomes known later: a host serves its port before its plugins are loaded. Clones share it.
#[derive(Clone, Default)]
pub struct SourceSlot(Arc<OnceLock<Arc<dyn Source>>>);

impl SourceSlot {
    /// Sets the source. A second one is ignored.
    pub fn set(&self, source: Arc<dyn Source>) {
        let _ = self.0.set(source);
    }

    fn get(&self) -> Result<&Arc<dyn Source>, Problem> {
        let starting = || Problem::Unreachable("it is still starting".to_owned());
        self.0.get().ok_or_else(starting)
    }
}

impl Source for SourceSlot {
    fn document<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Value, Problem>> {
        Box::pin(async move { self.get()?.document(query).await })
    }

    fn follow<'a>(&'a self, plugin: &'a str) -> BoxFuture<'a, Result<Followed, Problem>> {
        Box::pin(async move { self.get()?.follow(plugin).await })
    }
}
