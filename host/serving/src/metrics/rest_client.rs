//! The `rest_client_*` metrics of requests to the API server, as a layer of a client.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, Uri};
use http_body::Body;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::{CounterVec, Histogram, HistogramVec, Metrics, MetricsError};

/// The buckets of the latency in seconds, as in Kubernetes' components.
const LATENCY_BUCKETS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// The buckets of sizes in bytes, as in Kubernetes' components.
const SIZE_BUCKETS: [f64; 11] = [
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// Counts the requests to API servers.
#[derive(Clone)]
pub struct RestClientMetrics {
    requests: CounterVec,
    duration: HistogramVec,
    rate_limiter: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
}

/// Counts the size of a response. The layer puts it into the response's extensions, because only the reader of the body
/// knows the size.
#[derive(Clone)]
pub struct ResponseSize(Histogram);

impl ResponseSize {
    /// Counts a body of this size in bytes.
    pub fn observe(&self, size: usize) {
        self.0.observe(size as f64);
    }
}

/// How long a request has waited for a rate limiter. Its sender puts it into the request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct RateLimiterWait(pub Duration);

/// Counts a client's requests: `ClientBuilder::with_layer(&metrics.rest_client()?.layer(&config.cluster_url))`.
#[derive(Clone)]
pub struct RestClientLayer {
    metrics: RestClientMetrics,
    host: Arc<str>,
}

/// A client that counts its requests.
#[derive(Clone)]
pub struct RestClientService<S> {
    inner: S,
    metrics: RestClientMetrics,
    host: Arc<str>,
}

impl Metrics {
    /// The `rest_client_*` metrics, which all clients share.
    pub fn rest_client(&self) -> Result<RestClientMetrics, MetricsError> {
        Ok(RestClientMetrics {
            requests: self.counter(
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "method", "host"],
            )?,
            duration: self.histogram(
                "rest_client_request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host.",
                &["verb", "host"],
                &LATENCY_BUCKETS,
            )?,
            rate_limiter: self.histogram(
                "rest_client_rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds. Broken down by verb, and host.",
                &["verb", "host"],
                &LATENCY_BUCKETS,
            )?,
            request_size: self.histogram(
                "rest_client_request_size_bytes",
                "Request size in bytes. Broken down by verb and host.",
                &["verb", "host"],
                &SIZE_BUCKETS,
            )?,
            response_size: self.histogram(
                "rest_client_response_size_bytes",
                "Response size in bytes. Broken down by verb and host.",
                &["verb", "host"],
                &SIZE_BUCKETS,
            )?,
        })
    }
}

impl RestClientMetrics {
    /// The layer of a client of this server. The requests that it counts have only a path: the client adds the server's
    /// address below the layer.
    pub fn layer(&self, server: &Uri) -> RestClientLayer {
        RestClientLayer {
            metrics: self.clone(),
            host: host(server).into(),
        }
    }

    /// Counts a request that started at this time and has just got a response or an error.
    fn observe(&self, method: &Method, host: &str, code: Option<u16>, started: Instant) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.requests
            .with_label_values(&[&code, method.as_str(), host])
            .inc();
        self.duration
            .with_label_values(&[method.as_str(), host])
            .observe(started.elapsed().as_secs_f64());
    }
}

impl<S> Layer<S> for RestClientLayer {
    type Service = RestClientService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RestClientService {
            inner,
            metrics: self.metrics.clone(),
            host: self.host.clone(),
        }
    }
}

impl<S, A, B> Service<Request<A>> for RestClientService<S>
where
    A: Body,
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (metrics, method, host) = (
            self.metrics.clone(),
            request.method().clone(),
            self.host.clone(),
        );
        if let Some(size @ 1..) = request.body().size_hint().exact() {
            metrics
                .request_size
                .with_label_values(&[method.as_str(), &*host])
                .observe(size as f64);
        }
        if let Some(RateLimiterWait(wait)) = request.extensions().get() {
            metrics
                .rate_limiter
                .with_label_values(&[method.as_str(), &*host])
                .observe(wait.as_secs_f64());
        }
        let started = Instant::now();
        let response = self.inner.call(request);
        Box::pin(async move {
            let mut response = response.await;
            if let Ok(response) = &mut response {
                let sizes = &metrics.response_size;
                let size = sizes.with_label_values(&[method.as_str(), &*host]);
                response.extensions_mut().insert(ResponseSize(size));
            }
            metrics.observe(
                &method,
                &host,
                response
                    .as_ref()
                    .ok()
                    .map(|response| response.status().as_u16()),
                started,
            );
            response
        })
    }
}

fn host(uri: &Uri) -> String {
    uri.authority()
        .map(|authority| authority.to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};

    use super::*;

    struct Responds(u16);

    impl Service<Request<String>> for Responds {
        type Response = Response<()>;
        type Error = Infallible;
        type Future = Ready<Result<Response<()>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<String>) -> Self::Future {
            let mut response = Response::new(());
            *response.status_mut() = http::StatusCode::from_u16(self.0).expect("a status");
            ready(Ok(response))
        }
    }

    #[tokio::test]
    async fn a_request_is_counted_by_code_method_and_host() -> Result<(), MetricsError> {
        let metrics = Metrics::default();
        let server = Uri::from_static("https://10.0.0.1:6443/");
        let layer = metrics.rest_client()?.layer(&server);
        let mut client = layer.layer(Responds(409));
        let request = Request::post("/api/v1/pods")
            .extension(RateLimiterWait(Duration::from_millis(250)))
            .body("a body".to_owned())
            .expect("a request");
        let response = client.call(request).await.expect("a response");
        let size = response.extensions().get::<ResponseSize>();
        size.expect("the layer adds it").observe(1000);
        let text = metrics.render();
        let counted =
            "rest_client_requests_total{code=\"409\",host=\"10.0.0.1:6443\",method=\"POST\"} 1\n";
        assert!(text.contains(counted), "{text}");
        assert!(text.contains(
            "rest_client_request_duration_seconds_count{host=\"10.0.0.1:6443\",verb=\"POST\"} 1\n"
        ));
        assert!(text.contains(
            "rest_client_rate_limiter_duration_seconds_sum{host=\"10.0.0.1:6443\",verb=\"POST\"} 0.25\n"
        ));
        for (family, sum) in [("request", 6), ("response", 1000)] {
            let line = format!(
                "rest_client_{family}_size_bytes_sum{{host=\"10.0.0.1:6443\",verb=\"POST\"}} {sum}\n"
            );
            assert!(text.contains(&line), "{text}");
        }
        Ok(())
    }
}
