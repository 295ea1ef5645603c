//! One call of a guest: implements its imports while it runs, commits its memo when it returns, and waits for its
//! writes before its key may be reconciled again.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flyball_api::events::Event;
use flyball_cache::Informer;
use flyball_plugin::{
    Allowance, Batch, CertificateTemplate, Charge, CloudCall, CloudError, Held, HttpGrant, Imports,
    LogLevel, MemoEntry, Metered, ObjectReference, Page, Read,
};
use flyball_policy::imports::MayCallCloud;
use flyball_reads::live::catalogue;
use flyball_signer::{SigningKeys, metered};
use flyball_traces::{Span, within};
use flyball_types::{ApiError, Catalogue, Effect, Kind, Projection, Query, Reference, error_chain};
use flyball_writer::{Journal, Touched};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::timeout;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Instrument;

use crate::context::{PluginContext, Settings};
use crate::memo::MemoCall;
use crate::queue::Cause;
use crate::telemetry::{clip, log_guest};
use crate::traces::CallTrace;

/// The longest of an event's other texts in bytes. They are names.
const EVENT_NAME: usize = 256;
/// The pause before a consistent read is retried.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Implements the imports of one guest call.
pub struct GuestCall {
    context: Arc<PluginContext>,
    /// The key that is reconciled, or the name of another call.
    key: Arc<str>,
    /// The cause of the keys that the call enqueues.
    cause: Cause,
    trace: CallTrace,
    memo: MemoCall,
    journal: Arc<Journal>,
    /// The writes in flight. They go on when the guest is stopped.
    writes: TaskTracker,
}

impl GuestCall {
    /// A call for `key`. `cause` is the cause of the keys that it enqueues, and has the trace of the call.
    pub fn new(context: Arc<PluginContext>, key: Arc<str>, cause: impl Into<Cause>) -> Arc<Self> {
        let cause = cause.into();
        let trace = CallTrace::new(cause.trace.clone());
        let memo = MemoCall::new(context.memo.clone());
        let journal = Journal::counted_by(context.telemetry.counters.clone());
        let writes = TaskTracker::new();
        Arc::new(Self {
            context,
            key,
            cause,
            trace,
            memo,
            journal: Arc::new(journal),
            writes,
        })
    }

    pub(crate) fn context(&self) -> &PluginContext {
        &self.context
    }

    /// Commits the changes of the memo, because the call returned.
    pub fn commit(&self) {
        self.memo.commit();
    }

    /// Describes the writes in words; empty if there were none.
    pub fn summary(&self) -> String {
        self.journal.summary()
    }

    /// Returns the number of its writes.
    pub(crate) fn writes(&self) -> u64 {
        self.journal.count()
    }

    /// Whether a write was not sent because the API server could not be reached.
    pub fn has_lost_server(&self) -> bool {
        self.journal.has_lost_server()
    }

    /// Returns the objects that it wrote.
    pub fn take_touched(&self) -> Vec<Touched> {
        self.journal.take_touched()
    }

    /// Returns the number of calls of the host that are traced.
    pub(crate) fn host_calls(&self) -> u32 {
        self.trace.host_calls()
    }

    /// Waits until its writes have ended, and until the key's next reconcile sees their effects. The overlay has most of
    /// them. Where it is unknown whether a write took effect, or where its answer is not the written object, waits until
    /// the cache has passed the version of a consistent read. This costs one read for each informer of the kind, whatever
    /// the number of such writes. If they all changed the same object, it is that object's version, which the cache reaches
    /// sooner.
    pub async fn wait_for_writes(&self) {
        self.writes.close();
        self.writes.wait().await;
        let unknown = self.journal.take_unknown();
        for kind in &unknown {
            if self.context.limits.log_lines.pass() {
                tracing::warn!(
                    %kind,
                    "it is not known whether a write took effect: the key waits until the cache has caught up with the server"
                );
            }
        }
        let mut unseen = self.journal.take_unseen();
        unseen.extend(unknown.into_iter().map(|kind| (kind, None)));
        for (kind, object) in &unseen {
            self.wait_for_cache(kind, object.as_ref()).await;
        }
    }

    /// Waits until the plugin's caches of a kind have caught up with the server, or only with one object, given by its
    /// namespace and its name. A kind that is no longer served is not waited for: its caches receive nothing more.
    async fn wait_for_cache(&self, kind: &Kind, object: Option<&(String, String)>) {
        for informer in self.context.reads.cached.informers(kind) {
            let of_object = match object {
                Some((namespace, name)) => informer.fresh_version_of(namespace, name).await.ok(),
                None => None,
            };
            let position = match of_object {
                Some(version) => Some(version),
                None => self.fresh_position(kind, &informer).await,
            };
            let Some(position) = position else {
                continue;
            };
            let caught_up = informer.wait_until(position);
            tokio::pin!(caught_up);
            while timeout(ASK_AGAIN, &mut caught_up).await.is_err() {
                if informer.is_kind_missing() {
                    break;
                }
            }
        }
    }

