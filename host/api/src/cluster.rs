//! The API server as all plugins share it: connections, informers, discovery, and whether this process may act.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_cache::connection::connect;
use flyball_cache::{
    Connection, Discovery, InformerFactory, KubeSource, ListMode, Observe, Reachability,
};
use flyball_serving::Metrics;
use flyball_serving::metrics::{MetricsError, OnScrape};
use tokio::sync::watch;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt as _};

use crate::client::ApiClient;
use crate::fence::Fence;
use crate::service_account::ServiceAccount;
use crate::user_agent;

/// The objects of one API server that all plugins share.
pub struct Cluster {
    pub factory: Arc<InformerFactory>,
    pub discovery: Arc<Discovery>,
    /// The connections of the host and of the built-ins.
    own: Connections,
    /// The connections of dropped-in plugins: a connection belongs to the threads that its first request came from.
    of_plugins: Connections,
    /// For all plugins but the migrated ones.
    pub main: Leadership,
    pub migrated: Option<Migrated>,
    /// Names this process in the User-Agent and in the lease.
    pub holder_identity: String,
    _informer_metrics: OnScrape,
}

/// Connections that share nothing with others.
struct Connections {
    /// Requests with the host's own credentials.
    host: Connection,
    /// Requests that bring the credentials of a service account.
    bare: Connection,
}

/// The election's result for this process: the fence before writes, and whether plugins may act.
pub struct Leadership {
    /// Passed before each write.
    pub fence: Arc<Fence>,
    /// Whether this process may act. True from the start if there is no election.
    pub leading: watch::Sender<bool>,
    /// Why this process does not act yet; none if it does, or has not asked yet.
    pub waits: watch::Sender<Option<String>>,
}

/// The plugins that act under a lease of their own.
pub struct Migrated {
    pub names: BTreeSet<String>,
    pub leadership: Leadership,
}

impl Leadership {
    /// With `is_elected`, the fence is closed and nothing acts until the lease is held.
    fn new(is_elected: bool) -> Self {
        let fence = match is_elected {
            true => Fence::closed(),
            false => Fence::open(),
        };
        Self {
            fence: Arc::new(fence),
            leading: watch::Sender::new(!is_elected),
            waits: watch::Sender::new(None),
        }
    }
}

