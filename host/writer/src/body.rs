//! The whole objects that `update` and `update-status` put: the object at the guest's version, with its change.

use bytes::Bytes;
use flyball_api::client::ApiRequest;
use flyball_cache::{ApiResource, ApiResponse};
use flyball_limits::stop::Stoppable;
use flyball_plugin::{Allowance, Write};
use flyball_policy::access::{Read, access};
use flyball_reads::cached::Base;
use flyball_types::{ApiError, Effect, Kind, Mask};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::{Writer, merge};

/// Size in bytes from which on a merge does not run on the async threads...
const LARGE_MERGE: usize = 256 << 10;
/// ...and the size for a plugin that is charged for it.
pub(super) const METERED_MERGE: usize = 16 << 10;
/// The number of large merges that run at once: a parsed document takes many times its bytes. A plugin's quota lets one
/// metered merge run.
const LARGE_AT_ONCE: usize = 4;

impl Writer {
    /// Returns the object that an `update` is applied to, and its kind.
    pub(super) async fn base_of_update(
        &self,
        write: &Write,
        resource: &ApiResource,
        resource_version: &str,
        begun: &mut Stoppable,
    ) -> Result<(Kind, Bytes), ApiError> {
        let Some(other) = other_kind(write, resource) else {
            let base = self.base(write, resource, resource_version, begun).await?;
            return Ok((resource.kind.clone(), base));
        };
        // The cache holds no such objects.
        let subresource = write.subresource();
        let base = self.fresh(write, resource, subresource, resource_version, begun);
        Ok((other.clone(), base.await?))
    }

