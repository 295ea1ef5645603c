//! Loads the chosen built-in controllers and the plugins, and runs them until the process is stopped.

mod chosen;
mod leases;
mod needs;
mod signing_keys;
mod time_zone;
mod values;
mod zoneinfo;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use flyball_controllers::{CONTROLLERS, Start, built_in, canonical};
use flyball_dashboard::SourceSlot;
use flyball_manager::{DropIns, Manager, Options, PluginOptions, Telemetry};
use flyball_plugin::EngineOptions;
use flyball_policy::Policy;
use flyball_policy::grant::{CloudFlags, Grants};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

pub(crate) use self::chosen::choose;
pub(crate) use self::leases::{OWN_LEASE, holder_identity};
use self::needs::Needs;
use crate::builtins::{BUILTINS, Builtin, embedded};
use crate::config::RunConfig;
use crate::engine::engine;
use crate::logging::Recent;
use crate::user_folders;
use crate::{admin, ccm};

/// A time that is never reached, which tokio's clock can still add.
const UNLIMITED: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The results of earlier steps of the startup that the controllers need.
pub(crate) struct Parts {
    pub(crate) config: RunConfig,
    /// The connection to the API server. Each controller has a client with its own `qps` and `burst`.
    pub(crate) cluster: kube::Config,
    pub(crate) builtins: Vec<&'static Builtin>,
    /// Names this process. No other process ever has the same name.
    pub(crate) identity: String,
    pub(crate) telemetry: Telemetry,
    /// The last lines of the log.
    pub(crate) recent: Recent,
    /// Where the dashboard's data is set.
    pub(crate) shown: SourceSlot,
    /// Cancelled to stop the process: running reconciles finish and no new ones start.
    pub(crate) shutdown: CancellationToken,
}

/// Runs the controllers until `shutdown`. Fails if they can't start or can't continue.
pub(crate) async fn run(parts: Parts) -> anyhow::Result<()> {
    let Parts {
        config,
        cluster,
        builtins,
        identity,
        telemetry,
        recent,
        shown,
        shutdown,
    } = parts;
    let since = jiff::Timestamp::now();
    check_folders(&config.plugins.dirs)?;
    let names = builtins.iter().map(|builtin| builtin.name);
    let needs = Needs::new(names, config.plugins.may_load());
    let drop_ins = drop_ins(&config, &cluster, &needs)?;
    let has_builtins = !builtins.is_empty();
    let metrics = telemetry.metrics.clone();
    let options = options(
        &config,
        cluster,
        has_builtins,
        &needs,
        identity.clone(),
        telemetry,
    )?;
    // The list is dropped once it is loaded, which frees the code that built-in controllers share.
    let manager = Manager::load(options, drop_ins, &embedded(&builtins)).await?;
    check_names(&config, &manager)?;
    if manager.names().is_empty() && !builtins.is_empty() && !config.plugins.may_load() {
        bail!(
            "there is nothing to run: no controller could be loaded, for the reasons logged above"
        );
    }
    let host = admin::Host {
        admin: manager.admin(),
        recent,
        metrics,
        about: Arc::new(admin::About::new(&identity, config.given)),
        since,
    };
    shown.set(Arc::new(admin::InProcess(host.clone())));
    let admin = admin::serve(config.admin_socket.as_deref(), host).await?;
    let ended = manager.run(shutdown).await;
    if let Some(admin) = admin {
        admin.stop().await;
    }
    Ok(ended?)
}

/// Fails if a folder of plugins can't be read.
fn check_folders(folders: &[PathBuf]) -> anyhow::Result<()> {
    for folder in folders {
        std::fs::read_dir(folder).with_context(|| format!("--plugin-dir={}", folder.display()))?;
    }
    Ok(())
}

/// Returns where drop-ins come from, and what they are granted.
fn drop_ins(config: &RunConfig, cluster: &kube::Config, needs: &Needs) -> anyhow::Result<DropIns> {
    let plugins = &config.plugins;
    let state_folder = plugins.state_dir.clone().or_else(user_folders::state);
    let state_folder = state_folder.filter(|_| plugins.may_load());
    // `flyball approve` writes this policy, unless the operator names another one.
    let approved = state_folder.as_ref().map(|folder| folder.join("policy"));
    let policy = plugins.policy.clone().or(approved);
    let controllers = config.controllers.clone();
    Ok(DropIns {
        folders: plugins.dirs.clone(),
        grants: grants(config, cluster, needs, policy.as_deref())?,
        policy,
        versions: state_folder.map(|folder| folder.join(versions_folder(&plugins.dirs))),
        // A plugin that replaces a built-in controller runs if that controller would.
        enabled: Box::new(move |name| match canonical(name) {
            Some(_) => controllers.enables(name),
            None => controllers.enables_plugin(name),
        }),
    })
}

