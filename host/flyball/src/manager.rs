//! Where the manager is plugged in: what it is given, and when it is called.

use std::sync::Arc;

use flyball_serving::{HealthChecks, Metrics};
use tokio_util::sync::CancellationToken;

use crate::builtins::Builtin;
use crate::config::RunConfig;

/// Everything that the manager runs with.
pub(crate) struct Parts {
    /// What the operator asked for.
    pub(crate) config: Arc<RunConfig>,
    /// How the API server is reached. Each client is made from a copy: `qps` and `burst` hold for each controller.
    #[expect(dead_code, reason = "the manager is not there yet")]
    pub(crate) cluster: kube::Config,
    /// The built-in controllers to run.
    pub(crate) builtins: Vec<&'static Builtin>,
    /// Where it counts what it does.
    #[expect(dead_code, reason = "the manager is not there yet")]
    pub(crate) metrics: Metrics,
    /// Where each running controller has a check.
    #[expect(dead_code, reason = "the manager is not there yet")]
    pub(crate) health: HealthChecks,
    /// Cancelled when the process is to end: what runs is finished, nothing new is started.
    pub(crate) shutdown: CancellationToken,
}

/// Runs the controllers until `shutdown`. Fails if they can't be run, or can't go on.
pub(crate) async fn run(parts: Parts) -> anyhow::Result<()> {
    // The names of the loaded plugins go here, once there are some.
    parts.config.check_names(&[])?;
    let controllers: Vec<&str> = parts.builtins.iter().map(|builtin| builtin.canonical_name()).collect();
    tracing::warn!(?controllers, "there is no manager in this build yet: nothing is reconciled");
    parts.shutdown.cancelled().await;
    Ok(())
}
