//! Starts the parts of the process in order, and stops them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use flyball_controllers::{CONTROLLERS, Need};
use flyball_manager::Telemetry;
use flyball_serving::review::{AccessReviewer, KubeReviewer, TokenReviewer, TrustLookup};
use flyball_serving::{
    Authentication, Authorization, Bound, BuildVersions, DebugPages, Endpoints, HealthChecks,
    Metrics, SetVerbosity, ZPages, bind,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::client::ClientBuilder;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::builtins::{BUILTINS, Builtin, that_need};
use crate::cluster;
use crate::config::{ClusterConfig, RunConfig, ServingConfig};
use crate::kcm::feature_gates::{FeatureGates, Gate};
use crate::kcm::leader_migration::LeaderMigration;
use crate::kcm::missing::consequence;
use crate::kcm::versions::Versions;
use crate::logging::Recent;
use crate::{logging, manager};

/// The version of Kubernetes whose kube-controller-manager this process stands for.
const KUBERNETES: &str = "1.36.3";

/// A part of the process. Its start function finds what earlier parts produced in [`Started`].
struct Part {
    name: &'static str,
    start: for<'a> fn(&'a mut Started) -> BoxFuture<'a, anyhow::Result<()>>,
}

/// The parts in the order in which they start: first those that fail if the command line is wrong, then those that fail
/// if the machine refuses something, and last those that need the API server.
const PARTS: &[Part] = &[
    Part {
        name: "log",
        start: |started| start_log(started).boxed(),
    },
    Part {
        name: "signals",
        start: |started| watch_signals(started).boxed(),
    },
    Part {
        name: "controllers",
        start: |started| choose_controllers(started).boxed(),
    },
    Part {
        name: "cluster",
        start: |started| find_cluster(started).boxed(),
    },
    Part {
        name: "port",
        start: |started| bind_port(started).boxed(),
    },
    Part {
        name: "serving",
        start: |started| start_serving(started).boxed(),
    },
    Part {
        name: "manager",
        start: |started| start_manager(started).boxed(),
    },
];

/// The parts that have been started.
struct Started {
    config: Arc<RunConfig>,
    telemetry: Telemetry,
    recent: Recent,
    set_verbosity: SetVerbosity,
    builtins: Vec<&'static Builtin>,
    /// The enabled controllers that this binary lacks.
    missing: Vec<&'static str>,
    cluster: Option<kube::Config>,
    port: Option<(Bound, Handle)>,
    /// Cancelled to stop the controllers.
    shutdown: CancellationToken,
    manager: Option<JoinHandle<anyhow::Result<()>>>,
    /// Cancelled when the controllers have stopped: health checks and metrics are served until then.
    stop_serving: CancellationToken,
    serving: Option<JoinHandle<()>>,
}

/// Runs the process until a signal stops it. Fails if a part can't start or can't continue.
pub(crate) async fn run(config: RunConfig) -> anyhow::Result<()> {
    let mut started = Started::new(config);
    for part in PARTS {
        tracing::debug!(part = part.name, "starting");
        (part.start)(&mut started).await?;
    }
    started.wait().await
}

impl Started {
    fn new(config: RunConfig) -> Self {
        Self {
            config: Arc::new(config),
            telemetry: Telemetry {
                metrics: Metrics::new(),
                health: HealthChecks::default(),
                debug: DebugPages::default(),
            },
            recent: Recent::default(),
            set_verbosity: Arc::new(|_| {}),
            builtins: Vec::new(),
            missing: Vec::new(),
            cluster: None,
            port: None,
            shutdown: CancellationToken::new(),
            manager: None,
            stop_serving: CancellationToken::new(),
            serving: None,
        }
    }

