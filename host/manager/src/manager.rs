//! Wires everything: the cluster, the plugins on it, and the election of the process whose plugins act.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use flyball_api::cluster::{Cluster, ClusterError, KCM_CLIENT, Leadership};
use flyball_api::events::Recorder;
use flyball_api::fence::Fence;
use flyball_api::lease::{Elector, LeaderElection, LeaseLost, LeaseNote};
use flyball_cache::ListMode;
use flyball_serving::metrics::MetricsError;
use tokio_util::sync::CancellationToken;

use crate::admin::AdminHandle;
use crate::plugins::canary::InForce;
use crate::plugins::load::BuiltIn;
use crate::plugins::supervisor::canaries::CanaryStore;
use crate::plugins::supervisor::{Supervisor, SupervisorError};
use crate::plugins::{DropIns, PluginOptions, Telemetry};

/// Options of a manager.
pub struct Options {
    /// The connection to the API server.
    pub cluster: kube::Config,
    pub list_mode: ListMode,
    /// Names this process in the User-Agent and in the lease. No other process ever has the same name.
    pub holder_identity: String,
    /// Settings of the election of the process that acts; none if this is the only process.
    pub leader_election: Option<LeaderElection>,
    /// The plugins that act under a lease of their own; without `leader_election`, it has no effect.
    pub migration: Option<Migration>,
    pub plugins: PluginOptions,
    pub telemetry: Telemetry,
}

/// A second lease, which another controller manager may hold: while controllers move from one to the other, neither
/// runs them twice. This process competes for it only once it holds the first one.
pub struct Migration {
    pub election: LeaderElection,
    /// The names of the plugins.
    pub controllers: BTreeSet<String>,
}

/// The manager can't be set up or can't go on. The message says whether the options must change.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The client of the API server can't be set up.
    #[error("can't set up the connection to the API server")]
    Client(#[source] Box<kube::Error>),
    /// A metric of the host can't be declared: a fault of the host.
    #[error("can't declare the host's metrics")]
    Metrics(#[from] MetricsError),
    /// The folder of versions can't be used.
    #[error("can't keep versions of plugins in {}: remove what lies there, or name another folder with --state-dir", .folder.display())]
    Versions {
        folder: PathBuf,
        source: std::io::Error,
    },
    /// Another process may hold the lease now: this one must end.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
}

impl From<ClusterError> for ManagerError {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Client(error) => Self::Client(error),
            ClusterError::Metrics(error) => Self::Metrics(error),
        }
    }
}

impl From<SupervisorError> for ManagerError {
    fn from(error: SupervisorError) -> Self {
        match error {
            SupervisorError::Metrics(error) => Self::Metrics(error),
            SupervisorError::Versions { folder, source } => Self::Versions { folder, source },
        }
    }
}

/// The loaded plugins, and the options that they will run with.
pub struct Manager {
    cluster: Arc<Cluster>,
    leader_election: Option<LeaderElection>,
    migration: Option<LeaderElection>,
    has_builtins: bool,
    telemetry: Telemetry,
    supervisor: Supervisor,
    /// The canaries, which the next leader goes on with.
    canaries: Option<Arc<LeaseNote>>,
    admin: AdminHandle,
}

impl Manager {
    /// Loads the built-ins and the plugins of the folders. Plugins that can't be loaded are logged and left out.
    ///
    /// # Errors
    /// The options can't be used, or the machine refuses.
    pub async fn load(
        options: Options,
        drop_ins: DropIns,
        builtins: &[BuiltIn],
    ) -> Result<Self, ManagerError> {
        let Options {
            cluster,
            list_mode,
            holder_identity,
            leader_election,
            migration,
            plugins,
            telemetry,
        } = options;
        let is_elected = leader_election.is_some();
        let migration = migration.filter(|_| is_elected);
        let (migration, migrated) = match migration {
            Some(migration) => (Some(migration.election), Some(migration.controllers)),
            None => (None, None),
        };
        let cluster = Cluster::new(
            &cluster,
            list_mode,
            holder_identity,
            is_elected,
            migrated,
            &telemetry.metrics,
        )?;
        let cluster = Arc::new(cluster);
        let in_force = Arc::<InForce>::default();
        let (canaries, store) = match is_elected {
            true => {
                let applied = in_force.clone();
                let note = Arc::new(LeaseNote::new(move |text| applied.apply(text)));
                (Some(note.clone()), CanaryStore::Lease(note))
            }
            false => (None, CanaryStore::Folder),
        };
        let (supervisor, requests) = Supervisor::load(
            cluster.clone(),
            plugins,
            telemetry.clone(),
            drop_ins,
            builtins,
            (in_force, store),
        )
        .await?;
        Ok(Self {
            cluster,
            leader_election,
            migration,
            has_builtins: !builtins.is_empty(),
            telemetry,
            supervisor,
            canaries,
            admin: AdminHandle::new(requests),
        })
    }

