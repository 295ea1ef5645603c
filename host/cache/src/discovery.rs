//! What the API server serves: kinds, their plurals, scopes, verbs and subresources, by aggregated discovery.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flyball_types::Kind;
use tokio::time::Instant;

use crate::source::collect;
use crate::{ApiResource, Get, Source, SourceError};

/// How long at least lies between two requests for what is served.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);

/// All that the API server serves, at one time.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// The kinds, in the server's order: within a group the preferred version first.
    pub resources: Vec<Arc<ApiResource>>,
    /// Group versions that are served by somebody who does not answer, and what is known of why.
    pub failed: Vec<(String, String)>,
    by_kind: HashMap<Kind, usize>,
}

/// A kind that can't be resolved.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The server does not serve it. It may once a CustomResourceDefinition is there.
    #[error("the API server serves no {0}")]
    UnknownKind(Kind),
    /// The server was not asked with success. A retry can help.
    #[error("can't discover what the API server serves")]
    Source(#[source] Arc<SourceError>),
}

/// Resolves kinds, and keeps what it found.
pub struct Discovery {
    source: Arc<dyn Source>,
    known: Mutex<Option<(Instant, Arc<Catalogue>)>>,
    /// Makes askers at the same time wait for one request.
    asking: tokio::sync::Mutex<()>,
}

impl Discovery {
    /// Asks this source.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self { source, known: Mutex::new(None), asking: tokio::sync::Mutex::new(()) }
    }

    /// Where a kind lies. Asks the server if it is not known, but not more often than every 5 s.
    pub async fn resolve(&self, kind: &Kind) -> Result<Arc<ApiResource>, DiscoveryError> {
        todo!()
    }

    /// Where a kind lies, as far as is known now; makes no request.
    pub fn cached(&self, kind: &Kind) -> Option<Arc<ApiResource>> {
        todo!()
    }

    /// All that is served, as it was found at most `max_age` ago.
    pub async fn catalogue(&self, max_age: Duration) -> Result<Arc<Catalogue>, DiscoveryError> {
        todo!()
    }
}
