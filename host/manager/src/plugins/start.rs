//! Starts an open version of a plugin, which may take over from the running version: builds the context of its calls,
//! and adds it to health checks, debug pages and metrics.

mod readiness;

use std::borrow::Cow;
use std::sync::Arc;

use flyball_api::client::ApiClient;
use flyball_api::cluster::Cluster;
use flyball_api::events::Recorder;
use flyball_api::incidents::Incidents;
use flyball_api::user_agent;
use flyball_limits::counters::PluginCounters;
use flyball_limits::host_limits::HostLimits;
use flyball_limits::quarantine::QuarantineState;
use flyball_limits::rate::RateLimiter;
use flyball_policy::{LimitPolicy, PluginPolicy};
use flyball_reads::cached::{CachedReads, SharedReads};
use flyball_reads::discovery::PluginDiscovery;
use flyball_reads::live::LiveReads;
use flyball_runtime::clouds::{Clouds, Registration};
use flyball_runtime::context::{Pace, PluginContext, Reads, Settings};
use flyball_runtime::discovered_informers::DiscoveredInformers;
use flyball_runtime::graph;
use flyball_runtime::memo::Memo;
use flyball_runtime::plugin_tasks::{Begin, PluginTasks};
use flyball_runtime::queue::Queue;
use flyball_runtime::route_turns::RouteTurns;
use flyball_runtime::split::Candidate;
use flyball_runtime::telemetry::{CustomMetrics, PluginTelemetry};
use flyball_serving::debug::PageRegistration;
use flyball_serving::metrics::{CounterVec, GaugeVec, MetricsError};
use flyball_signer::SigningKeys;
use flyball_types::description::Description;
use flyball_types::printable;
use flyball_writer::Writer;

use self::readiness::{Checks, WaitsFor, checks, state_of};
use crate::plugins::canary::{InForce, LoadedCandidate};
use crate::plugins::metrics::{Info, Measured, PluginMetrics};
use crate::plugins::open::Opened;
use crate::plugins::plan::Version;
use crate::plugins::status::PluginState;
use crate::plugins::{PluginOptions, Telemetry};

/// Starts versions.
pub(crate) struct Starter {
    cluster: Arc<Cluster>,
    options: Arc<PluginOptions>,
    telemetry: Telemetry,
    canaries: Arc<InForce>,
    running: GaugeVec,
    denied: CounterVec,
    clouds: Arc<Clouds>,
    /// Sends events about requests that plugins are denied.
    denials: ApiClient,
    /// Records the denials of built-ins.
    builtins: Arc<Recorder>,
}

