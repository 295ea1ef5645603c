//! A write as a span of a trace. The change that the watch reports of it continues the trace.

use std::time::Duration;

use bytes::Bytes;
use flyball_cache::{ApiResponse, Object};
use flyball_plugin::{Operation, Write};
use flyball_traces::{Span, SpanOptions, Target, Trace, Writing, current};
use flyball_types::{ApiError, Kind};
use serde::Deserialize;

use crate::journal::verb;

/// The span of a write; nothing if there are no traces.
pub(super) struct WriteSpan {
    span: Span,
    writing: Option<Writing>,
    is_deletion: bool,
}

impl WriteSpan {
    pub(super) fn begin(write: &Write, kind: &Kind) -> Self {
        let is_deletion = matches!(write.operation, Operation::Delete);
        let Some(trace) = current() else {
            return Self {
                span: Span::default(),
                writing: None,
                is_deletion,
            };
        };
        let name = format!("{} {}", verb(&write.operation), kind.kind);
        let mut span = trace.begin(SpanOptions::named(name));
        let target = &write.target;
        span.set("k8s.object.kind", || kind.to_string());
        if !target.namespace.is_empty() {
            span.set("k8s.namespace.name", || target.namespace.clone());
        }
        if !write.subresource().is_empty() {
            span.set("flyball.subresource", || write.subresource().to_owned());
        }
        Self {
            span,
            writing: None,
            is_deletion,
        }
    }

    /// The trace of the requests of the write.
    pub(super) fn trace(&self) -> Option<Trace> {
        self.span.trace().cloned()
    }

    /// Notes the wait for the rate limiter.
    pub(super) fn waited(&mut self, waited: Duration) {
        if !waited.is_zero() {
            let waited_ms = waited.as_secs_f64() * 1e3;
            self.span.set("flyball.rate_limiter_ms", || waited_ms);
        }
    }

    /// Notes that the request is about to be sent.
    pub(super) fn sending(&mut self, write: &Write, kind: &Kind) {
        if let Some(trace) = self.span.trace() {
            self.writing = target(write, kind).map(|target| trace.writing(target));
        }
    }

    /// Notes the answer. `before` is the object that was deleted.
    pub(super) fn acknowledged(&mut self, answer: &ApiResponse, before: Option<&Object>) {
        let Some(writing) = self.writing.take() else {
            return;
        };
        let version = answer.object_version().unwrap_or_default();
        let uid = match (version.uid.is_empty(), before) {
            (true, Some(before)) => before.uid().to_string(),
            _ => version.uid,
        };
        if !uid.is_empty() {
            let version = version.resource_version.parse().ok();
            writing.acknowledged(&uid, version, self.is_deletion);
        }
    }

    /// Ends the span. `name` is the object's, if it is known.
    pub(super) fn end(mut self, name: &str, error: Option<&ApiError>) {
        if !name.is_empty() {
            self.span.set("k8s.object.name", || name.to_owned());
        }
        if let Some(error) = error {
            self.span.set("error.type", || error.reason.clone());
            self.span.fail(|| error.to_string());
        }
    }
}

/// The object of a write; none if there are several.
fn target(write: &Write, kind: &Kind) -> Option<Target> {
    if let Operation::DeleteCollection { .. } = write.operation {
        return None;
    }
    let (name, is_prefix) = match &write.operation {
        Operation::Create { object } if write.target.name.is_empty() => name(object)?,
        _ => (write.target.name.clone(), false),
    };
    Some(Target {
        kind: kind.group_kind(),
        namespace: write.target.namespace.clone(),
        name,
        is_prefix,
    })
}

/// The name of an object that is created, or its `generateName`, and whether it is that.
fn name(object: &Bytes) -> Option<(String, bool)> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Metadata {
        name: String,
        generate_name: String,
    }
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        metadata: Metadata,
    }
    let Metadata {
        name,
        generate_name,
    } = serde_json::from_slice::<Named>(object).ok()?.metadata;
    Some(match name.is_empty() {
        true => (generate_name, true),
        false => (name, false),
    })
}