    /// Asks the server for the version of a consistent read until it answers; none if it no longer serves the kind.
    async fn fresh_position(&self, kind: &Kind, informer: &Informer) -> Option<u64> {
        let mut has_failed = false;
        loop {
            match informer.fresh_position().await {
                Ok(position) => return Some(position),
                Err(_) if informer.is_kind_missing() => return None,
                Err(error) if !has_failed && self.context.limits.log_lines.pass() => {
                    tracing::warn!(
                        %kind,
                        error = %error_chain(&error),
                        "can't list the kind to learn how far the cache is behind: the key waits until a list succeeds"
                    )
                }
                Err(error) => {
                    tracing::debug!(%kind, %error, "the server can't say yet how far it is")
                }
            }
            has_failed = true;
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Fails if the plugin has ended. Its calls may continue for a moment, but start nothing.
    fn check_running(&self) -> Result<(), ApiError> {
        if self.context.limits.stop.has_ended() {
            return Err(ApiError::stopped());
        }
        Ok(())
    }

    fn may_call_cloud(&self) -> Result<MayCallCloud, CloudError> {
        let running = self.check_running();
        running.map_err(|error| CloudError::unavailable(error.message))?;
        let granted = self.settings().policy.may_call_cloud();
        let granted = self.context.telemetry.incidents.report_denial(granted);
        granted.map_err(|error| CloudError::denied(error.message))
    }

    fn settings(&self) -> &Settings {
        &self.context.settings
    }

    /// Runs work with the host's keys, if it is granted, on a thread that may block, one at a time for each plugin. It
    /// goes on if the guest is stopped.
    fn signing<G: Send + 'static, T: Send + 'static>(
        &self,
        granted: Result<G, ApiError>,
        work: impl FnOnce(&SigningKeys, G) -> Result<T, ApiError> + Send + 'static,
    ) -> BoxFuture<'static, Metered<T>> {
        let context = self.context.clone();
        let span = self.trace.host_call("signer");
        let failed =
            |error| ApiError::internal(Effect::None, format!("the host failed to sign: {error}"));
        async move {
            let _span = span;
            let mut done = match granted {
                Err(error) => metered(|| Err(error)),
                Ok(granted) => {
                    let (turn, keys) = (context.signing_keys.turn().await, context.clone());
                    let work = move || {
                        let _turn = turn;
                        metered(|| work(&keys.signing_keys, granted))
                    };
                    let running = context.runtime.spawn_blocking(work).await;
                    running.unwrap_or_else(|error| metered(|| Err(failed(error))))
                }
            };
            done.result = context.telemetry.incidents.report_denial(done.result);
            done
        }
        .boxed()
    }

    /// Runs work that needs connections on the host's runtime, because the guests' threads drive no I/O. It ends when
    /// the guest is stopped. Its requests are parts of the span.
    fn on_host<T, F>(
        &self,
        span: Span,
        work: impl FnOnce(Arc<PluginContext>) -> F,
    ) -> BoxFuture<'static, Result<T, ApiError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ApiError>> + Send + 'static,
    {
        let context = self.context.clone();
        let trace = self.trace.of_requests(&span);
        let work = within(trace, work(self.context.clone())).in_current_span();
        let running = AbortOnDropHandle::new(self.context.runtime.spawn(work));
        let failed =
            |error| ApiError::internal(Effect::None, format!("the host failed to read: {error}"));
        async move {
            let _span = span;
            context
                .telemetry
                .incidents
                .report_denial(running.await.unwrap_or_else(|error| Err(failed(error))))
        }
        .boxed()
    }
}

impl Imports for GuestCall {
    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<Bytes>, ApiError> {
        let mut span = self.trace.host_call("lister.get");
        span.set("k8s.object.kind", || kind.to_owned());
        span.set("k8s.object.name", || name.to_owned());
        self.context
            .telemetry
            .incidents
            .report_denial(self.context.reads.cached.get(kind, namespace, name, fields))
    }

    fn lister_list(
        &self,
        query: &Query,
        projection: &Projection,
        limit: u32,
        allowance: &Allowance,
    ) -> Result<Page, ApiError> {
        let mut span = self.trace.host_call("lister.list");
        span.set("k8s.object.kind", || query.kind.clone());
        let cached = &self.context.reads.cached;
        let page = cached.list(query, projection, limit, allowance);
        self.context.telemetry.incidents.report_denial(page)
    }

