//! The traces of a plugin: which trace the keys of a delta continue, and the spans of a reconcile and of its calls of the
//! host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use flyball_cache::{Delta, Object};
use flyball_plugin::{CallError, Outcome};
use flyball_traces::{Change, ChangeType, Span, SpanOptions, Trace, Tracer};
use flyball_types::Kind;
use flyball_types::description::DeltaType;
use flyball_workqueue::{Causes, Item, Priority};

use crate::queue::Cause;

/// How many calls of the host by one guest call have spans. A guest may read thousands of objects, one by one.
const HOST_CALLS: u32 = 256;
/// How many causes one span has, besides the first.
const LINKS: usize = 16;

/// The traces of one guest call.
pub(crate) struct CallTrace {
    /// The span of the call; none if there are no traces.
    trace: Option<Trace>,
    host_calls: AtomicU32,
}

/// The span of a reconcile.
pub(crate) struct ReconcileSpan {
    span: Span,
    /// The trace that the next reconcile of the key continues, if this one asks for it or fails.
    cause: Option<Trace>,
}

/// Returns the trace that the keys of a delta continue; none for an object of the initial list, which nobody changed.
pub(crate) fn of_delta(tracer: &Tracer, kind: &Kind, delta: &Delta) -> Option<Trace> {
    if !tracer.is_on() || delta.initial {
        return None;
    }
    let newer = delta.between.iter().chain(&delta.new).rev();
    let newer: Vec<&Arc<Object>> = newer.collect();
    of_change(tracer, kind, delta.delta_type(), delta.old.as_ref(), &newer)
}

/// Returns the trace that the consequences of a change continue. `newer` are the versions after `old`, the newest
/// first.
pub(crate) fn of_change(
    tracer: &Tracer,
    kind: &Kind,
    delta_type: DeltaType,
    old: Option<&Arc<Object>>,
    newer: &[&Arc<Object>],
) -> Option<Trace> {
    let object = newer.first().copied().or(old)?;
    let versions: Vec<u64> = newer
        .iter()
        .map(|version| version.resource_version())
        .collect();
    let (change_type, is_of_intent) = match delta_type {
        DeltaType::Added => (ChangeType::Added, true),
        DeltaType::Deleted => (ChangeType::Deleted, !object.is_deleting()),
        DeltaType::Modified => {
            let has_new_intent = |old: &Arc<Object>| {
                old.generation() != object.generation()
                    || object.is_deleting() && !old.is_deleting()
            };
            (ChangeType::Modified, old.is_some_and(has_new_intent))
        }
    };
    tracer.change(&Change {
        change_type,
        kind: &kind.group_kind(),
        namespace: object.namespace(),
        name: object.name(),
        uid: &object.uid().to_string(),
        versions: &versions,
        is_of_intent,
    })
}

/// Begins the span of a call of `route`, which several changes caused. Which of them led to which key is not known.
pub(crate) fn route(causes: &[Trace]) -> Span {
    let Some((first, others)) = causes.split_first() else {
        return Span::default();
    };
    let others = &others[..others.len().min(LINKS)];
    first.go_on(SpanOptions::named("route").linked_to(others))
}

impl CallTrace {
    pub(crate) fn new(trace: Option<Trace>) -> Self {
        Self {
            trace,
            host_calls: AtomicU32::new(0),
        }
    }

    /// Begins the span of a call of the host; nothing if the trace is not recorded, or after many calls.
    pub(crate) fn host_call(&self, name: &'static str) -> Span {
        match &self.trace {
            Some(trace) if trace.is_recorded() => {
                let calls = self.host_calls.fetch_add(1, Ordering::Relaxed);
                match calls < HOST_CALLS {
                    true => trace.begin(SpanOptions::named(name)),
                    false => Span::default(),
                }
            }
            _ => Span::default(),
        }
    }

    /// The trace of the requests of a call of the host.
    pub(crate) fn of_requests(&self, host_call: &Span) -> Option<Trace> {
        host_call.trace().or(self.trace.as_ref()).cloned()
    }

    /// The number of calls of the host, if they were counted.
    pub(crate) fn host_calls(&self) -> u32 {
        self.host_calls.load(Ordering::Relaxed)
    }
}

impl ReconcileSpan {
    /// Begins the span of a reconcile, in the trace of its first cause. The time in the queue is a span of its own. A
    /// key that no change queued begins a trace, but not one of an initial list or of a reload.
    pub(crate) fn begin(tracer: &Tracer, item: &Item<Arc<str>, Cause>) -> Self {
        let cause = first_recorded(item.causes());
        let span = match &cause {
            Some(cause) => {
                let latest = item.causes().latest.as_ref();
                let others = latest.and_then(|latest| latest.trace.clone());
                let others = others.as_slice();
                queued(cause, item.queued());
                cause.go_on(reconcile().linked_to(others))
            }
            None if item.priority() == Priority::Low => Span::default(),
            None => tracer.begin(reconcile()),
        };
        let cause = cause.or_else(|| span.trace().cloned());
        Self { span, cause }
    }

    pub(crate) fn describe(
        &mut self,
        plugin: &str,
        queue: &str,
        item: &Item<Arc<str>, Cause>,
        attempt: u32,
    ) {
        let (key, causes) = (item.key(), item.causes());
        self.span.set("flyball.plugin", || plugin.to_owned());
        self.span.set("flyball.queue", || queue.to_owned());
        self.span.set("flyball.key", || key.to_string());
        self.span.set("flyball.attempt", || i64::from(attempt));
        self.span
            .set("flyball.why", || causes.first.reason.to_string());
        self.span
            .set("flyball.coalesced", || i64::from(causes.coalesced));
    }

    /// The trace of what the reconcile does and causes.
    pub(crate) fn trace(&self) -> Option<Trace> {
        self.span.trace().cloned()
    }

    /// The trace that another reconcile of the key continues. It has the same cause.
    pub(crate) fn cause(&self) -> Option<Trace> {
        self.cause.clone()
    }

    /// Ends the span.
    pub(crate) fn end(
        mut self,
        host_calls: u32,
        label: &'static str,
        result: &Result<Outcome, CallError>,
    ) {
        self.span
            .set("flyball.host_calls", || i64::from(host_calls));
        self.span.set("flyball.result", || label);
        match result {
            Ok(Outcome::Done | Outcome::RequeueAfter(_)) => {}
            Ok(Outcome::Failed(message) | Outcome::Terminal(message)) => {
                self.span.fail(|| message.clone());
            }
            Err(error) => self.span.fail(|| error.to_string()),
        }
    }
}

/// What its writes cause is its work: the chains of causes follow it.
fn reconcile<'a>() -> SpanOptions<'a> {
    SpanOptions::named("reconcile").of_work()
}

/// The trace of the first cause; of the latest if only that one is recorded.
fn first_recorded(causes: &Causes<Cause>) -> Option<Trace> {
    let latest = causes
        .latest
        .as_ref()
        .and_then(|latest| latest.trace.as_ref());
    let latest = latest.filter(|trace| trace.is_recorded());
    match &causes.first.trace {
        Some(first) if first.is_recorded() => Some(first.clone()),
        first => latest.or(first.as_ref()).cloned(),
    }
}

/// Adds the span of the time that a key was queued.
fn queued(cause: &Trace, queued: Duration) {
    let now = SystemTime::now();
    let began = now.checked_sub(queued).unwrap_or(now);
    drop(cause.begin(SpanOptions::named("queue").since(began)));
}
