//! What the API server serves: kinds, their plurals, scopes, verbs and subresources, by aggregated discovery.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use flyball_types::Kind;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use crate::source::collect;
use crate::{ApiResource, Get, Source, SourceError, Subresource};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
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
        Self {
            source,
            known: Mutex::new(None),
            asking: tokio::sync::Mutex::new(()),
        }
    }

    /// Where a kind lies. Asks the server if it is not known, but not more often than every 5 s.
    ///
    /// # Errors
    /// The server does not serve it, or gave no answer.
    pub async fn resolve(&self, kind: &Kind) -> Result<Arc<ApiResource>, DiscoveryError> {
        if let Some(resource) = self.cached(kind) {
            return Ok(resource);
        }
        let catalogue = self.catalogue(REFRESH_INTERVAL).await?;
        catalogue
            .get(kind)
            .cloned()
            .ok_or_else(|| DiscoveryError::UnknownKind(kind.clone()))
    }

    /// Where a kind lies, as far as is known now; makes no request.
    pub fn cached(&self, kind: &Kind) -> Option<Arc<ApiResource>> {
        self.known(Duration::MAX)
            .and_then(|catalogue| catalogue.get(kind).cloned())
    }

    /// All that is served, as it was found at most `max_age` ago. Who asks while another does gets the same answer.
    ///
    /// # Errors
    /// The server gave no answer.
    pub async fn catalogue(&self, max_age: Duration) -> Result<Arc<Catalogue>, DiscoveryError> {
        let _turn = self.asking.lock().await;
        if let Some(known) = self.known(max_age) {
            return Ok(known);
        }
        let core = self.ask("/api").await?;
        let groups = self.ask("/apis").await?;
        let catalogue = Arc::new(Catalogue::of(core.items.into_iter().chain(groups.items)));
        *self.known.lock() = Some((Instant::now(), Arc::clone(&catalogue)));
        Ok(catalogue)
    }

    fn known(&self, max_age: Duration) -> Option<Arc<Catalogue>> {
        self.known
            .lock()
            .as_ref()
            .filter(|(at, _)| at.elapsed() <= max_age)
            .map(|(_, catalogue)| Arc::clone(catalogue))
    }

    async fn ask(&self, path: &str) -> Result<GroupList, DiscoveryError> {
        let body = collect(
            &*self.source,
            Get {
                path: path.into(),
                accept: AGGREGATED,
            },
        )
        .await;
        let read = |body: bytes::Bytes| {
            serde_json::from_slice(&body)
                .map_err(|error| SourceError::Nonsense(format!("discovery at {path}: {error}")))
        };
        body.and_then(read)
            .map_err(|error| DiscoveryError::Source(Arc::new(error)))
    }
}

impl Catalogue {
    /// Where a kind lies.
    pub fn get(&self, kind: &Kind) -> Option<&Arc<ApiResource>> {
        self.by_kind.get(kind).map(|at| &self.resources[*at])
    }

    fn of(groups: impl Iterator<Item = Group>) -> Self {
        let mut catalogue = Self::default();
        for group in groups {
            let name = group.metadata.name;
            for (place, version) in group.versions.into_iter().enumerate() {
                let group_version = Kind::new(&name, &version.version, "").api_version();
                if version.freshness == "Stale" {
                    // In client-go's words, as conditions of statuses show them.
                    let message = format!("stale GroupVersion discovery: {group_version}");
                    catalogue.failed.push((group_version, message));
                }
                for served in version.resources {
                    catalogue.push(served, &name, &version.version, place == 0);
                }
            }
        }
        catalogue
    }

    fn push(&mut self, served: Served, group: &str, version: &str, preferred: bool) {
        let kind_of = |kind: &ResponseKind| {
            let or = |own: &str, other: &str| {
                if own.is_empty() {
                    other.to_owned()
                } else {
                    own.to_owned()
                }
            };
            // The core group is written as an empty text, so a kind of another group names its version too.
            let group = if kind.version.is_empty() {
                or(&kind.group, group)
            } else {
                kind.group.clone()
            };
            Kind {
                group,
                version: or(&kind.version, version),
                kind: kind.kind.clone(),
            }
        };
        let kind = match &served.response_kind {
            Some(kind) if !kind.kind.is_empty() => kind_of(kind),
            _ => return,
        };
        let subresources = served.subresources.into_iter().map(|own| Subresource {
            kind: own
                .response_kind
                .as_ref()
                .filter(|kind| !kind.kind.is_empty())
                .map(kind_of),
            name: own.subresource,
            verbs: own.verbs,
        });
        let resource = ApiResource {
            // Where it lies goes by its own group and version, whatever its answers are.
            kind: Kind::new(group, version, &kind.kind),
            plural: served.resource,
            namespaced: served.scope == "Namespaced",
            verbs: served.verbs,
            subresources: subresources.collect(),
            preferred,
        };
        // The first one of a kind is the one that is meant: others are views of it.
        self.by_kind
            .entry(resource.kind.clone())
            .or_insert(self.resources.len());
        self.resources.push(Arc::new(resource));
    }
}

/// `APIGroupDiscoveryList` of `apidiscovery.k8s.io/v2`.
#[derive(Deserialize)]
struct GroupList {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: GroupMetadata,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct GroupMetadata {
    /// Empty for the core group.
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Served>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Served {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: BTreeSet<String>,
    #[serde(default)]
    subresources: Vec<ServedSubresource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServedSubresource {
    subresource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    verbs: BTreeSet<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
}
