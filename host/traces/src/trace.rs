//! Traces and their spans. A [`Trace`] is passed from a cause to its consequence: with the keys in a workqueue, from a
//! reconcile to its calls, and from a write to the change that the watch reports.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _,
    Tracer as _,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::causes::{Causes, Change, ChangeType, Origin, Target, Writing};

/// For how long a trace goes on. What follows later begins another trace, with a link to this one: a controller that
/// asks for each of its keys again every minute would otherwise have one trace until the process ends.
const LONGEST: Duration = Duration::from_secs(3600);

/// The longest error in bytes. A guest chooses it.
const ERROR: usize = 4096;

tokio::task_local! {
    static CURRENT: Trace;
}

/// Begins traces, or none if there is no collector. Clones share the memory of what was written.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Shared>>);

pub(crate) struct Shared {
    tracer: SdkTracer,
    pub(crate) causes: Mutex<Causes>,
}

/// A place in a trace: the span that the next ones are caused by. The trace need not be recorded. Its consequences are
/// then not recorded either.
#[derive(Clone)]
pub struct Trace(Arc<Place>);

/// Identifies a piece of work whose writes cause further work, such as a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkId(SpanId);

struct Place {
    shared: Arc<Shared>,
    span: SpanContext,
    /// The work that the span is a part or a consequence of.
    work: Option<WorkId>,
    /// When the trace began.
    began: Instant,
}

/// A part of a trace that is going on. It ends when it is dropped. It may be nothing.
#[derive(Default)]
pub struct Span {
    /// None if the trace is not recorded.
    recorded: Option<Box<SdkSpan>>,
    trace: Option<Trace>,
}

/// What a span begins with.
pub struct SpanOptions<'a> {
    name: Cow<'static, str>,
    kind: SpanKind,
    began: Option<SystemTime>,
    /// Other causes.
    links: &'a [Trace],
    /// Whether what the span causes is the work of it, and not of what caused it.
    is_work: bool,
}

impl Tracer {
    pub(crate) fn new(tracer: SdkTracer) -> Self {
        let causes = Mutex::default();
        Self(Some(Arc::new(Shared { tracer, causes })))
    }

    /// Whether there may be traces.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a trace, with this as its first span.
    pub fn begin(&self, options: SpanOptions<'_>) -> Span {
        match &self.0 {
            Some(shared) => shared.begin(options, None, None),
            None => Span::default(),
        }
    }

    /// Returns the trace that a change's consequences continue; none if tracing is off. The change is a span of its
    /// own, in the trace of the write that it comes from, or else the first of a trace. Each watch that reports the
    /// change gets the same span.
    pub fn change(&self, change: &Change<'_>) -> Option<Trace> {
        let shared = self.0.as_ref()?;
        let mut span = {
            let mut causes = shared.causes.lock();
            let options = SpanOptions::named(format!("change {}", short(change.kind)));
            let begun = match causes.origin(change, Instant::now()) {
                Origin::Seen(trace) => return Some(trace),
                Origin::Written(trace) => trace.go_on(options),
                Origin::Unknown => shared.begin(options, None, None),
            };
            causes.note_change(change, begun.trace()?);
            begun
        };
        span.set("k8s.object.kind", || change.kind.to_owned());
        span.set("k8s.object.name", || change.name.to_owned());
        if !change.namespace.is_empty() {
            span.set("k8s.namespace.name", || change.namespace.to_owned());
        }
        span.set("k8s.object.uid", || change.uid.to_owned());
        if let Some(version) = change.versions.first() {
            span.set("k8s.object.resource_version", || version.to_string());
        }
        span.set("flyball.change", || match change.change_type {
            ChangeType::Added => "added",
            ChangeType::Modified => "modified",
            ChangeType::Deleted => "deleted",
        });
        span.trace().cloned()
    }
}

