//! The host calls of a guest, answered as for a running plugin (`host/manager/src/plugins/start.rs`,
//! `host/runtime/src/guest_call.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::events::Recorder;
use flyball_api::incidents::Incidents;
use flyball_cache::{Informer, InformerFactory};
use flyball_limits::counters::PluginCounters;
use flyball_limits::host_limits::HostLimits;
use flyball_plugin::Imports;
use flyball_runtime::clouds::Clouds;
use flyball_runtime::context::{Pace, PluginContext, Reads, Settings};
use flyball_runtime::guest_call::GuestCall;
use flyball_runtime::memo::Memo;
use flyball_runtime::queue::{Queue, Reason};
use flyball_runtime::route_turns::RouteTurns;
use flyball_runtime::telemetry::{CustomMetrics, PluginTelemetry};
use flyball_serving::Metrics;
use flyball_signer::SigningKeys;
use flyball_traces::Tracer;

use super::plugin_view::PluginView;

/// The context of the calls of one guest.
pub(super) struct GuestCalls {
    context: Arc<PluginContext>,
    factory: Arc<InformerFactory>,
    _informers: Vec<Informer>,
}

/// The host's side of one call of the guest.
pub(super) struct HostCalls(Arc<GuestCall>);

impl GuestCalls {
    /// Adds the queues, memo, metrics and events that calls use to a plugin's view.
    ///
    /// # Errors
    /// A queue can't be created.
    pub(super) fn new(view: PluginView) -> Result<Self, String> {
        let PluginView {
            description,
            policy,
            client,
            informers,
            others,
            factory,
            cached,
            live,
            writer,
        } = view;
        let name: Arc<str> = description.name.as_str().into();
        let metrics = Metrics::new();
        let queue = |described: &flyball_types::description::Queue| {
            let queue = Queue::new(described, &described.name, &metrics, false);
            queue.map_err(|error| error.to_string())
        };
        let queues: Result<Vec<Queue>, String> = description.queues.iter().map(queue).collect();
        let denied = metrics.counter("denied_total", "Denied calls.", &[]);
        let denied = denied.map_err(|error| error.to_string())?;
        let counters = PluginCounters::new(&metrics, name.clone());
        let counters = counters.map_err(|error| error.to_string())?;
        let recorder = || Recorder::start(client.clone(), name.clone(), name.to_string());
        let limits = HostLimits::new(name.clone(), &policy.limits, false, Arc::default());
        let clouds = Clouds::new(&metrics, false).map_err(|error| error.to_string())?;
        let telemetry = PluginTelemetry {
            recorder: recorder(),
            incidents: Incidents {
                is_builtin: false,
                plugin: name.clone(),
                count: denied.with_label_values::<&str>(&[]),
                recorder: Arc::new(recorder()),
                account: None,
                limits: limits.clone(),
            },
            counters: Arc::new(counters),
            tracer: Tracer::default(),
            history: Arc::default(),
            metrics: CustomMetrics::declare(&metrics, &description, false),
        };
        let context = PluginContext {
            reads: Reads { cached, live },
            writer,
            queues: queues?,
            route_turns: RouteTurns::start(),
            memo: Arc::new(Memo::new(policy.limits.memo)),
            split: Arc::default(),
            signing_keys: SigningKeys::new(Arc::default()),
            clouds,
            credentials: None,
            limits,
            telemetry,
            recorder: flyball_rehearse::Recorder::new(0),
            runtime: tokio::runtime::Handle::current(),
            settings: Settings {
                description,
                digest: "".into(),
                policy,
                values: BTreeMap::new(),
                lookup: None,
                pace: Pace::default(),
            },
        };
        let informers = informers.into_iter().map(|(_, informer)| informer);
        Ok(Self {
            context: Arc::new(context),
            factory,
            _informers: informers.chain(others).collect(),
        })
    }

    /// Begins a call.
    pub(super) fn begin(&self) -> HostCalls {
        HostCalls(GuestCall::new(
            self.context.clone(),
            "fuzz".into(),
            Reason::Tick,
        ))
    }

    /// How many keys the queues hold, delayed ones included.
    pub(super) fn queued(&self) -> usize {
        self.context.held_keys().keys
    }

    /// Stops the reflectors.
    pub(super) async fn close(self) {
        self.factory.shutdown().await;
    }
}

impl HostCalls {
    pub(super) fn imports(&self) -> Arc<dyn Imports> {
        self.0.clone()
    }

    /// Commits the memo if the guest returned, and waits for its writes.
    pub(super) async fn end(&self, has_returned: bool) {
        if has_returned {
            self.0.commit();
        }
        self.0.wait_for_writes().await;
    }
}
