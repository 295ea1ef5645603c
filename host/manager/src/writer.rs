//! The one way in which a plugin changes the cluster: grant → rate limiter → the request with the plugin's own credentials,
//! which passes the fence → the overlay of acknowledged writes, which the plugin's next reads see.

mod batch;
mod body;
mod check;
mod journal;
pub(crate) mod merge;
mod options;

use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::source::{JSON, METADATA_LIST, PROTOBUF, PROTOBUF_METADATA};
use flyball_cache::{ApiResource, ApiResponse, Discovery, Object};
use flyball_plugin::{Batch, Budget, Held, Operation, Write};
use flyball_types::{ApiError, Effect, Kind, Mask};
use tokio::sync::Semaphore;

pub(crate) use self::journal::{Journal, Touched};
use self::options::Options;
use crate::api::client::{ApiClient, ApiRequest};
use crate::limits::rate::RateLimiter;
use crate::limits::stop::{StopSignal, Stoppable};
use crate::policy::PluginPolicy;
use crate::reads::cached::CachedReads;
use crate::reads::live::resolve;

/// The most writes of a batch.
const MAX_WRITES: usize = 1000;

/// The writes of one plugin.
pub(crate) struct Writer {
    client: ApiClient,
    discovery: Arc<Discovery>,
    policy: Arc<PluginPolicy>,
    rate: RateLimiter,
    cached: Arc<CachedReads>,
    /// A permit for each request that may be in flight.
    sending: Semaphore,
    /// Counts answers until the guest has them.
    budget: Arc<Budget>,
    stop: Arc<StopSignal>,
}

impl Writer {
    pub(crate) fn new(
        client: ApiClient,
        discovery: Arc<Discovery>,
        policy: Arc<PluginPolicy>,
        rate: RateLimiter,
        cached: Arc<CachedReads>,
        budget: Arc<Budget>,
        stop: Arc<StopSignal>,
    ) -> Self {
        Self {
            client,
            discovery,
            policy,
            rate,
            cached,
            sending: Semaphore::new(batch::CONCURRENCY),
            budget,
            stop,
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
    pub(crate) async fn run(&self, batch: Batch, journal: &Journal) -> Vec<Result<Held, ApiError>> {
        if batch.writes.len() > MAX_WRITES {
            let message = format!(
                "a batch has at most {MAX_WRITES} writes, and this one has {}",
                batch.writes.len()
            );
            let refuse = |_| Err(ApiError::full(message.clone()));
            return batch.writes.iter().map(refuse).collect();
        }
        let begun = self.stop.begin();
        batch::run(
            batch.writes,
            batch.slow_start,
            batch.stop_on_error,
            |write| self.write(write, journal, begun.clone()),
        )
        .await
    }

    async fn write(
        &self,
        write: Write,
        journal: &Journal,
        begun: Stoppable,
    ) -> Result<Held, ApiError> {
        let kind: Kind = write
            .target
            .kind
            .parse()
            .map_err(|error| ApiError::invalid(format!("{error}")))?;
        let mut name = write.target.name.clone();
        let result = self.try_write(&write, &kind, &mut name, begun).await;
        journal.record(&write, &kind, &name, result.as_ref().map(|_| ()));
        result
    }

    /// Sets `name` to the name that the server assigned, if it did.
    async fn try_write(
        &self,
        write: &Write,
        kind: &Kind,
        name: &mut String,
        mut begun: Stoppable,
    ) -> Result<Held, ApiError> {
        let target = &write.target;
        let (options, visible) = self.check(write, kind)?;
        let returns = self.cached.mask(&write.returns)?;
        if let Some(returns) = &returns {
            visible.check(kind, returns)?;
        }
        let resource = resolve(&self.discovery, kind).await?;
        let call = self.call(write, &resource, &options).await?;
        let call = call.accept(self.form(write, kind, returns.as_deref()));
        tokio::select! {
            () = self.rate.wait() => {}
            () = begun.stopped() => return Err(ApiError::stopped()),
        }
        let is_delete = matches!(write.operation, Operation::Delete);
        let before = if is_delete {
            self.cached.before(kind, &target.namespace, &target.name)
        } else {
            None
        };
        let answer = {
            let _permit = self.sending.acquire().await;
            if begun.is_stopped() {
                return Err(ApiError::stopped());
            }
            let sent = self.client.send_held(call.charged_to(&self.budget)).await;
            sent.map_err(|error| visible.refusal(kind, error))?
        };
        let held = answer;
        let answer = ApiResponse::new(held.bytes.clone());

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
            return Ok(Bytes::new().into());
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
            return Ok(held.reduced(source));
        }
        let mut projected = Vec::new();
        returns
            .prune(&source, &mut projected)
            .map_err(|error| unreadable(&error))?;
        Ok(held.reduced(projected.into()))
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
}

#[cfg(test)]
mod tests;
