//! Handles one request: authenticates and authorizes it, and responds.

use std::convert::Infallible;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use flyball_dashboard::{Dashboard, PageBody};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Either, Limited};
use hyper::body::Body;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::debug_flags::{self, SetVerbosity};
use crate::metrics::{PROTOBUF, TEXT, prefers_protobuf};
use crate::response::{FullResponse, method_not_allowed, not_found, response, status, text};
use crate::{Authentication, Authorization, DebugPages, HealthChecks, Metrics, ZPages, profiling};

/// Maximum size of a request's body in bytes.
const MAX_BODY: usize = 64 * 1024;

/// Added to a refusal if the request has a token and the server has no API server to review it.
const NO_TOKENS: &str = "its token was ignored, because the server has no API server to review tokens: start it with \
                         --authentication-kubeconfig";

/// The endpoints of the server, and the access to them.
#[derive(Clone)]
pub struct Endpoints {
    /// Serves `/healthz`, `/livez`, `/readyz` and `/metrics/slis`.
    pub health: HealthChecks,
    /// Serves `/metrics`.
    pub metrics: Metrics,
    /// Serves `/debug/controllers/`.
    pub debug: DebugPages,
    /// Serves `/flagz` and `/statusz`.
    pub zpages: Arc<ZPages>,
    /// `/configz`: the configurations by name, as JSON.
    pub configz: Arc<str>,
    /// Serves `/debug/pprof/` and `/debug/flags/v`; `None` if profiling is off.
    pub profiling: Option<SetVerbosity>,
    /// Serves `/dashboard/`; `None` if it is off.
    pub dashboard: Option<Arc<Dashboard>>,
    pub authentication: Arc<Authentication>,
    pub authorization: Arc<Authorization>,
}

impl Endpoints {
    /// Whether the API server may be asked about a request.
    pub(crate) fn is_reviewed<B>(&self, request: &Request<B>) -> bool {
        if self.dashboard.is_some() && Dashboard::is_page(request.uri().path()) {
            return false;
        }
        request.headers().contains_key(AUTHORIZATION)
            || !self.authorization.is_open(request.uri().path())
    }

    /// The dashboard, if a path is its.
    fn dashboard_at(&self, path: &str) -> Option<&Arc<Dashboard>> {
        self.dashboard.as_ref().filter(|_| Dashboard::owns(path))
    }

