//! Starts an open version of a plugin, or has it take over from the version that runs: builds the context that its calls
//! work with, and shows it in health checks, debug pages and metrics.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flyball_cache::Informer;
use flyball_plugin::Plugin;
use flyball_serving::HealthChecks;
use flyball_serving::debug::PageRegistration;
use flyball_serving::health::{CheckName, Note, Registration};
use flyball_serving::metrics::{CounterVec, GaugeVec, MetricsError};
use flyball_types::description::Description;

use crate::api::client::ApiClient;
use crate::api::cluster::Cluster;
use crate::api::events::Recorder;
use crate::api::incidents::Incidents;
use crate::limits::host_limits::HostLimits;
use crate::limits::plugin_metrics::PluginMetrics;
use crate::limits::quarantine::State;
use crate::limits::rate::RateLimiter;
use crate::plugins::open::{Opened, waits_for};
use crate::plugins::plan::Version;
use crate::plugins::{PluginOptions, Telemetry};
use crate::policy::PluginPolicy;
use crate::policy::grant::Grant;
use crate::reads::cached::{CachedReads, Seen};
use crate::reads::live::LiveReads;
use crate::runtime::context::{Pace, PluginContext, Reads, Settings};
use crate::runtime::discovered_informers::DiscoveredInformers;
use crate::runtime::graph;
use crate::runtime::memo::Memo;
use crate::runtime::plugin_tasks::{Begin, PluginTasks};
use crate::runtime::queue::Queue;
use crate::runtime::route_turns::RouteTurns;
use crate::runtime::telemetry::{CustomMetrics, PluginTelemetry};
use crate::signer::SigningKeys;
use crate::writer::Writer;

/// Starts versions.
pub(crate) struct Starter {
    cluster: Arc<Cluster>,
    options: Arc<PluginOptions>,
    telemetry: Telemetry,
    running: GaugeVec,
    denied: CounterVec,
    /// Sends events about what plugins are denied.
    denials: ApiClient,
    /// Records those about the built-ins.
    builtins: Arc<Recorder>,
}

/// A version that runs, and what it is registered with.
pub(crate) struct RunningVersion {
    pub(crate) tasks: PluginTasks,
    pub(crate) version: Version,
    running: GaugeVec,
    waits_for: WaitsFor,
    _checks: Checks,
    _graph: Option<PageRegistration>,
    _metrics: PluginMetrics,
}

/// Returns what keeps a version from its work as a sentence; none if nothing does.
type WaitsFor = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What shows a version in the health endpoints.
struct Checks {
    _registrations: Vec<Registration>,
    _note: Option<Note>,
}

