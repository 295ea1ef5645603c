//! Where lists, watches and discovery come from: one GET with a streamed body. The real source is the API server; tests
//! script their own.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;
use tower::ServiceExt as _;

use crate::{Answer, Connection};

/// How long an answer may take; of a watch, its head.
const PATIENCE: Duration = Duration::from_secs(60);

/// The `Accept` header for whole objects.
pub const JSON: &str = "application/json";
/// The same where protobuf can be read, too.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";
/// The `Accept` header for the metadata of an object; whole objects from a server that can't leave the rest out.
pub const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// The same for a list.
pub const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// For metadata where protobuf can be read, too.
pub const PROTOBUF_METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// The same for a list.
pub(crate) const PROTOBUF_METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// The path with its parameters, escaped.
    pub path: String,
    /// The `Accept` header.
    pub accept: &'static str,
}

/// A streamed body.
pub type Chunks = BoxStream<'static, Result<Bytes, SourceError>>;

/// Answers GETs.
pub trait Source: Send + Sync + 'static {
    /// Begins a request; the body follows.
    fn get(&self, request: Get) -> BoxFuture<'_, Result<Chunks, SourceError>>;
}

/// Why no answer came, or none that can be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The server was not reached, or the connection broke. A retry can help.
    #[error("can't reach the API server")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server refused. What retries can do depends on the status.
    #[error("the API server answered {code} {reason}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The API's reason, as in `Expired`.
        reason: String,
        /// The server's sentence.
        message: String,
        /// The reasons of the causes in the answer's details.
        causes: Vec<String>,
        /// How long the server asks to wait, in seconds.
        retry_after: Option<u32>,
    },
    /// What came can't be read. A retry won't help before the server or this program changes.
    #[error("can't read the API server's answer: {0}")]
    Nonsense(String),
}

impl SourceError {
    /// Whether the versions asked for are too old to be had, so that only a new list can help.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Refused { code, reason, .. } if *code == 410 || reason == "Expired" || reason == "Gone")
    }

    /// Whether the server does not know the version asked for yet, and perhaps never will.
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

    /// Whether the server does not stream lists, so that they must be asked for page by page.
    pub fn is_no_watch_list(&self) -> bool {
        let says_so = |message: &str| {
            message.contains("sendInitialEvents") || message.contains("resourceVersionMatch")
        };
        matches!(self, Self::Refused { code, message, .. } if matches!(code, 400 | 422) || says_so(message))
    }

    /// Whether the server was not reached.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }

    /// Whether the kind is not served.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }

    /// The refusal that a Status object tells; `code` where it has none.
    pub(crate) fn of_status(code: u16, body: &[u8], retry_after: Option<u32>) -> Self {
        let Some(status) = Answer::new(Bytes::copy_from_slice(body)).status() else {
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
        let asked = details
            .map(|details| details.retry_after_seconds)
            .filter(|&seconds| seconds > 0);
        let causes = details.into_iter().flat_map(|details| &details.causes);
        Self::Refused {
            code: if status.code == 0 { code } else { status.code },
            causes: causes.map(|cause| cause.reason.clone()).collect(),
            retry_after: retry_after.or(asked),
            reason: status.reason,
            message: status.message,
        }
    }
}

/// Waits for an answer, or for the head of one that goes on, as long as one may take.
pub(crate) async fn in_time<T>(
    answer: impl Future<Output = Result<T, SourceError>>,
) -> Result<T, SourceError> {
    let late = || SourceError::Unreachable("no answer within a minute".into());
    timeout(PATIENCE, answer)
        .await
        .unwrap_or_else(|_| Err(late()))
}

/// Reads a whole body, in time.
pub(crate) async fn collect(source: &dyn Source, request: Get) -> Result<Bytes, SourceError> {
    in_time(read(source, request)).await
}

async fn read(source: &dyn Source, request: Get) -> Result<Bytes, SourceError> {
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

/// The API server.
#[derive(Clone)]
pub struct KubeSource {
    connection: Connection,
}

impl KubeSource {
    /// Asks through these connections. They should be others than those of writes: a watch holds one for as long as it lasts.
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
                    SourceError::Nonsense(format!("the path {:?}: {error}", request.path))
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
                return Err(SourceError::of_status(
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