    /// Responds to a request over a connection with these client certificates. Reads the request's body only if the
    /// user may send it and the endpoint takes one.
    pub(crate) async fn handle<B>(
        &self,
        certificates: &[CertificateDer<'static>],
        mut request: Request<B>,
    ) -> Result<Response<PageBody>, Infallible>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let uri = request.uri().clone();
        let path = uri.path();
        let dashboard = self.dashboard_at(path);
        if let Some(dashboard) = dashboard {
            if let Some(page) = dashboard.page(request.method(), path) {
                return Ok(page);
            }
            if let Some(foreign) = dashboard.admit(&uri, request.headers_mut()) {
                return Ok(foreign);
            }
        }
        let verb = match dashboard.is_some() && Dashboard::is_session(path) {
            true => "get".to_owned(),
            false => request.method().as_str().to_ascii_lowercase(),
        };
        let refused =
            |code, reason, message: &str| Ok(status(code, reason, message).map(Either::Left));
        let Ok(user) = self
            .authentication
            .user(certificates, request.headers())
            .await
        else {
            return refused(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized");
        };
        match self.authorization.allows(&user, &verb, path).await {
            Ok(access) if access.allowed => Ok(match dashboard {
                Some(dashboard) => dashboard.respond(request.method(), &uri, request.headers()),
                None => self.respond(request).await.map(Either::Left),
            }),
            Ok(access) => {
                let mut message = format!(
                    "forbidden: User {:?} cannot {verb} path {path:?}",
                    user.name
                );
                if !access.reason.is_empty() {
                    message = format!("{message}: {}", access.reason);
                }
                if !self.authentication.reviews_tokens()
                    && request.headers().contains_key(AUTHORIZATION)
                {
                    message = format!("{message}; {NO_TOKENS}");
                }
                refused(StatusCode::FORBIDDEN, "Forbidden", &message)
            }
            Err(error) => {
                if self.authorization.failures.pass() {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(
                        error,
                        user = user.name,
                        path,
                        "can't review the access of a user"
                    );
                }
                let message = "the access could not be reviewed";
                refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
            }
        }
    }

    async fn respond<B>(&self, request: Request<B>) -> FullResponse
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let body = async {
            let read = Limited::new(body, MAX_BODY).collect().await;
            read.ok().map(http_body_util::Collected::to_bytes)
        };
        let query = head.uri.query().unwrap_or_default();
        let path = head.uri.path();
        // The endpoints that take other methods than GET and HEAD.
        if let Some(set_verbosity) = &self.profiling {
            match path {
                "/debug/flags/v" => {
                    return debug_flags::verbosity(&head.method, body, set_verbosity).await;
                }
                "/debug/flags" => return debug_flags::index(),
                "/debug/pprof" => return profiling::redirect(),
                _ if path.starts_with("/debug/flags/") => return debug_flags::index(),
                _ => {}
            }
            if let Some(path) = path.strip_prefix("/debug/pprof/") {
                return profiling::respond(&head.method, path, query, body).await;
            }
        }
        if path == "/metrics/slis" && head.method == Method::DELETE {
            self.health.slis().reset();
            return text(StatusCode::OK, "metrics reset\n");
        }
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return method_not_allowed();
        }
        let page = match path {
            "/configz" => {
                let body = self.configz.as_bytes().to_vec();
                Some(response(StatusCode::OK, "application/json", body))
            }
            "/flagz" => self.zpages.flagz(query, &head.headers),
            "/statusz" => self.zpages.statusz(query, &head.headers),
            path if path.trim_matches('/') == "metrics" => {
                Some(self.metrics_apart(head.headers.clone()).await)
            }
            _ => self.page(&head.uri, &head.headers),
        };
        page.unwrap_or_else(not_found)
    }

    /// Responds with the metrics. Those of many plugins take megabytes, so that they are written on a blocking thread:
    /// probes of the host's health must not wait for them.
    async fn metrics_apart(&self, headers: HeaderMap) -> FullResponse {
        let all = self.metrics.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
            match prefers_protobuf(accept.unwrap_or_default()) {
                true => metrics(PROTOBUF, all.render_protobuf(), &headers),
                false => metrics(TEXT, all.render().into_bytes(), &headers),
            }
        });
        writing.await.unwrap_or_else(|error| {
            let message = format!("the metrics could not be written: {error}");
            status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &message)
        })
    }

    /// Responds to a request for the SLIs, for health checks or a page of a controller; none if there is no such path.
    fn page(&self, uri: &Uri, headers: &HeaderMap) -> Option<FullResponse> {
        let path = uri.path().trim_matches('/');
        let (endpoint, rest) = path
            .split_once('/')
            .map_or((path, None), |(endpoint, rest)| (endpoint, Some(rest)));
        let query = uri.query().unwrap_or_default();
        match (endpoint, rest) {
            ("metrics", Some("slis")) => {
                let page = self.health.slis().render();
                Some(metrics(TEXT, page.into_bytes(), headers))
            }
            ("healthz" | "livez" | "readyz", None) => Some(self.report(endpoint, query)),
            ("healthz" | "livez" | "readyz", Some(name)) => {
                Some(match self.health.check(name)? {
                    Ok(()) => text(StatusCode::OK, "ok"),
                    Err(reason) => text(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        format!("internal server error: {reason}\n"),
                    ),
                })
            }
            ("debug", Some(path)) => {
                let (controller, page) = path.strip_prefix("controllers/")?.split_once('/')?;
                let page = self.debug.render(controller, page, query)?;
                Some(response(StatusCode::OK, page.content_type, page.body))
            }
            _ => None,
        }
    }

    fn report(&self, endpoint: &str, query: &str) -> FullResponse {
        let pairs = || {
            query
                .split('&')
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        };
        let excluded: Vec<String> = pairs()
            .filter(|(key, _)| *key == "exclude")
            .map(|(_, value)| value.to_owned())
            .collect();
        let report = self.health.report(endpoint, &excluded);
        let code = if report.is_healthy() {
            StatusCode::OK
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        let failed = report.failed();
        let is_logged = !failed.is_empty() && self.health.failures.pass();
        for (check, reason) in failed.iter().filter(|_| is_logged) {
            tracing::info!(check, reason, "{endpoint} check failed");
        }
        text(code, report.text(pairs().any(|(key, _)| key == "verbose")))
    }
}

/// The response to a request over a connection with too many pending reviews.
pub(crate) fn too_many_reviews() -> Response<PageBody> {
    let refused = status(
        StatusCode::TOO_MANY_REQUESTS,
        "TooManyRequests",
        "too many requests over this connection need a review",
    );
    refused.map(Either::Left)
}

/// The response with metrics, compressed if the client accepts that. Prometheus does.
fn metrics(format: &'static str, body: Vec<u8>, headers: &HeaderMap) -> FullResponse {
    let compressed = accepts_gzip(headers).then(|| gzip(&body)).flatten();
    let is_compressed = compressed.is_some();
    let mut response = response(StatusCode::OK, format, compressed.unwrap_or(body));
    if is_compressed {
        let encoding = HeaderValue::from_static("gzip");
        response.headers_mut().insert(CONTENT_ENCODING, encoding);
    }
    response
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let mut encodings = accepted.flat_map(|value| value.split(','));
    encodings.any(|encoding| {
        let (name, quality) = encoding.split_once(";q=").unwrap_or((encoding, "1"));
        name.trim() == "gzip"
            && quality
                .trim()
                .parse::<f32>()
                .is_ok_and(|quality| quality > 0.0)
    })
}

/// Compresses a body; none if that fails, which writing to memory does not.
fn gzip(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[tokio::test]
    async fn metrics_are_compressed_for_clients_that_accept_it() {
        let page = "a_total 1\n".repeat(1000);
        let respond = |accept: &'static str| {
            let value = HeaderValue::from_static(accept);
            metrics(
                TEXT,
                page.clone().into_bytes(),
                &HeaderMap::from_iter([(ACCEPT_ENCODING, value)]),
            )
        };
        for accept in ["gzip", "deflate, gzip;q=0.5", "br, gzip"] {
            let response = respond(accept);
            assert_eq!(response.headers()[CONTENT_ENCODING], "gzip");
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert!(body.len() < page.len() / 10);
            let mut text = String::new();
            GzDecoder::new(&*body).read_to_string(&mut text).unwrap();
            assert_eq!(text, page);
        }
        for accept in ["", "identity", "gzip;q=0", "br"] {
            let response = respond(accept);
            assert!(!response.headers().contains_key(CONTENT_ENCODING));
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, page, "{accept}");
        }
    }
}
