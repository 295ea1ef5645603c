//! The manager: what it runs with, and the election of the process whose plugins act.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flyball_plugin::Engine;
use flyball_serving::{DebugPages, HealthChecks, Metrics};
use tokio_util::sync::CancellationToken;

use crate::api::fence::Fence;
use crate::api::lease::{Elector, LeaderElection, LeaseLost};
use crate::control::Control;
use crate::plugins::host::Host;
use crate::plugins::load::BuiltIn;
use crate::plugins::supervisor::Supervisor;
use crate::policy::grant::Grants;
use crate::signer::Signer;

/// What the manager runs with.
pub struct Options {
    /// How the API server is reached.
    pub cluster: kube::Config,
    /// What runs the guests.
    pub engine: Engine,
    /// The keys that sign for guests.
    pub signer: Arc<Signer>,
    /// Calls in a second that each plugin may make to the API server; 0 for no limit.
    pub qps: f64,
    /// Calls at once.
    pub burst: u32,
    /// Whether each built-in acts as its own service account.
    pub use_service_account_credentials: bool,
    /// What names this process in the User-Agent and in the lease: no other process ever has the same.
    pub identity: String,
    /// How the one process that acts is elected; none, if this is the only one.
    pub leader_election: Option<LeaderElection>,
    /// How long controllers may take to end.
    pub drain: Duration,
    /// Where it counts what it does.
    pub metrics: Metrics,
    /// Where each running controller has a check.
    pub health: HealthChecks,
    /// What controllers show of themselves.
    pub debug: DebugPages,
}

/// Where dropped-in plugins come from, and what decides on them.
pub struct Sources {
    /// Folders whose `.wasm` files are plugins. They are followed.
    pub folders: Vec<PathBuf>,
    /// The operator's policy, a file or a folder. It is followed.
    pub policy: Option<PathBuf>,
    /// The host's own folder, where it keeps versions to go back to; none to keep none.
    pub state: Option<PathBuf>,
    /// Who gets what, as it is at first.
    pub grants: Grants,
    /// The names that no plugin may take unless its policy lets it.
    pub builtin_names: Vec<&'static str>,
    /// Whether a plugin of this name is to run.
    pub enabled: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

/// The manager can't be set up. The message says whether the options must change.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The client of the API server can't be made.
    #[error("can't set up the connection to the API server")]
    Client(#[source] Box<kube::Error>),
    /// A metric of the host can't be declared: a fault of the host.
    #[error("can't declare the host's metrics")]
    Metrics(#[from] flyball_serving::metrics::MetricsError),
    /// The folder of versions can't be used.
    #[error("can't keep versions of plugins in {}: remove what lies there, or name another folder with --state-dir", .folder.display())]
    State {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another process may lead now: this one must end.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
}

/// Plugins that were loaded, and what they will run with.
pub struct Manager {
    host: Arc<Host>,
    supervisor: Supervisor,
    control: Control,
}

impl Manager {
    /// Loads the built-ins and what lies in the folders. What can't be loaded is logged and left out.
    ///
    /// # Errors
    /// The options can't be meant, or the machine refuses.
    pub async fn load(
        options: Options,
        sources: Sources,
        builtins: &[BuiltIn],
    ) -> Result<Self, ManagerError> {
        let host = Arc::new(Host::new(options)?);
        let (supervisor, control) = Supervisor::load(host.clone(), sources, builtins).await?;
        Ok(Self {
            host,
            supervisor,
            control,
        })
    }

    /// The names of the plugins that there are, built-ins included, whether they may run or not.
    pub fn names(&self) -> Vec<String> {
        self.supervisor.names()
    }

    /// The names of the plugins that come from files.
    pub fn dropped_in(&self) -> Vec<String> {
        self.supervisor.dropped_in()
    }

    /// What talks to the manager while it runs.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Runs the plugins until `shutdown`, then drains them. A process that waits for the lease does all but reconcile.
    ///
    /// # Errors
    /// The lease is lost: it ends at once.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), ManagerError> {
        let Some(election) = self.host.options.leader_election.clone() else {
            self.supervisor.run(shutdown).await;
            return Ok(());
        };
        let client = self.host.client("leader-election", Arc::new(Fence::open()));
        let (identity, fence) = (&self.host.options.identity, self.host.fence.clone());
        let elector = Elector::new(
            client,
            election,
            identity,
            fence.clone(),
            &self.host.options.metrics,
        )?;
        let _check = Elector::check(fence, &self.host.options.health);
        let released = CancellationToken::new();
        let elected = elector.run(self.host.leading.clone(), released.clone());
        let plugins = async {
            self.supervisor.run(shutdown).await;
            // Given up only now, when nothing writes any more.
            released.cancel();
        };
        tokio::pin!(elected, plugins);
        tokio::select! {
            lost = &mut elected => lost.map_err(ManagerError::from),
            () = &mut plugins => elected.await.map_err(ManagerError::from),
        }
    }
}
