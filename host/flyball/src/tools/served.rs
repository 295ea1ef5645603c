//! The kinds that an API server serves, for commands that print plurals or check kinds. A running host is asked, or else
//! a cluster.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use flyball_cache::connection::connect;
use flyball_cache::{Discovery, KubeSource};
use flyball_manager::ServedKind;
use kube::Config;
use kube::config::KubeConfigOptions;

use crate::admin::{self, RunningHost};
use crate::cluster::{self, ClusterError};
use crate::config::ClusterConfig;

/// How long a cluster may take to list its kinds.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// The cluster whose kinds a command uses.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ClusterFlags {
    /// Kubeconfig of the cluster whose kinds are used; by default the cluster of the running host, or else the one that
    /// kubectl uses
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; by default the current one
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub(super) context: Option<String>,
}

impl ClusterFlags {
    /// The configuration of the connection to the cluster that the flags name.
    pub(super) async fn config(&self) -> Result<Config, ClusterError> {
        let source = ClusterConfig {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            master: None,
        };
        cluster::config(&source).await
    }
}

/// The result of asking for the served kinds.
pub(super) enum Served {
    /// All kinds of an API server.
    Kinds(Vec<ServedKind>),
    /// There is neither a running host nor a cluster, or it does not answer. The text is the reason.
    Unknown(String),
}

/// Asks the host or the cluster that the flags name, or else the ones that are found.
///
/// # Errors
/// The host or the cluster that a flag names can't be asked.
pub(super) async fn ask(host: &RunningHost, flags: &ClusterFlags) -> anyhow::Result<Served> {
    if flags.kubeconfig.is_some() {
        let kinds = of_cluster(flags.config().await?).await?;
        return Ok(Served::Kinds(kinds));
    }
    let asked = host.clone();
    let answer = tokio::task::spawn_blocking(move || admin::served_kinds(&asked)).await?;
    let no_host = match answer {
        Ok(kinds) => return Ok(Served::Kinds(kinds)),
        Err(error) if host.is_named() => {
            return Err(error.context("can't ask the host for the kinds of its cluster"));
        }
        Err(error) => error,
    };
    // The roles are mostly meant for kubectl.
    let Ok(config) = Config::from_kubeconfig(&KubeConfigOptions::default()).await else {
        return Ok(Served::Unknown(format!(
            "{no_host:#}; and no kubeconfig names a cluster"
        )));
    };
    Ok(match of_cluster(config).await {
        Ok(kinds) => Served::Kinds(kinds),
        Err(error) => Served::Unknown(format!("{no_host:#}; {error:#}")),
    })
}

async fn of_cluster(config: Config) -> anyhow::Result<Vec<ServedKind>> {
    let url = config.cluster_url.clone();
    let cant_ask = || format!("can't ask the API server at {url} for its kinds");
    let connection = connect(&config).with_context(cant_ask)?;
    let discovery = Discovery::new(Arc::new(KubeSource::new(connection)));
    let catalogue = tokio::time::timeout(ANSWERS_WITHIN, discovery.catalogue(Duration::ZERO)).await;
    let catalogue = catalogue
        .with_context(|| format!("it did not answer within {ANSWERS_WITHIN:?}"))
        .and_then(|asked| Ok(asked?))
        .with_context(cant_ask)?;
    let kinds = catalogue.resources.iter();
    Ok(kinds
        .map(|resource| ServedKind::from(&**resource))
        .collect())
}