/// Returns the grants of built-in controllers and of the policy at `policy`. By default, there may be no policy yet.
fn grants(
    config: &RunConfig,
    cluster: &kube::Config,
    needs: &Needs,
    policy: Option<&Path>,
) -> anyhow::Result<Grants> {
    let is_named = config.plugins.policy.is_some();
    let plugins = match policy {
        Some(path) if is_named || path.exists() => Policy::read(path).context("--policy")?,
        _ => Policy::default(),
    };
    Ok(Grants {
        builtins: builtin_policies()?,
        plugins,
        trust: config.plugins.trust,
        cloud: CloudFlags {
            provider: config.cloud.provider.clone(),
            config_file: config.cloud.config_file.clone(),
        },
        config: values::values(config, cluster, needs)?,
        concurrency: config.plugins.concurrency.clone(),
        builtin_names: BUILTINS
            .iter()
            .map(|builtin| builtin.name.to_owned())
            .collect(),
    })
}

/// Returns the policies of the built-in controllers.
fn builtin_policies() -> anyhow::Result<Policy> {
    let mut all = Policy::default();
    for (controller, guest) in built_in() {
        let policy = Policy::parse(Path::new(controller.name), guest.policy)
            .context("a built-in policy is not valid")?;
        all.plugins.extend(policy.plugins);
    }
    Ok(all)
}

/// Returns the name of the folder for versions of plugins. It depends on the plugin folders, so that processes with
/// different plugin folders don't share it.
fn versions_folder(folders: &[PathBuf]) -> String {
    let mut hasher = Sha256::new();
    for folder in folders {
        let absolute = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        hasher.update(absolute.as_os_str().as_encoded_bytes());
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

/// Returns the settings that follow from the flags. Fails if a key that a controller needs can't be loaded, or if there
/// can't be an engine.
fn options(
    config: &RunConfig,
    cluster: kube::Config,
    has_builtins: bool,
    needs: &Needs,
    identity: String,
    telemetry: Telemetry,
) -> anyhow::Result<Options> {
    let signer = Arc::new(signing_keys::load(config, needs)?);
    let plugins = PluginOptions {
        engine: engine(EngineOptions::default())?,
        signer,
        qps: config.requests.qps.map_or(0.0, f64::from),
        burst: config.requests.burst,
        use_service_account_credentials: config.requests.use_service_account_credentials,
        // Plugins that are removed or replaced while the host runs end within it too.
        drain: match config.pace.shutdown_timeout.is_zero() {
            true => UNLIMITED,
            false => config.pace.shutdown_timeout,
        },
        start_interval: config.pace.start_interval,
        resync_period: config.pace.min_resync_period,
        resync_periods: resync_periods(config),
        allow_untagged_cloud: config.cloud.allow_untagged,
        shown_as: shown_as(),
        lookups: values::lookups(config),
    };
    Ok(Options {
        cluster,
        list_mode: config.list_mode(),
        holder_identity: identity,
        leader_election: leases::leader_election(config, has_builtins),
        migration: leases::migration(config),
        plugins,
        telemetry,
    })
}

/// Returns the controllers that metrics show as cloud-controller-manager's, under its names.
fn shown_as() -> BTreeMap<String, (&'static str, &'static str)> {
    let clouds = CONTROLLERS
        .iter()
        .filter(|controller| controller.start == Start::Cloud);
    let shown = clouds.map(|controller| {
        let alias = controller.aliases.first().unwrap_or(&controller.name);
        (controller.name.to_owned(), (ccm::NAME, *alias))
    });
    shown.collect()
}

/// Returns the resync periods of the controllers that have their own.
fn resync_periods(config: &RunConfig) -> BTreeMap<String, Duration> {
    let periods = config.built_ins.resync_periods.iter();
    periods
        .map(|(name, period)| ((*name).to_owned(), *period))
        .collect()
}

/// Fails if a flag names a controller that does not exist. While files are still being loaded, this is only a warning,
/// because one of them may be the plugin with that name.
fn check_names(config: &RunConfig, manager: &Manager) -> anyhow::Result<()> {
    let known = config.check_names(&manager.dropped_in());
    match known {
        Err(error) if !manager.has_loaded_files() => {
            tracing::warn!("{error:#}, or one that is still being loaded");
            Ok(())
        }
        known => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;

    #[test]
    fn namespaces_have_a_resync_period_of_their_own() {
        let args = parse(&["--namespace-sync-period=1m"]).expect("it parses");
        let periods = resync_periods(&RunConfig::read(&args).expect("valid flags"));
        assert_eq!(periods["namespace-controller"], Duration::from_secs(60));
        assert_eq!(periods["garbage-collector-controller"], Duration::ZERO);
    }
}
