//! Configures and runs the manager.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use flyball_api::lease::{CandidateVersions, LeaderElection};
use flyball_controllers::{built_in, canonical};
use flyball_manager::{BuiltIn, Manager, Migration, Options, PluginOptions, Sources, Telemetry};
use flyball_plugin::{EngineOptions, Packed, Precompiled, SharedCode};
use flyball_policy::Policy;
use flyball_policy::grant::Grants;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::admin;
use crate::builtins::{BUILTINS, Builtin, SHARED};
use crate::config::RunConfig;
use crate::engine::engine;
use crate::kcm;
use crate::kcm::versions::CURRENT;
use crate::logging::Recent;
use crate::user_folders;

/// Default name of the Lease of a process that runs built-in controllers: the one of kube-controller-manager, which
/// then doesn't run at the same time.
const KCM_LEASE: &str = "kube-controller-manager";
/// Default name of the Lease of a process that runs only plugins.
pub(crate) const OWN_LEASE: &str = "flyball";

/// A time that is never reached, which tokio's clock can still add.
const UNLIMITED: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The parts that the manager is built from.
pub(crate) struct Parts {
    pub(crate) config: Arc<RunConfig>,
    /// The connection to the API server. Each controller has a client with its own `qps` and `burst`.
    pub(crate) cluster: kube::Config,
    /// The built-in controllers to run.
    pub(crate) builtins: Vec<&'static Builtin>,
    /// The enabled controllers of kube-controller-manager that this binary lacks.
    pub(crate) missing: Vec<&'static str>,
    pub(crate) telemetry: Telemetry,
    /// The last lines of the log.
    pub(crate) recent: Recent,
    /// Cancelled to stop the process: running reconciles finish and no new ones start.
    pub(crate) shutdown: CancellationToken,
}

/// Runs the controllers until `shutdown`. Fails if they can't start or can't continue.
pub(crate) async fn run(parts: Parts) -> anyhow::Result<()> {
    let config = &parts.config;
    let shared = SharedCode::new(SHARED);
    let embedded = |builtin: &&'static Builtin| BuiltIn {
        name: builtin.name,
        component: Precompiled {
            digest: builtin.digest,
            size: builtin.size,
            code: Packed {
                shared: shared.clone(),
                part: builtin.part,
            },
        },
    };
    let builtins: Vec<BuiltIn> = parts.builtins.iter().map(embedded).collect();
    for folder in &config.plugins.dirs {
        std::fs::read_dir(folder).with_context(|| format!("--plugin-dir={}", folder.display()))?;
    }
    let state = config
        .plugins
        .state_dir
        .clone()
        .or_else(user_folders::state);
    let state = state.filter(|_| config.plugins.may_load());
    let approved = || Some(state.as_ref()?.join("policy"));
    let policy = config.plugins.policy.clone().or_else(approved);
    let grants = Grants {
        builtins: builtin_policies()?,
        plugins: match &policy {
            Some(path) if config.plugins.policy.is_some() || path.exists() => {
                Policy::read(path).context("--policy")?
            }
            _ => Policy::default(),
        },
        trust: config.plugins.trust,
        config: kcm::values::values(config, &parts.cluster)?,
        concurrency: config.plugins.concurrency.clone(),
        builtin_names: BUILTINS
            .iter()
            .map(|builtin| builtin.name.to_owned())
            .collect(),
    };
    let signer = Arc::new(kcm::keys::keys(config)?);
    let options = Options {
        cluster: parts.cluster,
        list_mode: config.list_mode(),
        holder_identity: holder_identity(),
        leader_election: leader_election(config, !parts.builtins.is_empty()),
        migration: migration(config),
        plugins: PluginOptions {
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
        },
        telemetry: parts.telemetry,
    };
    let controllers = config.controllers.clone();
    let sources = Sources {
        folders: config.plugins.dirs.clone(),
        policy,
        state: state.map(|state| state.join(versions(&config.plugins.dirs))),
        grants,
        // A plugin that replaces a built-in controller runs if that controller would.
        enabled: Box::new(move |name| match canonical(name) {
            Some(_) => controllers.enables(name),
            None => controllers.enables_plugin(name),
        }),
    };
    let manager = Manager::load(options, sources, &builtins).await?;
    // Frees the shared code.
    drop((shared, builtins));
    let known = config.check_names(&manager.dropped_in());
    match known {
        // The name may belong to a plugin that is not loaded yet.
        Err(error) if !manager.has_loaded_files() => {
            tracing::warn!("{error:#}, or one that is still being loaded")
        }
        known => known?,
    }
    if !parts.builtins.is_empty() && manager.names().is_empty() && !config.plugins.may_load() {
        bail!(
            "there is nothing to run: no controller could be loaded, for the reasons logged above"
        );
    }
    let host = admin::Host {
        admin: manager.admin(),
        recent: parts.recent,
        missing: parts.missing,
    };
    let admin = admin::serve(config.admin_socket.as_deref(), host).await?;
    let done = manager.run(parts.shutdown).await;
    if let Some(admin) = admin {
        admin.stop().await;
    }
    Ok(done?)
}

