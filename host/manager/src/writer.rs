//! The one way in which a plugin changes the cluster: grant → rate limiter → the request with the plugin's own credentials,
//! which passes the fence → the overlay of acknowledged writes, which the plugin's next reads see.

mod batch;
mod journal;
pub(crate) mod merge;
mod options;

use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::source::{JSON, METADATA_LIST, PROTOBUF, PROTOBUF_METADATA};
use flyball_cache::{ApiResource, ApiResponse, Discovery, Object};
use flyball_plugin::{Batch, Operation, Write};
use flyball_types::{ApiError, Effect, Kind, Mask};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use self::journal::verb;
pub(crate) use self::journal::{Journal, Touched};
use self::options::Options;
use crate::api::client::{ApiClient, ApiRequest};
use crate::limits::rate::RateLimiter;
use crate::policy::{PluginPolicy, Visible};
use crate::reads::access::{Read, access};
use crate::reads::cached::CachedReads;
use crate::reads::live::resolve;

/// The longest body of a write in bytes: the API server's own limit.
const MAX_BODY: usize = 3 << 20;
/// The longest options of a write in bytes.
const MAX_OPTIONS: usize = 16 << 10;

/// The writes of one plugin.
pub(crate) struct Writer {
    client: ApiClient,
    discovery: Arc<Discovery>,
    policy: Arc<PluginPolicy>,
    rate: RateLimiter,
    cached: Arc<CachedReads>,
    /// A permit for each request that may be in flight.
    sending: Semaphore,
}

impl Writer {
    pub(crate) fn new(
        client: ApiClient,
        discovery: Arc<Discovery>,
        policy: Arc<PluginPolicy>,
        rate: RateLimiter,
        cached: Arc<CachedReads>,
    ) -> Self {
        Self {
            client,
            discovery,
            policy,
            rate,
            cached,
            sending: Semaphore::new(batch::CONCURRENCY),
        }
    }

    /// The client of the plugin's requests.
    pub(crate) fn client(&self) -> &ApiClient {
        &self.client
    }

    /// The limiter of the writes.
    pub(crate) fn rate(&self) -> &RateLimiter {
        &self.rate
    }

    /// Runs the writes of a batch and returns their results, in order. They are recorded in the journal as they end.
    pub(crate) async fn run(
        &self,
        batch: Batch,
        journal: &Journal,
    ) -> Vec<Result<Bytes, ApiError>> {
        batch::run(
            batch.writes,
            batch.slow_start,
            batch.stop_on_error,
            |write| self.write(write, journal),
        )
        .await
    }

    async fn write(&self, write: Write, journal: &Journal) -> Result<Bytes, ApiError> {
        let kind: Kind = write
            .target
            .kind
            .parse()
            .map_err(|error| ApiError::invalid(format!("{error}")))?;
        let mut name = write.target.name.clone();
        let result = self.try_write(&write, &kind, &mut name).await;
        journal.record(&write, &kind, &name, result.as_ref().map(|_| ()));
        result
    }

    /// Sets `name` to the name that the server assigned, if it did.
    async fn try_write(
        &self,
        write: &Write,
        kind: &Kind,
        name: &mut String,
    ) -> Result<Bytes, ApiError> {
        let target = &write.target;
        let visible = self.check(write, kind)?;
        let returns = self.cached.mask(&write.returns)?;
        if let Some(returns) = &returns {
            visible.check(kind, returns)?;
        }
        let options = Options::parse(&write.options)?;
        let resource = resolve(&self.discovery, kind).await?;
        let call = self.call(write, &resource, &options).await?;
        let call = call.accept(self.form(write, kind, returns.as_deref()));
        self.rate.wait().await;
        let is_delete = matches!(write.operation, Operation::Delete);
        let before = if is_delete {
            self.cached.before(kind, &target.namespace, &target.name)
        } else {
            None
        };
        let answer = {
            let _permit = self.sending.acquire().await;
            ApiResponse::new(self.client.send(call).await?)
        };

        let unreadable = |error: &dyn std::error::Error| {
            let message =
                format!("the server's answer to the write of {kind} can't be read: {error}");
            ApiError::internal(Effect::Unknown, message)
        };
        let seen = if options.is_dry_run() {
            None
        } else {
            self.acknowledge(write, kind, before.as_deref(), &answer)
                .await
        };
        match &seen {
            Some(object) => object.name().clone_into(name),
            None => {
                let told = answer
                    .object_version()
                    .map_err(|error| unreadable(&error))?
                    .name;
                if !told.is_empty() {
                    *name = told;
                }
            }
        }
        let Some(returns) = returns else {
            return Ok(Bytes::new());
        };
        // The object that the plugin sees is smaller than the answer and mostly has all that it asks for. The whole object is
        // the answer itself, which also names its kind.
        let source = match seen
            .as_ref()
            .filter(|object| object.mask().covers(&returns))
        {
            Some(seen) if !returns.is_whole() => seen.bytes(),
            _ => answer.json(&returns).map_err(|error| unreadable(&error))?,
        };
        if returns.is_whole() {
            return Ok(source);
        }
        let mut projected = Vec::new();
        returns
            .prune(&source, &mut projected)
            .map_err(|error| unreadable(&error))?;
        Ok(projected.into())
    }

