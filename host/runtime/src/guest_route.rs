//! Calls the guest's `route` for deltas that the declared mappings can't map, and enqueues the keys that it returns.
//! One task serves all watches of a version: a call that fails or takes long delays no declared mapping. The host's
//! cost is charged to the plugin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flyball_cache::{Delta, Object};
use flyball_plugin::{Plugin, RoutedKey};
use flyball_reads::cached::RouteView;
use flyball_recording::{Document, Input};
use flyball_rehearse::of_route;
use flyball_traces::Trace;
use flyball_types::Kind;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::Instrument;

use crate::context::PluginContext;
use crate::guest_call::GuestCall;
use crate::history::HistoryEntry;
use crate::queue::{Cause, Reason};
use crate::route_backlog::{RouteBacklog, Step, Waiting, WatchNumber};
use crate::telemetry::call_span;
use crate::traces;

/// The queue that the history shows for failures of `route`.
const ROUTE: &str = "route";
/// How many keys are enqueued before others may run.
const KEYS: usize = 1000;

/// The deltas of all watches of a plugin version that wait for `route`.
#[derive(Default)]
pub(super) struct GuestRoute {
    backlog: Mutex<RouteBacklog>,
    watches: Mutex<Vec<RoutedWatch>>,
    /// The number of producers that may still push deltas.
    producers: AtomicUsize,
    changed: Notify,
}

/// The data of one watch.
#[derive(Clone)]
struct RoutedWatch {
    kind: Arc<Kind>,
    /// The watch's name in the deltas for the guest.
    name: Arc<str>,
    /// The part of the objects that the plugin may see.
    view: RouteView,
    /// Counted down once the initial deltas have been tried.
    left: watch::Sender<usize>,
}

/// Keeps [`GuestRoute::run`] from ending.
pub(super) struct Producer(Arc<GuestRoute>);

/// Pushes the deltas of one watch.
pub(super) struct RouteSender {
    producer: Producer,
    watch: WatchNumber,
}

impl GuestRoute {
    pub(super) fn producer(self: &Arc<Self>) -> Producer {
        self.producers.fetch_add(1, Ordering::SeqCst);
        Producer(self.clone())
    }

    /// Adds a watch. The guest sees its objects through `view`. `left` is decremented once the initial deltas have been
    /// tried.
    pub(super) fn sender(
        self: &Arc<Self>,
        kind: &Arc<Kind>,
        view: RouteView,
        left: &watch::Sender<usize>,
    ) -> RouteSender {
        let mut watches = self.watches.lock();
        watches.push(RoutedWatch {
            kind: kind.clone(),
            name: kind.to_string().into(),
            view,
            left: left.clone(),
        });
        RouteSender {
            producer: self.producer(),
            watch: watches.len() - 1,
        }
    }

    /// Routes until all producers are dropped and each delta has been tried.
    pub(super) async fn run(self: Arc<Self>, plugin: Plugin, context: Arc<PluginContext>) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let has_ended = self.producers.load(Ordering::SeqCst) == 0;
            let next = || self.backlog.lock().next(Instant::now());
            let step = plugin.work(next).await;
            match step {
                Step::InitialDone(watch) => {
                    let left = self.watches.lock()[watch].left.clone();
                    left.send_modify(|left| *left -= 1);
                }
                Step::Route(batch) if batch.is_empty() => {}
                Step::Route(batch) => {
                    let span = call_span(context.name(), ROUTE);
                    let route = self.route(&plugin, &context, batch);
                    route.instrument(span).await;
                }
                // Deltas that fail alone are dropped with the version.
                Step::Wait(_) if has_ended => return,
                Step::Wait(Some(at)) => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                Step::Wait(None) => changed.await,
            }
        }
    }

    async fn route(&self, plugin: &Plugin, context: &Arc<PluginContext>, batch: Vec<Waiting>) {
        let mut deltas = Vec::with_capacity(batch.len());
        for waiting in &batch {
            deltas.push(plugin.work(|| self.guest_delta(waiting)).await);
        }
        let (called, owned) = (plugin.clone(), context.clone());
        let mut span = traces::route(&self.traces(context, &batch));
        span.set("flyball.plugin", || context.name().to_owned());
        let cause = Cause {
            reason: self.reason(&batch),
            trace: span.trace().cloned(),
        };
        let by = cause.clone();
        let started = Instant::now();
        let call = async move { call_route(&called, &owned, by, deltas).await }.in_current_span();
        let routed = context.route_turns.run(call).await;
        let routed = routed.unwrap_or_else(|| Err("the host failed".to_owned()));
        let error = match routed {
            Ok(keys) => {
                let objects = batch.iter().map(|waiting| waiting.object().key());
                context.telemetry.history.recovered(ROUTE, objects);
                enqueue(plugin, context, keys, &cause).await;
                return self.report(context);
            }
            Err(error) => error,
        };
        span.fail(|| error.clone());
        if context.limits.log_lines.pass_line(&error) {
            tracing::warn!(
                deltas = batch.len(),
                error,
                "`route` failed; its deltas are tried again, each alone"
            );
        }
        let first = batch[0].clone();
        let alone = self.backlog.lock().failed(batch, Instant::now());
        if let Some(object) = alone {
            let kind = self.watches.lock()[first.watch].kind.clone();
            let name = format!("{kind} {}", object.key());
            context.telemetry.incidents.route_failed(&name, &error);
            context.telemetry.history.add(HistoryEntry {
                at: SystemTime::now(),
                digest: context.settings.digest.clone(),
                queue: ROUTE.into(),
                key: object.key().into(),
                why: Reason::Delta {
                    kind,
                    object: object.key().into(),
                    delta: first.delta_type,
                },
                coalesced: 0,
                attempt: first.failures,
                queued: Duration::ZERO,
                took: started.elapsed(),
                failed: Some(format!("`route` failed: {error}")),
                wrote: Vec::new(),
                trace: cause.trace.filter(Trace::is_recorded),
                cause: None,
            });
        }
        self.report(context);
    }

    /// The reason for the keys that `route` returned for these deltas. Which of several deltas led to which key is
    /// not known.
    fn reason(&self, batch: &[Waiting]) -> Reason {
        let cause = match batch {
            [one] => Some(Arc::new(Reason::Delta {
                kind: self.watches.lock()[one.watch].kind.clone(),
                object: one.object().key().into(),
                delta: one.delta_type,
            })),
            _ => None,
        };
        Reason::Routed { cause }
    }

    /// The traces that these deltas are parts of.
    fn traces(&self, context: &PluginContext, batch: &[Waiting]) -> Vec<Trace> {
        let tracer = &context.telemetry.tracer;
        if !tracer.is_on() {
            return Vec::new();
        }
        let changes = batch.iter().filter(|waiting| !waiting.initial);
        let traces = changes.filter_map(|waiting| {
            let kind = self.watches.lock()[waiting.watch].kind.clone();
            let newer: Vec<&Arc<Object>> = waiting.new.iter().collect();
            traces::of_change(
                tracer,
                &kind,
                waiting.delta_type,
                waiting.old.as_ref(),
                &newer,
            )
        });
        traces.collect()
    }

    /// Shows how many deltas wait and fail.
    fn report(&self, context: &PluginContext) {
        let mut backlog = self.backlog.lock();
        let refused = backlog.take_refused();
        let (waiting, failing) = (backlog.waiting(), backlog.failing());
        let route = &context.limits.route;
        route.set(waiting, failing, backlog.bytes(), refused);
        if refused > 0 && context.limits.log_lines.pass() {
            tracing::warn!(refused, "dropped deltas: too many objects wait for `route`");
        }
    }

    /// A delta as the guest's `route` receives it, with the part of the object that the plugin sees.
    fn guest_delta(&self, waiting: &Waiting) -> flyball_plugin::Delta {
        let watch = self.watches.lock()[waiting.watch].clone();
        let mut projection = watch.view.projection();
        let mut shown = |object: &Arc<Object>| Some(projection.as_mut()?.bytes(object));
        flyball_plugin::Delta {
            watch: watch.name.as_ref().into(),
            delta_type: waiting.delta_type,
            old: waiting.old.as_ref().and_then(&mut shown),
            new: waiting.new.as_ref().and_then(&mut shown),
            initial: waiting.initial,
        }
    }
}

