//! Sends requests to the API server and returns its refusals as [`ApiError`]. The client retries only where the server
//! asks for it (`Retry-After`), as client-go does; any other retry is the caller's decision.

mod span;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_cache::connection::{NotAllowed, ResponseBody, SendGuard};
use flyball_cache::source::JSON;
use flyball_cache::{ApiResponse, Connection};
use flyball_limits::stop::Stoppable;
use flyball_plugin::{Budget, Held};
use flyball_policy::access::{Access, MayWrite};
use flyball_serving::metrics::{RateLimiterWait, ResponseSize};
use flyball_types::{ApiError, Effect, error_chain};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use tower::ServiceExt as _;

use self::span::{RequestSpan, TRACEPARENT};
use crate::credentials::Credentials;
use crate::fence::{self, Fence};
use crate::rights::HostRight;
use crate::warnings::Warnings;

/// The timeout of a request. It is longer than the server's own limit (60 s by default), so that the client sees the
/// server's answer where there is one.
const TIMEOUT: Duration = Duration::from_secs(65);
/// The longest answer in bytes, unless a request says otherwise.
const ANSWER_BYTES: usize = 64 << 20;
/// How often a request is retried when the server says `Retry-After`.
const RETRIES: u32 = 10;

/// A client with one set of credentials. Clones share its connections.
#[derive(Clone)]
pub struct ApiClient {
    connection: Connection,
    /// The credentials of requests; none for the connection's own.
    credentials: Option<Arc<dyn Credentials>>,
    user_agent: HeaderValue,
    fence: Arc<Fence>,
}

#[derive(Clone, Debug)]
pub struct ApiRequest {
    method: Method,
    /// Path and query.
    path: String,
    content_type: &'static str,
    body: Bytes,
    /// The `Accept` header.
    accept: &'static str,
    /// The longest body of the answer in bytes.
    answer_bytes: usize,
    /// Counts the body of the answer while it is read; none if it is not counted.
    budget: Option<Arc<Budget>>,
    /// The stop that may end the request before an attempt; none if nothing stops it.
    stop: Option<Stoppable>,
    /// The wait for a rate limiter before the next attempt; none if it does not count.
    waited: Option<Duration>,
    /// Collects the server's warnings; none if nobody reads them.
    warnings: Option<Warnings>,
}

impl ApiRequest {
    fn new(
        method: Method,
        path: impl Into<String>,
        content_type: &'static str,
        body: Bytes,
    ) -> Self {
        Self {
            method,
            path: path.into(),
            content_type,
            body,
            accept: JSON,
            answer_bytes: ANSWER_BYTES,
            budget: None,
            stop: None,
            waited: None,
            warnings: None,
        }
    }

    /// Counts this wait for a rate limiter when the request is sent.
    pub fn after_wait(self, waited: Duration) -> Self {
        Self {
            waited: Some(waited),
            ..self
        }
    }

    /// Adds the warnings of all answers to these.
    pub fn warning_to(self, warnings: &Warnings) -> Self {
        Self {
            warnings: Some(warnings.clone()),
            ..self
        }
    }

    /// Starts no attempt once this is stopped.
    pub fn unless_stopped(self, stop: &Stoppable) -> Self {
        Self {
            stop: Some(stop.clone()),
            ..self
        }
    }

    /// Counts the answer in this budget.
    pub fn charged_to(self, budget: &Arc<Budget>) -> Self {
        Self {
            budget: Some(budget.clone()),
            ..self
        }
    }

    /// Sets the longest body of the answer in bytes.
    pub fn at_most(self, answer_bytes: usize) -> Self {
        Self {
            answer_bytes,
            ..self
        }
    }

    /// Sets the `Accept` header.
    pub fn accept(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    /// A request of the host's own, which needs this right. Guests' requests need the policy's decision: see
    /// [`ApiRequest::read`].
    pub(super) fn own(right: HostRight, path: impl Into<String>, body: Bytes) -> Self {
        Self::new(right.verb.method(), path, "application/json", body)
    }

    /// A GET of an object that the operator's policy names, as the plugin's service account. The host keeps the answer.
    pub(super) fn of_operator(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, "application/json", Bytes::new())
    }

