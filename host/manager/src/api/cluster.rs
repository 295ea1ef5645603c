//! The API server as all plugins share it: connections, informers, discovery, and whether this process may act.

use std::sync::Arc;

use flyball_cache::connection::connect;
use flyball_cache::{Connection, Discovery, InformerFactory, KubeSource};
use flyball_serving::Metrics;
use flyball_serving::metrics::MetricsError;
use tokio::sync::watch;
use tower::Layer;
use tower::util::BoxCloneSyncService;

use crate::api::client::ApiClient;
use crate::api::fence::Fence;
use crate::api::service_account::ServiceAccount;
use crate::api::user_agent;

/// What all plugins share of one API server.
pub(crate) struct Cluster {
    pub(crate) factory: Arc<InformerFactory>,
    pub(crate) discovery: Arc<Discovery>,
    /// Requests with the host's own credentials.
    connection: Connection,
    /// Requests that bring the credentials of a service account.
    bare: Connection,
    /// Passed before each write.
    pub(crate) fence: Arc<Fence>,
    /// Whether this process may act: from the start if there is no election.
    pub(crate) leading: watch::Sender<bool>,
    /// Why this process does not act yet; none if it does, or has not asked yet.
    pub(crate) waits: watch::Sender<Option<String>>,
    /// Names this process in the User-Agent and in the lease.
    pub(crate) holder_identity: String,
}

/// The API server can't be set up as a client needs it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    #[error("can't set up the connection to the API server")]
    Client(#[source] Box<kube::Error>),
    #[error("can't declare the metrics of requests to the API server")]
    Metrics(#[from] MetricsError),
}

impl Cluster {
    /// Sets up the connections; sends nothing. With `is_elected`, the fence is closed and nothing acts until the lease is
    /// held.
    pub(crate) fn new(
        config: &kube::Config,
        holder_identity: String,
        is_elected: bool,
        metrics: &Metrics,
    ) -> Result<Self, ClusterError> {
        let metrics = metrics.rest_client()?;
        let connect = |config: &kube::Config| {
            let connection =
                connect(config).map_err(|error| ClusterError::Client(Box::new(error)))?;
            Ok::<_, ClusterError>(BoxCloneSyncService::new(metrics.layer().layer(connection)))
        };
        let mut without_credentials = config.clone();
        without_credentials.auth_info = kube::config::AuthInfo::default();
        let mut watching = config.clone();
        let agent = user_agent::own(&holder_identity, "shared-informers");
        if let Ok(agent) = http::HeaderValue::from_str(&agent) {
            watching.headers.push((http::header::USER_AGENT, agent));
        }
        let source = Arc::new(KubeSource::new(connect(&watching)?));
        let fence = match is_elected {
            true => Fence::closed(),
            false => Fence::open(),
        };
        Ok(Self {
            factory: Arc::new(InformerFactory::new(source.clone())),
            discovery: Arc::new(Discovery::new(source)),
            connection: connect(config)?,
            bare: connect(&without_credentials)?,
            fence: Arc::new(fence),
            leading: watch::Sender::new(!is_elected),
            waits: watch::Sender::new(None),
            holder_identity,
        })
    }

    /// A client with the host's own credentials, for `purpose`, which the User-Agent names. It writes nothing while `fence`
    /// is closed.
    pub(crate) fn client(&self, purpose: &str, fence: Arc<Fence>) -> ApiClient {
        let agent = user_agent::own(&self.holder_identity, purpose);
        ApiClient::new(self.connection.clone(), None, &agent, fence)
    }

    /// As [`Cluster::client`], with the User-Agent of kube-controller-manager's client of this name: what it writes has the
    /// same field manager.
    pub(crate) fn kcm_client(&self, client: &str, fence: Arc<Fence>) -> ApiClient {
        let agent = user_agent::kube_controller_manager(&self.holder_identity, client);
        ApiClient::new(self.connection.clone(), None, &agent, fence)
    }

    /// A client with the credentials of a dropped-in plugin's service account. The User-Agent names the plugin. The host
    /// requests the account's tokens.
    pub(crate) fn client_as(&self, namespace: &str, account: &str, plugin: &str) -> ApiClient {
        let tokens = self.client(plugin, self.fence.clone());
        let agent = user_agent::own(&self.holder_identity, plugin);
        self.with_account(tokens, namespace, account, &agent)
    }

    /// As [`Cluster::client_as`], for a built-in: with the User-Agent of kube-controller-manager's client of this name.
    pub(crate) fn kcm_client_as(&self, namespace: &str, account: &str, client: &str) -> ApiClient {
        let tokens = self.kcm_client(KCM_CLIENT, self.fence.clone());
        let agent = user_agent::kube_controller_manager(&self.holder_identity, client);
        self.with_account(tokens, namespace, account, &agent)
    }

    fn with_account(
        &self,
        tokens: ApiClient,
        namespace: &str,
        account: &str,
        agent: &str,
    ) -> ApiClient {
        let credentials = Arc::new(ServiceAccount::new(tokens, namespace, account));
        ApiClient::new(
            self.bare.clone(),
            Some(credentials),
            agent,
            self.fence.clone(),
        )
    }
}

/// The name of the client with which kube-controller-manager creates service accounts, requests their tokens, and records
/// events about its lease. It is also the source of those events.
pub(crate) const KCM_CLIENT: &str = "kube-controller-manager";