    fn lister_count(&self, query: &Query, allowance: &Allowance) -> Result<u32, ApiError> {
        let mut span = self.trace.host_call("lister.count");
        span.set("k8s.object.kind", || query.kind.clone());
        let count = self.context.reads.cached.count(query, allowance);
        self.context.telemetry.incidents.report_denial(count)
    }

    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool {
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
        } = object.clone();
        kind.parse().is_ok_and(|kind| {
            self.context.reads.cached.is_deletion_observed(&Reference {
                kind,
                namespace,
                name,
                uid,
            })
        })
    }

    fn reader_read(
        &self,
        read: Read,
        allowance: Allowance,
    ) -> BoxFuture<'_, Result<Held, ApiError>> {
        async move {
            self.check_running()?;
            let prepared = self.context.reads.live.prepare(read);
            let read = self.context.telemetry.incidents.report_denial(prepared)?;
            let span = self.trace.host_call("reader.read");
            let fetched = self.on_host(span, |context| async move {
                context.reads.live.fetch(read).await
            });
            fetched.await?.reduce(&allowance)
        }
        .boxed()
    }

    fn discovery_kinds(&self) -> BoxFuture<'_, Result<Catalogue, ApiError>> {
        async move {
            let granted = self.settings().policy.may_discover();
            let granted = self.context.telemetry.incidents.report_denial(granted)?;
            let span = self.trace.host_call("discovery.kinds");
            let kinds = self.on_host(span, |context| async move {
                context.reads.live.kinds(granted).await
            });
            Ok(catalogue(&*kinds.await?))
        }
        .boxed()
    }

    fn writer_run(
        &self,
        batch: Batch,
        charge: Charge,
        allowance: Allowance,
    ) -> BoxFuture<'_, Vec<Result<Held, ApiError>>> {
        let count = batch.writes.len();
        let mut span = self.trace.host_call("writer.run");
        span.set("flyball.writes", || count as i64);
        let trace = self.trace.of_requests(&span);
        let (context, journal) = (self.context.clone(), self.journal.clone());
        async move {
            let prepared = match self.context.writer.prepare(batch, &allowance).await {
                Ok(prepared) => prepared,
                Err(error) => return (0..count).map(|_| Err(error.clone())).collect(),
            };
            // On the host's runtime, so that the writes go on when the guest is stopped. Boxed, because tokio copies a
            // task's future when it starts and when it ends.
            let run = Box::pin(async move {
                let (_charge, _span) = (charge, span);
                within(trace, context.writer.run(prepared, &journal)).await
            });
            let running = self
                .writes
                .spawn_on(run.in_current_span(), &self.context.runtime);
            let stopped = || {
                let message = "the host stopped the batch before it had an answer";
                Err(ApiError::timeout(message))
            };
            let results = running.await;
            let results = results.unwrap_or_else(|_| (0..count).map(|_| stopped()).collect());
            results
                .into_iter()
                .map(|result| self.context.telemetry.incidents.report_denial(result))
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
        if !self.context.limits.events.pass() {
            return;
        }
        let mut span = self.trace.host_call("events.emit");
        span.set("k8s.event.reason", || clip(reason, EVENT_NAME).to_owned());
        let name = |text: &str| clip(text, EVENT_NAME).to_owned();
        let ObjectReference {
            kind,
            namespace,
            name: object,
            uid,
        } = &about;
        let granted = kind
            .parse()
            .map_err(|error| ApiError::invalid(format!("{error}")))
            .and_then(|kind| self.settings().policy.may_record(&kind, namespace));
        let Ok(granted) = self.context.telemetry.incidents.report_denial(granted) else {
            return;
        };
        let event = Event {
            about: ObjectReference {
                kind: name(kind),
                namespace: name(namespace),
                name: name(object),
                uid: name(uid),
            },
            event_type: name(event_type),
            reason: name(reason),
            message: clip(message, self.context.limits.event_message).into(),
            options: self.context.telemetry.recorder.options(options),
            at: self.clock_now(),
        };
        self.context.telemetry.recorder.emit(&granted, event);
    }

    fn queue_add(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.queue_add_after(queue, key, 0)
    }

    fn queue_add_after(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError> {
        let queue = self.context.queue(queue)?;
        let held = || self.context.held_keys();
        self.context.limits.check_key(key, held)?;
        let delay = Duration::from_millis(delay_ms.into());
        queue.add(key.into(), delay, self.cause.clone());
        Ok(())
    }

    fn queue_forget(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.context.queue(queue)?.keys.forget(&Arc::from(key));
        Ok(())
    }

    fn queue_requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError> {
        Ok(self
            .context
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
        if !self.log_enabled(level) {
            return;
        }
        let lines = &self.context.limits.log_lines;
        let Some(credentials) = &self.context.credentials else {
            return log_guest(lines, level, message, fields);
        };
        let field = |(name, value): &(String, String)| {
            (name.clone(), credentials.redact(value).into_owned())
        };
        let fields: Vec<_> = fields.iter().map(field).collect();
        log_guest(lines, level, &credentials.redact(message), &fields);
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
        self.context
            .telemetry
            .metrics
            .update(|metrics, labels| metrics.add(name, labels, value), labels);
    }

    fn metrics_set(&self, name: &str, labels: &[String], value: f64) {
        self.context.telemetry.metrics.update(
            |metrics, labels| metrics.set(name, labels, &self.key, value),
            labels,
        );
    }

    fn metrics_observe(&self, name: &str, labels: &[String], value: f64) {
        self.context.telemetry.metrics.update(
            |metrics, labels| metrics.observe(name, labels, value),
            labels,
        );
    }

    fn config_get(&self, key: &str) -> Option<String> {
        self.context.settings.config(key)
    }

    fn memo_get(&self, key: &str) -> Option<MemoEntry> {
        self.memo.get(key)
    }

    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: Bytes,
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError> {
        let put = self.memo.put(key, expected, value, object_uid, ttl_ms);
        self.context.limits.note_memo(put)
    }

    fn memo_remove(&self, key: &str) {
        self.memo.remove(key);
    }

    fn cloud_capabilities(&self) -> BoxFuture<'_, Result<Vec<u8>, CloudError>> {
        async move {
            let granted = self.may_call_cloud()?;
            let span = self.trace.host_call("cloud.capabilities");
            let capabilities = self.context.clouds.capabilities(&granted);
            let capabilities = within(self.trace.of_requests(&span), capabilities).await?;
            Ok(capabilities.into())
        }
        .boxed()
    }

    fn cloud_call(&self, call: CloudCall) -> BoxFuture<'_, Result<Vec<u8>, CloudError>> {
        async move {
            let granted = self.may_call_cloud()?;
            let fence = self.context.writer.client().check_fence();
            fence.map_err(|error| CloudError::fenced(error.message))?;
            let span = self.trace.host_call("cloud.call");
            let called = self.context.clouds.call(&granted, call);
            within(self.trace.of_requests(&span), called).await
        }
        .boxed()
    }

    fn credential(&self, name: &str) -> Option<Bytes> {
        self.check_running().ok()?;
        self.context.credentials.as_ref()?.get(name)
    }

    fn http(&self, server: &str) -> Result<HttpGrant, ApiError> {
        self.check_running()?;
        let context = self.context.clone();
        let incidents = &context.telemetry.incidents;
        let reach = incidents.report_denial(context.settings.policy.check_server(server))?;
        Ok(HttpGrant {
            runtime: context.runtime.clone(),
            check_addresses: Box::new(move |addresses| {
                context
                    .telemetry
                    .incidents
                    .report_denial(reach.check(addresses))
            }),
        })
    }

    fn signer_sign_jwt(&self, key: String, claims: Vec<u8>) -> BoxFuture<'_, Metered<String>> {
        let granted = self
            .check_running()
            .and_then(|()| self.settings().policy.may_use_key(&key));
        self.signing(granted, move |keys, key| keys.sign_jwt(&key, &claims))
    }

    fn signer_verify_jwt(&self, key: String, token: String) -> BoxFuture<'_, Metered<Vec<u8>>> {
        let granted = self.settings().policy.may_use_key(&key);
        self.signing(granted, move |keys, key| keys.verify_jwt(&key, &token))
    }

    fn signer_certificate_authority(&self, signer: String) -> BoxFuture<'_, Metered<Vec<Vec<u8>>>> {
        let granted = self.settings().policy.may_use_signer(&signer);
        self.signing(granted, move |keys, signer| {
            keys.certificate_authority(&signer)
        })
    }

    fn signer_sign_certificate(
        &self,
        signer: String,
        template: CertificateTemplate,
    ) -> BoxFuture<'_, Metered<Vec<u8>>> {
        let granted = self
            .check_running()
            .and_then(|()| self.settings().policy.may_use_signer(&signer));
        self.signing(granted, move |keys, signer| {
            keys.sign_certificate(&signer, &template)
        })
    }
}
