//! What all plugins run on, and how one is opened and started there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use flyball_cache::connection::connect;
use flyball_cache::{
    ApiResource, Connection, Discovery, DiscoveryError, Informer, InformerFactory, KubeSource,
};
use flyball_plugin::{LoadError, Plugin};
use flyball_serving::debug::PageRegistration;
use flyball_serving::health::Registration;
use flyball_serving::metrics::{CounterVec, GaugeVec};
use flyball_types::Kind;
use flyball_types::description::{Description, MetricType, Watch};
use tokio::sync::watch;
use tower::Layer;
use tower::util::BoxCloneSyncService;

use crate::api::client::ApiClient;
use crate::api::denial::Denials;
use crate::api::events::Recorder;
use crate::api::fence::Fence;
use crate::api::identity::Identity;
use crate::api::review::Reading;
use crate::limits::guard::Guard;
use crate::limits::quarantine::State;
use crate::limits::rate::RateLimiter;
use crate::limits::usage::Usage;
use crate::manager::{ManagerError, Options};
use crate::plugins::load::{Described, limits};
use crate::policy::grant::Granted;
use crate::reads::cached::{Seen, Views};
use crate::reads::interest::interest;
use crate::runtime::controller::{Begin, Controller};
use crate::runtime::discovered::Following;
use crate::runtime::graph;
use crate::runtime::history::History;
use crate::runtime::memo::Memo;
use crate::runtime::queue::Queue;
use crate::runtime::services::Services;
use crate::signer;
use crate::writer::Writer;

/// What all plugins run on.
pub(crate) struct Host {
    pub(crate) options: Options,
    pub(crate) factory: Arc<InformerFactory>,
    pub(crate) discovery: Arc<Discovery>,
    /// Calls as the host itself.
    connection: Connection,
    /// Connections without credentials of their own, for service accounts.
    bare: Connection,
    /// Before all writes.
    pub(crate) fence: Arc<Fence>,
    /// Whether this process may act: from the start, where there is no election.
    pub(crate) leading: watch::Sender<bool>,
    running: GaugeVec,
    denied: CounterVec,
    /// Records what plugins are denied.
    recorder: Arc<Recorder>,
}

/// A version of a plugin, and what it is granted.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) described: Described,
    pub(crate) granted: Granted,
    /// The digest of the file in whose place it runs: its own, unless the operator went back to it.
    pub(crate) file: String,
}

/// A version whose informers are open.
pub(crate) struct Opened {
    pub(crate) version: Version,
    plugin: Plugin,
    /// Each with the number of its watch in the description.
    informers: Vec<(usize, Informer)>,
    following: Option<Following>,
}