    /// Returns the whole object to PUT for an `update`.
    pub(super) async fn updated(
        &self,
        (kind, base): (Kind, Bytes),
        resource_version: &str,
        change: &Bytes,
        allowance: &Allowance,
    ) -> Result<Bytes, ApiError> {
        let (change, version) = (change.clone(), resource_version.to_owned());
        let size = base.len() + change.len();
        self.merge(size, allowance, move || {
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

    /// Returns the whole object to PUT for an `update-status`, of the base, the status and the change of metadata.
    pub(super) async fn with_status(
        &self,
        kind: &Kind,
        (base, status, metadata): (Bytes, &Bytes, &Bytes),
        resource_version: &str,
        allowance: &Allowance,
    ) -> Result<Bytes, ApiError> {
        let (kind, version) = (kind.clone(), resource_version.to_owned());
        let (status, metadata) = (status.clone(), metadata.clone());
        let size = base.len() + status.len() + metadata.len();
        self.merge(size, allowance, move || {
            let metadata = if metadata.is_empty() {
                Map::new()
            } else {
                serde_json::from_slice(&metadata).map_err(|error| {
                    ApiError::invalid(format!(
                        "the metadata that goes with the status of {kind} is not a JSON object: {error}"
                    ))
                })?
            };
            let status: &RawValue = serde_json::from_slice(&status).map_err(|error| {
                ApiError::invalid(format!("the status of {kind} is not JSON: {error}"))
            })?;
            merge::with_status(&base, status, metadata, &kind, &version)
                .map(Bytes::from)
                .map_err(|error| unreadable(&kind, &error))
        })
        .await
    }

    /// Returns the object that an update is applied to, from the cache if it holds enough of this version. Fails with a
    /// conflict if the cache shows that the object has changed since then, as often happens to objects with several
    /// writers. The server would report the same conflict, and not every plugin may read from it.
    pub(super) async fn base(
        &self,
        write: &Write,
        resource: &ApiResource,
        resource_version: &str,
        begun: &mut Stoppable,
    ) -> Result<Bytes, ApiError> {
        let target = &write.target;
        let whole = write.subresource() != "status";
        let (kind, namespace, name) = (&resource.kind, &target.namespace, &target.name);
        let cached = self
            .cached
            .base(kind, namespace, name, resource_version, whole);
        let may_get = || self.policy.check("get", kind, "", namespace).is_ok();
        let since = match cached {
            Base::Cached(base) => return Ok(base),
            Base::Newer(version) => format!("it is at {version}"),
            Base::Gone if !may_get() => "the cache holds it no longer".to_owned(),
            Base::Gone | Base::Unknown => {
                return self
                    .fresh(write, resource, "", resource_version, begun)
                    .await;
            }
        };
        Err(changed(kind, name, resource_version, &since))
    }

    /// Gets the object, or the subresource that is an object of its own, from the server, with the write's token, and
    /// waits for another one. Fails with a conflict if the object is at another version.
    async fn fresh(
        &self,
        write: &Write,
        resource: &ApiResource,
        subresource: &str,
        resource_version: &str,
        begun: &mut Stoppable,
    ) -> Result<Bytes, ApiError> {
        let target = &write.target;
        let read = Read::Live {
            verb: "get",
            kind: &resource.kind,
            subresource,
            namespace: &target.namespace,
            uses: &[],
        };
        let access = access(&self.policy, read)?;
        let path = resource
            .object(&target.namespace, &target.name, subresource)
            .map_err(|e| ApiError::invalid(e.to_string()))?;
        let get = ApiRequest::read(path, &access).charged_to(&self.budget);
        let held = {
            let _permit = self.wait_to_send(begun).await?;
            self.client.send_held(get.unless_stopped(begun)).await?
        };
        let answer = ApiResponse::new(held.bytes.clone());
        let found = answer
            .object_version()
            .map_err(|error| unreadable(&resource.kind, &error))?
            .resource_version;
        if found != resource_version {
            let since = format!("it is at {found}");
            return Err(changed(
                &resource.kind,
                &target.name,
                resource_version,
                &since,
            ));
        }
        self.wait_for_token(begun).await?;
        answer
            .json(&Mask::whole())
            .map_err(|error| unreadable(&resource.kind, &error))
    }

    /// Merges documents of `size` bytes together. Large ones are merged off the async threads, as long as the call has CPU
    /// time left, and the call and the plugin's CPU quota are charged for them.
    async fn merge<T: Send + 'static>(
        &self,
        size: usize,
        allowance: &Allowance,
        merge: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        static LARGE: Semaphore = Semaphore::const_new(LARGE_AT_ONCE);
        let large = match &self.quota {
            Some(_) => METERED_MERGE,
            None => LARGE_MERGE,
        };
        if size < large {
            return merge();
        }
        let allowance = allowance.clone();
        let merge = move || allowance.work_apart(merge);
        let merged = match self.quota.clone() {
            Some(quota) => {
                let threads = quota.threads().clone();
                threads.spawn(async move { quota.work(merge).await }).await
            }
            None => {
                // The semaphore is never closed.
                let _permit = LARGE.acquire().await;
                tokio::task::spawn_blocking(merge).await
            }
        };
        merged.unwrap_or_else(|error| {
            let message = format!("the host failed to merge a write: {error}");
            Err(ApiError::internal(Effect::None, message))
        })
    }
}

/// The kind of the subresource that is written, if that is not the object itself: `scale` is a `Scale`.
fn other_kind<'a>(write: &Write, resource: &'a ApiResource) -> Option<&'a Kind> {
    let mut subresources = resource.subresources.iter();
    let own = subresources.find(|own| own.name == write.subresource())?;
    own.kind.as_ref().filter(|kind| **kind != resource.kind)
}

fn changed(kind: &Kind, name: &str, resource_version: &str, since: &str) -> ApiError {
    ApiError::conflict(format!(
        "the {kind} {name} has changed: the update was made against version {resource_version}, and {since}"
    ))
}

fn unreadable(kind: &Kind, error: &dyn std::error::Error) -> ApiError {
    ApiError::internal(Effect::None, format!("can't read the {kind}: {error}"))
}
