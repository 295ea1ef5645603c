//! The manager: loads the plugins, opens what they watch, starts them, and drains them at the end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flyball_cache::{Discovery, DiscoveryError, Informer, InformerFactory, KubeSource};
use flyball_plugin::{Engine, Limits};
use flyball_serving::debug::PageRegistration;
use flyball_serving::health::Registration;
use flyball_serving::{DebugPages, HealthChecks, Metrics};
use flyball_types::description::{MetricType, Watch};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::client::ClientBuilder;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::client::ApiClient;
use crate::controller::Controller;
use crate::discovered::Following;
use crate::events::Recorder;
use crate::fence::Fence;
use crate::graph;
use crate::identity::Identity;
use crate::interest::interest;
use crate::lease::{Elector, LeaderElection, LeaseLost};
use crate::load::{self, Grants, Loaded, Origin, PluginError};
use crate::memo::Memo;
use crate::queue::Queue;
use crate::rate::RateLimiter;
use crate::services::Services;
use crate::signer::{Granted, Signer};
use crate::views::Views;
use crate::writer::Writer;

/// How long to wait before the server is asked again what it serves.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// What the manager runs with.
pub struct Options {
    /// How the API server is reached.
    pub cluster: kube::Config,
    /// What runs the guests.
    pub engine: Engine,
    /// Who gets what.
    pub grants: Grants,
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

/// The manager can't be set up. The message says whether the options must change.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The client of the API server can't be made.
    #[error("can't set up the connection to the API server")]
    Client(#[source] Box<kube::Error>),
    /// A metric of the host can't be declared: a fault of the host.
    #[error("can't declare the host's metrics")]
    Metrics(#[from] flyball_serving::metrics::MetricsError),
    /// Another process may lead now: this one must end.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
}

/// Plugins that were loaded, and what they will run with.
pub struct Manager {
    options: Options,
    loaded: Vec<Loaded>,
    /// The names of those that were left out, where they are known.
    refused: Vec<String>,
    factory: Arc<InformerFactory>,
    discovery: Arc<Discovery>,
    /// Calls as the host itself.
    host: kube::Client,
    /// Connections without credentials of their own, for service accounts.
    bare: kube::Client,
    /// Before all writes.
    fence: Arc<Fence>,
    /// Whether this process may act: from the start, where there is no election.
    leading: watch::Sender<bool>,
}

/// A plugin whose informers are open.
struct Opened {
    loaded: Loaded,
    /// Each with the number of its watch in the description.
    informers: Vec<(usize, Informer)>,
    following: Option<Following>,
}

/// What runs, and what goes with it.
struct Running {
    controller: Controller,
    _checks: [Registration; 2],
    _graph: Option<PageRegistration>,
}

impl Manager {
    /// Loads these plugins. One that can't be loaded is logged and left out.
    pub async fn load(options: Options, origins: &[Origin]) -> Result<Self, ManagerError> {
        let metrics = options.metrics.rest_client()?;
        let client = |config: kube::Config| {
            let builder = ClientBuilder::try_from(config).map_err(|error| ManagerError::Client(Box::new(error)))?;
            Ok::<_, ManagerError>(builder.with_layer(&metrics.layer()).build())
        };
        // What may be tried again is decided where the call is made.
        let mut config = options.cluster.clone();
        config.default_retry = false;
        let host = client(config.clone())?;
        let mut bare = config.clone();
        bare.auth_info = kube::config::AuthInfo::default();
        let bare = client(bare)?;
        let mut reading = config;
        let agent = http::HeaderValue::from_str(&format!("{} shared-informers", product(&options.identity)));
        if let Ok(agent) = agent {
            reading.headers.push((http::header::USER_AGENT, agent));
        }
        let source = Arc::new(KubeSource::new(client(reading)?));
        let factory = Arc::new(InformerFactory::new(source.clone()));
        let discovery = Arc::new(Discovery::new(source));

        let loads = origins.iter().map(|origin| load::load(&options.engine, origin, &options.grants));
        let results = futures::future::join_all(loads).await;
        let mut loaded: Vec<Loaded> = Vec::new();
        let mut refused = Vec::new();
        for (origin, result) in origins.iter().zip(results) {
            match result {
                Ok(plugin) => match loaded.iter().find(|other| other.description.name == plugin.description.name) {
                    None => loaded.push(plugin),
                    Some(other) => complain(&PluginError::NameTaken {
                        origin: origin.text(),
                        name: plugin.description.name,
                        other: if other.is_builtin { "a built-in controller".into() } else { "another file".into() },
                    }),
                },
                Err(error) => {
                    refused.extend(error.plugin().map(str::to_owned));
                    complain(&error);
                }
            }
        }
        let is_elected = options.leader_election.is_some();
        let fence = Arc::new(if is_elected { Fence::closed() } else { Fence::open() });
        let leading = watch::Sender::new(!is_elected);
        Ok(Self { options, loaded, refused, factory, discovery, host, bare, fence, leading })
    }

    /// The names of the plugins that were loaded, built-ins included.
    pub fn names(&self) -> Vec<String> {
        self.loaded.iter().map(|loaded| loaded.description.name.clone()).collect()
    }

    /// The names of the plugins that were left out because they may not run.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Leaves out plugins by name.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.loaded.retain(|loaded| keep(&loaded.description.name));
    }

    /// Runs the plugins until `shutdown`, then drains them. A process that waits for the lease does all but reconcile.
    /// Ends at once when the lease is lost.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), ManagerError> {
        let Some(election) = self.options.leader_election.clone() else { return self.run_plugins(shutdown).await };
        let agent = format!("{} leader-election", product(&self.options.identity));
        let client = ApiClient::new(self.host.clone(), Identity::Host, &agent, Arc::new(Fence::open()));
        let (identity, metrics) = (self.options.identity.clone(), &self.options.metrics);
        let elector = Elector::new(client, election, &identity, self.fence.clone(), metrics)?;
        let _check = Elector::check(self.fence.clone(), &self.options.health);
        let released = CancellationToken::new();
        let elected = elector.run(self.leading.clone(), released.clone());
        let plugins = async {
            let ended = self.run_plugins(shutdown).await;
            // Given up only now, when nothing writes any more.
            released.cancel();
            ended
        };
        tokio::pin!(elected, plugins);
        tokio::select! {
            lost = &mut elected => lost.map_err(ManagerError::from),
            ended = &mut plugins => elected.await.map_err(ManagerError::from).and(ended),
        }
    }