    /// Waits until the manager ends, then stops serving. After `shutdown`, waits for `shutdown_timeout` at most, or
    /// without limit if that is zero.
    async fn wait(&mut self) -> anyhow::Result<()> {
        let mut ended = Ok(());
        if let Some(mut manager) = self.manager.take() {
            let timeout = self.config.pace.shutdown_timeout;
            let overdue = async {
                self.shutdown.cancelled().await;
                match timeout.is_zero() {
                    true => std::future::pending().await,
                    false => tokio::time::sleep(timeout).await,
                }
            };
            ended = tokio::select! {
                joined = &mut manager => joined.context("the manager panicked").flatten(),
                () = overdue => {
                    tracing::warn!(?timeout, "the controllers did not stop in time");
                    manager.abort();
                    Ok(())
                }
            };
        }
        self.stop_serving.cancel();
        if let Some(serving) = self.serving.take()
            && let Err(error) = serving.await
        {
            tracing::warn!(%error, "serving ended early");
        }
        ended
    }
}

async fn start_log(started: &mut Started) -> anyhow::Result<()> {
    (started.recent, started.set_verbosity) = logging::start(&started.config.logging);
    let metrics = &started.telemetry.metrics;
    metrics.restrict(started.config.metrics.clone());
    for warning in &started.config.warnings {
        tracing::warn!("{warning}");
    }
    show_versions(metrics, &started.config.versions)?;
    show_gates(metrics, &started.config.feature_gates)
}

/// Shows the versions of Kubernetes as kube-controller-manager does.
fn show_versions(metrics: &Metrics, versions: &Versions) -> anyhow::Result<()> {
    let labels = ["component", "binary", "emulation", "min_compat"];
    let info = metrics.gauge(
        "version_info",
        "Always 1. The labels have the versions.",
        &labels,
    )?;
    let (emulated, least) = (
        versions.emulated.to_string(),
        versions.min_compatibility.to_string(),
    );
    info.with_label_values(&["kube", KUBERNETES, &emulated, &least])
        .set(1.0);
    Ok(())
}

/// Shows the feature gates as kube-controller-manager does.
fn show_gates(metrics: &Metrics, gates: &FeatureGates) -> anyhow::Result<()> {
    let name = "kubernetes_feature_enabled";
    let help = "Whether a feature gate of Kubernetes is on: 1 or 0.";
    let enabled = metrics.gauge(name, help, &["name", "stage"])?;
    for (name, Gate { stage, is_on, .. }) in gates.all() {
        enabled
            .with_label_values(&[name, stage])
            .set(f64::from(u8::from(is_on)));
    }
    Ok(())
}

/// The first SIGTERM or SIGINT stops the controllers gracefully. The second ends the process immediately.
async fn watch_signals(started: &mut Started) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let shutdown = started.shutdown.clone();
    tokio::spawn(async move {
        for is_second in [false, true] {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            if is_second {
                tracing::warn!("{name} again: exiting immediately");
                std::process::exit(1);
            }
            tracing::info!("{name}: stopping the controllers; a second signal exits immediately");
            shutdown.cancel();
        }
    });
    Ok(())
}

