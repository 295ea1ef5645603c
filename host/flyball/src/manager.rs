//! Where the manager is plugged in: what it is given, and when it is called.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use flyball_manager::policy::Policy;
use flyball_manager::{
    BuiltIn, Grants, LeaderElection, Manager, Options, PluginOptions, Sources, Telemetry,
};
use flyball_plugin::{Engine, EngineOptions, Precompiled};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::admin;
use crate::builtins::{BUILTINS, Builtin, POLICIES};
use crate::config::RunConfig;
use crate::kcm;
use crate::kcm::controllers::canonical;
use crate::logging::Recent;

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
    pub(crate) telemetry: Telemetry,
    /// The last lines of the log.
    pub(crate) recent: Recent,
    /// Cancelled when the process is to end: what runs is finished, nothing new is started.
    pub(crate) shutdown: CancellationToken,
}

/// Runs the controllers until `shutdown`. Fails if they can't be run, or can't go on.
pub(crate) async fn run(parts: Parts) -> anyhow::Result<()> {
    let config = &parts.config;
    let builtins: Vec<BuiltIn> = parts
        .builtins
        .iter()
        .map(|builtin| {
            let Builtin {
                digest,
                wasm,
                cwasm,
                ..
            } = *builtin;
            BuiltIn {
                name: builtin.canonical_name(),
                code: Precompiled {
                    digest,
                    wasm,
                    cwasm,
                },
            }
        })
        .collect();
    for folder in &config.plugin_dirs {
        std::fs::read_dir(folder).with_context(|| format!("--plugin-dir={}", folder.display()))?;
    }
    let state = config
        .state_dir
        .clone()
        .or_else(|| Some(user_folder("XDG_STATE_HOME", ".local/state")?.join("flyball")));
    let state = state.filter(|_| !config.plugin_dirs.is_empty() || config.policy.is_some());
    let approved = || Some(state.as_ref()?.join("policy"));
    let policy = config.policy.clone().or_else(approved);
    let grants = Grants {
        builtins: builtin_policies()?,
        plugins: match &policy {
            Some(path) if config.policy.is_some() || path.exists() => {
                Policy::read(path).context("--policy")?
            }
            _ => Policy::default(),
        },
        trust: config.trust_plugins,
        config: kcm::values::values(config, &parts.cluster)?,
        concurrency: config.concurrency.clone(),
        builtin_names: BUILTINS
            .iter()
            .map(|builtin| builtin.canonical_name().to_owned())
            .collect(),
    };
    let signer = Arc::new(kcm::keys::keys(config)?);
    let cache = cache_folder();
    let engine = Engine::new(EngineOptions {
        cache: cache.clone(),
        ..EngineOptions::default()
    })
    .or_else(|error| {
        // Without a cache plugins are compiled at each start: slower, and nothing else.
        tracing::warn!("{error}; plugins are compiled anew at each start");
        Engine::new(EngineOptions::default())
    })?;
    let options = Options {
        cluster: parts.cluster,
        holder_identity: holder_identity(),
        leader_election: leader_election(config, !parts.builtins.is_empty()),
        plugins: PluginOptions {
            engine,
            signer,
            qps: config.qps.map_or(0.0, f64::from),
            burst: config.burst,
            use_service_account_credentials: config.use_service_account_credentials,
            drain: config.shutdown_timeout,
        },
        telemetry: parts.telemetry,
    };
    let controllers = config.controllers.clone();
    let sources = Sources {
        folders: config.plugin_dirs.clone(),
        policy,
        state: state.map(|state| state.join(versions(&config.plugin_dirs))),
        grants,
        // A plugin that replaces a built-in runs if that one would.
        enabled: Box::new(move |name| match canonical(name) {
            Some(_) => controllers.enables(name),
            None => controllers.enables_plugin(name),
        }),
    };
    let manager = Manager::load(options, sources, &builtins).await?;
    config.check_names(&manager.dropped_in())?;
    if manager.names().is_empty() && config.plugin_dirs.is_empty() && config.policy.is_none() {
        bail!("there is nothing to run: no controller could be loaded; the lines above say why");
    }
    let ended = CancellationToken::new();
    let admin = match config.admin_socket.clone().or_else(admin::default_socket) {
        Some(path) => {
            match admin::serve(&path, manager.admin(), parts.recent, ended.clone()).await {
                Ok(serving) => Some(tokio::spawn(serving)),
                Err(error) if config.admin_socket.is_some() => return Err(error),
                Err(error) => {
                    tracing::warn!("{error:#}; the controllers run without it");
                    None
                }
            }
        }
        None => None,
    };
    let done = manager.run(parts.shutdown).await;
    ended.cancel();
    if let Some(admin) = admin {
        // It takes no time, and nothing depends on how it ended.
        let _ = admin.await;
    }
    Ok(done?)
}

/// The folder of the versions of these folders' plugins: processes with others keep theirs apart.
fn versions(folders: &[PathBuf]) -> String {
    let mut hasher = Sha256::new();
    for folder in folders {
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        hasher.update(whole.as_os_str().as_encoded_bytes());
        hasher.update([0]);
    }
    let hash: String = hasher
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("versions-{hash}")
}

/// What the built-ins are granted: what RBAC grants their counterparts.
fn builtin_policies() -> anyhow::Result<Policy> {
    let mut all = Policy::default();
    for (name, text) in POLICIES {
        let policy = Policy::parse(Path::new(name), text)
            .context("a policy of the binary's own is not valid")?;
        all.plugins.extend(policy.plugins);
    }
    Ok(all)
}

/// Where compiled plugins are kept: the user's folder for such things; none if there is none.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    Some(
        user_folder("XDG_CACHE_HOME", ".cache")?
            .join("flyball")
            .join("compiled"),
    )
}

/// The user's folder for things of one sort: that which a variable names, else its usual place at home.
pub(crate) fn user_folder(variable: &str, at_home: &str) -> Option<PathBuf> {
    let folder = |variable: &str| {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    folder(variable).or_else(|| folder("HOME").map(|home| home.join(at_home)))
}

/// What names this process: its machine, and a random number, since a container's processes all have the same id.
fn holder_identity() -> String {
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