impl RouteSender {
    /// Adds a delta.
    pub(super) fn push(&self, delta: &Delta) {
        let route = &self.producer.0;
        route.backlog.lock().push(self.watch, delta);
        route.changed.notify_waiters();
    }

    /// Notes that all initial deltas were pushed.
    pub(super) fn end_initial(&self) {
        let route = &self.producer.0;
        route.backlog.lock().end_initial(self.watch);
        route.changed.notify_waiters();
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.0.producers.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

/// Calls the guest's `route` once and returns its keys. The error is a sentence.
async fn call_route(
    plugin: &Plugin,
    context: &Arc<PluginContext>,
    cause: Cause,
    deltas: Vec<flyball_plugin::Delta>,
) -> Result<Vec<RoutedKey>, String> {
    let call = GuestCall::new(context.clone(), ROUTE.into(), cause);
    let session = context.recorder.begin(call.clone());
    let bytes = |object: &Option<Bytes>| object.as_ref().map_or(0, Bytes::len);
    let size = deltas
        .iter()
        .map(|delta| bytes(&delta.old) + bytes(&delta.new));
    let noted = session.hold(size.sum()).then(|| deltas.clone());
    let routed = plugin.route(session.imports(), deltas).await;
    let input = || Input::Route {
        deltas: noted.iter().flatten().map(recorded_delta).collect(),
    };
    let digest = &context.settings.digest;
    session.end(digest, None, of_route(&routed), input).await;
    let routed = routed.map_err(|error| error.to_string())??;
    call.commit();
    Ok(routed)
}

fn recorded_delta(delta: &flyball_plugin::Delta) -> flyball_recording::Delta {
    let document = |object: &Bytes| Document(object.to_vec());
    flyball_recording::Delta {
        watch: delta.watch.clone(),
        delta_type: delta.delta_type,
        old: delta.old.as_ref().map(document),
        new: delta.new.as_ref().map(document),
        initial: delta.initial,
    }
}

/// Enqueues the keys that the guest's `route` returned, up to the plugin's limit.
async fn enqueue(plugin: &Plugin, context: &PluginContext, keys: Vec<RoutedKey>, cause: &Cause) {
    let (mut dropped, mut first) = (0, None);
    let mut keys = keys.into_iter();
    while keys.len() > 0 {
        let some = keys.by_ref().take(KEYS);
        let enqueue = || {
            for key in some {
                let checked = context.queue(&key.queue).and_then(|queue| {
                    let held = || context.held_keys();
                    context.limits.check_key(&key.key, held).map(|()| queue)
                });
                match checked {
                    Ok(queue) => queue.add(key.key.into(), key.delay, cause.clone()),
                    Err(error) => {
                        dropped += 1;
                        first.get_or_insert(error);
                    }
                }
            }
        };
        plugin.work(enqueue).await;
    }
    if let Some(error) = first
        && context.limits.log_lines.pass_line(&error.message)
    {
        tracing::warn!(dropped, %error, "dropped keys that `route` returned");
    }
}
