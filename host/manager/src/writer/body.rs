//! The whole objects that `update` and `update-status` put: the object at the guest's version, with its change.

use bytes::Bytes;
use flyball_cache::{ApiResource, ApiResponse};
use flyball_plugin::Write;
use flyball_types::{ApiError, Effect, Kind, Mask};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::api::client::ApiRequest;
use crate::reads::access::{Read, access};
use crate::writer::{Writer, merge};

/// From how many bytes on a merge is large, and how many of these run at once.
const LARGE_MERGE: usize = 256 << 10;
const LARGE_AT_ONCE: usize = 4;

impl Writer {
    /// Returns the whole object to PUT for an `update`.
    pub(super) async fn updated(
        &self,
        write: &Write,
        resource: &ApiResource,
        resource_version: &str,
        change: &Bytes,
    ) -> Result<Bytes, ApiError> {
        let kind = &resource.kind;
        let base = self.base(write, resource, resource_version).await?;
        let (kind, version) = (kind.clone(), resource_version.to_owned());
        let change = change.clone();
        let size = base.len() + change.len();
        merging(size, move || {
            let change: Value = serde_json::from_slice(&change).map_err(|error| {
                ApiError::invalid(format!("the change of {kind} is not JSON: {error}"))
            })?;
            let object = merge::updated(&base, change, &kind, &version)
                .map_err(|error| unreadable(&kind, &error))?;
            object.map(Bytes::from).ok_or_else(|| {
                ApiError::invalid(format!(
                    "the change of {kind} leaves no object, or an object without metadata"
                ))
            })
        })
        .await
    }

    /// Returns the whole object to PUT for an `update-status`.
    pub(super) async fn with_status(
        &self,
        write: &Write,
        resource: &ApiResource,
        resource_version: &str,
        status: &[u8],
        metadata: &[u8],
    ) -> Result<Bytes, ApiError> {
        let kind = &resource.kind;
        let metadata = if metadata.is_empty() {
            Map::new()
        } else {
            serde_json::from_slice(metadata).map_err(|error| {
                ApiError::invalid(format!(
                    "the metadata that goes with the status of {kind} is not a JSON object: {error}"
                ))
            })?
        };
        let status: &RawValue = serde_json::from_slice(status).map_err(|error| {
            ApiError::invalid(format!("the status of {kind} is not JSON: {error}"))
        })?;
        let base = self.base(write, resource, resource_version).await?;
        merge::with_status(&base, status, metadata, kind, resource_version)
            .map(Bytes::from)
            .map_err(|error| unreadable(kind, &error))
    }

    /// Returns the object that an update is applied to, from the cache if it holds enough of this version.
    async fn base(
        &self,
        write: &Write,
        resource: &ApiResource,
        resource_version: &str,
    ) -> Result<Bytes, ApiError> {
        let target = &write.target;
        let whole = write.subresource() != "status";
        let cached = self.cached.base(
            &resource.kind,
            &target.namespace,
            &target.name,
            resource_version,
            whole,
        );
        match cached {
            Some(base) => Ok(base),
            None => self.fresh(write, resource, resource_version).await,
        }
    }

    /// Gets the object from the server. Fails with a conflict if it is at another version.
    async fn fresh(
        &self,
        write: &Write,
        resource: &ApiResource,
        resource_version: &str,
    ) -> Result<Bytes, ApiError> {
        let target = &write.target;
        let read = Read::Live {
            verb: "get",
            kind: &resource.kind,
            subresource: "",
            namespace: &target.namespace,
            uses: &[],
        };
        access(&self.policy, read)?;
        let path = resource
            .object(&target.namespace, &target.name, "")
            .map_err(|e| ApiError::invalid(e.to_string()))?;
        let answer = ApiResponse::new(self.client.send(ApiRequest::get(path)).await?);
        let found = answer
            .object_version()
            .map_err(|error| unreadable(&resource.kind, &error))?
            .resource_version;
        if found != resource_version {
            let message = format!(
                "the {} {} has changed: the update was made against version {resource_version}, and it is at {found}",
                resource.kind, target.name
            );
            return Err(ApiError::conflict(message));
        }
        answer
            .json(&Mask::whole())
            .map_err(|error| unreadable(&resource.kind, &error))
    }
}

/// Merges documents of `size` bytes together. Large ones take long and, parsed, many times their bytes: they are merged off
/// the async threads, a few at once for all plugins together.
async fn merging<T: Send + 'static>(
    size: usize,
    merge: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    static LARGE: Semaphore = Semaphore::const_new(LARGE_AT_ONCE);
    if size < LARGE_MERGE {
        return merge();
    }
    // The semaphore is never closed.
    let _permit = LARGE.acquire().await;
    let merged = tokio::task::spawn_blocking(merge).await;
    merged.unwrap_or_else(|error| {
        let message = format!("the host failed to merge a write: {error}");
        Err(ApiError::internal(Effect::None, message))
    })
}

fn unreadable(kind: &Kind, error: &dyn std::error::Error) -> ApiError {
    ApiError::internal(Effect::None, format!("can't read the {kind}: {error}"))
}