async fn choose_controllers(started: &mut Started) -> anyhow::Result<()> {
    let config = &started.config;
    if config.plugins.dirs.is_empty() && config.plugins.policy.is_none() {
        config.check_names(&[])?;
    }
    let available: Vec<&str> = BUILTINS.iter().map(|builtin| builtin.name).collect();
    let mut resolution = config
        .controllers
        .resolve(&available, &config.feature_gates);
    for controller in CONTROLLERS {
        let turned_off = controller
            .enabled_by
            .filter(|flag| config.built_ins.turned_off.contains(flag));
        if let Some(flag) = turned_off
            && resolution.disable(controller.name)
        {
            tracing::info!(
                controller = controller.name,
                "the controller does not run: --{flag}=false"
            );
        }
    }
    let migration = config.leader_election.migration.iter();
    for controller in migration.flat_map(LeaderMigration::of_others) {
        if resolution.disable(controller) {
            tracing::info!(
                controller,
                "the controller does not run: --leader-migration-config gives it to another component"
            );
        }
    }
    for controller in CONTROLLERS {
        let off = controller
            .gates
            .iter()
            .find(|gate| !config.feature_gates.is_enabled(gate));
        if let Some(gate) = off
            && resolution.disable(controller.name)
        {
            tracing::info!(
                controller = controller.name,
                "the controller does not run: the feature gate {gate} is off"
            );
        }
    }
    let lacks_key = config.built_ins.service_account_key_file.is_none();
    for controller in that_need(Need::ServiceAccountKey).filter(|_| lacks_key) {
        if resolution.disable(controller) {
            tracing::info!(
                controller,
                "the controller does not run: --service-account-private-key-file is missing"
            );
        }
    }
    let lacks_authority = config.built_ins.cluster_signing.is_empty();
    for controller in that_need(Need::ClusterSigning).filter(|_| lacks_authority) {
        if resolution.disable(controller) {
            tracing::info!(
                controller,
                "the controller does not run: --cluster-signing-cert-file and --cluster-signing-key-file are missing"
            );
        }
    }
    let without_builtins = "built without built-in controllers: build with `cargo xtask build`";
    // A policy may name packages of plugins in registries.
    let nothing_to_run = resolution.enabled.is_empty()
        && config.plugins.dirs.is_empty()
        && config.plugins.policy.is_none();
    match (
        BUILTINS.is_empty(),
        resolution.missing.is_empty(),
        nothing_to_run,
    ) {
        (true, false, true) => bail!("{without_builtins}"),
        (true, false, false) => tracing::warn!("{without_builtins}"),
        (false, false, _) => {
            let missing = resolution.missing.iter();
            let missing = missing.map(|name| format!("{name} ({})", consequence(name)));
            let missing = missing.collect::<Vec<_>>().join(", ");
            tracing::warn!(
                "these controllers are not part of Flyball yet, and don't run: {missing}; let a kube-controller-manager run \
                 them beside this process, with a lease of its own"
            );
        }
        (_, true, _) => {}
    }
    if nothing_to_run {
        match resolution.missing_by_name.as_slice() {
            // Like kube-controller-manager, continues and serves health checks and metrics.
            [] => tracing::warn!(
                "no controller runs: --controllers enables none that can, and there is neither --plugin-dir nor --policy"
            ),
            names => {
                bail!(
                    "there is nothing to run: Flyball has no {} yet, and there is no --plugin-dir",
                    names.join(", ")
                )
            }
        }
    }
    started.missing = resolution.missing;
    started.builtins = BUILTINS
        .iter()
        .filter(|builtin| resolution.enabled.iter().any(|name| name == builtin.name))
        .collect();
    Ok(())
}

async fn find_cluster(started: &mut Started) -> anyhow::Result<()> {
    let config = cluster::config(&started.config.cluster).await?;
    warn_if_unverified(&config, "kubeconfig");
    started.cluster = Some(config);
    Ok(())
}

/// Warns once, not for each connection, if the certificate of the API server is not verified.
fn warn_if_unverified(config: &kube::Config, flag: &str) {
    if config.accept_invalid_certs {
        tracing::warn!(
            "the kubeconfig of --{flag} skips the verification of the API server's certificate: anybody between it and this \
             process can pose as the API server"
        );
    }
}

async fn bind_port(started: &mut Started) -> anyhow::Result<()> {
    if let Some(serving) = &started.config.serving {
        let (options, thread) = (serving.options.clone(), serving_thread()?);
        let bound = thread.spawn(async move { bind(&options).await }).await;
        started.port = Some((bound.context("binding the port panicked")??, thread));
    }
    Ok(())
}

/// Starts the thread that serves HTTPS. A handshake costs milliseconds of CPU time, and any client may ask for one. On
/// its own thread, it delays neither the lease nor a write. The thread ends with the process.
fn serving_thread() -> anyhow::Result<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    let serve = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new()
        .name("serving".to_owned())
        .spawn(serve)?;
    Ok(handle)
}

