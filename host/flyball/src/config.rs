//! The configuration of `flyball run`, as plain values: read from the command line, and used to start the parts.

mod read;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use flyball_cache::ListMode;
use flyball_controllers::canonical;
use flyball_serving::metrics::Restrictions;
use flyball_serving::{AuthenticationOptions, AuthorizationOptions, ServingOptions};
use flyball_traces::TracingOptions;

pub(crate) use self::read::ConfigError;
use crate::kcm::feature_gates::FeatureGates;
use crate::kcm::leader_migration::LeaderMigration;
use crate::kcm::versions::Versions;
use crate::logging::LogOptions;
use crate::selection::{Selection, nearest_controller};

/// The configuration of `flyball run`.
#[derive(Clone, Debug)]
pub(crate) struct RunConfig {
    pub(crate) cluster: ClusterConfig,
    /// The admin socket, if a flag names it.
    pub(crate) admin_socket: Option<PathBuf>,
    pub(crate) controllers: Selection,
    /// The feature gates of Kubernetes that built-in controllers read.
    pub(crate) feature_gates: FeatureGates,
    /// The versions that the gates follow.
    pub(crate) versions: Versions,
    pub(crate) plugins: PluginsConfig,
    pub(crate) cloud: CloudConfig,
    pub(crate) built_ins: BuiltInsConfig,
    pub(crate) requests: RequestsConfig,
    pub(crate) pace: PaceConfig,
    /// None if HTTPS is not served.
    pub(crate) serving: Option<ServingConfig>,
    /// Restrictions of the metrics.
    pub(crate) metrics: Restrictions,
    pub(crate) logging: LogOptions,
    /// The export of traces; none if there are no traces.
    pub(crate) tracing: Option<TracingOptions>,
    pub(crate) leader_election: LeaderElectionConfig,
    /// The flags on the command line with their values, without secrets.
    pub(crate) given: BTreeMap<String, String>,
    /// Sentences for the operator, logged at startup.
    pub(crate) warnings: Vec<String>,
}

/// Plugins and their permissions. `concurrency` and `values` apply to built-in controllers too.
#[derive(Clone, Debug)]
pub(crate) struct PluginsConfig {
    pub(crate) dirs: Vec<PathBuf>,
    /// The policy, a file or a folder.
    pub(crate) policy: Option<PathBuf>,
    /// Folder for state that the host needs after a restart; by default the user's state folder.
    pub(crate) state_dir: Option<PathBuf>,
    /// Whether a plugin that the policy does not mention is granted all that it asks for.
    pub(crate) trust: bool,
    /// Configuration values by controller and key. They take precedence over the policy.
    pub(crate) values: BTreeMap<String, BTreeMap<String, String>>,
    /// Number of keys that are reconciled concurrently, by canonical name. Contains only the flags that were given.
    /// They take precedence over the policy.
    pub(crate) concurrency: BTreeMap<String, u32>,
}

/// The cloud, and the controllers that call it.
#[derive(Clone, Debug)]
pub(crate) struct CloudConfig {
    pub(crate) controllers: CloudControllers,
    /// The name of the plugin that is the cloud.
    pub(crate) provider: Option<String>,
    /// The provider's configuration; without it, that of the policy.
    pub(crate) config_file: Option<PathBuf>,
    /// Whether the cloud may lack an ID of the cluster.
    pub(crate) allow_untagged: bool,
    /// Configuration values of the cloud controllers, by controller and key.
    pub(crate) values: BTreeMap<&'static str, BTreeMap<&'static str, String>>,
}

/// Whether the cloud controllers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CloudControllers {
    /// They don't: the process stands for kube-controller-manager.
    #[default]
    None,
    /// Beside the others.
    Also,
    /// Without the others: the process stands for cloud-controller-manager.
    Only,
}

/// The settings of built-in controllers.
#[derive(Clone, Debug)]
pub(crate) struct BuiltInsConfig {
    /// Configuration values by controller and key, from the flags of the controllers' manifests.
    pub(crate) values: BTreeMap<&'static str, BTreeMap<&'static str, String>>,
    /// How often the objects of a controller are reconciled, where it has a flag of its own; zero for never.
    pub(crate) resync_periods: BTreeMap<&'static str, Duration>,
    /// The boolean flags that are false although a controller needs them to run.
    pub(crate) turned_off: Vec<&'static str>,
    /// The CA bundle that pods use for the API server.
    pub(crate) root_ca_file: Option<PathBuf>,
    /// The key that signs tokens of service accounts.
    pub(crate) service_account_key_file: Option<PathBuf>,
    /// The authorities of kube-controller-manager's signers.
    pub(crate) cluster_signing: Authorities,
    /// The authorities of other signers.
    pub(crate) authorities: Authorities,
    /// The folder of the time zone database; by default that of the system.
    pub(crate) tzdata: Option<PathBuf>,
    /// The ranges that nodes get; none if no ranges are allocated.
    pub(crate) node_ipam: Option<NodeIpam>,
}