    /// The one check of a mutation. Returns what the plugin may see of the answer.
    fn check(&self, write: &Write, kind: &Kind) -> Result<Visible, ApiError> {
        check_subresource(write)?;
        check_size(write)?;
        let (verb, subresource) = (verb(&write.operation), write.subresource());
        let namespace = &write.target.namespace;
        self.policy.check(verb, kind, subresource, namespace)?;
        let answer = Read::Answer {
            verb,
            kind,
            subresource,
            namespace,
        };
        let visible = access(&self.policy, answer)?;
        if let Operation::Patch { patch_type, patch } = &write.operation
            && patch_type == "json"
            && self.policy.limits_fields(kind)
        {
            check_json_patch(kind, patch)?;
        }
        Ok(visible)
    }

    /// Returns the `Accept` header of a write: protobuf where the host can read it, and metadata alone where nothing else is
    /// used.
    fn form(&self, write: &Write, kind: &Kind, returns: Option<&Mask>) -> &'static str {
        let subresource = write.subresource();
        let wants_metadata = subresource.is_empty()
            && returns.is_none_or(|returns| Mask::metadata().covers(returns))
            && self.cached.shows_metadata_alone(kind);
        match &write.operation {
            Operation::DeleteCollection { .. } => {
                if wants_metadata {
                    METADATA_LIST
                } else {
                    JSON
                }
            }
            _ if wants_metadata => PROTOBUF_METADATA,
            // Other subresources return other kinds.
            _ if matches!(subresource, "" | "status") && self.cached.reads_protobuf(kind) => {
                PROTOBUF
            }
            _ => JSON,
        }
    }

    /// Adds the write to the overlay. Returns the object as the plugin sees it, if it does.
    async fn acknowledge(
        &self,
        write: &Write,
        kind: &Kind,
        before: Option<&Object>,
        answer: &ApiResponse,
    ) -> Option<Arc<Object>> {
        if matches!(write.operation, Operation::Delete) {
            self.cached
                .deleted(
                    kind,
                    (&write.target.namespace, &write.target.name),
                    before,
                    answer,
                )
                .await;
            return None;
        }
        if answer.is_metadata() || answer.kind() == kind.to_string() {
            self.cached.written(kind, answer).await
        } else {
            None
        }
    }

    async fn call(
        &self,
        write: &Write,
        resource: &ApiResource,
        options: &Options,
    ) -> Result<ApiRequest, ApiError> {
        let target = &write.target;
        let invalid = |error: flyball_cache::PathSegmentError| ApiError::invalid(error.to_string());
        let collection = || resource.collection(&target.namespace).map_err(invalid);
        let object = || {
            resource
                .object(&target.namespace, &target.name, write.subresource())
                .map_err(invalid)
        };
        Ok(match &write.operation {
            Operation::Create { object: body } if target.name.is_empty() => {
                if resource.namespaced && target.namespace.is_empty() {
                    return Err(ApiError::invalid(format!(
                        "can't create a {} without a namespace",
                        resource.kind
                    )));
                }
                ApiRequest::post(options.append(collection()?), body.clone())
            }
            Operation::Create { object: body } => {
                ApiRequest::post(options.append(object()?), body.clone())
            }
            Operation::Update {
                resource_version,
                change,
            } => {
                let body = self
                    .updated(write, resource, resource_version, change)
                    .await?;
                ApiRequest::put(options.append(object()?), body)
            }
            Operation::UpdateStatus {
                resource_version,
                status,
                metadata,
            } => {
                let body = self
                    .with_status(write, resource, resource_version, status, metadata)
                    .await?;
                ApiRequest::put(options.append(object()?), body)
            }
            Operation::Patch { patch_type, patch } => {
                let content_type = match patch_type.as_str() {
                    "json" => "application/json-patch+json",
                    "merge" => "application/merge-patch+json",
                    "strategic" => "application/strategic-merge-patch+json",
                    "apply" => "application/apply-patch+yaml",
                    other => {
                        let known = "`json`, `merge`, `strategic` or `apply`";
                        return Err(ApiError::invalid(format!(
                            "`{other}` is not a type of patch: use {known}"
                        )));
                    }
                };
                ApiRequest::patch(options.append(object()?), content_type, patch.clone())
            }
            Operation::Delete => ApiRequest::delete(object()?, options.delete_body()),
            Operation::DeleteCollection {
                label_selector,
                field_selector,
            } => {
                let mut path = collection()?;
                for (key, selector) in [
                    ("labelSelector", label_selector),
                    ("fieldSelector", field_selector),
                ] {
                    if !selector.is_empty() {
                        flyball_cache::resource::push_parameter(&mut path, key, selector);
                    }
                }
                ApiRequest::delete(path, options.delete_body())
            }
        })
    }

    /// Returns the whole object to PUT for an `update`.
    async fn updated(
        &self,
        write: &Write,
        resource: &ApiResource,
        resource_version: &str,
        change: &[u8],
    ) -> Result<Bytes, ApiError> {
        let kind = &resource.kind;
        let change: Value = serde_json::from_slice(change).map_err(|error| {
            ApiError::invalid(format!("the change of {kind} is not JSON: {error}"))
        })?;
        let base = self.base(write, resource, resource_version).await?;
        let object = merge::updated(&base, change, kind, resource_version)
            .map_err(|error| unreadable(kind, &error))?;
        object.map(Bytes::from).ok_or_else(|| {
            ApiError::invalid(format!(
                "the change of {kind} leaves no object, or an object without metadata"
            ))
        })
    }

    /// Returns the whole object to PUT for an `update-status`.
    async fn with_status(
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

/// `update` and `update-status` each have their own subresources.
fn check_subresource(write: &Write) -> Result<(), ApiError> {
    let subresource = &*write.target.subresource;
    match write.operation {
        Operation::Update { .. } if subresource == "status" => Err(ApiError::invalid(
            "`update` does not write the subresource `status`: use `update-status`",
        )),
        Operation::UpdateStatus { .. } if !subresource.is_empty() => Err(ApiError::invalid(
            format!("`update-status` takes no subresource, and has `{subresource}`"),
        )),
        _ => Ok(()),
    }
}

/// Refuses what the API server would refuse, before the host parses it: a parsed document takes many times its bytes.
fn check_size(write: &Write) -> Result<(), ApiError> {
    let body = match &write.operation {
        Operation::Create { object } => object.len(),
        Operation::Update { change, .. } => change.len(),
        Operation::UpdateStatus {
            status, metadata, ..
        } => status.len() + metadata.len(),
        Operation::Patch { patch, .. } => patch.len(),
        Operation::Delete => 0,
        Operation::DeleteCollection {
            label_selector,
            field_selector,
        } => label_selector.len() + field_selector.len(),
    };
    for (what, bytes, most) in [
        ("body", body, MAX_BODY),
        ("options", write.options.len(), MAX_OPTIONS),
    ] {
        if bytes > most {
            return Err(ApiError::full(format!(
                "the {what} of a write has {bytes} bytes, more than the limit of {most}"
            )));
        }
    }
    Ok(())
}

/// Refuses the operations of a JSON patch that read a field of the object: their effect shows what the field holds.
fn check_json_patch(kind: &Kind, patch: &[u8]) -> Result<(), ApiError> {
    #[derive(serde::Deserialize)]
    struct Step {
        op: String,
    }
    let steps: Vec<Step> = serde_json::from_slice(patch).map_err(|error| {
        ApiError::invalid(format!("the JSON patch of {kind} is malformed: {error}"))
    })?;
    match steps
        .iter()
        .find(|step| !matches!(step.op.as_str(), "add" | "remove" | "replace"))
    {
        None => Ok(()),
        Some(Step { op }) => Err(ApiError::denied(format!(
            "the policy limits the fields that this plugin may read of {kind}, and the operation `{}` of a JSON patch reads \
             others: use `add`, `remove` or `replace`",
            op.escape_debug()
        ))),
    }
}

fn unreadable(kind: &Kind, error: &dyn std::error::Error) -> ApiError {
    ApiError::internal(Effect::None, format!("can't read the {kind}: {error}"))
}

#[cfg(test)]
mod tests;
