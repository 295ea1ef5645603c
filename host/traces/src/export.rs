//! Sends spans that have ended to the collector. Spans wait in a bounded queue. If the collector is slow or away, they
//! are dropped and counted, and nothing else waits.

use std::time::Duration;

use flyball_serving::Metrics;
use flyball_serving::metrics::{Counter, MetricsError};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracerProvider, Span, SpanData, SpanExporter as _, SpanProcessor,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::options::TracingOptions;
use crate::trace::Tracer;

/// How many spans wait to be sent. A span has about 1 KB.
const QUEUE: usize = 16_384;
/// How many spans are sent at once.
const BATCH: usize = 512;
/// How long a span waits for others.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the collector may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last spans may take when the process ends.
const LAST: Duration = Duration::from_secs(3);

/// Traces can't be exported.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    #[error("can't set up the export of traces to {endpoint}")]
    Exporter {
        endpoint: String,
        source: opentelemetry_otlp::ExporterBuildError,
    },
    /// A fault of the host.
    #[error("can't declare the metrics of traces")]
    Metrics(#[from] MetricsError),
}

/// Sends spans to the collector until it is ended.
#[must_use = "the last spans are sent when it is ended"]
pub struct Exporting {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

/// Spans by what became of them.
#[derive(Clone)]
struct Counters {
    exported: Counter,
    failed: Counter,
    dropped: Counter,
}

/// Takes spans that have ended.
struct Queue {
    spans: Sender<SpanData>,
    dropped: Counter,
}

/// Starts to export traces of this process, in a task of the current runtime. The first connection is made when there
/// is something to send.
///
/// # Errors
/// The endpoint can't be one.
pub fn start(
    options: &TracingOptions,
    service: &'static str,
    version: &'static str,
    instance: &str,
    metrics: &Metrics,
) -> Result<(Tracer, Exporting), TracingError> {
    let endpoint = &options.endpoint;
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(format!("http://{endpoint}"))
        .with_timeout(TIMEOUT)
        .build();
    let mut exporter = exporter.map_err(|source| TracingError::Exporter {
        endpoint: endpoint.clone(),
        source,
    })?;
    // The operator's OTEL_RESOURCE_ATTRIBUTES are added.
    let resource = Resource::builder()
        .with_service_name(service)
        .with_attribute(KeyValue::new("service.version", version))
        .with_attribute(KeyValue::new("service.instance.id", instance.to_owned()))
        .build();
    exporter.set_resource(&resource);
    let counters = Counters::new(metrics)?;
    let (sender, spans) = channel(QUEUE);
    let queue = Queue {
        spans: sender,
        dropped: counters.dropped.clone(),
    };
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(options.share())));
    let provider = SdkTracerProvider::builder()
        .with_span_processor(queue)
        .with_sampler(sampler)
        .with_resource(resource)
        .build();
    let stop = CancellationToken::new();
    let task = tokio::spawn(export(
        spans,
        exporter,
        endpoint.clone(),
        counters,
        stop.clone(),
    ));
    Ok((
        Tracer::new(provider.tracer("flyball")),
        Exporting { task, stop },
    ))
}

impl Exporting {
    /// Sends the spans that have ended, for three seconds at most.
    pub async fn end(self) {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(LAST, self.task).await.is_err() {
            abort.abort();
        }
    }
}

/// Sends batches until `stop`, and then those that are left.
async fn export(
    mut spans: Receiver<SpanData>,
    exporter: SpanExporter,
    endpoint: String,
    counters: Counters,
    stop: CancellationToken,
) {
    let mut is_failing = false;
    while let Some(batch) = next_batch(&mut spans, &stop).await {
        let count = batch.len() as f64;
        match exporter.export(batch).await {
            Ok(()) => {
                counters.exported.inc_by(count);
                if std::mem::take(&mut is_failing) {
                    tracing::info!(endpoint, "the collector takes spans again");
                }
            }
            Err(error) => {
                counters.failed.inc_by(count);
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(
                        endpoint, %error,
                        "can't send spans of traces to the collector: they are dropped until it takes them; further failures are only counted"
                    );
                }
            }
        }
    }
}

/// Waits for spans, and a moment longer for more of them. After `stop`, returns the spans that are there; none if there
/// are none.
async fn next_batch(
    spans: &mut Receiver<SpanData>,
    stop: &CancellationToken,
) -> Option<Vec<SpanData>> {
    let mut batch = Vec::new();
    tokio::select! {
        biased;
        count = spans.recv_many(&mut batch, BATCH) => if count == 0 { return None },
        () = stop.cancelled() => return None,
    }
    let pause = tokio::time::sleep(PAUSE);
    tokio::pin!(pause);
    while batch.len() < BATCH {
        let room = BATCH - batch.len();
        tokio::select! {
            biased;
            count = spans.recv_many(&mut batch, room) => if count == 0 { break },
            () = stop.cancelled() => break,
            () = &mut pause => break,
        }
    }
    Some(batch)
}

impl Counters {
    fn new(metrics: &Metrics) -> Result<Self, MetricsError> {
        let spans = metrics.counter(
            "flyball_trace_spans_total",
            "Spans of traces: exported to the collector, failed to be exported, or dropped because too many waited.",
            &["result"],
        )?;
        let counter = |result| spans.with_label_values(&[result]);
        Ok(Self {
            exported: counter("exported"),
            failed: counter("failed"),
            dropped: counter("dropped"),
        })
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::Tracer as _;

    use super::*;

    #[tokio::test]
    async fn spans_that_find_no_room_are_dropped_and_counted() {
        let metrics = Metrics::new();
        let counters = Counters::new(&metrics).expect("the name is free");
        let (sender, mut spans) = channel(2);
        let queue = Queue {
            spans: sender,
            dropped: counters.dropped,
        };
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .build();
        let tracer = provider.tracer("test");
        for _ in 0..5 {
            drop(tracer.start("reconcile"));
        }
        let batch = next_batch(&mut spans, &CancellationToken::new()).await;
        assert_eq!(batch.map(|batch| batch.len()), Some(2));
        let dropped = "flyball_trace_spans_total{result=\"dropped\"} 3\n";
        assert!(metrics.render().contains(dropped), "{}", metrics.render());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_spans_are_taken_without_a_wait() {
        let (sender, mut spans) = channel(8);
        let queue = Queue {
            spans: sender,
            dropped: Counters::new(&Metrics::new())
                .expect("the name is free")
                .dropped,
        };
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .build();
        drop(provider.tracer("test").start("reconcile"));
        let stop = CancellationToken::new();
        stop.cancel();
        let began = tokio::time::Instant::now();
        let batch = next_batch(&mut spans, &stop).await;
        assert_eq!(batch.map(|batch| batch.len()), Some(1));
        assert!(next_batch(&mut spans, &stop).await.is_none());
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
