//! A request to the API server as a span of a trace. The API server continues the trace. The attributes have the names of
//! <https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-client>.

use flyball_traces::{Span, SpanOptions, current};
use flyball_types::ApiError;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};

/// Has the trace, and the span that the server's are parts of.
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The server's name of the request in its audit log and in its own span. It finds the server's span also where the
/// server begins a trace of its own, because the client is not privileged.
const AUDIT_ID: &str = "audit-id";

/// The span of one attempt; nothing if no trace is recorded.
pub(super) struct RequestSpan(Span);

impl RequestSpan {
    pub(super) fn begin(method: &Method, path: &str) -> Self {
        let Some(trace) = current().filter(|trace| trace.is_recorded()) else {
            return Self(Span::default());
        };
        let mut span = trace.begin(SpanOptions::request(method.to_string()));
        span.set("http.request.method", || method.to_string());
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        span.set("url.path", || path.to_owned());
        if !query.is_empty() {
            span.set("url.query", || query.to_owned());
        }
        Self(span)
    }

    pub(super) fn traceparent(&self) -> Option<HeaderValue> {
        self.0.trace()?.traceparent()
    }

    pub(super) fn answered(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.0
            .set("http.response.status_code", || i64::from(status.as_u16()));
        let audit_id = headers.get(AUDIT_ID).and_then(|id| id.to_str().ok());
        if let Some(audit_id) = audit_id {
            self.0.set("audit-id", || audit_id.to_owned());
        }
    }

    pub(super) fn end(mut self, error: Option<&ApiError>) {
        if let Some(error) = error {
            self.0.set("error.type", || error.reason.clone());
            self.0.fail(|| error.to_string());
        }
    }
}