    /// A GET for a guest.
    pub fn read(path: impl Into<String>, _: &Access) -> Self {
        Self::new(Method::GET, path, "application/json", Bytes::new())
    }

    #[cfg(test)]
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, "application/json", Bytes::new())
    }

    /// A write for a guest. The body of a DELETE is its options.
    pub fn write(method: Method, path: impl Into<String>, body: Bytes, _: &MayWrite) -> Self {
        Self::new(method, path, "application/json", body)
    }

    /// Sets the type of the body; it is JSON otherwise.
    pub fn content_type(self, content_type: &'static str) -> Self {
        Self {
            content_type,
            ..self
        }
    }
}

/// Why a request failed.
#[derive(Debug)]
pub struct Failed {
    pub error: ApiError,
    /// Whether the error is an answer of the server. Otherwise the host made it, such as `Unreachable` or `Timeout`.
    pub(crate) is_answer: bool,
}

impl From<ApiError> for Failed {
    /// An error of the host.
    fn from(error: ApiError) -> Self {
        Self {
            error,
            is_answer: false,
        }
    }
}

impl ApiClient {
    /// A client that sends this User-Agent and starts no write unless the fence is open.
    pub fn new(
        connection: Connection,
        credentials: Option<Arc<dyn Credentials>>,
        user_agent: &str,
        fence: Arc<Fence>,
    ) -> Self {
        // Names of plugins and hosts come from outside: keep only what a header can hold.
        let user_agent: String = user_agent
            .chars()
            .filter(|c| c.is_ascii_graphic() || *c == ' ')
            .collect();
        let user_agent =
            HeaderValue::from_str(&user_agent).unwrap_or(HeaderValue::from_static("flyball"));
        Self {
            connection,
            credentials,
            user_agent,
            fence,
        }
    }

    /// Sends a request and returns the body of the answer.
    ///
    /// Fails with the server's status and reason, or with one of the host's: `Timeout` if no complete answer came,
    /// `Unreachable` if the server could not be reached, `Fenced` if another process leads.
    pub async fn send(&self, request: ApiRequest) -> Result<Bytes, ApiError> {
        self.send_held(request).await.map(|held| held.bytes)
    }

    /// Like [`ApiClient::send`]. An error tells whether the server answered.
    pub(crate) async fn send_noting_answer(&self, request: ApiRequest) -> Result<Bytes, Failed> {
        let held = self.send_patiently(request).await?;
        Ok(held.bytes)
    }

    /// Like [`ApiClient::send`]. The answer stays counted in the request's budget until it is dropped.
    pub async fn send_held(&self, request: ApiRequest) -> Result<Held, ApiError> {
        let is_read = request.method == Method::GET;
        let result = self.send_patiently(request).await;
        let result = result.map_err(|failed| failed.error);
        if is_read {
            result.map_err(ApiError::of_read)
        } else {
            result
        }
    }

    async fn send_patiently(&self, mut request: ApiRequest) -> Result<Held, Failed> {
        // A later attempt says nothing about the effect of an earlier one.
        let mut is_unknown = false;
        let with_effect = |failed: Failed, is_unknown| {
            if is_unknown {
                Failed {
                    error: failed.error.with_effect(Effect::Unknown),
                    ..failed
                }
            } else {
                failed
            }
        };
        for retry in 0.. {
            let patience = self
                .admit(&request)
                .map_err(|error| with_effect(error.into(), is_unknown))?;
            let failed = match tokio::time::timeout(patience, self.try_send(&request)).await {
                Ok(Ok(body)) => return Ok(body),
                Ok(Err(failed)) => failed,
                Err(_) => {
                    let (method, path) = (&request.method, &request.path);
                    let message = format!(
                        "no answer to {method} {path} within {} s",
                        patience.as_secs()
                    );
                    return Err(ApiError::timeout(message).into());
                }
            };
            request.waited = None;
            let error = &failed.error;
            match error.retry_after_ms {
                Some(wait) if retry < RETRIES && (error.status == 429 || error.status >= 500) => {
                    tracing::debug!(%error, wait, path = request.path, "the server asks to wait");
                    is_unknown |= error.effect == Effect::Unknown;
                    let pause = tokio::time::sleep(Duration::from_millis(wait.into()));
                    match &mut request.stop {
                        Some(stop) => tokio::select! {
                            () = pause => {}
                            () = stop.stopped() => {}
                        },
                        None => pause.await,
                    }
                }
                _ => return Err(with_effect(failed, is_unknown)),
            }
        }
        unreachable!("the loop returns")
    }

