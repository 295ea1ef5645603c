//! Starts the parts of the process one after another, and stops them.

use std::time::Duration;

use anyhow::Context;
use flyball_controllers::CONTROLLERS;
use flyball_dashboard::SourceSlot;
use flyball_manager::Telemetry;
use flyball_serving::{DebugPages, HealthChecks, KUBERNETES, Metrics};
use flyball_traces::{Exporting, Tracer};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::RunConfig;
use crate::kcm::feature_gates::{FeatureGates, Gate};
use crate::kcm::versions::Versions;
use crate::serving::{Port, Server};
use crate::{cluster, controllers, logging};

/// Runs the process until a signal stops it. Fails if a part can't start or can't continue.
///
/// The first steps fail if the command line is wrong, the next ones if the machine refuses something, and the last ones
/// need the API server.
pub(crate) async fn run(config: RunConfig) -> anyhow::Result<()> {
    let (recent, set_verbosity) = logging::start(&config.logging);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let identity = controllers::holder_identity();
    let mut telemetry = telemetry(&config)?;
    let exporting = start_traces(&config, &identity, &mut telemetry)?;
    let shutdown = shut_down_on_signals()?;
    let builtins = controllers::choose(&config)?;
    let cluster = cluster::config(&config.cluster).await?;
    cluster::warn_if_unverified(&cluster, "kubeconfig");
    let port = match &config.serving {
        Some(serving) => Some(Port::bind(serving).await?),
        None => None,
    };
    // The port is served before the plugins are loaded.
    let shown = SourceSlot::default();
    let server = match port {
        Some(port) => {
            let shown = shown.clone();
            let serving = port.serve(&config, &telemetry, set_verbosity, shown, &shutdown);
            Some(serving.await?)
        }
        None => None,
    };
    let timeout = config.pace.shutdown_timeout;
    let controllers = tokio::spawn(controllers::run(controllers::Parts {
        config,
        cluster,
        builtins,
        identity,
        telemetry,
        recent,
        shown,
        shutdown: shutdown.clone(),
    }));
    let ended = until_ended(controllers, server, &shutdown, timeout).await;
    if let Some(exporting) = exporting {
        exporting.end().await;
    }
    ended
}

/// Creates the metrics, health checks and debug pages, and shows the versions and feature gates of Kubernetes.
fn telemetry(config: &RunConfig) -> anyhow::Result<Telemetry> {
    let metrics = Metrics::new();
    if config.feature_gates.is_enabled("NativeHistograms") {
        let controllers = CONTROLLERS.iter();
        let classic = controllers.filter(|controller| !controller.native_histograms);
        metrics.add_native_histograms(classic.map(|controller| controller.name));
    }
    metrics.restrict(config.metrics.clone());
    show_versions(&metrics, &config.versions)?;
    show_gates(&metrics, &config.feature_gates)?;
    Ok(Telemetry {
        metrics,
        health: HealthChecks::default(),
        debug: DebugPages::default(),
        tracer: Tracer::default(),
    })
}

/// Starts to export traces, if they are configured.
fn start_traces(
    config: &RunConfig,
    identity: &str,
    telemetry: &mut Telemetry,
) -> anyhow::Result<Option<Exporting>> {
    let Some(options) = &config.tracing else {
        return Ok(None);
    };
    let (name, version) = ("flyball", env!("CARGO_PKG_VERSION"));
    let (tracer, exporting) =
        flyball_traces::start(options, name, version, identity, &telemetry.metrics)
            .context("--tracing-config-file")?;
    tracing::info!(
        endpoint = options.endpoint,
        per_million = options.sampling_rate_per_million,
        "exporting traces"
    );
    telemetry.tracer = tracer;
    Ok(Some(exporting))
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

/// Returns the token that the first SIGTERM or SIGINT cancels, to stop the controllers gracefully. The second signal
/// ends the process immediately.
fn shut_down_on_signals() -> anyhow::Result<CancellationToken> {
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let shutdown = CancellationToken::new();
    let cancelled = shutdown.clone();
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
            cancelled.cancel();
        }
    });
    Ok(shutdown)
}