/// Why a version can't be opened now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The server does not serve a kind: it may, once somebody installs it.
    #[error("waits until the server serves {0}")]
    NotServed(Kind),
    /// Its account may not read.
    #[error("pending: {0}")]
    MayNotRead(String),
    /// The server can't be asked.
    #[error("the API server can't be asked {0}: {1}")]
    Unreachable(&'static str, String),
    /// The component does not fit the world: no time helps.
    #[error("can't be run: {0}")]
    Unfit(#[source] LoadError),
}

/// A version that runs, and what goes with it.
pub(crate) struct Running {
    pub(crate) controller: Controller,
    pub(crate) version: Version,
    running: GaugeVec,
    _checks: [Registration; 2],
    _graph: Option<PageRegistration>,
    _usage: Usage,
}

impl Host {
    pub(crate) fn new(options: Options) -> Result<Self, ManagerError> {
        let metrics = options.metrics.rest_client()?;
        let connect = |config: &kube::Config| {
            let connection =
                connect(config).map_err(|error| ManagerError::Client(Box::new(error)))?;
            Ok::<_, ManagerError>(BoxCloneSyncService::new(metrics.layer().layer(connection)))
        };
        let host = connect(&options.cluster)?;
        let mut bare = options.cluster.clone();
        bare.auth_info = kube::config::AuthInfo::default();
        let bare = connect(&bare)?;
        let mut reading = options.cluster.clone();
        if let Ok(agent) =
            http::HeaderValue::from_str(&agent(&options.identity, "shared-informers"))
        {
            reading.headers.push((http::header::USER_AGENT, agent));
        }
        let source = Arc::new(KubeSource::new(connect(&reading)?));
        let factory = Arc::new(InformerFactory::new(source.clone()));
        let discovery = Arc::new(Discovery::new(source));
        let is_elected = options.leader_election.is_some();
        let fence = Arc::new(if is_elected {
            Fence::closed()
        } else {
            Fence::open()
        });
        let leading = watch::Sender::new(!is_elected);
        let running = options.metrics.gauge(
            "running_managed_controllers",
            "Indicates where instances of a controller are currently running",
            &["name", "manager"],
        )?;
        let denied = options.metrics.counter(
            "flyball_plugin_denied_total",
            "Reads, writes and uses of imports that the policy does not let a plugin do.",
            &["plugin"],
        )?;
        let agent = agent(&options.identity, "denials");
        let client = ApiClient::new(host.clone(), Identity::Host, &agent, fence.clone());
        let recorder = Arc::new(Recorder::start(client, "denials".into(), "flyball".into()));
        Ok(Self {
            options,
            factory,
            discovery,
            connection: host,
            bare,
            fence,
            leading,
            running,
            denied,
            recorder,
        })
    }

    /// Calls as the host, named so in the User-Agent; changes nothing unless the fence is open.
    pub(crate) fn client(&self, what: &str, fence: Arc<Fence>) -> ApiClient {
        let agent = agent(&self.options.identity, what);
        ApiClient::new(self.connection.clone(), Identity::Host, &agent, fence)
    }

    /// Opens what a version watches: its reflectors begin at the factory's next start.
    pub(crate) async fn open(&self, version: Version) -> Result<Opened, (Version, OpenError)> {
        match self.try_open(&version).await {
            Ok((plugin, informers, following)) => Ok(Opened {
                version,
                plugin,
                informers,
                following,
            }),
            Err(error) => Err((version, error)),
        }
    }

    async fn try_open(
        &self,
        version: &Version,
    ) -> Result<(Plugin, Vec<(usize, Informer)>, Option<Following>), OpenError> {
        let (description, granted) = (&*version.described.description, &version.granted);
        let limits = limits(
            &granted.policy.limits,
            granted.concurrency,
            description.queues.len(),
            granted.is_builtin,
        );
        let plugin = Plugin::new(
            &self.options.engine,
            version.described.component.clone(),
            limits,
        );
        let plugin = plugin.map_err(OpenError::Unfit)?;
        let unreachable =
            |error: DiscoveryError| OpenError::Unreachable("what it serves", crate::causes(&error));
        let mut resources = HashMap::new();
        for kind in description
            .watches
            .iter()
            .filter_map(|watch| watch.kind.as_ref())
        {
            let resource = match self.discovery.resolve(kind).await {
                Ok(resource) => resource,
                Err(DiscoveryError::UnknownKind(_)) => {
                    return Err(OpenError::NotServed(kind.clone()));
                }
                Err(error) => return Err(unreachable(error)),
            };
            resources.insert(kind.clone(), resource);
        }
        self.review(description, granted, &resources).await?;
        let following =
            Following::open(&self.factory, &self.discovery, description, &granted.policy).await;
        let following = following.map_err(unreachable)?;
        let open = |(number, watch): (usize, &Watch)| {
            let resource = resources.get(watch.kind.as_ref()?)?.clone();
            Some((
                number,
                self.factory
                    .informer(interest(description, watch, resource)?),
            ))
        };
        let informers = description
            .watches
            .iter()
            .enumerate()
            .filter_map(open)
            .collect();
        Ok((plugin, informers, following))
    }

    /// Whether the account of a dropped-in plugin may still read what it watches; why not, if it may not.
    pub(crate) async fn may_read(&self, version: &Version) -> Result<(), OpenError> {
        let description = &version.described.description;
        let mut resources = HashMap::new();
        for kind in description
            .watches
            .iter()
            .filter_map(|watch| watch.kind.as_ref())
        {
            // What is served no more, nobody reads.
            if let Some(resource) = self.discovery.cached(kind) {
                resources.insert(kind.clone(), resource);
            }
        }
        self.review(description, &version.granted, &resources).await
    }

    async fn review(
        &self,
        description: &Description,
        granted: &Granted,
        resources: &HashMap<Kind, Arc<ApiResource>>,
    ) -> Result<(), OpenError> {
        // Built-ins read as the host does.
        let Some((namespace, name)) = granted.account.as_ref().filter(|_| !granted.is_builtin)
        else {
            return Ok(());
        };
        let account = (namespace.as_str(), name.as_str());
        // It changes nothing, so that no fence holds it back.
        let client = self.client("access-review", Arc::new(Fence::open()));
        for watch in &description.watches {
            let kind = watch.kind.as_ref();
            let namespaces = match kind.and_then(|kind| granted.policy.watched_namespaces(kind)) {
                _ if !watch.namespace.is_empty() => vec![watch.namespace.clone()],
                Some(namespaces) => namespaces.into_iter().collect(),
                None => vec![String::new()],
            };
            for namespace in &namespaces {
                let reading = match kind {
                    Some(kind) => {
                        let Some(resource) = resources.get(kind) else {
                            continue;
                        };
                        Reading::of(account, resource, namespace)
                    }
                    None => Reading::of_all(account, namespace),
                };
                match reading.denied(&client).await {
                    Ok(None) => {}
                    Ok(Some(denied)) => return Err(OpenError::MayNotRead(denied)),
                    Err(error) => {
                        return Err(OpenError::Unreachable(
                            "what the plugin's account may read",
                            error.to_string(),
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Starts a version, in place of the one that is at work.
    pub(crate) fn start(
        &self,
        opened: Opened,
        before: Option<&Running>,
    ) -> Result<Running, ManagerError> {
        let Opened {
            version,
            plugin,
            informers,
            following,
        } = opened;
        let answer_bytes = plugin.limits().answer_bytes;
        let services = self.services(
            &version,
            &informers,
            following.as_ref(),
            before,
            answer_bytes,
        )?;
        let services = Arc::new(services);
        let name = services.name().to_owned();
        let concurrency = version.granted.concurrency;
        let (synced, settled) = (
            informers.clone(),
            following.as_ref().map(Following::settled),
        );
        let checks = [
            self.options.health.add(&*name, || Ok(())),
            self.options
                .health
                .add_readiness(format!("{name}-informers"), move || {
                    let unsettled = settled
                        .as_ref()
                        .is_some_and(|settled| !settled.load(Ordering::Acquire));
                    match synced.iter().find(|(_, informer)| !informer.is_synced()) {
                        Some((_, informer)) => {
                            Err(format!("{} is not synced", informer.resource().kind))
                        }
                        None if unsettled => Err("not all discovered kinds are synced".into()),
                        None => Ok(()),
                    }
                }),
        ];
        let page = following.is_some().then(|| {
            let views = services.views.clone();
            self.options
                .debug
                .add(&name, "graph", move |query| graph::page(&views, query))
        });
        let leading = self.leading.subscribe();
        let begin = match before {
            Some(_) => Begin::TakingOver(&leading),
            None => Begin::Leading(&leading),
        };
        let usage = Usage::new(
            &self.options.metrics,
            name.as_str().into(),
            plugin.clone(),
            services.guard.clone(),
            services.writer.rate.waits.clone(),
        )?;
        let controller =
            Controller::start(plugin, services, &informers, following, concurrency, &begin);
        let is_leading = *leading.borrow();
        let running = Running {
            controller,
            version,
            running: self.running.clone(),
            _checks: checks,
            _graph: page,
            _usage: usage,
        };
        running.leads(is_leading);
        Ok(running)
    }

    fn services(
        &self,
        version: &Version,
        informers: &[(usize, Informer)],
        following: Option<&Following>,
        before: Option<&Running>,
        answer_bytes: usize,
    ) -> Result<Services, ManagerError> {
        let (description, granted) = (&*version.described.description, &version.granted);
        let (policy, same) = (
            granted.policy.clone(),
            before.map(|before| before.controller.services()),
        );
        let name: Arc<str> = description.name.as_str().into();
        let account = granted.account.as_ref();
        let account =
            account.filter(|_| !granted.is_builtin || self.options.use_service_account_credentials);
        let client = match (account, before) {
            // Its tokens are good for the next version too.
            (Some(_), Some(before)) if before.version.granted.account.as_ref() == account => {
                before.controller.services().client.clone()
            }
            (Some((namespace, account)), _) => {
                let identity = Identity::service_account(
                    self.client(&name, self.fence.clone()),
                    namespace,
                    account,
                );
                let agent = agent(&self.options.identity, &name);
                ApiClient::new(self.bare.clone(), identity, &agent, self.fence.clone())
            }
            (None, _) => self.client(&name, self.fence.clone()),
        };
        let seen = same.map_or_else(Seen::default, |same| same.views.seen());
        let named = informers.iter().map(|(_, informer)| informer);
        let discovery = self.discovery.clone();
        let views = Views::new(
            description,
            policy.clone(),
            named,
            discovery,
            answer_bytes,
            seen,
        );
        views.discover(
            following
                .into_iter()
                .flat_map(Following::informers)
                .cloned(),
        );
        let views = Arc::new(views);
        let Options { qps, burst, .. } = self.options;
        let per_second = policy
            .limits
            .writes_per_second
            .map_or(qps, |rate| rate.of(qps));
        let burst = policy
            .limits
            .writes_burst
            .map_or(burst, |rate| rate.of(burst.into()) as u32);
        let rate = RateLimiter::new(per_second, burst);
        let writer = Writer::new(
            client.clone(),
            self.discovery.clone(),
            policy.clone(),
            rate,
            views.clone(),
        );
        let queue = |described: &flyball_types::description::Queue| {
            let known = same.and_then(|same| {
                same.queues
                    .iter()
                    .find(|queue| *queue.name == described.name)
            });
            known.map_or_else(
                || Queue::new(described, &self.options.metrics),
                |queue| Ok(queue.handed_on(described)),
            )
        };
        let queues = description
            .queues
            .iter()
            .map(queue)
            .collect::<Result<Vec<_>, _>>()?;
        let fits = |same: &&Arc<Services>| {
            same.description.memo_schema == description.memo_schema
                && same.policy.limits.memo == policy.limits.memo
        };
        let memo = match same.filter(fits) {
            Some(same) => same.memo.clone(),
            None => Arc::new(Memo::new(policy.limits.memo)),
        };
        let source = if description.event_source.is_empty() {
            &description.name
        } else {
            &description.event_source
        };
        Ok(Services {
            recorder: Recorder::start(client.clone(), name.clone(), source.clone()),
            denials: Denials {
                count: self.denied.with_label_values(&[&*name]),
                recorder: self.recorder.clone(),
                account: granted.account.clone(),
                plugin: name.clone(),
            },
            views,
            writer,
            client,
            memo,
            guard: Guard::new(name.clone(), &policy.limits, granted.is_builtin),
            queues,
            history: same.map_or_else(|| Arc::new(History::default()), |same| same.history.clone()),
            routing: same.map_or_else(Arc::default, |same| same.routing.clone()),
            metrics: self.metrics(description),
            metrics_warned: false.into(),
            config: granted.config.clone(),
            signer: signer::Granted::new(self.options.signer.clone(), policy.clone()),
            runtime: tokio::runtime::Handle::current(),
            policy,
            description: description.clone(),
        })
    }

    /// The plugin's own metrics.
    fn metrics(&self, description: &Description) -> flyball_serving::metrics::Group {
        let mut metrics = self.options.metrics.group(description.name.clone());
        for metric in &description.metrics {
            let labels: Vec<&str> = metric.labels.iter().map(String::as_str).collect();
            let kind = match &metric.metric_type {
                MetricType::Counter => flyball_serving::metrics::Kind::Counter,
                MetricType::Gauge => flyball_serving::metrics::Kind::Gauge,
                MetricType::Histogram(buckets) => {
                    flyball_serving::metrics::Kind::Histogram(buckets.clone())
                }
            };
            if let Err(error) = metrics.declare(&metric.name, &metric.help, &labels, kind) {
                tracing::warn!(plugin = description.name, %error, "a metric of the plugin is left out");
            }
        }
        metrics
    }
}

impl Opened {
    /// Waits until all that it watches by name is there.
    pub(crate) async fn synced(&self) {
        for (_, informer) in &self.informers {
            informer.synced().await;
        }
    }
}

impl Running {
    /// Why it is held back, if it is, as a sentence.
    pub(crate) fn quarantine(&self) -> Option<String> {
        match self.controller.services().guard.quarantine.state() {
            State::Running => None,
            State::Quarantined { until, reason } => {
                let left = until
                    .saturating_duration_since(tokio::time::Instant::now())
                    .as_secs();
                let name = self.controller.name();
                Some(format!(
                    "quarantined for {left} s more: it fails on every key, of late with: {reason}; `flyball resume {name}` \
                     ends it"
                ))
            }
        }
    }

    /// Shows whether the plugin acts in this process.
    pub(crate) fn leads(&self, leads: bool) {
        let labels = [self.controller.name(), "kube-controller-manager"];
        self.running
            .with_label_values(&labels)
            .set(if leads { 1.0 } else { 0.0 });
    }
}

/// What the process calls itself in the User-Agent, and on whose behalf it asks.
fn agent(identity: &str, what: &str) -> String {
    format!("flyball/{} ({identity}) {what}", env!("CARGO_PKG_VERSION"))
}