impl Shared {
    /// `work` is the work that the span is a part or a consequence of, unless it is work itself.
    fn begin(
        self: &Arc<Self>,
        options: SpanOptions<'_>,
        parent: Option<&Trace>,
        work: Option<WorkId>,
    ) -> Span {
        let context = match parent {
            Some(parent) => Context::new().with_remote_span_context(parent.0.span.clone()),
            None => Context::new(),
        };
        let links = options.links.iter().filter(|link| link.is_recorded());
        let links = links.map(|link| Link::with_context(link.0.span.clone()));
        let mut builder = SpanBuilder::from_name(options.name)
            .with_kind(options.kind)
            .with_links(links.collect());
        builder.start_time = options.began;
        let span = self.tracer.build_with_context(builder, &context);
        let trace = Trace(Arc::new(Place {
            shared: self.clone(),
            span: span.span_context().clone(),
            work: match options.is_work {
                true => Some(WorkId(span.span_context().span_id())),
                false => work,
            },
            began: parent.map_or_else(Instant::now, |parent| parent.0.began),
        }));
        Span {
            recorded: trace.is_recorded().then(|| Box::new(span)),
            trace: Some(trace),
        }
    }
}

impl Trace {
    /// Begins a part of what this span does.
    pub fn begin(&self, options: SpanOptions<'_>) -> Span {
        if !self.is_recorded() {
            return Span {
                recorded: None,
                trace: Some(self.clone()),
            };
        }
        self.0.shared.begin(options, Some(self), self.0.work)
    }

    /// Begins a consequence of this span. It begins another trace, with a link to this one, if this one has gone on for
    /// an hour.
    pub fn go_on(&self, options: SpanOptions<'_>) -> Span {
        if self.0.began.elapsed() < LONGEST {
            return self.begin(options);
        }
        let links = [options.links, std::slice::from_ref(self)].concat();
        let options = SpanOptions {
            links: &links,
            ..options
        };
        self.0.shared.begin(options, None, self.0.work)
    }

    /// Notes that this span is about to write the object, so that the change that the watch reports continues the
    /// trace.
    pub fn writing(&self, target: Target) -> Writing {
        Writing::begin(&self.0.shared, target, self)
    }

    pub fn is_recorded(&self) -> bool {
        self.0.span.is_sampled()
    }

    /// Returns the ID of the trace, in hex.
    pub fn id(&self) -> String {
        self.0.span.trace_id().to_string()
    }

    /// Returns the work that this span is a part of, or that caused it; none if no work of this process did, or if the
    /// trace is not recorded.
    pub fn work(&self) -> Option<WorkId> {
        self.0.work.filter(|_| self.is_recorded())
    }

    /// Returns the work that this span is; none if it is only a part or a consequence of work.
    pub fn as_work(&self) -> Option<WorkId> {
        self.work()
            .filter(|WorkId(span)| *span == self.0.span.span_id())
    }

    /// Returns the header that makes the receiver of a request continue the trace; none if it is not recorded.
    ///
    /// See <https://www.w3.org/TR/trace-context/#traceparent-header>.
    pub fn traceparent(&self) -> Option<HeaderValue> {
        if !self.is_recorded() {
            return None;
        }
        let (trace, span) = (self.0.span.trace_id(), self.0.span.span_id());
        HeaderValue::try_from(format!("00-{trace}-{span}-01")).ok()
    }
}

impl Span {
    /// The place that is caused by this span; none if tracing is off.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    pub fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// Sets an attribute. The value is computed only if the span is recorded.
    pub fn set<V: Into<Value>>(&mut self, name: &'static str, value: impl FnOnce() -> V) {
        if let Some(span) = &mut self.recorded {
            span.set_attribute(KeyValue::new(name, value()));
        }
    }

    /// Marks the span as failed.
    pub fn fail(&mut self, why: impl FnOnce() -> String) {
        if let Some(span) = &mut self.recorded {
            let mut why = why();
            why.truncate(why.floor_char_boundary(ERROR));
            span.set_status(Status::error(why));
        }
    }
}