/// Requests to the API server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestsConfig {
    /// Requests to the API server per second, per controller; none for no limit.
    pub(crate) qps: Option<f32>,
    /// Burst of requests to the API server, per controller.
    pub(crate) burst: u32,
    /// Whether each built-in controller has a service account of its own.
    pub(crate) use_service_account_credentials: bool,
}

/// When the controllers begin, repeat their work and stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaceConfig {
    /// How long each built-in controller waits before it begins.
    pub(crate) start_interval: Duration,
    /// How often each built-in controller goes through all of its objects; zero for never.
    pub(crate) min_resync_period: Duration,
    /// How long to wait for the controllers to stop; zero for no limit.
    pub(crate) shutdown_timeout: Duration,
}

impl PluginsConfig {
    /// Whether plugins may be loaded: from a folder, or from a registry by a package that a policy names.
    pub(crate) fn may_load(&self) -> bool {
        !self.dirs.is_empty() || self.policy.is_some()
    }
}

impl RunConfig {
    /// The way in which the caches list, by the feature gate.
    pub(crate) fn list_mode(&self) -> ListMode {
        match self.feature_gates.is_enabled("WatchListClient") {
            true => ListMode::Streamed,
            false => ListMode::Paged,
        }
    }

    /// Fails if a flag names a controller that neither kube-controller-manager nor these plugins have.
    pub(crate) fn check_names(&self, plugins: &[String]) -> anyhow::Result<()> {
        if let Some(sentence) = self.controllers.unknown(plugins).next() {
            anyhow::bail!(sentence);
        }
        let is_known =
            |name: &str| canonical(name).is_some() || plugins.iter().any(|plugin| plugin == name);
        if let Some(name) = self.plugins.values.keys().find(|name| !is_known(name)) {
            let guess = nearest_controller(name, plugins);
            anyhow::bail!(
                "--plugin-config names {name:?}, which is neither a controller of kube-controller-manager nor a plugin{guess}"
            );
        }
        Ok(())
    }
}

/// The settings of the node-ipam-controller: lists, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeIpam {
    /// The ranges of the cluster, at most one of each family.
    pub(crate) cluster_cidrs: String,
    /// For each of these, the length of the prefix of a node's range.
    pub(crate) mask_sizes: String,
    /// Ranges that no node gets.
    pub(crate) service_cidrs: String,
}

/// The authorities that sign certificates, by signer.
pub(crate) type Authorities = BTreeMap<String, AuthorityFiles>;

/// The files of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthorityFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The flags that name the files, for errors.
    pub(crate) flags: String,
}

/// The connection to the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterConfig {
    /// The kubeconfig; without it, the service account of the pod.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; by default the current one.
    pub(crate) context: Option<String>,
    /// URL of the API server; overrides the kubeconfig.
    pub(crate) master: Option<String>,
}

/// HTTPS serving, and the authentication and authorization of its clients.
#[derive(Clone, Debug)]
pub(crate) struct ServingConfig {
    pub(crate) options: ServingOptions,
    pub(crate) authentication: AuthenticationOptions,
    /// Kubeconfig used for TokenReview; without it, the service account of the pod.
    pub(crate) authentication_kubeconfig: Option<PathBuf>,
    /// Whether to skip the lookup of the cluster's authentication configuration.
    pub(crate) skip_lookup: bool,
    pub(crate) authorization: AuthorizationOptions,
    /// Kubeconfig used for SubjectAccessReview; without it, the service account of the pod.
    pub(crate) authorization_kubeconfig: Option<PathBuf>,
    /// Whether to continue if the lookup fails at the start.
    pub(crate) tolerate_lookup_failure: bool,
    /// Whether the dashboard is served.
    pub(crate) dashboard: bool,
    /// Whether profiles and the verbosity of the log are served.
    pub(crate) profiling: bool,
    /// The flags with their values, as `/flagz` shows them.
    pub(crate) flagz: BTreeMap<String, String>,
    /// The body of `/configz`.
    pub(crate) configz: String,
}

/// Leader election among several processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaderElectionConfig {
    pub(crate) enabled: bool,
    /// Time after the last renewal before another process may acquire the lease.
    pub(crate) lease_duration: Duration,
    /// Time within which the leader must renew.
    pub(crate) renew_deadline: Duration,
    /// Time between two attempts.
    pub(crate) retry_period: Duration,
    /// Name of the lease, if a flag names it.
    pub(crate) name: Option<String>,
    pub(crate) namespace: String,
    /// The controllers that migrate to or from another controller manager; none if leader election is off.
    pub(crate) migration: Option<LeaderMigration>,
}