    async fn run_plugins(mut self, shutdown: CancellationToken) -> Result<(), ManagerError> {
        let running_metric = self.options.metrics.gauge(
            "running_managed_controllers",
            "Indicates where instances of a controller are currently running",
            &["name", "manager"],
        )?;
        let mut running: Vec<Running> = Vec::new();
        let mut waiting = FuturesUnordered::new();
        let loaded = std::mem::take(&mut self.loaded);
        // Those whose kinds are all served are opened together, so that their masks are united before the first list.
        let mut ready = Vec::new();
        for plugin in loaded {
            tokio::select! {
                opened = self.try_open(plugin) => match opened {
                    Ok(opened) => ready.push(opened),
                    Err(plugin) => waiting.push(self.open(plugin)),
                },
                () = shutdown.cancelled() => return Ok(()),
            }
        }
        self.factory.start();
        for opened in ready {
            running.push(self.start(opened)?);
        }
        let gauge = |name: &str, value| running_metric.with_label_values(&[name, "kube-controller-manager"]).set(value);
        let mut led = self.leading.subscribe();
        let mut leads = false;
        loop {
            tokio::select! {
                // An error would mean that there is nobody left to say so.
                Ok(_) = led.wait_for(|leading| *leading), if !leads => {
                    leads = true;
                    running.iter().for_each(|running| gauge(running.controller.name(), 1.0));
                }
                Some(opened) = waiting.next() => {
                    self.factory.start();
                    let started = self.start(opened)?;
                    gauge(started.controller.name(), if leads { 1.0 } else { 0.0 });
                    running.push(started);
                }
                () = shutdown.cancelled() => break,
            }
        }
        drop(waiting);
        let drained = running.into_iter().map(|running| {
            let name = running.controller.name().to_owned();
            async move {
                running.controller.drain(self.options.drain).await;
                name
            }
        });
        for name in futures::future::join_all(drained).await {
            gauge(&name, 0.0);
        }
        self.factory.shutdown().await;
        Ok(())
    }

    /// Opens what a plugin watches, as soon as all of it is served.
    async fn open(&self, mut loaded: Loaded) -> Opened {
        loop {
            tokio::time::sleep(ASK_AGAIN).await;
            match self.try_open(loaded).await {
                Ok(opened) => return opened,
                Err(again) => loaded = again,
            }
        }
    }