impl Starter {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        options: Arc<PluginOptions>,
        telemetry: Telemetry,
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
        let denials = cluster.client("denials", cluster.fence.clone());
        let builtins = record_denials(&denials, "built-ins");
        Ok(Self {
            cluster,
            options,
            telemetry,
            running,
            denied,
            denials,
            builtins,
        })
    }

    /// Starts a version. If there is one `before` it under no wider grant, the new one takes over its queues, memo and history.
    pub(crate) fn start(
        &self,
        opened: Opened,
        before: Option<&RunningVersion>,
    ) -> Result<RunningVersion, MetricsError> {
        // What another grant, such as a built-in's, let into keys, memo and history is not for this version.
        let grant = &opened.version.grant;
        let before = before.filter(|before| grant.covers(&before.version.grant));
        let context = Arc::new(self.context(&opened, before)?);
        let Opened {
            version,
            plugin,
            informers,
            discovered,
        } = opened;
        let name = context.name().to_owned();
        let waits_for = waiting(&plugin, &informers, discovered.as_ref());
        let health = &self.telemetry.health;
        let checks = checks(health, &name, version.grant.is_builtin, waits_for.clone());
        let page = discovered.is_some().then(|| {
            let cached = context.reads.cached.clone();
            self.telemetry
                .debug
                .add(&name, "graph", move |query| graph::page(&cached, query))
        });
        let stats = plugin.clone();
        let metrics = PluginMetrics::new(
            &self.telemetry.metrics,
            name.as_str().into(),
            move || stats.stats(),
            context.limits.clone(),
            vec![
                context.writer.rate().waits(),
                context.reads.live.rate().waits(),
            ],
        )?;
        let leading = self.cluster.leading.subscribe();
        let begin = match before {
            Some(_) => Begin::TakingOver(&leading),
            None => Begin::Leading(&leading),
        };
        let concurrency = version.grant.concurrency;
        let tasks =
            PluginTasks::start(plugin, context, &informers, discovered, concurrency, &begin);
        let is_leading = *leading.borrow();
        let running = RunningVersion {
            tasks,
            version,
            running: self.running.clone(),
            waits_for,
            _checks: checks,
            _graph: page,
            _metrics: metrics,
        };
        running.show_leading(is_leading);
        Ok(running)
    }

    fn context(
        &self,
        opened: &Opened,
        before: Option<&RunningVersion>,
    ) -> Result<PluginContext, MetricsError> {
        let (description, grant) = (&*opened.version.plugin.description, &opened.version.grant);
        let policy = grant.policy.clone();
        let same = before.map(|before| before.tasks.context());
        let name: Arc<str> = description.name.as_str().into();
        let client = self.client(&opened.version, before);
        let seen = same.map_or_else(Seen::default, |same| same.reads.cached.seen());
        let cached = CachedReads::new(
            description,
            policy.clone(),
            opened.informers.iter().map(|(_, informer)| informer),
            self.cluster.discovery.clone(),
            opened.plugin.limits().answer_bytes,
            seen,
        );
        let discovered = opened
            .discovered
            .iter()
            .flat_map(DiscoveredInformers::informers);
        cached.discover(discovered.cloned());
        let cached = Arc::new(cached);
        let stop = same.map_or_else(Arc::default, |same| same.limits.stop.clone());
        let limits = HostLimits::new(name.clone(), &policy.limits, grant.is_builtin, stop);
        let writer = Writer::new(
            client.clone(),
            self.cluster.discovery.clone(),
            policy.clone(),
            self.rate_limiter(&policy),
            cached.clone(),
            opened.plugin.budget().clone(),
            limits.stop.clone(),
        )
        .metered(&opened.plugin);
        let has_same_memo = |same: &&Arc<PluginContext>| {
            same.settings.description.memo_schema == description.memo_schema
                && same.settings.policy.limits.memo == policy.limits.memo
        };
        let memo = match same.filter(has_same_memo) {
            Some(same) => same.memo.clone(),
            None => Arc::new(Memo::new(policy.limits.memo)),
        };
        // A dropped-in plugin can't speak for another component.
        let event_source = match &*description.event_source {
            source if grant.is_builtin && !source.is_empty() => source,
            _ => &description.name,
        };
        let live = LiveReads::new(
            client.clone(),
            self.cluster.discovery.clone(),
            policy.clone(),
            self.rate_limiter(&policy),
            opened.plugin.limits().answer_bytes,
            opened.plugin.budget().clone(),
        );
        let telemetry = PluginTelemetry {
            recorder: Recorder::start(client, name.clone(), event_source.to_owned()),
            incidents: Incidents {
                count: self.denied.with_label_values(&[&*name]),
                recorder: self.recorder_of_denials(&name, grant.is_builtin),
                account: grant.account.clone(),
                plugin: name.clone(),
                limits: limits.clone(),
            },
            history: same.map_or_else(Arc::default, |same| same.telemetry.history.clone()),
            metrics: CustomMetrics::declare(&self.telemetry.metrics, description, grant.is_builtin),
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
            signing_keys: SigningKeys::new(self.options.signer.clone(), policy.clone()),
            limits,
            telemetry,
            runtime: tokio::runtime::Handle::current(),
            settings: Settings {
                description: description.clone(),
                policy,
                values: grant.config.clone(),
                pace: self.pace(&name, grant.is_builtin),
            },
        })
    }

    /// The recorder of what a plugin is denied. Each dropped-in plugin has its own, whose queue no other one fills.
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
        let identity = |grant: &'_ Grant| {
            let identity = grant.identity(self.options.use_service_account_credentials);
            identity.cloned()
        };
        match (identity(grant), before) {
            // The tokens of the version before remain valid for this one.
            (Some(account), Some(before))
                if identity(&before.version.grant) == Some(account.clone()) =>
            {
                before.tasks.context().writer.client().clone()
            }
            (Some((namespace, account)), _) => self.cluster.client_as(&namespace, &account, name),
            (None, _) => self.cluster.client(name, self.cluster.fence.clone()),
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

    /// The queues of a description. Those that the version before has too keep their keys and backoffs.
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
            Queue::new(described, &label, &self.telemetry.metrics)
        };
        description.queues.iter().map(queue).collect()
    }
}

fn record_denials(client: &ApiClient, of: &str) -> Arc<Recorder> {
    Arc::new(Recorder::start(client.clone(), of.into(), "flyball".into()))
}

/// The name of a queue in the metrics. Of a built-in, it is that of kube-controller-manager, which no other plugin can take.
fn queue_label<'a>(plugin: &str, queue: &'a str, is_builtin: bool) -> Cow<'a, str> {
    if is_builtin {
        queue.into()
    } else {
        format!("{plugin}/{queue}").into()
    }
}

/// How long calls may wait for an instance slot before the plugin counts as starved.
const STARVED: Duration = Duration::from_secs(10);