/// The other version that a version shares queues and caches with.
#[derive(Clone, Copy)]
enum Other<'a> {
    None,
    /// It ends.
    Before(&'a RunningVersion),
    /// It goes on.
    Beside(&'a RunningVersion),
}

/// A running version with its registrations.
pub(crate) struct RunningVersion {
    pub(crate) tasks: PluginTasks,
    pub(crate) version: Version,
    running: GaugeVec,
    /// The labels of the metric: the controller and its component.
    shown_as: (String, &'static str),
    waits_for: WaitsFor,
    /// Of a cloud's provider.
    _cloud: Option<Registration>,
    _checks: Checks,
    _graph: Option<PageRegistration>,
    _metrics: PluginMetrics,
}

impl Starter {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        options: Arc<PluginOptions>,
        telemetry: Telemetry,
        canaries: Arc<InForce>,
    ) -> Result<Self, MetricsError> {
        let running = telemetry.metrics.gauge(
            "running_managed_controllers",
            "Indicates where instances of a controller are currently running",
            &["name", "manager"],
        )?;
        let denied = telemetry.metrics.counter(
            "flyball_plugin_denied_total",
            "Reads, writes and uses of imports that the policy does not let a plugin do.",
            &["plugin"],
        )?;
        let clouds = Clouds::new(&telemetry.metrics, options.allow_untagged_cloud)?;
        let denials = cluster.client("denials", cluster.main.fence.clone());
        let builtins = record_denials(&denials, "built-ins");
        Ok(Self {
            cluster,
            options,
            telemetry,
            canaries,
            running,
            denied,
            clouds,
            denials,
            builtins,
        })
    }

    /// Starts a version. It takes over the queues, memo and history of the version `before` it, unless that one's grant
    /// is wider.
    pub(crate) fn start(
        &self,
        opened: Opened,
        before: Option<&RunningVersion>,
    ) -> Result<RunningVersion, MetricsError> {
        // Keys, memo and history can hold data that only the other grant, such as a built-in's, lets a plugin read.
        let grant = &opened.version.grant;
        let before = before.filter(|before| grant.covers(&before.version.grant));
        let other = before.map_or(Other::None, Other::Before);
        let context = Arc::new(self.context(&opened, other)?);
        // A candidate fits one version: the supervisor loads it again for this one.
        context.split.detach();
        let Opened {
            version,
            plugin,
            informers,
            discovered,
            credentials: _,
        } = opened;
        let name = context.name().to_owned();
        let waits_for = WaitsFor::new(&plugin, &informers, discovered.as_ref());
        let health = &self.telemetry.health;
        let checks = checks(health, &name, version.grant.is_builtin, &waits_for);
        let page = discovered.is_some().then(|| {
            let cached = context.reads.cached.clone();
            self.telemetry
                .debug
                .add(&name, "graph", move |query| graph::page(&cached, query))
        });
        let leading = self.cluster.leadership(&name).leading.subscribe();
        let state = {
            let (limits, waits_for) = (context.limits.clone(), waits_for.clone());
            let leading = leading.clone();
            move || state_of(&limits, &waits_for, *leading.borrow())
        };
        let (stats, holding) = (plugin.clone(), context.clone());
        let measured = Measured {
            stats: Box::new(move || stats.stats()),
            held: Box::new(move || holding.held_memory()),
            limits: context.limits.clone(),
            waits: vec![
                context.writer.rate().waits(),
                context.reads.live.rate().waits(),
            ],
            history: context.telemetry.history.clone(),
            info: Info {
                version: printable(&version.plugin.description.version),
                digest: version.plugin.digest.clone(),
                state: Box::new(state),
            },
        };
        let metrics = PluginMetrics::new(&self.telemetry.metrics, name.as_str().into(), measured)?;
        let begin = match before {
            Some(_) => Begin::TakingOver(&leading),
            None => Begin::Leading(&leading),
        };
        let cloud = plugin
            .is_provider()
            .then(|| self.clouds.add(plugin.clone(), &context));
        let concurrency = version.grant.concurrency;
        let tasks =
            PluginTasks::start(plugin, context, &informers, discovered, concurrency, &begin);
        let is_leading = *leading.borrow();
        let running = RunningVersion {
            tasks,
            version,
            running: self.running.clone(),
            shown_as: self.shown_as(&name),
            waits_for,
            _cloud: cloud,
            _checks: checks,
            _graph: page,
            _metrics: metrics,
        };
        running.show_leading(is_leading);
        Ok(running)
    }

    /// Prepares a candidate that works beside a running version: on its queues, caches and memo, with its grants and
    /// limits.
    pub(crate) fn candidate(
        &self,
        running: &RunningVersion,
        candidate: &LoadedCandidate,
    ) -> Result<Arc<Candidate>, MetricsError> {
        let opened = Opened {
            version: Version {
                plugin: candidate.plugin.clone(),
                ..running.version.clone()
            },
            plugin: candidate.linked.clone(),
            informers: Vec::new(),
            discovered: None,
            credentials: running.tasks.context().credentials.clone(),
        };
        let context = self.context(&opened, Other::Beside(running))?;
        Ok(Candidate::new(opened.plugin, context))
    }

    /// The name of a plugin and of its component in the metrics.
    fn shown_as(&self, name: &str) -> (String, &'static str) {
        match self.options.shown_as.get(name) {
            Some(&(component, alias)) => (alias.to_owned(), component),
            None => (name.to_owned(), "kube-controller-manager"),
        }
    }

    fn context(&self, opened: &Opened, other: Other<'_>) -> Result<PluginContext, MetricsError> {
        let (description, grant) = (&*opened.version.plugin.description, &opened.version.grant);
        let policy = grant.policy.clone();
        let before = match other {
            Other::None => None,
            Other::Before(before) | Other::Beside(before) => Some(before),
        };
        let is_beside = matches!(other, Other::Beside(_));
        let same = before.map(|before| before.tasks.context());
        let name: Arc<str> = description.name.as_str().into();
        let client = self.client(&opened.version, before);
        let shared = same.map_or_else(SharedReads::default, |same| same.reads.cached.shared());
        let cached = CachedReads::new(
            description,
            policy.clone(),
            opened.informers.iter().map(|(_, informer)| informer),
            self.cluster.discovery.clone(),
            opened.plugin.limits().answer_bytes,
            shared,
        );
        let discovered = opened
            .discovered
            .iter()
            .flat_map(DiscoveredInformers::informers);
        cached.discover(discovered.cloned());
        let cached = match same.filter(|_| is_beside) {
            Some(same) => same.reads.cached.clone(),
            None => Arc::new(cached),
        };
        // A candidate that traps must not stop the writes of the version that runs.
        let stop = same.filter(|_| !is_beside);
        let stop = stop.map_or_else(Arc::default, |same| same.limits.stop.clone());
        let limits = HostLimits::new(name.clone(), &policy.limits, grant.is_builtin, stop);
        let discovery = Arc::new(PluginDiscovery::new(
            self.cluster.discovery.clone(),
            self.rate_limiter(&policy),
            opened.plugin.quota(),
        ));
        let writer = Writer::new(
            client.clone(),
            discovery.clone(),
            policy.clone(),
            self.rate_limiter(&policy),
            cached.clone(),
            opened.plugin.budget().clone(),
            limits.stop.clone(),
        )
        .charged_to(opened.plugin.quota())
        .hiding_warnings(grant.is_builtin);
        let memo = match before {
            Some(before) if keeps_memo(&opened.version, &before.version) => {
                before.tasks.context().memo.clone()
            }
            _ => Arc::new(Memo::new(policy.limits.memo)),
        };
        let recordings = recordings(&policy.limits);
        let recorder = match same {
            Some(same) => {
                same.recorder.set_limit(recordings);
                same.recorder.clone()
            }
            None => flyball_rehearse::Recorder::new(recordings),
        };
        // A dropped-in plugin can't use the name of another component.
        let event_source = match &*description.event_source {
            source if grant.is_builtin && !source.is_empty() => source,
            _ => &description.name,
        };
        let live = LiveReads::new(
            client.clone(),
            discovery,
            policy.clone(),
            self.rate_limiter(&policy),
            opened.plugin.limits().answer_bytes,
            opened.plugin.budget().clone(),
        )
        .charged_to(opened.plugin.quota());
        let threads = opened.plugin.request_threads();
        let counters = PluginCounters::new(&self.telemetry.metrics, name.clone())?;
        let telemetry = PluginTelemetry {
            recorder: {
                let _entered = threads.enter();
                Recorder::start(client, name.clone(), event_source.to_owned())
            },
            incidents: Incidents {
                is_builtin: grant.is_builtin,
                count: self.denied.with_label_values(&[&*name]),
                recorder: self.recorder_of_denials(&name, grant.is_builtin),
                account: grant.account.clone(),
                plugin: name.clone(),
                limits: limits.clone(),
            },
            history: same.map_or_else(Arc::default, |same| same.telemetry.history.clone()),
            counters: Arc::new(counters),
            metrics: CustomMetrics::declare(&self.telemetry.metrics, description, grant.is_builtin),
            tracer: self.telemetry.tracer.clone(),
        };
        Ok(PluginContext {
            reads: Reads { cached, live },
            writer,
            queues: self.queues(
                description,
                same.map(|same| same.queues.as_slice()),
                grant.is_builtin,
            )?,
            route_turns: same.map_or_else(RouteTurns::start, |same| same.route_turns.clone()),
            memo,
            split: match is_beside {
                true => Arc::default(),
                false => self.canaries.split(&name),
            },
            signing_keys: SigningKeys::new(self.options.signer.clone()),
            clouds: self.clouds.clone(),
            credentials: opened.credentials.clone(),
            limits,
            telemetry,
            recorder,
            runtime: threads,
            settings: Settings {
                description: description.clone(),
                digest: opened.version.plugin.digest.as_str().into(),
                policy,
                values: grant.config.clone(),
                lookup: (self.options.lookups.get(&*name))
                    .filter(|_| grant.is_builtin)
                    .cloned(),
                pace: self.pace(&name, grant.is_builtin),
            },
        })
    }

    /// The recorder of a plugin's denials. Each dropped-in plugin has a recorder of its own, so that the denials of other
    /// plugins can't fill its queue.
    fn recorder_of_denials(&self, plugin: &str, is_builtin: bool) -> Arc<Recorder> {
        if is_builtin {
            self.builtins.clone()
        } else {
            record_denials(&self.denials, plugin)
        }
    }

    /// The client for the plugin's requests, with the credentials of its account.
    fn client(&self, version: &Version, before: Option<&RunningVersion>) -> ApiClient {
        let (name, grant) = (&version.plugin.description.name, &version.grant);
        let uses_accounts = self.options.use_service_account_credentials;
        let identity = grant.identity(uses_accounts).cloned();
        let fence = || self.cluster.leadership(name).fence.clone();
        match (identity, before) {
            // The tokens of the previous version remain valid for this one.
            (_, Some(before)) if grant.shares_client(&before.version.grant, uses_accounts) => {
                before.tasks.context().writer.client().clone()
            }
            (account, _) if grant.is_builtin => {
                let client = user_agent::client(name, account.as_ref(), grant.account.as_ref());
                let (_, component) = self.shown_as(name);
                match account {
                    Some((namespace, account)) => {
                        let account = (namespace.as_str(), account.as_str());
                        let cluster = &self.cluster;
                        cluster.component_client_as(component, account, &client, fence())
                    }
                    None => self.cluster.component_client(component, &client, fence()),
                }
            }
            (Some((namespace, account)), _) => self.cluster.client_as((&namespace, &account), name),
            (None, _) => self.cluster.client_of_plugin(name),
        }
    }

    /// A dropped-in plugin begins at once, and sees each change once.
    fn pace(&self, name: &str, is_builtin: bool) -> Pace {
        let options = &self.options;
        let period = options.resync_periods.get(name);
        let period = *period.unwrap_or(&options.resync_period);
        match is_builtin {
            true => Pace {
                start_interval: options.start_interval,
                resync: Some(period).filter(|period| !period.is_zero()),
            },
            false => Pace::default(),
        }
    }

    fn rate_limiter(&self, policy: &PluginPolicy) -> RateLimiter {
        let PluginOptions { qps, burst, .. } = *self.options;
        let limits = &policy.limits;
        let per_second = limits.writes_per_second.map_or(qps, |rate| rate.of(qps));
        let burst = limits
            .writes_burst
            .map_or(burst, |rate| rate.of(burst.into()) as u32);
        RateLimiter::new(per_second, burst)
    }

    /// The queues of a description. Queues that the previous version has, too, keep their keys and backoffs.
    fn queues(
        &self,
        description: &Description,
        before: Option<&[Queue]>,
        is_builtin: bool,
    ) -> Result<Vec<Queue>, MetricsError> {
        let queue = |described: &flyball_types::description::Queue| {
            let mut known = before.unwrap_or_default().iter();
            if let Some(queue) = known.find(|queue| *queue.name == described.name) {
                return Ok(queue.handed_on(described));
            }
            let label = queue_label(&description.name, &described.name, is_builtin);
            let leads = *self.cluster.leadership(&description.name).leading.borrow();
            Queue::new(described, &label, &self.telemetry.metrics, !leads)
        };
        description.queues.iter().map(queue).collect()
    }
}

fn record_denials(client: &ApiClient, of: &str) -> Arc<Recorder> {
    Arc::new(Recorder::start(client.clone(), of.into(), "flyball".into()))
}

/// The name of a queue in the metrics. A built-in's queue has the name that it has in kube-controller-manager, which no
/// other plugin can use.
fn queue_label<'a>(plugin: &str, queue: &'a str, is_builtin: bool) -> Cow<'a, str> {
    if is_builtin {
        queue.into()
    } else {
        format!("{plugin}/{queue}").into()
    }
}

