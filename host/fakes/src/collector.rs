//! A collector of traces, which takes OTLP over gRPC.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The method that takes spans.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// The bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A collector on a loopback address.
pub struct FakeCollector {
    endpoint: String,
    received: Arc<Received>,
    serving: AbortHandle,
}

#[derive(Default)]
struct Received {
    spans: Mutex<Vec<CollectedSpan>>,
    changed: Notify,
}

/// A span as the collector received it. IDs are in hex.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectedSpan {
    /// The `service.name` of the process.
    pub service: String,
    pub name: String,
    pub trace: String,
    pub id: String,
    /// Empty for the first span of a trace.
    pub parent: String,
    /// Values that are not texts are printed.
    pub attributes: BTreeMap<String, String>,
    /// The traces of other causes.
    pub links: Vec<String>,
    /// The error, if it failed.
    pub error: Option<String>,
    /// In nanoseconds.
    pub took: u64,
}

impl FakeCollector {
    /// Starts a collector.
    ///
    /// # Panics
    /// No address is free.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port is free");
        let endpoint = listener
            .local_addr()
            .expect("it has an address")
            .to_string();
        let received = Arc::<Received>::default();
        let log = received.clone();
        let serve = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let log = log.clone();
                let take = hyper::service::service_fn(move |request| take(request, log.clone()));
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), take);
                tokio::spawn(connection);
            }
        };
        Self {
            endpoint,
            received,
            serving: tokio::spawn(serve).abort_handle(),
        }
    }

    /// The host and port.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The spans until now.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        self.received.spans.lock().clone()
    }

    /// Waits until the spans meet a condition, and returns them.
    pub async fn until(&self, is_met: impl Fn(&[CollectedSpan]) -> bool) -> Vec<CollectedSpan> {
        loop {
            let mut changed = std::pin::pin!(self.received.changed.notified());
            changed.as_mut().enable();
            let spans = self.spans();
            if is_met(&spans) {
                return spans;
            }
            changed.await;
        }
    }
}

impl Drop for FakeCollector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl CollectedSpan {
    fn new(service: &str, span: Span) -> Self {
        let status = span.status.unwrap_or_default();
        // 2 is STATUS_CODE_ERROR.
        let error = (status.code == 2).then_some(status.message);
        Self {
            service: service.to_owned(),
            name: span.name,
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            attributes: attributes(span.attributes),
            links: span.links.iter().map(|link| hex(&link.trace_id)).collect(),
            error,
            took: span
                .end_time_unix_nano
                .saturating_sub(span.start_time_unix_nano),
        }
    }
}

/// Draws the spans as trees, each span on a line below its parent, as in `- reconcile`. Siblings are sorted.
pub fn trees(spans: &[CollectedSpan]) -> String {
    let is_root = |span: &&CollectedSpan| spans.iter().all(|other| other.id != span.parent);
    let mut drawn: Vec<String> = spans
        .iter()
        .filter(is_root)
        .map(|root| tree(root, spans, 0))
        .collect();
    drawn.sort();
    drawn.concat()
}

fn tree(span: &CollectedSpan, spans: &[CollectedSpan], depth: usize) -> String {
    let below = spans.iter().filter(|other| other.parent == span.id);
    let mut below: Vec<String> = below.map(|child| tree(child, spans, depth + 1)).collect();
    below.sort();
    format!("{}- {}\n{}", "  ".repeat(depth), span.name, below.concat())
}

async fn take(
    request: Request<Incoming>,
    log: Arc<Received>,
) -> Result<Response<impl http_body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    let is_export = request.uri().path() == EXPORT;
    let body = request.into_body().collect().await;
    let mut message = body.map(|body| body.to_bytes()).unwrap_or_default();
    message.advance(PREFIX.min(message.len()));
    let export = ExportTraceServiceRequest::decode(message).ok();
    let status = match export.filter(|_| is_export) {
        Some(export) => {
            log.add(export);
            // OK
            HeaderValue::from_static("0")
        }
        // INVALID_ARGUMENT
        None => HeaderValue::from_static("3"),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status);
    // An empty message.
    let answer = Frame::data(Bytes::from_static(&[0; PREFIX]));
    let frames = [Ok(answer), Ok(Frame::trailers(trailers))];
    let mut response = Response::new(StreamBody::new(futures::stream::iter(frames)));
    *response.status_mut() = StatusCode::OK;
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, grpc);
    Ok(response)
}

impl Received {
    fn add(&self, export: ExportTraceServiceRequest) {
        let mut spans = self.spans.lock();
        for of_process in export.resource_spans {
            let resource = of_process.resource.unwrap_or_default();
            let resource = attributes(resource.attributes);
            let service = resource.get("service.name").cloned().unwrap_or_default();
            let scopes = of_process.scope_spans.into_iter();
            let all = scopes.flat_map(|scope| scope.spans);
            spans.extend(all.map(|span| CollectedSpan::new(&service, span)));
        }
        drop(spans);
        self.changed.notify_waiters();
    }
}

fn attributes(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(is_true)) => is_true.to_string(),
        other => format!("{other:?}"),
    };
    let attributes = attributes.into_iter();
    attributes
        .map(|attribute| (attribute.key, text(attribute.value)))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