/// Returns the resync periods of the controllers that have their own.
fn resync_periods(config: &RunConfig) -> BTreeMap<String, Duration> {
    let periods = config.built_ins.resync_periods.iter();
    periods
        .map(|(name, period)| ((*name).to_owned(), *period))
        .collect()
}

/// Returns the name of the folder for versions of plugins. It depends on the plugin folders, so that processes with
/// different plugin folders don't share it.
fn versions(folders: &[PathBuf]) -> String {
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

/// Returns the identity of this process in the Lease: the host name and a random number. A process id would not be
/// unique, because processes in different containers may have the same one. A standby recognises another Flyball by the
/// 32 hex digits.
fn holder_identity() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{:032x}", machine.trim(), rand::random::<u128>())
}

/// Returns the settings of leader election; none if it is disabled. By default, a process that runs only plugins does
/// not compete with kube-controller-manager for its Lease.
fn leader_election(config: &RunConfig, has_builtins: bool) -> Option<LeaderElection> {
    let settings = &config.leader_election;
    let default_name = || if has_builtins { KCM_LEASE } else { OWN_LEASE }.to_owned();
    settings.enabled.then(|| LeaderElection {
        namespace: settings.namespace.clone(),
        name: settings.name.clone().unwrap_or_else(default_name),
        lease_duration: settings.lease_duration,
        renew_deadline: settings.renew_deadline,
        retry_period: settings.retry_period,
        // Off in kube-controller-manager unless the operator turns it on. The next leader then waits for 15 s.
        is_given_up: !config
            .feature_gates
            .is_turned_off("ControllerManagerReleaseLeaderElectionLockOnExit"),
        candidate: candidate(config).filter(|_| has_builtins),
    })
}

/// Returns the versions by which the API server chooses the leader; none if the processes elect it.
fn candidate(config: &RunConfig) -> Option<CandidateVersions> {
    let is_coordinated = config.feature_gates.is_enabled("CoordinatedLeaderElection");
    is_coordinated.then(|| CandidateVersions {
        binary: format!("{CURRENT}.0"),
        emulation: format!("{}.0", config.versions.emulated),
    })
}

/// Returns the second lease and the controllers that run under it; none without leader migration.
fn migration(config: &RunConfig) -> Option<Migration> {
    let migration = config.leader_election.migration.as_ref()?;
    let main = leader_election(config, true)?;
    Some(Migration {
        election: LeaderElection {
            name: migration.lease.clone(),
            // The API server chooses no holder of this lease, because it has no candidates.
            candidate: None,
            ..main
        },
        controllers: migration.migrated().map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_have_a_resync_period_of_their_own() {
        let args = crate::flags::parse(&["--namespace-sync-period=1m"]).expect("it parses");
        let periods = resync_periods(&RunConfig::read(&args).expect("valid flags"));
        assert_eq!(periods["namespace-controller"], Duration::from_secs(60));
        assert_eq!(periods["garbage-collector-controller"], Duration::ZERO);
    }

    #[test]
    fn the_api_server_chooses_the_leader_behind_a_gate_and_only_of_the_main_lease() {
        let read = |gate: bool, more: &[&str]| {
            let gate = format!("--feature-gates=CoordinatedLeaderElection={gate}");
            let flags = [&[gate.as_str()], more].concat();
            RunConfig::read(&crate::flags::parse(&flags).expect("it parses")).expect("valid flags")
        };
        let on = read(
            true,
            &["--emulated-version=1.35", "--enable-leader-migration"],
        );
        let chosen = leader_election(&on, true).and_then(|election| election.candidate);
        let chosen = chosen.expect("it is a candidate");
        assert_eq!((&*chosen.binary, &*chosen.emulation), ("1.36.0", "1.35.0"));
        let second = migration(&on).expect("there is a second lease");
        assert!(second.election.candidate.is_none());
        let plugins_alone = leader_election(&on, false).expect("it is elected");
        assert!(plugins_alone.candidate.is_none());
        let off = leader_election(&read(false, &[]), true).expect("it is elected");
        assert!(off.candidate.is_none());
    }

    #[test]
    fn the_lease_is_given_up_unless_a_gate_is_turned_off() {
        let is_given_up = |flags: &[&str]| {
            let args = crate::flags::parse(flags).expect("it parses");
            let config = RunConfig::read(&args).expect("valid flags");
            leader_election(&config, true).is_some_and(|election| election.is_given_up)
        };
        let gate = "--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit";
        assert!(is_given_up(&[]));
        assert!(is_given_up(&[&format!("{gate}=true")]));
        assert!(!is_given_up(&[&format!("{gate}=false")]));
    }
}