    /// Fails with `Fenced` if this process may start no write now.
    pub fn check_fence(&self) -> Result<(), ApiError> {
        self.fence.admit(fence::now()).map(drop)
    }

    /// Returns how long the request may take if it starts now.
    fn admit(&self, request: &ApiRequest) -> Result<Duration, ApiError> {
        if request.stop.as_ref().is_some_and(Stoppable::is_stopped) {
            return Err(ApiError::stopped());
        }
        let left = if request.method == Method::GET {
            None
        } else {
            self.fence.admit(fence::now())?
        };
        Ok(left.map_or(TIMEOUT, |left| left.min(TIMEOUT)))
    }

    /// Sends the request once, as a span of the current trace.
    async fn try_send(&self, request: &ApiRequest) -> Result<Held, Failed> {
        let mut span = RequestSpan::begin(&request.method, &request.path);
        let sent = self.send_once(request, &mut span).await;
        span.end(sent.as_ref().err().map(|failed| &failed.error));
        sent
    }

    async fn send_once(
        &self,
        api_request: &ApiRequest,
        span: &mut RequestSpan,
    ) -> Result<Held, Failed> {
        let (method, path) = (&api_request.method, &api_request.path);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(USER_AGENT, &self.user_agent)
            .header(ACCEPT, api_request.accept);
        if !api_request.body.is_empty() {
            request = request.header(CONTENT_TYPE, api_request.content_type);
        }
        if let Some(waited) = api_request.waited {
            request = request.extension(RateLimiterWait(waited));
        }
        if api_request.method != Method::GET {
            let fence = self.fence.clone();
            request = request.extension(SendGuard::new(move || fence.admit(fence::now()).is_ok()));
        }
        if let Some(credentials) = &self.credentials {
            // A failure to get a token is not a failure of this request, which was not sent.
            let token = credentials.bearer().await;
            let token = token.map_err(|error| error.with_effect(Effect::None))?;
            request = request.header(AUTHORIZATION, token);
        }
        if let Some(traceparent) = span.traceparent() {
            request = request.header(TRACEPARENT, traceparent);
        }
        // Checked again, because the token request may have taken long.
        self.admit(api_request)?;
        let request = request
            .body(Body::from(api_request.body.clone()))
            .map_err(|error| {
                ApiError::invalid(format!("{method} {path} is not a request: {error}"))
            })?;

        let response = self
            .connection
            .clone()
            .oneshot(request)
            .await
            .map_err(|error| {
                let message = format!("could not {method} {path}: {}", error_chain(&*error));
                if causes(&*error).any(|cause| cause.is::<NotAllowed>()) {
                    ApiError::fenced()
                } else if never_sent(&*error) {
                    ApiError::unreachable(message)
                } else {
                    ApiError::timeout(message)
                }
            })?;
        let (head, body) = response.into_parts();
        span.answered(head.status, &head.headers);
        if let Some(warnings) = &api_request.warnings {
            warnings.add(&head.headers);
        }
        let body = read_body(body, api_request).await?;
        if let Some(size) = head.extensions.get::<ResponseSize>() {
            size.observe(body.bytes.len());
        }
        if head.status.is_success() {
            return Ok(body);
        }
        let body = &body.bytes;
        if head.status == StatusCode::UNAUTHORIZED
            && let Some(credentials) = &self.credentials
        {
            credentials.refused();
        }
        let mut error = read_status(head.status, body, method, path);
        let seconds = head
            .headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
        if let Some(seconds) = seconds {
            error.retry_after_ms = Some(seconds.saturating_mul(1000));
        }
        Err(Failed {
            error,
            is_answer: true,
        })
    }
}