/// The API server can't be set up as a client needs it.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("can't set up the connection to the API server")]
    Client(#[source] Box<kube::Error>),
    #[error("can't declare the metrics of requests to the API server and of informers")]
    Metrics(#[from] MetricsError),
}

impl Cluster {
    /// Sets up the connections; sends nothing. With `is_elected`, the fence is closed and nothing acts until the lease
    /// is held. The plugins in `migrated` have a lease of their own.
    pub fn new(
        config: &kube::Config,
        list_mode: ListMode,
        holder_identity: String,
        is_elected: bool,
        migrated: Option<BTreeSet<String>>,
        all_metrics: &Metrics,
    ) -> Result<Self, ClusterError> {
        let metrics = all_metrics.rest_client()?;
        let reachability = Arc::<Reachability>::default();
        let connect = |config: &kube::Config| {
            let connection =
                connect(config).map_err(|error| ClusterError::Client(Box::new(error)))?;
            let reachability = reachability.clone();
            let noted = connection.map_result(move |answer: Result<_, tower::BoxError>| {
                match &answer {
                    Ok(_) => reachability.restored(),
                    Err(error) => reachability.lost(&**error),
                }
                answer
            });
            let layer = metrics.layer(&config.cluster_url);
            Ok::<_, ClusterError>(BoxCloneSyncService::new(layer.layer(noted)))
        };
        let mut without_credentials = config.clone();
        without_credentials.auth_info = kube::config::AuthInfo::default();
        let connections = || {
            let (host, bare) = (connect(config)?, connect(&without_credentials)?);
            Ok::<_, ClusterError>(Connections { host, bare })
        };
        let mut watching = config.clone();
        let agent = user_agent::own(&holder_identity, "shared-informers");
        if let Ok(agent) = http::HeaderValue::from_str(&agent) {
            watching.headers.push((http::header::USER_AGENT, agent));
        }
        let source = Arc::new(KubeSource::new(connect(&watching)?));
        let factory = Arc::new(InformerFactory::sharing(
            source.clone(),
            reachability.clone(),
            list_mode,
            processing_latency(all_metrics)?,
        ));
        Ok(Self {
            _informer_metrics: informer_metrics(all_metrics, factory.clone())?,
            factory,
            discovery: Arc::new(Discovery::new(source)),
            own: connections()?,
            of_plugins: connections()?,
            main: Leadership::new(is_elected),
            migrated: migrated.map(|names| Migrated {
                names,
                leadership: Leadership::new(is_elected),
            }),
            holder_identity,
        })
    }

    /// Returns the leadership that the plugin of this name depends on.
    pub fn leadership(&self, plugin: &str) -> &Leadership {
        let migrated = self.migrated.as_ref();
        let migrated = migrated.filter(|migrated| migrated.names.contains(plugin));
        migrated.map_or(&self.main, |migrated| &migrated.leadership)
    }

    /// The fences of all leases.
    pub fn fences(&self) -> Vec<Arc<Fence>> {
        let migrated = self.migrated.iter().map(|migrated| &migrated.leadership);
        let all = std::iter::once(&self.main).chain(migrated);
        all.map(|leadership| leadership.fence.clone()).collect()
    }

    /// A client with the host's own credentials, for `purpose`, which the User-Agent names. It writes nothing while
    /// `fence` is closed.
    pub fn client(&self, purpose: &str, fence: Arc<Fence>) -> ApiClient {
        let agent = user_agent::own(&self.holder_identity, purpose);
        ApiClient::new(self.own.host.clone(), None, &agent, fence)
    }

    /// A client with the host's own credentials, for a dropped-in plugin, which the User-Agent names.
    pub fn client_of_plugin(&self, plugin: &str) -> ApiClient {
        let fence = self.leadership(plugin).fence.clone();
        let agent = user_agent::own(&self.holder_identity, plugin);
        ApiClient::new(self.of_plugins.host.clone(), None, &agent, fence)
    }

    /// Like [`Cluster::client`], with the User-Agent of the client of this name in a component of Kubernetes, so that its
    /// writes have the same field manager.
    pub fn component_client(&self, component: &str, client: &str, fence: Arc<Fence>) -> ApiClient {
        let agent = user_agent::of_component(&self.holder_identity, component, client);
        ApiClient::new(self.own.host.clone(), None, &agent, fence)
    }

    /// A client with the credentials of a dropped-in plugin's service account. The User-Agent names the plugin. The
    /// host requests the account's tokens.
    pub fn client_as(&self, (namespace, account): (&str, &str), plugin: &str) -> ApiClient {
        let fence = self.leadership(plugin).fence.clone();
        let tokens = self.client_of_plugin(plugin);
        let agent = user_agent::own(&self.holder_identity, plugin);
        let bare = self.of_plugins.bare.clone();
        with_account(bare, tokens, (namespace, account), &agent, fence)
    }

    /// Like [`Cluster::client_as`], for a built-in: with the User-Agent of the client of this name in a component of
    /// Kubernetes.
    pub fn component_client_as(
        &self,
        component: &str,
        account: (&str, &str),
        client: &str,
        fence: Arc<Fence>,
    ) -> ApiClient {
        let tokens = self.component_client(component, component, fence.clone());
        let agent = user_agent::of_component(&self.holder_identity, component, client);
        with_account(self.own.bare.clone(), tokens, account, &agent, fence)
    }
}

fn with_account(
    connection: Connection,
    tokens: ApiClient,
    (namespace, account): (&str, &str),
    agent: &str,
    fence: Arc<Fence>,
) -> ApiClient {
    let credentials = Arc::new(ServiceAccount::new(tokens, namespace, account));
    ApiClient::new(connection, Some(credentials), agent, fence)
}

/// Exports client-go's metrics of informers' queues and caches. In client-go, an informer has a queue between the watch
/// and the cache. In Flyball, the queue is between the cache and each subscriber.
fn informer_metrics(
    metrics: &Metrics,
    factory: Arc<InformerFactory>,
) -> Result<OnScrape, MetricsError> {
    let queued = metrics.gauge(
        "informer_queued_items",
        "Number of items currently queued in the FIFO.",
        &INFORMER_LABELS,
    )?;
    let versions = metrics.gauge(
        "informer_store_resource_version",
        "The 15 least significant digits of the resource version of the store.",
        &INFORMER_LABELS,
    )?;
    Ok(metrics.on_scrape(move || {
        queued.reset();
        versions.reset();
        for status in factory.status() {
            let kind = &status.kind;
            let labels = [KCM_CLIENT, &kind.group, &kind.version, &status.plural];
            // Several informers of a kind differ in their scopes.
            let (queued, version) = (
                queued.with_label_values(&labels),
                versions.with_label_values(&labels),
            );
            queued.set(queued.get().max(status.queued as f64));
            version.set(version.get().max((status.position % LAST_DIGITS) as f64));
        }
    }))
}

/// Exports how long informers take to process what they receive, as client-go does.
fn processing_latency(metrics: &Metrics) -> Result<Arc<Observe>, MetricsError> {
    let latencies = metrics.histogram(
        "informer_processing_latency_seconds",
        "Time taken to process events after popping from the queue.",
        &INFORMER_LABELS,
        &PROCESSING_BUCKETS,
    )?;
    Ok(Arc::new(move |resource, duration| {
        let kind = &resource.kind;
        let labels = [KCM_CLIENT, &kind.group, &kind.version, &resource.plural];
        let latency = latencies.with_label_values(&labels);
        latency.observe(duration.as_secs_f64());
    }))
}

const INFORMER_LABELS: [&str; 4] = ["name", "group", "version", "resource"];
/// The buckets in seconds, as in Kubernetes' components.
const PROCESSING_BUCKETS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// A number with the 15 least significant digits, which a gauge can show exactly.
const LAST_DIGITS: u64 = 1_000_000_000_000_000;

/// The name of the client with which kube-controller-manager creates service accounts, requests their tokens, and
/// records events about its lease. It is also the source of those events.
pub const KCM_CLIENT: &str = "kube-controller-manager";
