//! Discovery: the kinds that the API server serves, with their plurals, scopes, verbs and subresources. Uses aggregated
//! discovery.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use flyball_types::Kind;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::source::fetch;
use crate::{ApiResource, Get, Source, SourceError, Subresource};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Everything that the API server serves, as of one time.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// In the server's order: the preferred version of a group comes first.
    pub resources: Vec<Arc<ApiResource>>,
    /// Group versions whose aggregated API server is unavailable, each with a message.
    pub failed: Vec<(String, String)>,
    /// The index in `resources` of each kind.
    by_kind: HashMap<Kind, usize>,
}

/// A kind that can't be resolved.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The server does not serve the kind. It may do so once a CustomResourceDefinition is created.
    #[error("the API server does not serve the kind {0}")]
    UnknownKind(Kind),
    /// The request failed. A retry can help.
    #[error("can't discover the kinds that the API server serves")]
    Source(#[source] Arc<SourceError>),
}

/// Resolves kinds, and caches the result.
pub struct Discovery {
    source: Arc<dyn Source>,
    known: Mutex<Option<(Instant, Arc<Catalogue>)>>,
    /// Makes concurrent callers wait for one request.
    fetching: tokio::sync::Mutex<()>,
    /// The runtime on which all requests run, because a connection belongs to the threads of its first request. `None`
    /// outside of a runtime.
    runtime: Option<Handle>,
}

/// What a request for the kinds has found.
pub type Discovered = Result<Catalogue, DiscoveryError>;

impl Discovery {
    /// The minimum interval between two requests for an unknown kind.
    pub const REFRESH_INTERVAL: Duration = Duration::from_secs(5);

    pub fn new(source: Arc<dyn Source>) -> Self {
        Self {
            source,
            known: Mutex::new(None),
            fetching: tokio::sync::Mutex::new(()),
            runtime: Handle::try_current().ok(),
        }
    }

    /// Resolves a kind. If it is unknown, requests the kinds from the server, at most every 5 s.
    ///
    /// # Errors
    /// The server does not serve the kind, or the request failed.
    pub async fn resolve(&self, kind: &Kind) -> Result<Arc<ApiResource>, DiscoveryError> {
        if let Some(resource) = self.cached(kind) {
            return Ok(resource);
        }
        self.catalogue(Self::REFRESH_INTERVAL).await?.resolve(kind)
    }

    /// Resolves a kind without a request; `None` if the kind is not known.
    pub fn cached(&self, kind: &Kind) -> Option<Arc<ApiResource>> {
        self.known(Duration::MAX)
            .and_then(|catalogue| catalogue.get(kind).cloned())
    }

    /// Everything that is served, as of at most `max_age` ago. Concurrent callers share one request.
    ///
    /// # Errors
    /// The request failed.
    pub async fn catalogue(&self, max_age: Duration) -> Result<Arc<Catalogue>, DiscoveryError> {
        self.catalogue_within(max_age, |request| request).await
    }