/// Reads the body of an answer, up to the request's bounds.
async fn read_body(mut body: ResponseBody, request: &ApiRequest) -> Result<Held, ApiError> {
    let ApiRequest {
        method,
        path,
        answer_bytes: limit,
        ..
    } = request;
    let mut charge = request.budget.as_ref().map(Budget::charge);
    let (mut read, mut length) = (ReadBody::Empty, 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let cause = error_chain(&error);
            ApiError::timeout(format!(
                "the answer to {method} {path} was cut off: {cause}"
            ))
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        length += data.len();
        let charged = match &mut charge {
            Some(charge) => charge.grow(data.len()),
            None => Ok(()),
        };
        // A write has taken effect although its answer can't be read.
        charged.map_err(|error| error.with_effect(Effect::Unknown))?;
        if length > *limit {
            let message = format!(
                "the answer to {method} {path} has more than {limit} bytes, which is the limit"
            );
            return Err(ApiError::full(message).with_effect(Effect::Unknown));
        }
        read.add(data);
    }
    let bytes = read.into_bytes();
    Ok(match charge {
        Some(charge) => Held::new(bytes, charge),
        None => bytes.into(),
    })
}

/// The part of a body that was read. Most bodies have one frame, which is not copied. The frames of the others are copied
/// one by one as they come, so that no thread is busy with a large one at once.
enum ReadBody {
    Empty,
    One(Bytes),
    Many(Vec<u8>),
}

impl ReadBody {
    fn add(&mut self, data: Bytes) {
        match self {
            Self::Empty => *self = Self::One(data),
            Self::One(first) => *self = Self::Many([&**first, &data].concat()),
            Self::Many(bytes) => bytes.extend_from_slice(&data),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::One(only) => only,
            Self::Many(mut bytes) => {
                // The allocator moves no large block for that.
                bytes.shrink_to_fit();
                bytes.into()
            }
        }
    }
}

/// Reads a refusal: a `Status` object of the server, or any body that a proxy in front of it returns.
fn read_status(status: StatusCode, body: &Bytes, method: &Method, path: &str) -> ApiError {
    match ApiResponse::new(body.clone()).status() {
        Some(answer) if !answer.message.is_empty() || !answer.reason.is_empty() => {
            let details = answer.details.as_ref();
            // A terminating namespace returns `Forbidden` with the cause in the details; the cause says more.
            let terminating = details.is_some_and(|details| {
                details
                    .causes
                    .iter()
                    .any(|cause| cause.reason == "NamespaceTerminating")
            });
            let reason = if terminating {
                "NamespaceTerminating"
            } else {
                &answer.reason
            };
            let seconds = details.map_or(0, |details| details.retry_after_seconds);
            let mut error = ApiError::of_server(status.as_u16(), reason, answer.message);
            error.retry_after_ms = (seconds > 0).then(|| seconds.saturating_mul(1000));
            error
        }
        _ => {
            let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
            let reason = status
                .canonical_reason()
                .unwrap_or_default()
                .replace(' ', "");
            ApiError::of_server(
                status.as_u16(),
                &reason,
                format!("{method} {path} was answered with {status}: {text}"),
            )
        }
    }
}

/// Whether the connection failed before any part of the request can have reached the server.
fn never_sent(error: &(dyn std::error::Error + 'static)) -> bool {
    causes(error).any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused)
    })
}

/// The error and its causes.
fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

#[cfg(test)]
mod tests;