    /// Opens what a plugin watches. Waits for a server that can't be reached; gives the plugin back if a kind is not
    /// served now.
    async fn try_open(&self, loaded: Loaded) -> Result<Opened, Loaded> {
        let mut resources = HashMap::new();
        for kind in loaded.description.watches.iter().filter_map(|watch| watch.kind.as_ref()) {
            let mut told = false;
            let resource = loop {
                match self.discovery.resolve(kind).await {
                    Ok(resource) => break resource,
                    Err(DiscoveryError::UnknownKind(_)) => {
                        tracing::info!(plugin = loaded.description.name, %kind, "waits until the server serves what it watches");
                        return Err(loaded);
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut told, true) {
                            let error = crate::causes(&error);
                            tracing::warn!(error, "the API server can't be asked what it serves: trying until it can");
                        }
                        tokio::time::sleep(ASK_AGAIN).await;
                    }
                }
            };
            resources.insert(kind.clone(), resource);
        }
        let description = &loaded.description;
        let following = loop {
            match Following::open(&self.factory, &self.discovery, description, &loaded.policy).await {
                Ok(following) => break following,
                Err(error) => {
                    tracing::debug!(error = crate::causes(&error), "the API server can't be asked what it serves")
                }
            }
            tokio::time::sleep(ASK_AGAIN).await;
        };
        let open = |(number, watch): (usize, &Watch)| {
            let resource = resources.get(watch.kind.as_ref()?)?.clone();
            Some((number, self.factory.informer(interest(description, watch, resource)?)))
        };
        let informers = description.watches.iter().enumerate().filter_map(open).collect();
        Ok(Opened { loaded, informers, following })
    }

    fn start(&self, opened: Opened) -> Result<Running, ManagerError> {
        let Opened { loaded, informers, following } = opened;
        let Loaded { plugin, description, policy, config, concurrency, limits, is_builtin } = loaded;
        let agent = format!("{} {}", product(&self.options.identity), description.name);
        let as_host = ApiClient::new(self.host.clone(), Identity::Host, &agent, self.fence.clone());
        let account = policy.service_account.as_deref().and_then(|account| account.split_once('/'));
        let client = match account.filter(|_| !is_builtin || self.options.use_service_account_credentials) {
            Some((namespace, name)) => {
                let identity = Identity::service_account(as_host, namespace, name);
                ApiClient::new(self.bare.clone(), identity, &agent, self.fence.clone())
            }
            None => as_host,
        };
        let named = informers.iter().map(|(_, informer)| informer);
        let views = Views::new(&description, named, self.discovery.clone(), Limits::default().answer_bytes);
        views.discover(following.iter().flat_map(Following::informers).cloned());
        let views = Arc::new(views);
        let Options { qps, burst, .. } = self.options;
        let per_second = policy.limits.writes_per_second.map_or(qps, |rate| rate.of(qps));
        let burst = policy.limits.writes_burst.map_or(burst, |rate| rate.of(burst.into()) as u32);
        let writer = Writer {
            client: client.clone(),
            discovery: self.discovery.clone(),
            policy: policy.clone(),
            rate: RateLimiter::new(per_second, burst),
            views: views.clone(),
        };
        let queues = description.queues.iter().map(|queue| Queue::new(queue, &self.options.metrics));
        let queues = queues.collect::<Result<Vec<_>, _>>()?;
        let mut metrics = self.options.metrics.group(description.name.clone());
        for metric in &description.metrics {
            let labels: Vec<&str> = metric.labels.iter().map(String::as_str).collect();
            let kind = match &metric.metric_type {
                MetricType::Counter => flyball_serving::metrics::Kind::Counter,
                MetricType::Gauge => flyball_serving::metrics::Kind::Gauge,
                MetricType::Histogram(buckets) => flyball_serving::metrics::Kind::Histogram(buckets.clone()),
            };
            if let Err(error) = metrics.declare(&metric.name, &metric.help, &labels, kind) {
                tracing::warn!(plugin = description.name, %error, "a metric of the plugin is left out");
            }
        }
        let name: Arc<str> = description.name.as_str().into();
        let source = if description.event_source.is_empty() { &description.name } else { &description.event_source };
        let services = Arc::new(Services {
            recorder: Recorder::start(client.clone(), name.clone(), source.clone()),
            views,
            writer,
            client,
            memo: Memo::default(),
            queues,
            metrics,
            metrics_warned: false.into(),
            config,
            signer: Granted::new(self.options.signer.clone(), policy.clone()),
            runtime: tokio::runtime::Handle::current(),
            policy,
            description,
        });
        tracing::info!(controller = &*name, concurrency, memory_limit = limits.memory, "starting");
        let (synced, settled) = (informers.clone(), following.as_ref().map(Following::settled));
        let checks = [
            self.options.health.add(&*name, || Ok(())),
            self.options.health.add_readiness(format!("{name}-informers"), move || {
                let unsettled = settled.as_ref().is_some_and(|settled| !settled.load(Ordering::Acquire));
                match synced.iter().find(|(_, informer)| !informer.is_synced()) {
                    Some((_, informer)) => Err(format!("{} is not synced", informer.resource().kind)),
                    None if unsettled => Err("not all discovered kinds are synced".into()),
                    None => Ok(()),
                }
            }),
        ];
        let page = following.is_some().then(|| {
            let views = services.views.clone();
            self.options.debug.add(&name, "graph", move |query| graph::page(&views, query))
        });
        let controller =
            Controller::start(plugin, services, &informers, following, concurrency, &self.leading.subscribe());
        Ok(Running { controller, _checks: checks, _graph: page })
    }
}

/// What the process calls itself in the User-Agent.
fn product(identity: &str) -> String {
    format!("flyball/{} ({identity})", env!("CARGO_PKG_VERSION"))
}

fn complain(error: &PluginError) {
    tracing::error!("{}; the others run", crate::causes(error));
}