impl<'a> SpanOptions<'a> {
    /// A span of this name that begins now. Names are few: what a span is about is in its attributes.
    pub fn named(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            kind: SpanKind::Internal,
            began: None,
            links: &[],
            is_work: false,
        }
    }

    /// A request to a server.
    pub fn request(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: SpanKind::Client,
            ..Self::named(name)
        }
    }

    /// The span began earlier.
    pub fn since(self, began: SystemTime) -> Self {
        let began = Some(began);
        Self { began, ..self }
    }

    /// The span is a piece of work: what it causes has its [`WorkId`].
    pub fn of_work(self) -> Self {
        let is_work = true;
        Self { is_work, ..self }
    }

    /// The span has other causes, too.
    pub fn linked_to(self, links: &'a [Trace]) -> Self {
        Self { links, ..self }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trace").field(&self.0.span).finish()
    }
}

/// Runs work as a part of a trace: its requests are spans of it.
pub async fn within<F: Future>(trace: Option<Trace>, work: F) -> F::Output {
    match trace {
        Some(trace) => CURRENT.scope(trace, work).await,
        None => work.await,
    }
}

/// Returns the trace that the current task works for.
pub fn current() -> Option<Trace> {
    CURRENT.try_with(Trace::clone).ok()
}

/// The kind without its group.
fn short(kind: &str) -> &str {
    kind.split_once('.').map_or(kind, |(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    fn tracer() -> Tracer {
        Tracer::new(SdkTracerProvider::builder().build().tracer("test"))
    }

    /// A change by somebody else that is not one of intent.
    fn reported(version: &u64) -> Change<'_> {
        Change {
            change_type: ChangeType::Modified,
            kind: "Pod",
            namespace: "demo",
            name: "a",
            uid: "1",
            versions: std::slice::from_ref(version),
            is_of_intent: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_hour_what_follows_is_another_trace() {
        let first = tracer().begin(SpanOptions::named("tick"));
        let first = first.trace().expect("tracing is on");
        tokio::time::advance(LONGEST - Duration::from_secs(1)).await;
        let later = first.go_on(SpanOptions::named("reconcile"));
        assert_eq!(later.trace().map(Trace::id), Some(first.id()));
        tokio::time::advance(Duration::from_secs(1)).await;
        let later = first.go_on(SpanOptions::named("reconcile"));
        assert_ne!(later.trace().map(Trace::id), Some(first.id()));
    }

    #[tokio::test(start_paused = true)]
    async fn reports_of_others_continue_a_write_for_ten_minutes() {
        let tracer = tracer();
        let write = tracer.begin(SpanOptions::named("create"));
        let write = write.trace().expect("tracing is on");
        let target = Target {
            kind: "Pod".into(),
            namespace: "demo".into(),
            name: "a".into(),
            is_prefix: false,
        };
        write.writing(target).acknowledged("1", Some(5), false);
        let id = |version| tracer.change(&reported(&version)).map(|trace| trace.id());
        assert_eq!(id(6), Some(write.id()));
        tokio::time::advance(Duration::from_secs(601)).await;
        assert_ne!(id(7), Some(write.id()));
    }

    #[tokio::test]
    async fn the_memory_of_objects_is_bounded_and_keeps_the_latest() {
        let tracer = tracer();
        let uids: Vec<String> = (0..40_000).map(|number| format!("uid-{number}")).collect();
        let of = |uid: &str| {
            let change = Change {
                uid,
                ..reported(&5)
            };
            tracer.change(&change).map(|trace| trace.id())
        };
        let ids: Vec<_> = uids.iter().map(|uid| of(uid)).collect();
        let shared = tracer.0.as_ref().expect("tracing is on");
        assert!(shared.causes.lock().len() < 20_000);
        assert_eq!(of(&uids[39_999]), ids[39_999]);
        assert_ne!(of(&uids[0]), ids[0]);
    }

    #[test]
    fn without_tracing_nothing_is_kept() {
        let tracer = Tracer::default();
        assert!(tracer.change(&reported(&5)).is_none());
        let span = tracer.begin(SpanOptions::named("reconcile"));
        assert!(span.trace().is_none() && !span.is_recorded());
        assert_eq!(size_of::<Option<Trace>>(), size_of::<usize>());
    }
}
