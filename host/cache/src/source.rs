//! The source of lists, watches and discovery: GET requests with streamed bodies. [`KubeSource`] is the API server;
//! tests have other sources.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;
use tower::ServiceExt as _;

use crate::{ApiResponse, Connection};

/// How long a response may take; for a watch, how long until its headers.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The `Accept` header for whole objects.
pub const JSON: &str = "application/json";
/// The `Accept` header for whole objects, in protobuf if the server can.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";
/// The `Accept` header for an object's metadata; a server that can't reduce objects returns whole ones.
pub const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// The `Accept` header for a list of metadata.
pub const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// The `Accept` header for an object's metadata, in protobuf if the server can.
pub const PROTOBUF_METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// The `Accept` header for a list of metadata, in protobuf if the server can.
pub(crate) const PROTOBUF_METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The verbs that reflectors need on what they watch.
pub const VERBS: [&str; 2] = ["list", "watch"];

/// A GET request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// The path with its parameters, escaped.
    pub path: String,
    /// The `Accept` header.
    pub accept: &'static str,
}

/// A streamed body.
pub type Chunks = BoxStream<'static, Result<Bytes, SourceError>>;

/// Sends GET requests.
pub trait Source: Send + Sync + 'static {
    /// Sends a request and returns its body as a stream.
    fn get(&self, request: Get) -> BoxFuture<'_, Result<Chunks, SourceError>>;
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The server could not be reached, or the connection broke. A retry can help.
    #[error("can't reach the API server")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server refused the request. Whether a retry can help depends on the status.
    #[error("the API server returned {code} {reason}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The API's reason, such as `Expired`.
        reason: String,
        message: String,
        /// The reasons of the causes in the Status's details.
        causes: Vec<String>,
        /// How long the server asks the client to wait, in seconds.
        retry_after: Option<u32>,
    },
    /// The request or the response is not valid. A retry can't help before the server or this program changes.
    #[error("can't exchange valid data with the API server: {0}")]
    Invalid(String),
}

impl SourceError {
    /// Whether the resource version is too old, so that only a new list can help.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Refused { code, reason, .. } if *code == 410 || reason == "Expired" || reason == "Gone")
    }

    /// Whether the server has not reached the resource version yet, and perhaps never will.
    pub fn is_too_large_version(&self) -> bool {
        match self {
            Self::Refused {
                message, causes, ..
            } => {
                causes
                    .iter()
                    .any(|cause| cause == "ResourceVersionTooLarge")
                    || message.contains("Too large resource version")
            }
            _ => false,
        }
    }

    /// Whether the server does not support streamed lists, so that only pages can help.
    pub fn is_no_watch_list(&self) -> bool {
        let names_parameter = |message: &str| {
            message.contains("sendInitialEvents") || message.contains("resourceVersionMatch")
        };
        matches!(self, Self::Refused { code, message, .. }
            if matches!(code, 400 | 422) || names_parameter(message))
    }

    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }

    /// Whether the server does not serve the kind.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }

    /// Whether the server asks to come back later: it has too many requests, or its storage of a custom resource that was
    /// just created is not ready.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Refused { code: 429, .. })
    }

    /// The error of a Status object. `code` is the HTTP status, for a body without one.
    pub(crate) fn from_status(code: u16, body: &[u8], retry_after: Option<u32>) -> Self {
        let Some(status) = ApiResponse::new(Bytes::copy_from_slice(body)).status() else {
            let message = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
            return Self::Refused {
                code,
                reason: String::new(),
                message,
                causes: Vec::new(),
                retry_after,
            };
        };
        let details = status.details.as_ref();
        let requested = details
            .map(|details| details.retry_after_seconds)
            .filter(|&seconds| seconds > 0);
        let causes = details.into_iter().flat_map(|details| &details.causes);
        Self::Refused {
            code: if status.code == 0 { code } else { status.code },
            causes: causes.map(|cause| cause.reason.clone()).collect(),
            retry_after: retry_after.or(requested),
            reason: status.reason,
            message: status.message,
        }
    }
}

/// Limits how long a response, or the headers of a stream, may take.
pub(crate) async fn with_timeout<T>(
    response: impl Future<Output = Result<T, SourceError>>,
) -> Result<T, SourceError> {
    let late = || SourceError::Unreachable("no response within a minute".into());
    timeout(RESPONSE_TIMEOUT, response)
        .await
        .unwrap_or_else(|_| Err(late()))
}

/// Sends a request and returns its whole body.
pub(crate) async fn fetch(source: &dyn Source, request: Get) -> Result<Bytes, SourceError> {
    with_timeout(read_body(source, request)).await
}

async fn read_body(source: &dyn Source, request: Get) -> Result<Bytes, SourceError> {
    let mut chunks = source.get(request).await?;
    let Some(first) = chunks.try_next().await? else {
        return Ok(Bytes::new());
    };
    let Some(second) = chunks.try_next().await? else {
        return Ok(first);
    };
    let mut body = Vec::with_capacity(2 * (first.len() + second.len()));
    body.extend_from_slice(&first);
    body.extend_from_slice(&second);
    while let Some(chunk) = chunks.try_next().await? {
        body.extend_from_slice(&chunk);
    }
    Ok(body.into())
}

/// The API server as a source.
#[derive(Clone)]
pub struct KubeSource {
    connection: Connection,
}

impl KubeSource {
    /// Sends its requests over these connections. Writes should use other connections, since each watch occupies one
    /// until it ends.
    pub fn new(connection: Connection) -> Self {
        Self { connection }
    }
}

impl Source for KubeSource {
    fn get(&self, request: Get) -> BoxFuture<'_, Result<Chunks, SourceError>> {
        Box::pin(async move {
            let unreachable =
                |error: Box<dyn std::error::Error + Send + Sync>| SourceError::Unreachable(error);
            let http = http::Request::get(&request.path)
                .header(http::header::ACCEPT, request.accept)
                .body(Body::empty())
                .map_err(|error| {
                    SourceError::Invalid(format!(
                        "the path {:?} is not a URI: {error}",
                        request.path
                    ))
                })?;
            let response = self
                .connection
                .clone()
                .oneshot(http)
                .await
                .map_err(unreachable)?;
            let (head, body) = response.into_parts();
            if !head.status.is_success() {
                let retry_after = head.headers.get(http::header::RETRY_AFTER);
                let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
                let body = body
                    .collect()
                    .await
                    .map(|body| body.to_bytes())
                    .unwrap_or_default();
                return Err(SourceError::from_status(
                    head.status.as_u16(),
                    &body,
                    retry_after,
                ));
            }
            Ok(body
                .into_data_stream()
                .map_err(move |error| unreachable(Box::new(error)))
                .boxed())
        })
    }
}
