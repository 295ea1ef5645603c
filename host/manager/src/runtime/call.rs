//! One call of a guest: what answers its imports while it runs, what is committed when it returns, and what must have
//! happened before its key may be reconciled again.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flyball_cache::ApiResource;
use flyball_cache::source::{JSON, METADATA, METADATA_LIST};
use flyball_plugin::{Batch, Imports, LogLevel, MemoEntry, ObjectReference, Page, Read};
use flyball_types::{
    ApiError, Catalogue, DiscoveryFailure, Effect, Mask, Projection, Query, Reference, ServedKind,
    Subresource,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::api::client::ApiRequest;
use crate::api::events::Event;
use crate::runtime::memo::MemoCall;
use crate::runtime::services::{Services, clip};
use crate::writer::{Journal, Touched};

/// How old the list of kinds may be that `discovery.kinds` answers: so little that calls at the same time share a request,
/// and that no kind is missed of which a guest sees objects or consequences.
const DISCOVERY_AGE: Duration = Duration::from_secs(1);
/// Bytes of an event's message that are kept: what the API takes at most.
const EVENT_MESSAGE: usize = 1024;
/// Bytes of each of an event's other texts, which are names.
const EVENT_NAME: usize = 256;
/// How long to wait before the server is asked again for a consistent read.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The parameters that a live list may have.
const LIST_PARAMETERS: [&str; 6] = [
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
];

/// Answers the imports of one call.
pub(crate) struct Call {
    services: Arc<Services>,
    /// The key, for the log.
    key: Arc<str>,
    memo: MemoCall,
    journal: Arc<Journal>,
    /// Writes under way. They go on when the guest is stopped.
    writes: TaskTracker,
}

impl Call {
    /// A call for this key.
    pub(crate) fn new(services: Arc<Services>, key: Arc<str>) -> Arc<Self> {
        let (memo, journal, writes) = (MemoCall::default(), Arc::default(), TaskTracker::new());
        Arc::new(Self {
            services,
            key,
            memo,
            journal,
            writes,
        })
    }

    /// The call returned: what it put into the memo is seen by others.
    pub(crate) fn commit(&self) {
        self.memo.commit(&self.services.memo);
    }

    /// What it wrote, in words; empty if nothing.
    pub(crate) fn summary(&self) -> String {
        self.journal.summary()
    }

    /// The objects that it wrote.
    pub(crate) fn take_touched(&self) -> Vec<Touched> {
        self.journal.take_touched()
    }

    /// Waits until its writes have ended and, where it is not known whether one took effect, until the cache has passed what
    /// the server held when it was asked afterwards: so that the next reconcile of the key sees whatever they did. However
    /// many writes of a kind failed so, each informer of the kind costs one consistent read.
    pub(crate) async fn settle(&self) {
        self.writes.close();
        self.writes.wait().await;
        for kind in self.journal.take_unknown() {
            tracing::warn!(
                controller = self.services.name(), key = &*self.key, %kind,
                "it is not known whether a write took effect: the key waits until the cache has caught up with the server"
            );
            for informer in self.services.views.informers(&kind) {
                let position = loop {
                    match informer.fresh_position().await {
                        Ok(position) => break position,
                        Err(error) => {
                            tracing::debug!(%kind, %error, "the server can't say yet how far it is")
                        }
                    }
                    tokio::time::sleep(ASK_AGAIN).await;
                };
                informer.wait_until(position).await;
            }
        }
    }

    /// Does what needs connections on the host's runtime: the guests' threads drive none. It ends when the guest is stopped.
    fn on_host<T, F>(
        &self,
        work: impl FnOnce(Arc<Services>) -> F,
    ) -> BoxFuture<'static, Result<T, ApiError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ApiError>> + Send + 'static,
    {
        let services = self.services.clone();
        let running =
            AbortOnDropHandle::new(self.services.runtime.spawn(work(self.services.clone())));
        let failed =
            |error| ApiError::internal(Effect::None, format!("the host failed to read: {error}"));
        async move {
            services
                .denials
                .seen(running.await.unwrap_or_else(|error| Err(failed(error))))
        }
        .boxed()
    }
}

fn invalid(error: impl std::fmt::Display) -> ApiError {
    ApiError::invalid(error.to_string())
}

/// Whether all of these fields are metadata, so that the server need not send more.
fn is_metadata(fields: &[String]) -> bool {
    !fields.is_empty() && Mask::parse(fields).is_ok_and(|mask| Mask::metadata().covers(&mask))
}

/// The answer reduced to these fields; whole if there are none.
fn project(answer: Bytes, fields: &[String], is_list: bool) -> Result<Bytes, ApiError> {
    if fields.is_empty() || fields.iter().any(|path| path == ".") {
        return Ok(answer);
    }
    narrow(answer, Some(Mask::parse(fields).map_err(invalid)?), is_list)
}

/// The answer reduced to what the mask covers; whole without one.
fn narrow(answer: Bytes, mask: Option<Mask>, is_list: bool) -> Result<Bytes, ApiError> {
    let Some(mask) = mask else { return Ok(answer) };
    let mut narrowed = Vec::with_capacity(answer.len());
    let pruned = if is_list {
        mask.prune_list(&answer, &mut narrowed)
    } else {
        mask.prune(&answer, &mut narrowed)
    };
    pruned.map_err(|error| {
        let message = format!("the server's answer can't be read: {error}");
        ApiError::internal(Effect::None, message)
    })?;
    Ok(narrowed.into())
}

/// Makes a live read of an object.
async fn live_get(
    services: &Services,
    kind: &str,
    namespace: &str,
    name: &str,
    fields: &[String],
) -> Result<Bytes, ApiError> {
    let resource = services.readable(kind, "get", namespace).await?;
    let path = resource.object(namespace, name, "").map_err(invalid)?;
    let accept = if is_metadata(fields) { METADATA } else { JSON };
    let answer = services
        .client
        .send(ApiRequest::get(path).accept(accept))
        .await?;
    let granted = services.policy.fields("get", &resource.kind, namespace);
    project(narrow(answer, granted, false)?, fields, false)
}

/// Makes a live read of a list.
async fn live_list(
    services: &Services,
    kind: &str,
    namespace: &str,
    parameters: &[(String, String)],
    fields: &[String],
) -> Result<Bytes, ApiError> {
    let resource = services.readable(kind, "list", namespace).await?;
    let path = resource.collection(namespace).map_err(invalid)?;
    let path = with_parameters(path, parameters)?;
    let accept = if is_metadata(fields) {
        METADATA_LIST
    } else {
        JSON
    };
    let answer = services
        .client
        .send(ApiRequest::get(path).accept(accept))
        .await?;
    let granted = services.policy.fields("list", &resource.kind, namespace);
    project(narrow(answer, granted, true)?, fields, true)
}

/// The path of a list with its parameters.
fn with_parameters(mut path: String, parameters: &[(String, String)]) -> Result<String, ApiError> {
    for (name, value) in parameters {
        if !LIST_PARAMETERS.contains(&name.as_str()) {
            return Err(ApiError::invalid(format!(
                "a list has no parameter `{name}`: use {}",
                LIST_PARAMETERS.join(", ")
            )));
        }
        flyball_cache::resource::push_parameter(&mut path, name, value);
    }
    Ok(path)
}

/// Makes a GET of a path.
async fn raw(services: &Services, path: String) -> Result<Bytes, ApiError> {
    services.policy.check_import("raw")?;
    if !path.starts_with('/') || path.contains("..") {
        return Err(ApiError::invalid(format!(
            "`{path}` is not a path of the API server"
        )));
    }
    services.writer.rate.wait().await;
    services.client.send(ApiRequest::get(path)).await
}

/// What the server serves, for a guest.
async fn kinds(services: &Services) -> Result<Catalogue, ApiError> {
    services.policy.check_import("discovery")?;
    let found = services.writer.discovery.catalogue(DISCOVERY_AGE).await;
    let found = found.map_err(|error| ApiError::unreachable(error.to_string()))?;
    let kind = |resource: &Arc<ApiResource>| ServedKind {
        kind: resource.kind.to_string(),
        plural: resource.plural.clone(),
        namespaced: resource.namespaced,
        preferred: resource.preferred,
        verbs: resource.verbs.iter().cloned().collect(),
        subresources: resource
            .subresources
            .iter()
            .map(|subresource| Subresource {
                name: subresource.name.clone(),
                verbs: subresource.verbs.iter().cloned().collect(),
            })
            .collect(),
    };
    let failure = |(group_version, message): &(String, String)| DiscoveryFailure {
        group_version: group_version.clone(),
        message: message.clone(),
    };
    Ok(Catalogue {
        kinds: found.resources.iter().map(kind).collect(),
        failures: found.failed.iter().map(failure).collect(),
    })
}

impl Imports for Call {
    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<Bytes>, ApiError> {
        self.services
            .denials
            .seen(self.services.views.get(kind, namespace, name, fields))
    }

    fn lister_list(
        &self,
        query: &Query,
        projection: &Projection,
        limit: u32,
    ) -> Result<Page, ApiError> {
        self.services
            .denials
            .seen(self.services.views.list(query, projection, limit))
    }

    fn lister_count(&self, query: &Query) -> Result<u32, ApiError> {
        self.services.denials.seen(self.services.views.count(query))
    }

    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool {
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
        } = object.clone();
        kind.parse().is_ok_and(|kind| {
            self.services.views.is_gone(&Reference {
                kind,
                namespace,
                name,
                uid,
            })
        })
    }

    fn reader_read(&self, read: Read) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        self.on_host(|services| async move {
            match read {
                Read::Get {
                    kind,
                    namespace,
                    name,
                    fields,
                } => live_get(&services, &kind, &namespace, &name, &fields).await,
                Read::List {
                    kind,
                    namespace,
                    parameters,
                    fields,
                } => live_list(&services, &kind, &namespace, &parameters, &fields).await,
                Read::Raw { path } => raw(&services, path).await,
            }
        })
    }

    fn discovery_kinds(&self) -> BoxFuture<'_, Result<Catalogue, ApiError>> {
        self.on_host(|services| async move { kinds(&services).await })
    }

    fn writer_run(&self, batch: Batch) -> BoxFuture<'_, Vec<Result<Bytes, ApiError>>> {
        let count = batch.writes.len();
        let (services, journal) = (self.services.clone(), self.journal.clone());
        // On the host's runtime, so that the writes go on when the guest is stopped.
        let run = async move { services.writer.run(batch, &journal).await };
        let running = self.writes.spawn_on(run, &self.services.runtime);
        let services = self.services.clone();
        async move {
            let stopped = || {
                let message = "the host stopped the batch before it had an answer";
                Err(ApiError::timeout(message))
            };
            let results = running.await.unwrap_or_else(|_| vec![stopped(); count]);
            results
                .into_iter()
                .map(|result| services.denials.seen(result))
                .collect()
        }
        .boxed()
    }

    fn events_emit(
        &self,
        about: ObjectReference,
        event_type: &str,
        reason: &str,
        message: &str,
        options: &[u8],
    ) {
        if !self.services.guard.events.pass() {
            return;
        }
        let name = |text: &str| clip(text, EVENT_NAME).to_owned();
        let ObjectReference {
            kind,
            namespace,
            name: object,
            uid,
        } = &about;
        let event = Event {
            about: ObjectReference {
                kind: name(kind),
                namespace: name(namespace),
                name: name(object),
                uid: name(uid),
            },
            event_type: name(event_type),
            reason: name(reason),
            message: clip(message, EVENT_MESSAGE).into(),
            options: self.services.recorder.options(options),
            at: self.clock_now(),
        };
        self.services.recorder.emit(event);
    }

    fn queue_add(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.queue_add_after(queue, key, 0)
    }

    fn queue_add_after(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError> {
        let queue = self.services.queue(queue)?;
        self.services.guard.check_key(queue.held_keys(), key)?;
        queue.add(
            key.into(),
            Duration::from_millis(delay_ms.into()),
            &self.key,
        );
        Ok(())
    }

    fn queue_forget(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.services.queue(queue)?.keys.forget(&Arc::from(key));
        Ok(())
    }

    fn queue_requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError> {
        Ok(self
            .services
            .queue(queue)?
            .keys
            .num_requeues(&Arc::from(key)))
    }

    fn clock_now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random_bytes(&self, buffer: &mut [u8]) {
        rand::fill(buffer);
    }

    fn log_write(&self, level: LogLevel, message: &str, fields: &[(String, String)]) {
        if self.log_enabled(level) && self.services.guard.log_lines.pass() {
            self.services.log(&self.key, level, message, fields);
        }
    }

    fn log_enabled(&self, level: LogLevel) -> bool {
        match level {
            LogLevel::Trace => tracing::enabled!(target: "flyball::guest", tracing::Level::TRACE),
            LogLevel::Debug => tracing::enabled!(target: "flyball::guest", tracing::Level::DEBUG),
            LogLevel::Info => tracing::enabled!(target: "flyball::guest", tracing::Level::INFO),
            LogLevel::Warn => tracing::enabled!(target: "flyball::guest", tracing::Level::WARN),
            LogLevel::Error => tracing::enabled!(target: "flyball::guest", tracing::Level::ERROR),
        }
    }

    fn metrics_add(&self, name: &str, labels: &[String], value: f64) {
        self.services
            .metric(|metrics, labels| metrics.add(name, labels, value), labels);
    }

    fn metrics_set(&self, name: &str, labels: &[String], value: f64) {
        self.services
            .metric(|metrics, labels| metrics.set(name, labels, value), labels);
    }

    fn metrics_observe(&self, name: &str, labels: &[String], value: f64) {
        self.services.metric(
            |metrics, labels| metrics.observe(name, labels, value),
            labels,
        );
    }

    fn config_get(&self, key: &str) -> Option<String> {
        self.services.config(key)
    }

    fn memo_get(&self, key: &str) -> Option<MemoEntry> {
        self.memo.get(&self.services.memo, key)
    }

    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: Bytes,
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError> {
        let put = self.memo.put(
            &self.services.memo,
            key,
            expected,
            value,
            object_uid,
            ttl_ms,
        );
        self.services.guard.note_memo(put)
    }

    fn memo_remove(&self, key: &str) {
        self.memo.remove(&self.services.memo, key);
    }

    fn http(&self, server: &str) -> Result<tokio::runtime::Handle, ApiError> {
        self.services
            .denials
            .seen(self.services.policy.check_server(server))?;
        Ok(self.services.runtime.clone())
    }

    fn signer_sign_jwt(&self, key: &str, claims: &[u8]) -> Result<String, ApiError> {
        self.services
            .denials
            .seen(self.services.signer.sign_jwt(key, claims))
    }

    fn signer_verify_jwt(&self, key: &str, token: &str) -> Result<Bytes, ApiError> {
        self.services
            .denials
            .seen(self.services.signer.verify_jwt(key, token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_of_a_list_are_known_and_escaped() {
        let path = |name: &str, value: &str| {
            with_parameters("/api/v1/pods".into(), &[(name.into(), value.into())])
        };
        assert_eq!(
            path("labelSelector", "a=b&watch=true").unwrap(),
            "/api/v1/pods?labelSelector=a%3Db%26watch%3Dtrue"
        );
        for name in ["watch", "follow", "limit&watch", "Limit", ""] {
            let error = path(name, "1").unwrap_err();
            assert_eq!(error.reason, "Invalid", "{name}");
        }
    }
}
