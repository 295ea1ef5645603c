//! Where the manager is plugged in: what it is given, and when it is called.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use flyball_manager::policy::Policy;
use flyball_manager::{BuiltIn, Grants, LeaderElection, Manager, Options, Origin, plugins_in};
use flyball_plugin::{Engine, EngineOptions};
use flyball_serving::{DebugPages, HealthChecks, Metrics};
use tokio_util::sync::CancellationToken;

use crate::builtins::{Builtin, POLICIES};
use crate::config::RunConfig;
use crate::kcm;

/// The lease of whoever runs kube-controller-manager's controllers, and that of a host of plugins.
const KCM_LEASE: &str = "kube-controller-manager";
const OWN_LEASE: &str = "flyball";

/// Everything that the manager runs with.
pub(crate) struct Parts {
    /// What the operator asked for.
    pub(crate) config: Arc<RunConfig>,
    /// How the API server is reached. Each client is made from a copy: `qps` and `burst` hold for each controller.
    pub(crate) cluster: kube::Config,
    /// The built-in controllers to run.
    pub(crate) builtins: Vec<&'static Builtin>,
    /// Where it counts what it does.
    pub(crate) metrics: Metrics,
    /// Where each running controller has a check.
    pub(crate) health: HealthChecks,
    /// What controllers show of themselves.
    pub(crate) debug: DebugPages,
    /// Cancelled when the process is to end: what runs is finished, nothing new is started.
    pub(crate) shutdown: CancellationToken,
}

/// Runs the controllers until `shutdown`. Fails if they can't be run, or can't go on.
pub(crate) async fn run(parts: Parts) -> anyhow::Result<()> {
    let config = &parts.config;
    let mut origins: Vec<Origin> = parts
        .builtins
        .iter()
        .map(|builtin| BuiltIn { name: builtin.canonical_name(), wasm: builtin.wasm, cwasm: builtin.cwasm })
        .map(Origin::BuiltIn)
        .collect();
    for folder in &config.plugin_dirs {
        let plugins = plugins_in(folder).with_context(|| format!("--plugin-dir={}", folder.display()))?;
        if plugins.is_empty() {
            tracing::warn!("--plugin-dir={} holds no .wasm file", folder.display());
        }
        origins.extend(plugins);
    }
    let grants = Grants {
        builtins: builtin_policies()?,
        plugins: config.policy.as_deref().map_or_else(|| Ok(Policy::default()), Policy::read).context("--policy")?,
        trust: config.trust_plugins,
        config: kcm::values::values(config, &parts.cluster)?,
        concurrency: config.concurrency.clone(),
    };
    let signer = Arc::new(kcm::keys::keys(config)?);
    let cache = cache_folder();
    let engine = Engine::new(EngineOptions { cache: cache.clone(), ..EngineOptions::default() }).or_else(|error| {
        // Without a cache plugins are compiled at each start: slower, and nothing else.
        tracing::warn!("{error}; plugins are compiled anew at each start");
        Engine::new(EngineOptions::default())
    })?;
    let options = Options {
        cluster: parts.cluster,
        engine,
        grants,
        signer,
        qps: config.qps.map_or(0.0, f64::from),
        burst: config.burst,
        use_service_account_credentials: config.use_service_account_credentials,
        identity: identity(),
        leader_election: leader_election(config, !parts.builtins.is_empty()),
        drain: config.shutdown_timeout,
        metrics: parts.metrics,
        health: parts.health,
        debug: parts.debug,
    };
    let mut manager = Manager::load(options, &origins).await?;
    let names = manager.names();
    let dropped_in: Vec<String> = names
        .iter()
        .filter(|name| parts.builtins.iter().all(|builtin| builtin.canonical_name() != *name))
        .cloned()
        .collect();
    let known: Vec<String> = dropped_in.iter().chain(manager.refused()).cloned().collect();
    config.check_names(&known)?;
    manager.retain(|name| !dropped_in.iter().any(|plugin| plugin == name) || config.controllers.enables_plugin(name));
    if manager.names().is_empty() {
        bail!("there is nothing to run: no plugin could be loaded; the lines above say why");
    }
    manager.run(parts.shutdown).await?;
    Ok(())
}

/// What the built-ins are granted: what RBAC grants their counterparts.
fn builtin_policies() -> anyhow::Result<Policy> {
    let mut all = Policy::default();
    for (name, text) in POLICIES {
        let policy = Policy::parse(Path::new(name), text).context("a policy of the binary's own is not valid")?;
        all.plugins.extend(policy.plugins);
    }
    Ok(all)
}

/// Where compiled plugins are kept: the user's folder for such things; none if there is none.
pub(crate) fn cache_folder() -> Option<std::path::PathBuf> {
    let folder =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(std::path::PathBuf::from);
    let base = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("flyball").join("compiled"))
}

/// What names this process: its machine, and a random number, since a container's processes all have the same id.
fn identity() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{:032x}", machine.trim(), rand::random::<u128>())
}

/// The election that was asked for. A process that runs plugins alone takes no turns with kube-controller-manager: it has
/// a lease of its own, unless one was named.
fn leader_election(config: &RunConfig, has_builtins: bool) -> Option<LeaderElection> {
    let asked = &config.leader_election;
    let own = || if has_builtins { KCM_LEASE } else { OWN_LEASE }.to_owned();
    asked.enabled.then(|| LeaderElection {
        namespace: asked.namespace.clone(),
        name: asked.name.clone().unwrap_or_else(own),
        lease_duration: asked.lease_duration,
        renew_deadline: asked.renew_deadline,
        retry_period: asked.retry_period,
    })
}
