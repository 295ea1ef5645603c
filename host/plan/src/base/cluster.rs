//! A cluster that is only read. Its requests are GETs and dry runs: there is no way to send another one.

use std::time::Duration;

use bytes::Bytes;
use flyball_cache::Connection;
use flyball_cache::connection::connect;
use flyball_cache::resource::push_parameter;
use flyball_cache::source::{JSON, METADATA, METADATA_LIST};
use flyball_types::ApiError;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::{Listing, Page, collection};
use crate::kinds::Kinds;

/// How long a response may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The largest response, in bytes. A page of 500 objects of the largest size that etcd stores is smaller.
const MAX_RESPONSE: usize = 1 << 30;
const AGENT: &str = concat!("flyball-plan/", env!("CARGO_PKG_VERSION"));
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A cluster, with the rights of a kubeconfig.
pub struct ClusterBase {
    connection: Connection,
    dry_runs: bool,
    /// The largest response, in bytes.
    max_response: usize,
}

/// A page of a list, with objects that are passed on unread.
#[derive(Deserialize)]
struct ListBody {
    metadata: ListMetadata,
    #[serde(default)]
    items: Option<Vec<Box<RawValue>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

impl ClusterBase {
    /// Connects. With `dry_runs`, the server defaults and validates writes in dry runs, as far as the kubeconfig's user
    /// may.
    ///
    /// # Errors
    /// The configuration has unusable credentials or certificate authorities, or a proxy, which is not supported.
    pub fn new(config: &kube::Config, dry_runs: bool) -> kube::Result<Self> {
        let connection = connect(config)?;
        Ok(Self {
            connection,
            dry_runs,
            max_response: MAX_RESPONSE,
        })
    }

    /// Refuses larger responses than this, in bytes. The default is 1 GiB.
    pub fn at_most(self, max_response: usize) -> Self {
        Self {
            max_response,
            ..self
        }
    }

    pub(crate) fn has_dry_runs(&self) -> bool {
        self.dry_runs
    }

    pub(super) async fn kinds(&self) -> Result<Kinds, ApiError> {
        let core = self.json("/api", AGGREGATED).await?;
        let groups = self.json("/apis", AGGREGATED).await?;
        Ok(Kinds::of_documents(core, groups))
    }

    pub(super) async fn object(&self, path: &str) -> Result<Option<Value>, ApiError> {
        match self.json(path, JSON).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.status == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn list(&self, listing: &Listing<'_>) -> Result<Page, ApiError> {
        let mut path = collection(listing.resource, listing.namespace)?;
        for (name, value) in [
            ("labelSelector", listing.labels),
            ("fieldSelector", listing.fields),
            ("limit", listing.limit),
            ("continue", listing.token),
        ] {
            if !value.is_empty() {
                push_parameter(&mut path, name, value);
            }
        }
        let accept = if listing.only_metadata {
            METADATA_LIST
        } else {
            JSON
        };
        let body = self.get(&path, accept).await?;
        let list: ListBody =
            serde_json::from_slice(&body).map_err(|error| malformed(&path, &error))?;
        Ok(Page {
            items: list.items.unwrap_or_default(),
            next: list.metadata.next,
            version: list.metadata.resource_version.parse().unwrap_or(0),
        })
    }

    /// Returns what a GET of this path, with its parameters, returns.
    pub(crate) async fn raw(&self, path: &str, only_metadata: bool) -> Result<Bytes, ApiError> {
        self.get(path, if only_metadata { METADATA } else { JSON })
            .await
    }

    /// Has the server check and default a write without storing it. Returns the object as it would be stored.
    pub(crate) async fn dry_run(
        &self,
        method: Method,
        path: &str,
        object: &Value,
        manager: &str,
    ) -> Result<Value, ApiError> {
        let mut path = path.to_owned();
        push_parameter(&mut path, "dryRun", "All");
        push_parameter(&mut path, "fieldManager", manager);
        let body = object.to_string().into();
        let body = self.send(method, &path, JSON, body).await?;
        serde_json::from_slice(&body).map_err(|error| malformed(&path, &error))
    }

    async fn json(&self, path: &str, accept: &str) -> Result<Value, ApiError> {
        let body = self.get(path, accept).await?;
        serde_json::from_slice(&body).map_err(|error| malformed(path, &error))
    }

    async fn get(&self, path: &str, accept: &str) -> Result<Bytes, ApiError> {
        self.send(Method::GET, path, accept, Bytes::new()).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<Bytes, ApiError> {
        let unreachable = |why: String| {
            let message = format!("can't {method} {path} of the cluster: {why}");
            ApiError::of_server(503, "ServiceUnavailable", message)
        };
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, JSON)
            .header(USER_AGENT, AGENT)
            .body(Body::from(body))
            .map_err(|error| ApiError::of_server(400, "BadRequest", error.to_string()))?;
        let answer = async {
            let response = self.connection.clone().oneshot(request).await;
            let (head, body) = response
                .map_err(|error| unreachable(error.to_string()))?
                .into_parts();
            let body = Limited::new(body, self.max_response).collect().await;
            let body = body.map_err(|error| match error.is::<LengthLimitError>() {
                true => self.too_large(path),
                false => unreachable(error.to_string()),
            })?;
            Ok::<_, ApiError>((head.status, body.to_bytes()))
        };
        let answer = timeout(TIMEOUT, answer).await;
        let late = |_| {
            Err(unreachable(format!(
                "no answer within {} s",
                TIMEOUT.as_secs()
            )))
        };
        let (status, body) = answer.unwrap_or_else(late)?;
        if status.is_success() {
            return Ok(body);
        }
        Err(refusal(status, &body))
    }

    fn too_large(&self, path: &str) -> ApiError {
        let message = format!(
            "the answer of the cluster to {path} has more than {} bytes: the plugin should list with a limit and read page by \
             page, or the plan be limited to one namespace",
            self.max_response
        );
        ApiError::of_server(413, "RequestEntityTooLarge", message)
    }
}

/// The error of the API's `Status`.
fn refusal(status: StatusCode, body: &[u8]) -> ApiError {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| parsed[name].as_str().unwrap_or_default();
    let message = match text("message") {
        "" => String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned(),
        message => message.to_owned(),
    };
    ApiError::of_server(status.as_u16(), text("reason"), message)
}

fn malformed(path: &str, error: &serde_json::Error) -> ApiError {
    let message = format!("the answer of the cluster to {path} is not valid: {error}");
    ApiError::of_server(502, "InternalError", message)
}
