//! Handles one request: authenticates and authorizes it, and responds.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use serde_json::json;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::{Authentication, Authorization, DebugPages, HealthChecks, Metrics};

/// The endpoints of the server, and the access to them.
#[derive(Clone)]
pub struct Endpoints {
    /// Serves `/healthz`, `/livez` and `/readyz`.
    pub health: HealthChecks,
    /// Serves `/metrics`.
    pub metrics: Metrics,
    /// Serves `/debug/controllers/`.
    pub debug: DebugPages,
    pub authentication: Arc<Authentication>,
    pub authorization: Arc<Authorization>,
}

impl Endpoints {
    /// Whether the API server may be asked about a request.
    pub(crate) fn is_reviewed<B>(&self, request: &Request<B>) -> bool {
        request.headers().contains_key(AUTHORIZATION)
            || !self.authorization.is_open(request.uri().path())
    }

    /// Responds to a request over a connection with these client certificates. Does not read the
    /// request's body.
    pub(crate) async fn handle<B>(
        &self,
        certificates: &[CertificateDer<'static>],
        request: Request<B>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let (verb, path) = (
            request.method().as_str().to_ascii_lowercase(),
            request.uri().path(),
        );
        let Ok(user) = self
            .authentication
            .user(certificates, request.headers())
            .await
        else {
            return Ok(status(
                StatusCode::UNAUTHORIZED,
                "Unauthorized",
                "Unauthorized",
            ));
        };
        match self.authorization.allows(&user, &verb, path).await {
            Ok(access) if access.allowed => Ok(self.respond(request.method(), request.uri())),
            Ok(access) => {
                let mut message = format!(
                    "forbidden: User {:?} cannot {verb} path {path:?}",
                    user.name
                );
                if !access.reason.is_empty() {
                    message = format!("{message}: {}", access.reason);
                }
                Ok(status(StatusCode::FORBIDDEN, "Forbidden", &message))
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
                Ok(status(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "InternalError",
                    message,
                ))
            }
        }
    }

    fn respond(&self, method: &Method, uri: &Uri) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = text(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD are served\n".to_owned(),
            );
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let path = uri.path().trim_matches('/');
        let (endpoint, rest) = path
            .split_once('/')
            .map_or((path, None), |(endpoint, rest)| (endpoint, Some(rest)));
        match (endpoint, rest) {
            ("metrics", None) => {
                let mut response = text(StatusCode::OK, self.metrics.render());
                let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, format);
                response
            }
            ("healthz" | "livez" | "readyz", None) => {
                self.report(endpoint, uri.query().unwrap_or_default())
            }
            ("healthz" | "livez" | "readyz", Some(name)) => match self.health.check(name) {
                Some(Ok(())) => text(StatusCode::OK, "ok".to_owned()),
                Some(Err(reason)) => text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("internal server error: {reason}\n"),
                ),
                None => not_found(),
            },
            ("debug", Some(path)) => {
                let page = path
                    .strip_prefix("controllers/")
                    .and_then(|path| path.split_once('/'));
                let query = uri.query().unwrap_or_default();
                match page.and_then(|(controller, page)| self.debug.render(controller, page, query))
                {
                    Some(page) => response(StatusCode::OK, page.content_type, page.body),
                    None => not_found(),
                }
            }
            _ => not_found(),
        }
    }

    fn report(&self, endpoint: &str, query: &str) -> Response<Full<Bytes>> {
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

/// The response to a request over a connection that has too many others reviewed.
pub(crate) fn too_many_reviews() -> Response<Full<Bytes>> {
    status(
        StatusCode::TOO_MANY_REQUESTS,
        "TooManyRequests",
        "too many requests over this connection need a review",
    )
}

fn not_found() -> Response<Full<Bytes>> {
    text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}

fn text(code: StatusCode, body: String) -> Response<Full<Bytes>> {
    response(code, "text/plain; charset=utf-8", body)
}

/// An error as a Status object.
fn status(code: StatusCode, reason: &str, message: &str) -> Response<Full<Bytes>> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": {}, "code": code.as_u16(),
    });
    response(code, "application/json", body.to_string())
}

fn response(code: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