/// The memory for recordings in bytes, if the policy sets none.
const RECORDINGS: usize = 1 << 20;

/// The memory for recordings of a plugin, in bytes.
fn recordings(limits: &LimitPolicy) -> usize {
    let recordings = limits.recordings.map(usize::try_from);
    recordings.map_or(RECORDINGS, |bytes| bytes.unwrap_or(usize::MAX))
}

/// Whether a version continues with the memo of the previous one. A dropped-in plugin and the built-in controller that
/// it replaces share no memo. The plugin must not read what the controller has computed from objects of its own grant,
/// and the controller must not trust the plugin's entries.
fn keeps_memo(version: &Version, before: &Version) -> bool {
    let schema = |version: &Version| version.plugin.description.memo_schema;
    let limit = |version: &Version| version.grant.policy.limits.memo;
    version.grant.is_builtin == before.grant.is_builtin
        && schema(version) == schema(before)
        && limit(version) == limit(before)
}

impl RunningVersion {
    /// A sentence that says why the plugin does not work yet; none if it does.
    pub(crate) fn waits_for(&self) -> Option<String> {
        self.waits_for.reason()
    }

    /// The state. `leads` is whether this process holds the plugin's lease.
    pub(crate) fn state(&self, leads: bool) -> PluginState {
        state_of(&self.tasks.context().limits, &self.waits_for, leads)
    }

    /// A sentence that says why the plugin is quarantined; none if it isn't.
    pub(crate) fn quarantine(&self) -> Option<String> {
        match self.tasks.context().limits.quarantine.state() {
            QuarantineState::Running => None,
            QuarantineState::Quarantined { until, reason } => {
                let left = until
                    .saturating_duration_since(tokio::time::Instant::now())
                    .as_secs();
                let name = self.tasks.name();
                Some(format!(
                    "quarantined for {left} s more: all of its keys fail, the last one with: {reason}; `flyball resume \
                     {name}` ends the quarantine"
                ))
            }
        }
    }

    /// Sets the metric that says whether the plugin reconciles in this process.
    pub(crate) fn show_leading(&self, leads: bool) {
        let (name, component) = &self.shown_as;
        let labels = [name.as_str(), *component];
        self.running
            .with_label_values(&labels)
            .set(if leads { 1.0 } else { 0.0 });
    }
}

#[cfg(test)]
mod tests;