/// Says what a version waits for: informers that are not synced yet, or instance slots that others occupy.
fn waiting(
    plugin: &Plugin,
    informers: &[(usize, Informer)],
    discovered: Option<&DiscoveredInformers>,
) -> WaitsFor {
    let (plugin, informers) = (plugin.clone(), informers.to_vec());
    let discovered_ready = discovered.map(DiscoveredInformers::ready);
    Arc::new(move || {
        waits_for(&informers).or_else(|| match &discovered_ready {
            Some(ready) if !ready.load(Ordering::Acquire) => {
                Some("waits until the caches of all discovered kinds are synced".to_owned())
            }
            _ => starved(plugin.stats().starved),
        })
    })
}

/// A sentence about a plugin whose calls have waited for so long for instance slots; none if that is not long.
fn starved(waited: Duration) -> Option<String> {
    (waited > STARVED).then(|| {
        format!(
            "is starved: its calls have waited for an instance slot for {} s; `flyball status` shows which plugins hold them",
            waited.as_secs()
        )
    })
}

/// Adds the checks of a version. A built-in has a liveness check that never fails, with the name that it has in
/// kube-controller-manager, and the host is not ready until its informers are synced. A dropped-in plugin has names of
/// its own, and its informers are only noted: a watch that never syncs must not keep the host from being ready.
fn checks(health: &HealthChecks, name: &str, is_builtin: bool, waits_for: WaitsFor) -> Checks {
    let (own, informers) = (name.to_owned(), CheckName::Informers(name.to_owned()));
    if is_builtin {
        let synced = move || waits_for().map_or(Ok(()), Err);
        let alive = health.add(CheckName::Controller(own), || Ok(()));
        Checks {
            _registrations: vec![alive, health.add_readiness(informers, synced)],
            _note: None,
        }
    } else {
        let is_waiting = move || waits_for().is_some();
        let alive = health.add(CheckName::Plugin(own), || Ok(()));
        Checks {
            _registrations: vec![alive],
            _note: Some(health.note_while(informers, "not synced", is_waiting)),
        }
    }
}

impl RunningVersion {
    /// Why the plugin does not work yet, as a sentence; none if it does.
    pub(crate) fn waits_for(&self) -> Option<String> {
        (self.waits_for)()
    }

    /// Why the plugin is quarantined, as a sentence; none if it isn't.
    pub(crate) fn quarantine(&self) -> Option<String> {
        match self.tasks.context().limits.quarantine.state() {
            State::Running => None,
            State::Quarantined { until, reason } => {
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

    /// Shows in the metrics whether the plugin acts in this process.
    pub(crate) fn show_leading(&self, leads: bool) {
        let labels = [self.tasks.name(), "kube-controller-manager"];
        self.running
            .with_label_values(&labels)
            .set(if leads { 1.0 } else { 0.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> WaitsFor {
        Arc::new(|| Some("waits until its caches are synced: v1/Pod".to_owned()))
    }

    fn ready(health: &HealthChecks) -> (bool, String) {
        let report = health.report("readyz", &[]);
        (report.is_healthy(), report.text(true))
    }

    #[test]
    fn a_built_in_is_alive_and_not_ready_until_its_informers_are_synced() {
        let health = HealthChecks::default();
        let checks = checks(&health, "job-controller", true, waiting());
        assert_eq!(health.check("job-controller"), Some(Ok(())));
        assert!(health.report("healthz", &[]).is_healthy());
        let report = health.report("readyz", &[]);
        assert_eq!(
            report.failed(),
            [(
                "informers/job-controller".to_owned(),
                waiting()().expect("it waits")
            )]
        );
        drop(checks);
        assert!(ready(&health).0);
    }

    #[test]
    fn a_watch_of_a_plugin_that_never_syncs_names_the_plugin_and_leaves_the_host_ready() {
        let health = HealthChecks::default();
        let checks = checks(&health, "hello", false, waiting());
        assert_eq!(
            ready(&health),
            (
                true,
                "[+]ping ok\n[+]plugins/hello ok\n[i]informers/hello: not synced\nreadyz check passed\n".to_owned()
            )
        );
        drop(checks);
        assert_eq!(ready(&health).1, "[+]ping ok\nreadyz check passed\n");
    }

    #[test]
    fn no_plugin_hides_the_checks_of_a_built_in() {
        let health = HealthChecks::default();
        let _own = checks(&health, "a", true, waiting());
        let nothing = || -> WaitsFor { Arc::new(|| None) };
        let names = ["a", "a-informers", "informers", "ping", "readyz"];
        let _others = names.map(|name| checks(&health, name, false, nothing()));
        assert_eq!(
            health.check("informers/a"),
            Some(Err(waiting()().expect("it waits")))
        );
        assert!(!ready(&health).0);
    }
}