    /// Like [`Discovery::catalogue`]. The request runs within the future that `within` makes of it, which may measure it.
    /// It is not called if no request is needed.
    ///
    /// # Errors
    /// The request failed.
    pub async fn catalogue_within<F>(
        &self,
        max_age: Duration,
        within: impl FnOnce(BoxFuture<'static, Discovered>) -> F,
    ) -> Result<Arc<Catalogue>, DiscoveryError>
    where
        F: Future<Output = Discovered> + Send + 'static,
    {
        let _turn = self.fetching.lock().await;
        if let Some(known) = self.known(max_age) {
            return Ok(known);
        }
        let fetched = within(fetch_catalogue(self.source.clone()).boxed());
        let fetched = match &self.runtime {
            Some(runtime) => runtime.spawn(fetched).await.unwrap_or_else(|error| {
                let reason = format!("the request for the served kinds failed: {error}");
                let error = SourceError::Invalid(reason);
                Err(DiscoveryError::Source(Arc::new(error)))
            }),
            None => fetched.await,
        };
        let catalogue = Arc::new(fetched?);
        *self.known.lock() = Some((Instant::now(), Arc::clone(&catalogue)));
        Ok(catalogue)
    }

    /// Everything that is served, if it was requested at most `max_age` ago.
    pub fn known(&self, max_age: Duration) -> Option<Arc<Catalogue>> {
        self.known
            .lock()
            .as_ref()
            .filter(|(at, _)| at.elapsed() <= max_age)
            .map(|(_, catalogue)| Arc::clone(catalogue))
    }
}

async fn fetch_catalogue(source: Arc<dyn Source>) -> Result<Catalogue, DiscoveryError> {
    let core = fetch_groups(&*source, "/api").await?;
    let groups = fetch_groups(&*source, "/apis").await?;
    let groups = core.items.into_iter().chain(groups.items);
    Ok(Catalogue::from_groups(groups))
}

async fn fetch_groups(source: &dyn Source, path: &str) -> Result<GroupList, DiscoveryError> {
    let request = Get {
        path: path.into(),
        accept: AGGREGATED,
    };
    let parse = |body: bytes::Bytes| {
        serde_json::from_slice(&body)
            .map_err(|error| SourceError::Invalid(format!("discovery at {path}: {error}")))
    };
    let body = fetch(source, request).await;
    body.and_then(parse)
        .map_err(|error| DiscoveryError::Source(Arc::new(error)))
}

impl Catalogue {
    /// The catalogue of these resources, in the server's order.
    pub fn new(resources: Vec<Arc<ApiResource>>) -> Self {
        let mut catalogue = Self::default();
        for resource in resources {
            catalogue.add(resource);
        }
        catalogue
    }

    pub fn get(&self, kind: &Kind) -> Option<&Arc<ApiResource>> {
        self.by_kind.get(kind).map(|at| &self.resources[*at])
    }

    /// Returns a kind's resource.
    ///
    /// # Errors
    /// `UnknownKind` if the kind is not served.
    pub fn resolve(&self, kind: &Kind) -> Result<Arc<ApiResource>, DiscoveryError> {
        let resource = self.get(kind).cloned();
        resource.ok_or_else(|| DiscoveryError::UnknownKind(kind.clone()))
    }

    fn from_groups(groups: impl Iterator<Item = Group>) -> Self {
        let mut catalogue = Self::default();
        for group in groups {
            let name = group.metadata.name;
            for (index, version) in group.versions.into_iter().enumerate() {
                let group_version = Kind::new(&name, &version.version, "").api_version();
                if version.freshness == "Stale" {
                    // The wording of client-go, which conditions of statuses show.
                    let message = format!("stale GroupVersion discovery: {group_version}");
                    catalogue.failed.push((group_version, message));
                }
                for served in version.resources {
                    catalogue.push(served, &name, &version.version, index == 0);
                }
            }
        }
        catalogue
    }

    fn push(&mut self, served: Served, group: &str, version: &str, preferred: bool) {
        let kind_of = |kind: &ResponseKind| kind.resolve(group, version);
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
            // The group and version of its path, even if its objects have others.
            kind: Kind::new(group, version, &kind.kind),
            plural: served.resource,
            namespaced: served.scope == "Namespaced",
            verbs: served.verbs,
            subresources: subresources.collect(),
            preferred,
        };
        self.add(Arc::new(resource));
    }

    fn add(&mut self, resource: Arc<ApiResource>) {
        // If several resources have the same kind, the first one is the kind's resource. The others are views of it.
        self.by_kind
            .entry(resource.kind.clone())
            .or_insert(self.resources.len());
        self.resources.push(resource);
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

impl ResponseKind {
    /// The complete kind. An omitted group or version is the one that the resource is served in.
    fn resolve(&self, group: &str, version: &str) -> Kind {
        // The core group is an empty string, so only a missing version shows that the group is omitted.
        if self.version.is_empty() {
            let group = if self.group.is_empty() {
                group
            } else {
                &self.group
            };
            return Kind::new(group, version, &self.kind);
        }
        Kind::new(&self.group, &self.version, &self.kind)
    }
}