async fn start_serving(started: &mut Started) -> anyhow::Result<()> {
    let (Some(serving), Some((port, thread))) = (&started.config.serving, started.port.take())
    else {
        return Ok(());
    };
    let tokens = reviewer(
        started,
        "authentication-kubeconfig",
        serving.authentication_kubeconfig.as_deref(),
    )
    .await?;
    let access = reviewer(
        started,
        "authorization-kubeconfig",
        serving.authorization_kubeconfig.as_deref(),
    )
    .await?;
    let lookup = tokens.clone().filter(|_| !serving.skip_lookup);
    let authentication = Authentication::new(
        serving.authentication.clone(),
        tokens.map(|reviewer| reviewer as Arc<dyn TokenReviewer>),
        lookup.map(|reviewer| reviewer as Arc<dyn TrustLookup>),
    );
    if let Err(problem) = authentication.check_files().await {
        bail!("{problem}");
    }
    if let Err(refused) = authentication.check_lookup().await {
        if !serving.tolerate_lookup_failure {
            bail!(
                "{refused}: grant the role extension-apiserver-authentication-reader, or set --authentication-tolerate-lookup-failure"
            );
        }
        tracing::warn!("{refused}; this may treat all requests as anonymous");
    }
    let access = access.map(|reviewer| reviewer as Arc<dyn AccessReviewer>);
    let endpoints = Endpoints {
        health: started.telemetry.health.clone(),
        debug: started.telemetry.debug.clone(),
        metrics: started.telemetry.metrics.clone(),
        zpages: Arc::new(zpages(&started.config, serving)),
        configz: serving.configz.as_str().into(),
        profiling: serving.profiling.then(|| started.set_verbosity.clone()),
        authentication: Arc::new(authentication),
        authorization: Arc::new(Authorization::new(serving.authorization.clone(), access)),
    };
    let shutdown = started.shutdown.clone();
    let ending =
        started
            .telemetry
            .health
            .add_readiness("shutdown", move || match shutdown.is_cancelled() {
                true => Err("the process is ending".to_owned()),
                false => Ok(()),
            });
    tracing::info!(address = %port.address()?, "serving over HTTPS");
    let stop = started.stop_serving.clone();
    started.serving = Some(thread.spawn(async move {
        port.serve(endpoints, stop).await;
        drop(ending);
    }));
    Ok(())
}

/// Returns `/flagz` and `/statusz`, each unless its feature gate is off.
fn zpages(config: &RunConfig, serving: &ServingConfig) -> ZPages {
    let gates = &config.feature_gates;
    let flags = gates
        .is_enabled("ComponentFlagz")
        .then(|| serving.flagz.clone());
    let versions = BuildVersions {
        // The field for binaries that Go did not compile. The other versions are Kubernetes versions.
        compiler: concat!("Flyball ", env!("CARGO_PKG_VERSION"), " (rustc)").to_owned(),
        binary: KUBERNETES.to_owned(),
        emulation: config.versions.emulated.to_string(),
    };
    // The paths that kube-controller-manager lists: no probes, and the shortest of several paths with the same
    // beginning.
    let paths = ["/configz", "/flagz", "/healthz", "/metrics"];
    let is_served = |path: &&str| flags.is_some() || *path != "/flagz";
    ZPages {
        component: "kube-controller-manager".to_owned(),
        paths: paths
            .into_iter()
            .filter(is_served)
            .map(str::to_owned)
            .collect(),
        flags,
        speaks_cbor: gates.is_enabled("CBORServingAndStorage"),
        versions: gates.is_enabled("ComponentStatusz").then_some(versions),
    }
}

