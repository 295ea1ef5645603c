//! Serves health checks, metrics and debug pages over HTTPS, on a thread of its own.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use flyball_dashboard::{Dashboard, SignIn, SourceSlot};
use flyball_manager::Telemetry;
use flyball_serving::health::Registration;
use flyball_serving::review::{AccessReviewer, KubeReviewer, TokenReviewer, TrustLookup};
use flyball_serving::{
    Authentication, Authorization, Bound, BuildVersions, Endpoints, HealthChecks, KUBERNETES,
    Metrics, SetVerbosity, ZPages, bind,
};
use kube::client::ClientBuilder;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cluster::{self, warn_if_unverified};
use crate::config::{ClusterConfig, RunConfig, ServingConfig};

/// A bound port, and the thread that will serve it.
pub(crate) struct Port<'a> {
    bound: Bound,
    thread: Handle,
    serving: &'a ServingConfig,
}

/// The task that serves the port.
pub(crate) struct Server {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl<'a> Port<'a> {
    /// Binds the port. Fails if another process uses it, or if the server's certificate can't be loaded.
    pub(crate) async fn bind(serving: &'a ServingConfig) -> anyhow::Result<Self> {
        let (options, thread) = (serving.options.clone(), serving_thread()?);
        let bound = thread.spawn(async move { bind(&options).await }).await;
        Ok(Self {
            bound: bound.context("binding the port panicked")??,
            thread,
            serving,
        })
    }

    /// Starts the server. The dashboard has its data from `shown`, which may be set later. The process isn't ready any more once `shutdown` is cancelled. Fails if clients can't be
    /// authenticated as the flags say.
    pub(crate) async fn serve(
        self,
        config: &RunConfig,
        telemetry: &Telemetry,
        set_verbosity: SetVerbosity,
        shown: SourceSlot,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<Server> {
        let Self {
            bound,
            thread,
            serving,
        } = self;
        let Telemetry {
            metrics,
            health,
            debug,
            tracer: _,
        } = telemetry;
        let kubeconfig = serving.authentication_kubeconfig.as_deref();
        let tokens = reviewer("authentication-kubeconfig", kubeconfig, config, metrics).await?;
        let kubeconfig = serving.authorization_kubeconfig.as_deref();
        let access = reviewer("authorization-kubeconfig", kubeconfig, config, metrics).await?;
        let access = access.map(|reviewer| reviewer as Arc<dyn AccessReviewer>);
        let endpoints = Endpoints {
            authentication: Arc::new(authentication(serving, tokens).await?),
            authorization: Arc::new(Authorization::new(serving.authorization.clone(), access)),
            health: health.clone(),
            debug: debug.clone(),
            metrics: metrics.clone(),
            zpages: Arc::new(zpages(config, serving)),
            configz: serving.configz.as_str().into(),
            profiling: serving.profiling.then_some(set_verbosity),
            dashboard: serving
                .dashboard
                .then(|| Arc::new(Dashboard::new(Arc::new(shown), SignIn::Token))),
        };
        let readiness = fail_readiness_after(shutdown.clone(), health);
        tracing::info!(address = %bound.address()?, "serving over HTTPS");
        Ok(Server::spawn(&thread, |stop| async move {
            bound.serve(endpoints, stop).await;
            drop(readiness);
        }))
    }
}

impl Server {
    /// Spawns a server, which must end when its token is cancelled.
    pub(crate) fn spawn<F>(thread: &Handle, serve: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let task = thread.spawn(serve(stop.clone()));
        Self { task, stop }
    }

    /// Waits for the running requests, and accepts no further ones.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "serving ended early");
        }
    }
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

/// Returns the client for TokenReviews and SubjectAccessReviews: with the credentials of the kubeconfig that `flag`
/// names, or else of the pod's service account. Returns none outside of a cluster without a kubeconfig.
async fn reviewer(
    flag: &str,
    kubeconfig: Option<&Path>,
    config: &RunConfig,
    metrics: &Metrics,
) -> anyhow::Result<Option<Arc<KubeReviewer>>> {
    let source = ClusterConfig {
        kubeconfig: kubeconfig.map(Path::to_owned),
        ..ClusterConfig::default()
    };
    let cluster = match cluster::config(&source).await {
        Ok(cluster) => cluster,
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
    if kubeconfig != config.cluster.kubeconfig.as_deref() {
        warn_if_unverified(&cluster, flag);
    }
    let requests = metrics.rest_client()?.layer(&cluster.cluster_url);
    let client = ClientBuilder::try_from(cluster).with_context(|| format!("--{flag}"))?;
    let client = client.with_layer(&requests).build();
    Ok(Some(Arc::new(KubeReviewer::new(client))))
}

/// Returns the authentication of clients. Fails if a file of the flags can't be used, or if the cluster's configuration
/// of authentication can't be read and must be.
async fn authentication(
    serving: &ServingConfig,
    tokens: Option<Arc<KubeReviewer>>,
) -> anyhow::Result<Authentication> {
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
    Ok(authentication)
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

/// Adds a check that fails once `shutdown` is cancelled, until it is dropped.
fn fail_readiness_after(shutdown: CancellationToken, health: &HealthChecks) -> Registration {
    health.add_readiness("shutdown", move || match shutdown.is_cancelled() {
        true => Err("the process is ending".to_owned()),
        false => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn serving_shares_no_thread_with_the_controllers() {
        let name = || std::thread::current().name().map(str::to_owned);
        let serving = serving_thread().expect("a thread");
        let of_serving = serving.spawn(async move { name() }).await;
        assert_eq!(of_serving.expect("no panic").as_deref(), Some("serving"));
        assert_ne!(name().as_deref(), Some("serving"));
    }
}