/// Waits until the controllers end, then stops the server: health checks and metrics are served until then. After
/// `shutdown`, waits for `timeout` at most, or without limit if that is zero.
async fn until_ended(
    mut controllers: JoinHandle<anyhow::Result<()>>,
    server: Option<Server>,
    shutdown: &CancellationToken,
    timeout: Duration,
) -> anyhow::Result<()> {
    let overdue = async {
        shutdown.cancelled().await;
        match timeout.is_zero() {
            true => std::future::pending().await,
            false => tokio::time::sleep(timeout).await,
        }
    };
    let ended = tokio::select! {
        joined = &mut controllers => joined.context("the task of the controllers panicked").flatten(),
        () = overdue => {
            tracing::warn!(?timeout, "the controllers did not stop in time");
            controllers.abort();
            Ok(())
        }
    };
    if let Some(server) = server {
        server.stop().await;
    }
    ended
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anyhow::bail;
    use tokio::runtime::Handle;
    use tokio::time::Instant;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn serving_ends_after_the_controllers() {
        let (shutdown, served) = (CancellationToken::new(), CancellationToken::new());
        let (begun, ended) = (shutdown.clone(), served.clone());
        let controllers = tokio::spawn(async move {
            begun.cancelled().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(!ended.is_cancelled(), "serving ended first");
            Ok(())
        });
        let ended = served.clone();
        let server = Server::spawn(&Handle::current(), |stop| async move {
            stop.cancelled().await;
            ended.cancel();
        });
        shutdown.cancel();
        let begin = Instant::now();
        let done = until_ended(controllers, Some(server), &shutdown, TIMEOUT).await;
        done.expect("it ends well");
        assert_eq!(begin.elapsed(), Duration::from_secs(5));
        assert!(served.is_cancelled(), "the server is joined");
    }

    #[tokio::test(start_paused = true)]
    async fn controllers_that_do_not_stop_in_time_are_aborted() {
        let (shutdown, held) = (CancellationToken::new(), Arc::new(()));
        let dropped = Arc::downgrade(&held);
        let controllers = tokio::spawn(async move {
            let _held = held;
            std::future::pending().await
        });
        shutdown.cancel();
        let begin = Instant::now();
        let done = until_ended(controllers, None, &shutdown, TIMEOUT).await;
        done.expect("it ends well");
        assert_eq!(begin.elapsed(), TIMEOUT);
        tokio::task::yield_now().await;
        assert_eq!(dropped.strong_count(), 0, "the task is dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_timeout_the_controllers_may_take_any_time_to_stop() {
        let (shutdown, hour) = (CancellationToken::new(), Duration::from_secs(3600));
        let controllers = tokio::spawn(async move {
            tokio::time::sleep(hour).await;
            Ok(())
        });
        shutdown.cancel();
        let begin = Instant::now();
        let done = until_ended(controllers, None, &shutdown, Duration::ZERO).await;
        done.expect("it ends well");
        assert_eq!(begin.elapsed(), hour);
    }

    #[tokio::test]
    async fn a_failure_or_panic_of_the_controllers_is_an_error() {
        let shutdown = CancellationToken::new();
        let failing = tokio::spawn(async { bail!("the lease is lost") });
        let failed = until_ended(failing, None, &shutdown, TIMEOUT).await;
        assert_eq!(
            failed.expect_err("it failed").to_string(),
            "the lease is lost"
        );
        let faulty = tokio::spawn(async { panic!("in a test") });
        let panicked = until_ended(faulty, None, &shutdown, TIMEOUT).await;
        assert_eq!(
            panicked.expect_err("it panicked").to_string(),
            "the task of the controllers panicked"
        );
    }
}