    /// Returns the names of all plugins, built-ins included, whether they may run or not.
    pub fn names(&self) -> Vec<String> {
        self.supervisor.names()
    }

    /// Returns the names of the plugins that come from files and packages.
    pub fn dropped_in(&self) -> Vec<String> {
        self.supervisor.dropped_in()
    }

    /// Whether each file that was found is loaded, or failed to load. The start does not wait for each.
    pub fn has_loaded_files(&self) -> bool {
        self.supervisor.has_loaded_files()
    }

    /// Returns a handle for operators, which works while the manager runs.
    pub fn admin(&self) -> AdminHandle {
        self.admin.clone()
    }

    /// Runs the plugins until `shutdown`, then drains them. While another process holds the lease, everything runs but
    /// the workers.
    ///
    /// # Errors
    /// A lease is lost: then it returns at once, without draining.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), ManagerError> {
        let Some(election) = self.leader_election else {
            self.supervisor.run(shutdown).await;
            return Ok(());
        };
        let cluster = self.cluster;
        let purpose = "leader-election";
        let open = || Arc::new(Fence::open());
        let (client, events, source) = if self.has_builtins {
            let events = cluster.component_client(KCM_CLIENT, KCM_CLIENT, open());
            let client = cluster.component_client(KCM_CLIENT, purpose, open());
            (client, events, KCM_CLIENT)
        } else {
            let client = cluster.client(purpose, open());
            (client.clone(), client, election.name.as_str())
        };
        let elector = |election: LeaderElection, leadership: &Leadership| {
            let source = source.to_owned();
            Elector::new(
                client.clone(),
                Recorder::start(events.clone(), purpose.into(), source),
                election,
                &cluster.holder_identity,
                leadership.fence.clone(),
                &self.telemetry.metrics,
            )
        };
        let main = elector(election.clone(), &cluster.main)?.with_note(self.canaries.clone());
        let second = self.migration.zip(cluster.migrated.as_ref());
        let second = second
            .map(|(election, migrated)| {
                let leadership = &migrated.leadership;
                Ok::<_, MetricsError>((elector(election, leadership)?, leadership))
            })
            .transpose()?;
        let _check = Elector::check(cluster.fences(), &self.telemetry.health);
        let released = CancellationToken::new();
        let mut leads = cluster.main.leading.subscribe();
        let run = |elector: Elector, leadership: &Leadership| {
            elector.run(
                leadership.leading.clone(),
                leadership.waits.clone(),
                released.clone(),
            )
        };
        let first = run(main, &cluster.main);
        let then = async {
            let Some((elector, leadership)) = second else {
                return Ok(());
            };
            // One process acquires the lease of the migration only after the first lease. Otherwise, two processes
            // could hold one lease each.
            tokio::select! {
                Ok(_) = leads.wait_for(|leads| *leads) => {}
                () = released.cancelled() => return Ok(()),
            }
            run(elector, leadership).await
        };
        let elected = async { tokio::try_join!(first, then).map(drop) };
        let plugins = async {
            self.supervisor.run(shutdown).await;
            // The lease is released only now, when nothing writes any more.
            released.cancel();
        };
        tokio::pin!(elected, plugins);
        tokio::select! {
            lost = &mut elected => lost.map_err(ManagerError::from),
            () = &mut plugins => elected.await.map_err(ManagerError::from),
        }
    }
}