/// Returns the client for TokenReviews and SubjectAccessReviews: with the credentials of this kubeconfig, or else of
/// the pod's service account. Returns none outside of a cluster without a kubeconfig.
async fn reviewer(
    started: &Started,
    flag: &str,
    kubeconfig: Option<&Path>,
) -> anyhow::Result<Option<Arc<KubeReviewer>>> {
    let source = ClusterConfig {
        kubeconfig: kubeconfig.map(Path::to_owned),
        ..ClusterConfig::default()
    };
    let config = match cluster::config(&source).await {
        Ok(config) => config,
        Err(error) if kubeconfig.is_some() => {
            return Err(error).with_context(|| format!("--{flag}"));
        }
        Err(_) => {
            tracing::info!(
                "no --{flag}, and this process does not run in a pod: users are not reviewed"
            );
            return Ok(None);
        }
    };
    if kubeconfig != started.config.cluster.kubeconfig.as_deref() {
        warn_if_unverified(&config, flag);
    }
    let requests = started.telemetry.metrics.rest_client()?;
    let requests = requests.layer(&config.cluster_url);
    let client = ClientBuilder::try_from(config).with_context(|| format!("--{flag}"))?;
    let client = client.with_layer(&requests).build();
    Ok(Some(Arc::new(KubeReviewer::new(client))))
}

async fn start_manager(started: &mut Started) -> anyhow::Result<()> {
    let cluster = started
        .cluster
        .take()
        .context("the cluster must be configured before the manager starts")?;
    let parts = manager::Parts {
        config: started.config.clone(),
        cluster,
        builtins: std::mem::take(&mut started.builtins),
        missing: std::mem::take(&mut started.missing),
        telemetry: started.telemetry.clone(),
        recent: started.recent.clone(),
        shutdown: started.shutdown.clone(),
    };
    started.manager = Some(tokio::spawn(manager::run(parts)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::flags::parse;

    fn started() -> Started {
        Started::new(RunConfig::read(&parse(&[]).expect("it parses")).expect("valid flags"))
    }

    #[tokio::test(start_paused = true)]
    async fn serving_ends_after_the_controllers() {
        let mut started = started();
        let (shutdown, stop, told) = (
            started.shutdown.clone(),
            started.stop_serving.clone(),
            started.stop_serving.clone(),
        );
        started.manager = Some(tokio::spawn(async move {
            shutdown.cancelled().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(!told.is_cancelled(), "serving ended first");
            Ok(())
        }));
        started.serving = Some(tokio::spawn(async move { stop.cancelled().await }));
        started.shutdown.cancel();
        let begin = Instant::now();
        started.wait().await.expect("it ends well");
        assert_eq!(begin.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn controllers_that_do_not_stop_in_time_are_aborted() {
        let mut started = started();
        started.manager = Some(tokio::spawn(std::future::pending()));
        started.shutdown.cancel();
        let begin = Instant::now();
        started.wait().await.expect("it ends well");
        assert_eq!(begin.elapsed(), Duration::from_secs(10));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_timeout_the_controllers_may_take_any_time_to_stop() {
        let args = parse(&["--controller-shutdown-timeout=0"]).expect("it parses");
        let mut started = Started::new(RunConfig::read(&args).expect("valid flags"));
        let hour = Duration::from_secs(3600);
        started.manager = Some(tokio::spawn(async move {
            tokio::time::sleep(hour).await;
            Ok(())
        }));
        started.shutdown.cancel();
        let begin = Instant::now();
        started.wait().await.expect("it ends well");
        assert_eq!(begin.elapsed(), hour);
    }

    #[tokio::test]
    async fn serving_shares_no_thread_with_the_controllers() {
        let name = || std::thread::current().name().map(str::to_owned);
        let serving = serving_thread().expect("a thread");
        let of_serving = serving.spawn(async move { name() }).await;
        assert_eq!(of_serving.expect("no panic").as_deref(), Some("serving"));
        assert_ne!(name().as_deref(), Some("serving"));
    }

    #[tokio::test]
    async fn a_failed_or_panicked_manager_is_an_error() {
        let mut failing = started();
        failing.manager = Some(tokio::spawn(async { bail!("the lease is lost") }));
        assert_eq!(
            failing.wait().await.expect_err("it failed").to_string(),
            "the lease is lost"
        );
        let mut faulty = started();
        faulty.manager = Some(tokio::spawn(async { panic!("in a test") }));
        let said = faulty.wait().await.expect_err("it panicked").to_string();
        assert_eq!(said, "the manager panicked");
    }
}
