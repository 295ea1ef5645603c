//! An API server for tests: answers requests inside the process, over in-memory connections. Time may be paused.

use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::Connection;
use flyball_cache::connection::ResponseBody;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::BoxError;
use tower::util::BoxCloneSyncService;

/// A request as the server received it.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The `Authorization` header; empty without one.
    pub authorization: String,
    /// Null if it is not JSON.
    pub body: Value,
}

/// How the server responds.
pub enum Reply {
    Json(u16, Value),
    /// A JSON object with a `Warning` header.
    Warning(Value, &'static str),
    /// A refusal with a `Retry-After` header, in seconds.
    RetryAfter(u16, u32),
    /// The server never responds.
    Nothing,
}

impl Reply {
    /// A refusal as a `Status` object.
    pub fn refusal(status: u16, reason: &str) -> Self {
        let text = format!("refused with {reason}");
        Self::Json(
            status,
            json!({"kind": "Status", "code": status, "reason": reason, "message": text}),
        )
    }
}

/// The requests that a server has received.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Received>>>);

impl Log {
    /// Returns the requests as `METHOD path`, and forgets them.
    pub fn take(&self) -> Vec<String> {
        self.take_requests()
            .iter()
            .map(|request| format!("{} {}", request.method, request.path))
            .collect()
    }

    pub fn take_requests(&self) -> Vec<Received> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Returns a connection to a server that responds so, and the log of its requests.
pub fn serve(respond: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> (Connection, Log) {
    let (respond, log) = (Arc::new(respond), Log::default());
    let received = log.clone();
    let connection = tower::service_fn(move |request: Request<Body>| {
        let (respond, log) = (respond.clone(), received.clone());
        async move {
            let (client, server) = tokio::io::duplex(64 * 1024);
            let handle = hyper::service::service_fn(move |request: Request<Incoming>| {
                handle(request, respond.clone(), log.clone())
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(server), handle),
            );
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(client)).await?;
            tokio::spawn(connection);
            let response = sender.send_request(request).await?;
            Ok::<_, BoxError>(response.map(ResponseBody::from))
        }
    });
    (BoxCloneSyncService::new(connection), log)
}

async fn handle(
    request: Request<Incoming>,
    respond: Arc<impl Fn(&Received) -> Reply>,
    log: Log,
) -> Result<Response<Full<Bytes>>, BoxError> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let authorization = head.headers.get(header::AUTHORIZATION);
    let received = Received {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        authorization: authorization
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .unwrap_or_default(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    log.0.lock().push(received.clone());
    let response = Response::builder();
    match respond(&received) {
        Reply::Json(status, value) => Ok(response
            .status(status)
            .body(Full::from(value.to_string()))?),
        Reply::Warning(value, warning) => Ok(response
            .header(header::WARNING, warning)
            .body(Full::from(value.to_string()))?),
        Reply::RetryAfter(status, seconds) => Ok(response
            .status(status)
            .header(header::RETRY_AFTER, seconds)
            .body(Full::default())?),
        Reply::Nothing => std::future::pending().await,
    }
}
