//! What the operator asked for, as plain values: what the command line is read into, and what the parts are started from.

mod read;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use flyball_serving::{AuthenticationOptions, AuthorizationOptions, ServingOptions};

use crate::kcm::controllers::canonical;
use crate::selection::nearest_controller;

pub(crate) use crate::selection::Selection;

/// Everything that `flyball run` was told.
#[derive(Clone, Debug)]
pub(crate) struct RunConfig {
    /// How the API server is reached.
    pub(crate) cluster: ClusterSource,
    /// Folders with plugins.
    pub(crate) plugin_dirs: Vec<PathBuf>,
    /// The operator's policy, a file or a folder.
    pub(crate) policy: Option<PathBuf>,
    /// Where the host keeps what it needs after a restart; the user's folder for such things if none is named.
    pub(crate) state_dir: Option<PathBuf>,
    /// Where operators reach the host, if they are told where.
    pub(crate) admin_socket: Option<PathBuf>,
    /// Whether plugins get what they ask for, where the policy says nothing.
    pub(crate) trust_plugins: bool,
    /// Which controllers run.
    pub(crate) controllers: Selection,
    /// Requests to the API server in a second, for each controller; none: as many as there are.
    pub(crate) qps: Option<f32>,
    /// Requests to the API server at once, for each controller.
    pub(crate) burst: u32,
    /// Keys reconciled at once, by canonical name: only where a flag was given. It wins over a policy.
    pub(crate) concurrency: BTreeMap<String, u32>,
    /// The operator's values by controller and key. They win over a policy's.
    pub(crate) plugin_config: BTreeMap<String, BTreeMap<String, String>>,
    /// Whether the garbage-collector-controller may run.
    pub(crate) enable_garbage_collector: bool,
    /// The bundle by which pods trust the API server.
    pub(crate) root_ca_file: Option<PathBuf>,
    /// The key that signs tokens of service accounts.
    pub(crate) service_account_key_file: Option<PathBuf>,
    /// After how long without use a service account's token of old is taken away.
    pub(crate) token_clean_up_period: Duration,
    /// Whether each built-in controller acts as its own service account.
    pub(crate) use_service_account_credentials: bool,
    /// How long the controllers may take to end.
    pub(crate) shutdown_timeout: Duration,
    /// HTTPS; none if it is not served.
    pub(crate) serving: Option<ServingConfig>,
    /// What is logged, and how.
    pub(crate) logging: LogOptions,
    /// How one of several processes is chosen.
    pub(crate) leader_election: LeaderElection,
    /// What the operator should know at start, as sentences.
    pub(crate) warnings: Vec<String>,
}

impl RunConfig {
    /// Fails if a flag names a controller that is neither kube-controller-manager's nor one of these plugins.
    pub(crate) fn check_names(&self, plugins: &[String]) -> anyhow::Result<()> {
        if let Some(sentence) = self.controllers.unknown(plugins).next() {
            anyhow::bail!(sentence);
        }
        let is_known =
            |name: &str| canonical(name).is_some() || plugins.iter().any(|plugin| plugin == name);
        if let Some(name) = self.plugin_config.keys().find(|name| !is_known(name)) {
            let guess = nearest_controller(name, plugins);
            anyhow::bail!(
                "--plugin-config names {name:?}, which is neither a controller of kube-controller-manager nor a plugin{guess}"
            );
        }
        Ok(())
    }
}

/// How the API server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterSource {
    /// A kubeconfig; without one, the service account of the pod that this runs in.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context, if not its current one.
    pub(crate) context: Option<String>,
    /// The URL of the API server, in place of the one found.
    pub(crate) master: Option<String>,
}

/// What is served over HTTPS, and who may see it.
#[derive(Clone, Debug)]
pub(crate) struct ServingConfig {
    /// Where and how.
    pub(crate) options: ServingOptions,
    /// How callers are told apart.
    pub(crate) authentication: AuthenticationOptions,
    /// Of whom the API server is asked whose tokens those are; without one, the pod's service account asks.
    pub(crate) authentication_kubeconfig: Option<PathBuf>,
    /// Whether the cluster is not asked which authorities it trusts.
    pub(crate) skip_lookup: bool,
    /// How access is decided.
    pub(crate) authorization: AuthorizationOptions,
    /// As whom the API server is asked who may do what; without one, the pod's service account asks.
    pub(crate) authorization_kubeconfig: Option<PathBuf>,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogOptions {
    /// JSON, not text for people.
    pub(crate) json: bool,
    /// klog's number: 0 for what operators need, 4 for debugging, 6 for traces.
    pub(crate) verbosity: i64,
}

/// How one of several processes is chosen to run the controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaderElection {
    /// Whether one is.
    pub(crate) enabled: bool,
    /// After which another may take over.
    pub(crate) lease_duration: Duration,
    /// Within which the leader must renew.
    pub(crate) renew_deadline: Duration,
    /// Between two tries.
    pub(crate) retry_period: Duration,
    /// The lease's name, if one was given.
    pub(crate) name: Option<String>,
    /// The lease's namespace.
    pub(crate) namespace: String,
}
