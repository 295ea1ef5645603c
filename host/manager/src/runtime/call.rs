//! One call of a guest: what answers its imports while it runs, what is committed when it returns, and what must have
//! happened before its key may be reconciled again.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flyball_cache::source::{JSON, METADATA, METADATA_LIST};
use flyball_plugin::{Batch, Imports, Listing, LogLevel, MemoEntry, ObjectReference, Query};
use flyball_types::{ApiError, Mask, Reference};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
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

    /// Waits until its writes have ended and, where one had no answer, until the cache has passed what the server held
    /// when it was asked afterwards: so that the next reconcile of the key sees whatever they did.
    pub(crate) async fn settle(&self) {
        self.writes.close();
        self.writes.wait().await;
        for kind in self.journal.take_unknown() {
            tracing::warn!(
                controller = self.services.name(), key = &*self.key, %kind,
                "a write had no answer: the key waits until the cache has caught up with the server"
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
    fn on_host<F>(
        &self,
        work: impl FnOnce(Arc<Services>) -> F,
    ) -> BoxFuture<'static, Result<Bytes, ApiError>>
    where
        F: Future<Output = Result<Bytes, ApiError>> + Send + 'static,
    {
        let services = self.services.clone();
        let running =
            AbortOnDropHandle::new(self.services.runtime.spawn(work(self.services.clone())));
        let failed = |error| {
            ApiError::new(
                500,
                "InternalError",
                format!("the host failed to read: {error}"),
            )
        };
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
        ApiError::unanswered(format!("the server's answer can't be read: {error}"))
    })?;
    Ok(narrowed.into())
}

impl Imports for Call {
    fn get(
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

    fn list(&self, query: &Query) -> Result<Box<dyn Listing>, ApiError> {
        self.services.denials.seen(self.services.views.list(query))
    }

    fn count(&self, query: &Query) -> Result<u32, ApiError> {
        self.services.denials.seen(self.services.views.count(query))
    }

    fn gone(&self, object: &ObjectReference) -> bool {
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

    fn live_get<'a>(
        &'a self,
        kind: &'a str,
        namespace: &'a str,
        name: &'a str,
        fields: &'a [String],
    ) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        let (kind, namespace, name) = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let accept = if is_metadata(fields) { METADATA } else { JSON };
        let read = self.on_host(move |services| async move {
            let resource = services.readable(&kind, "get", &namespace).await?;
            let path = resource.object(&namespace, &name, "").map_err(invalid)?;
            let answer = services
                .client
                .send(ApiRequest::get(path).accept(accept))
                .await?;
            narrow(
                answer,
                services.policy.fields("get", &resource.kind, &namespace),
                false,
            )
        });
        async move { project(read.await?, fields, false) }.boxed()
    }

    fn live_list<'a>(
        &'a self,
        kind: &'a str,
        namespace: &'a str,
        parameters: &'a [(String, String)],
        fields: &'a [String],
    ) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        let (kind, namespace, parameters) =
            (kind.to_owned(), namespace.to_owned(), parameters.to_vec());
        let accept = if is_metadata(fields) {
            METADATA_LIST
        } else {
            JSON
        };
        let read = self.on_host(move |services| async move {
            let resource = services.readable(&kind, "list", &namespace).await?;
            let mut path = resource.collection(&namespace).map_err(invalid)?;
            for (key, value) in &parameters {
                if key == "watch" || key == "follow" {
                    return Err(ApiError::invalid(format!(
                        "a list takes no parameter `{key}`"
                    )));
                }
                flyball_cache::resource::push_parameter(&mut path, key, value);
            }
            let answer = services
                .client
                .send(ApiRequest::get(path).accept(accept))
                .await?;
            narrow(
                answer,
                services.policy.fields("list", &resource.kind, &namespace),
                true,
            )
        });
        async move { project(read.await?, fields, true) }.boxed()
    }

    fn raw<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        let path = path.to_owned();
        self.on_host(|services| async move {
            services.policy.check_import("raw")?;
            if !path.starts_with('/') || path.contains("..") {
                return Err(ApiError::invalid(format!(
                    "`{path}` is not a path of the API server"
                )));
            }
            services.writer.rate.wait().await;
            services.client.send(ApiRequest::get(path)).await
        })
    }

    fn discover(&self) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        self.on_host(|services| async move {
            services.policy.check_import("discovery")?;
            let catalogue = services.writer.discovery.catalogue(DISCOVERY_AGE).await;
            let catalogue = catalogue.map_err(|error| ApiError::new(0, "Unreachable", error.to_string()))?;
            let kinds: Vec<Value> = catalogue
                .resources
                .iter()
                .map(|resource| {
                    let subresources: BTreeMap<_, _> =
                        resource.subresources.iter().map(|sub| (sub.name.as_str(), &sub.verbs)).collect();
                    json!({
                        "kind": resource.kind, "plural": resource.plural, "namespaced": resource.namespaced,
                        "verbs": resource.verbs, "subresources": subresources, "preferred": resource.preferred,
                    })
                })
                .collect();
            let failed: Vec<Value> = catalogue
                .failed
                .iter()
                .map(|(group_version, message)| json!({"groupVersion": group_version, "message": message}))
                .collect();
            Ok(Bytes::from(json!({"kinds": kinds, "failed": failed}).to_string()))
        })
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Vec<Result<Bytes, ApiError>>> {
        let count = batch.writes.len();
        let (services, journal) = (self.services.clone(), self.journal.clone());
        // On the host's runtime, so that the writes go on when the guest is stopped.
        let run = async move { services.writer.run(batch, &journal).await };
        let running = self.writes.spawn_on(run, &self.services.runtime);
        let services = self.services.clone();
        async move {
            let answers = running.await.unwrap_or_else(|_| {
                vec![
                    Err(ApiError::unanswered(
                        "the host stopped the batch before it had an answer"
                    ));
                    count
                ]
            });
            answers
                .into_iter()
                .map(|answer| services.denials.seen(answer))
                .collect()
        }
        .boxed()
    }

    fn emit_event(&self, about: ObjectReference, event_type: &str, reason: &str, message: &str) {
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
            at: self.now(),
        };
        self.services.recorder.emit(event);
    }

    fn enqueue(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError> {
        let queue = self.services.queue(queue)?;
        self.services.guard.check_key(queue.held_keys(), key)?;
        queue.add(
            key.into(),
            Duration::from_millis(delay_ms.into()),
            &self.key,
        );
        Ok(())
    }

    fn forget(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.services.queue(queue)?.keys.forget(&Arc::from(key));
        Ok(())
    }

    fn requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError> {
        Ok(self
            .services
            .queue(queue)?
            .keys
            .num_requeues(&Arc::from(key)))
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self, buffer: &mut [u8]) {
        rand::fill(buffer);
    }

    fn log(&self, level: LogLevel, message: &str, fields: &[(String, String)]) {
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

    fn metric_add(&self, name: &str, labels: &[String], value: f64) {
        self.services
            .metric(|metrics, labels| metrics.add(name, labels, value), labels);
    }

    fn metric_set(&self, name: &str, labels: &[String], value: f64) {
        self.services
            .metric(|metrics, labels| metrics.set(name, labels, value), labels);
    }

    fn metric_observe(&self, name: &str, labels: &[String], value: f64) {
        self.services.metric(
            |metrics, labels| metrics.observe(name, labels, value),
            labels,
        );
    }

    fn config(&self, key: &str) -> Option<String> {
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

    fn sign_jwt(&self, key: &str, claims: &[u8]) -> Result<String, ApiError> {
        self.services
            .denials
            .seen(self.services.signer.sign_jwt(key, claims))
    }

    fn verify_jwt(&self, key: &str, token: &str) -> Result<Bytes, ApiError> {
        self.services
            .denials
            .seen(self.services.signer.verify_jwt(key, token))
    }

    fn sign_certificate(
        &self,
        key: &str,
        _request: &str,
        _options: &str,
    ) -> Result<String, ApiError> {
        self.services
            .denials
            .seen(self.services.signer.sign_certificate(key))
    }

    fn trust_bundle(&self, key: &str) -> Result<String, ApiError> {
        self.services
            .denials
            .seen(self.services.signer.trust_bundle(key))
    }
}
