//! Opens a version of a plugin: instantiates its component, resolves the kinds that it watches, checks that its account
//! may read them, and opens its informers. `start.rs` starts open versions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use flyball_api::cluster::Cluster;
use flyball_api::fence::Fence;
use flyball_api::review::Reading;
use flyball_cache::{ApiResource, DiscoveryError, Informer};
use flyball_plugin::{Component, Engine, LoadError, Plugin};
use flyball_policy::grant::Grant;
use flyball_reads::interest::interest;
use flyball_runtime::credentials::{CredentialError, Credentials};
use flyball_runtime::discovered_informers::DiscoveredInformers;
use flyball_types::description::{Description, Watch};
use flyball_types::{Kind, error_chain};

use crate::plugins::load::{limits, of_provider};
use crate::plugins::plan::Version;

/// A version whose informers are open.
pub(crate) struct Opened {
    pub(crate) version: Version,
    pub(crate) plugin: Plugin,
    /// Each with the number of its watch in the description.
    pub(crate) informers: Vec<(usize, Informer)>,
    pub(crate) discovered: Option<DiscoveredInformers>,
    /// Of a cloud's provider.
    pub(crate) credentials: Option<Arc<Credentials>>,
}

/// Why a version can't be opened now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The server does not serve the kind. It may do so later, when the kind is installed.
    #[error("waits until the server serves {0}")]
    NotServed(Kind),
    #[error("pending: {0}")]
    MayNotRead(String),
    #[error("the API server can't be asked {0}: {1}")]
    Unreachable(&'static str, String),
    /// The credentials of a cloud's provider can't be read.
    #[error("pending: {0}")]
    Credentials(#[from] CredentialError),
    /// The component does not fit the world. A retry does not help.
    #[error("can't be run: {0}")]
    Unfit(#[source] LoadError),
}

impl OpenError {
    /// Whether a retry can help.
    pub(crate) fn can_pass(&self) -> bool {
        !matches!(self, Self::Unfit(_))
    }
}

/// Opens the informers of a version. Its reflectors start at the informer factory's next start.
pub(crate) async fn open(
    cluster: &Cluster,
    engine: &Engine,
    component: &Component,
    version: &Version,
) -> Result<Opened, OpenError> {
    let (description, grant) = (&*version.plugin.description, &version.grant);
    let limits = limits(
        &grant.policy.limits,
        grant.concurrency,
        description.queues.len(),
        grant.is_builtin,
    );
    let (engine, component) = (engine.clone(), component.clone());
    let policy = grant.policy.clone();
    // Loading and linking the code of a large component takes a while.
    let plugin = tokio::task::spawn_blocking(move || {
        let limits = match component.is_provider() {
            true => of_provider(limits, &policy.limits),
            false => limits,
        };
        Plugin::new(&engine, component, limits)
    });
    let plugin = plugin.await.unwrap_or(Err(LoadError::Shutdown));
    let plugin = plugin.map_err(OpenError::Unfit)?;
    let unreachable =
        |error: DiscoveryError| OpenError::Unreachable("what it serves", error_chain(&error));
    let mut resources = HashMap::new();
    for kind in watched_kinds(description) {
        let resource = match cluster.discovery.resolve(kind).await {
            Ok(resource) => resource,
            Err(DiscoveryError::UnknownKind(_)) => return Err(OpenError::NotServed(kind.clone())),
            Err(error) => return Err(unreachable(error)),
        };
        resources.insert(kind.clone(), resource);
    }
    review(cluster, description, grant, &resources).await?;
    let credentials = credentials(cluster, &description.name, grant).await?;
    let discovered = DiscoveredInformers::open(
        &cluster.factory,
        &cluster.discovery,
        description,
        &grant.policy,
    )
    .await
    .map_err(unreachable)?;
    let open = |(number, watch): (usize, &Watch)| {
        let resource = resources.get(watch.kind.as_ref()?)?.clone();
        let interest = interest(description, watch, resource)?;
        Some((number, cluster.factory.informer(interest)))
    };
    let watches = description.watches.iter().enumerate();
    let informers = watches.filter_map(open).collect();
    Ok(Opened {
        version: version.clone(),
        plugin,
        informers,
        discovered,
        credentials,
    })
}

/// Reads the credentials of a cloud's provider, the Secret as its service account.
async fn credentials(
    cluster: &Cluster,
    name: &str,
    grant: &Grant,
) -> Result<Option<Arc<Credentials>>, CredentialError> {
    let client = match &grant.account {
        Some((namespace, account)) => cluster.client_as((namespace, account), name),
        None => cluster.client_of_plugin(name),
    };
    Credentials::load(&grant.policy.credentials, client).await
}

fn watched_kinds(description: &Description) -> impl Iterator<Item = &Kind> {
    let watches = description.watches.iter();
    watches.filter_map(|watch| watch.kind.as_ref())
}

/// Fails if the account of a dropped-in plugin may no longer read what the plugin watches.
pub(crate) async fn may_read(cluster: &Cluster, version: &Version) -> Result<(), OpenError> {
    let description = &version.plugin.description;
    // A kind that the server no longer serves can't be read at all.
    let resources = watched_kinds(description)
        .filter_map(|kind| Some((kind.clone(), cluster.discovery.cached(kind)?)))
        .collect();
    review(cluster, description, &version.grant, &resources).await
}

/// Asks the API server, by a SubjectAccessReview for each watch, whether the plugin's account may list and watch what
/// the cache would give it.
async fn review(
    cluster: &Cluster,
    description: &Description,
    grant: &Grant,
    resources: &HashMap<Kind, Arc<ApiResource>>,
) -> Result<(), OpenError> {
    // Built-ins read with the host's own credentials.
    let Some((namespace, name)) = grant.account.as_ref().filter(|_| !grant.is_builtin) else {
        return Ok(());
    };
    let account = (namespace.as_str(), name.as_str());
    // A review changes nothing, so it needs no fence.
    let client = cluster.client("access-review", Arc::new(Fence::open()));
    for watch in &description.watches {
        let kind = watch.kind.as_ref();
        let namespaces = match kind.and_then(|kind| grant.policy.watched_namespaces(kind)) {
            _ if !watch.namespace.is_empty() => vec![watch.namespace.clone()],
            Some(namespaces) => namespaces.into_iter().collect(),
            None => vec![String::new()],
        };
        for namespace in &namespaces {
            let reading = match kind {
                Some(kind) => {
                    let Some(resource) = resources.get(kind) else {
                        continue;
                    };
                    Reading::of(account, resource, namespace)
                }
                None => Reading::of_all(account, namespace),
            };
            match reading.denied(&client).await {
                Ok(None) => {}
                Ok(Some(denied)) => return Err(OpenError::MayNotRead(denied)),
                Err(error) => {
                    return Err(OpenError::Unreachable(
                        "what the plugin's account may read",
                        error.to_string(),
                    ));
                }
            }
        }
    }
    Ok(())
}

impl Opened {
    /// Waits until all informers of the version are synced.
    pub(crate) async fn synced(&self) {
        for (_, informer) in &self.informers {
            informer.synced().await;
        }
    }

    /// A sentence that names the informers that are not synced; none if all are.
    pub(crate) fn waits_for(&self) -> Option<String> {
        waits_for(&self.informers)
    }
}

/// A sentence that names the informers that are not synced; none if all are.
pub(crate) fn waits_for(informers: &[(usize, Informer)]) -> Option<String> {
    let kinds = kinds_of(informers, |own| !own.is_synced())?;
    Some(format!("waits until its caches are synced: {kinds}"))
}

/// Lists the kinds of the informers that the predicate selects; none if there are none.
pub(crate) fn kinds_of(
    informers: &[(usize, Informer)],
    is_selected: impl Fn(&Informer) -> bool,
) -> Option<String> {
    let selected = informers.iter().filter(|(_, own)| is_selected(own));
    let kinds: BTreeSet<String> = selected
        .map(|(_, informer)| informer.resource().kind.to_string())
        .collect();
    (!kinds.is_empty()).then(|| Vec::from_iter(kinds).join(", "))
}
