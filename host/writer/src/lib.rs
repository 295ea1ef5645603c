//! The one way in which a plugin changes the cluster: grant → rate limiter → the request with the plugin's own
//! credentials, which passes the fence → the overlay of acknowledged writes, which the plugin's next reads see.
//!
//! [`Writer::prepare`] does the work that needs no request, on the thread of the guest and as a part of its call. The
//! requests run on the host's runtime, so that they outlive the call.

mod answer;
mod batch;
mod body;
mod check;
mod journal;
pub mod merge;
mod options;
mod span;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::client::{ApiClient, ApiRequest};
use flyball_api::warnings::Warnings;
use flyball_cache::source::{JSON, METADATA_LIST, PROTOBUF, PROTOBUF_METADATA};
use flyball_cache::{ApiResource, ApiResponse};
use flyball_limits::rate::RateLimiter;
use flyball_limits::stop::{StopSignal, Stoppable};
use flyball_plugin::{Allowance, Batch, Budget, Held, Operation, Quota, Write};
use flyball_policy::PluginPolicy;
use flyball_policy::access::MayWrite;
use flyball_reads::cached::CachedReads;
use flyball_reads::discovery::{DISCOVERY_AGE, PluginDiscovery};
use flyball_traces::within;
use flyball_types::{ApiError, Kind, Mask, printable};
use http::Method;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use self::answer::Acknowledged;
pub use self::journal::{Journal, Touched};
use self::options::Options;
use self::span::WriteSpan;

/// The most writes of a batch.
const MAX_WRITES: usize = 1000;
/// For how long writes are prepared before other tasks may run.
const PREPARING: Duration = Duration::from_millis(1);
/// The target of the lines with the API server's warnings.
const WARNINGS: &str = "flyball::warning";
/// How many warnings about one write are logged. A plugin chooses the names of unknown fields.
const MAX_WARNINGS: usize = 4;

/// The writes of one plugin.
pub struct Writer {
    client: ApiClient,
    discovery: Arc<PluginDiscovery>,
    policy: Arc<PluginPolicy>,
    rate: RateLimiter,
    cached: Arc<CachedReads>,
    /// A permit for each request that may be in flight.
    sending: Semaphore,
    /// Counts answers until the guest has them.
    budget: Arc<Budget>,
    stop: Arc<StopSignal>,
    /// Charged for merges and for reading answers.
    quota: Option<Quota>,
    /// Whether the server's warnings are logged as warnings, and not for debugging alone.
    shows_warnings: bool,
}

/// A batch whose writes are checked.
pub struct PreparedBatch {
    /// Drawn from by large merges.
    allowance: Allowance,
    writes: Vec<Result<PreparedWrite, ApiError>>,
    slow_start: Option<u32>,
    stop_on_error: bool,
}

struct PreparedWrite {
    write: Write,
    checked: Result<Checked, ApiError>,
}

/// What is known of a write when it ends.
struct Written {
    /// The object's name; empty if the server was to assign it and has not answered.
    name: String,
    /// Whether it was acknowledged, and the plugin's next read does not show it yet.
    is_unseen: bool,
}

/// A write that the plugin may try.
struct Checked {
    kind: Kind,
    options: Options,
    may_write: MayWrite,
    /// The part of the answer that the plugin asks for; nothing if none.
    returns: Option<Arc<Mask>>,
}

impl Writer {
    pub fn new(
        client: ApiClient,
        discovery: Arc<PluginDiscovery>,
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
            sending: Semaphore::new(rate.in_flight()),
            rate,
            cached,
            budget,
            stop,
            quota: None,
            shows_warnings: true,
        }
    }

    /// Charges the plugin's CPU quota, if it has one, for merges and for reading answers.
    pub fn charged_to(self, quota: Option<Quota>) -> Self {
        Self { quota, ..self }
    }

    /// Logs the server's warnings for debugging alone. kube-controller-manager logs none at all: its controllers are
    /// tested with the server's version, and write kinds that are deprecated.
    pub fn hiding_warnings(self, hides: bool) -> Self {
        Self {
            shows_warnings: !hides,
            ..self
        }
    }

    /// The client of the plugin's requests.
    pub fn client(&self) -> &ApiClient {
        &self.client
    }

    /// The limiter of the writes.
    pub fn rate(&self) -> &RateLimiter {
        &self.rate
    }

    /// Checks the writes of a batch. Fails, for all of them, if there are too many.
    pub async fn prepare(
        &self,
        batch: Batch,
        allowance: &Allowance,
    ) -> Result<PreparedBatch, ApiError> {
        let count = batch.writes.len();
        if count > MAX_WRITES {
            return Err(ApiError::full(format!(
                "a batch has at most {MAX_WRITES} writes, and this one has {count}"
            )));
        }
        let (mut writes, mut since) = (Vec::with_capacity(count), Instant::now());
        for write in allowance.each(batch.writes) {
            writes.push(write?.map(|write| {
                let checked = self.checked(&write);
                PreparedWrite { write, checked }
            }));
            if since.elapsed() > PREPARING {
                tokio::task::yield_now().await;
                since = Instant::now();
            }
        }
        Ok(PreparedBatch {
            allowance: allowance.clone(),
            writes,
            slow_start: batch.slow_start,
            stop_on_error: batch.stop_on_error,
        })
    }

    fn checked(&self, write: &Write) -> Result<Checked, ApiError> {
        let kind = &kind(write)?;
        let (options, may_write) = self.check(write, kind)?;
        let returns = self.cached.mask(&write.returns)?;
        if let Some(returns) = &returns {
            may_write.visible().check(kind, returns)?;
        }
        Ok(Checked {
            kind: kind.clone(),
            options,
            may_write,
            returns,
        })
    }

    /// Runs the writes of a batch and returns their results, in order. They are recorded in the journal as they end.
    pub async fn run(
        &self,
        batch: PreparedBatch,
        journal: &Journal,
    ) -> Vec<Result<Held, ApiError>> {
        let (begun, allowance) = (self.stop.begin(), &batch.allowance);
        batch::run(
            batch.writes,
            batch.slow_start,
            batch.stop_on_error,
            self.rate.in_flight(),
            |write| self.write(write, journal, begun.clone(), allowance),
        )
        .await
    }

    async fn write(
        &self,
        prepared: Result<PreparedWrite, ApiError>,
        journal: &Journal,
        begun: Stoppable,
        allowance: &Allowance,
    ) -> Result<Held, ApiError> {
        let PreparedWrite { write, checked } = prepared?;
        let kind = kind(&write)?;
        let mut written = Written {
            name: write.target.name.clone(),
            is_unseen: false,
        };
        let mut span = WriteSpan::begin(&write, &kind);
        let result = match &checked {
            Ok(checked) => {
                let trace = span.trace();
                let running =
                    self.try_write(&write, checked, &mut written, begun, allowance, &mut span);
                within(trace, running).await
            }
            Err(error) => Err(error.clone()),
        };
        span.end(&written.name, result.as_ref().err());
        journal.record(&write, &kind, &written.name, result.as_ref().map(|_| ()));
        if written.is_unseen {
            journal.record_unseen(&kind, changed_object(&write, &written.name));
        }
        result
    }

    /// Waits until a request may start: the CPU quota is not overdrawn, and the rate limiter gives the request a token.
    /// Returns how long it waited for the token.
    async fn wait_for_token(&self, begun: &mut Stoppable) -> Result<Duration, ApiError> {
        let may_start = async {
            if let Some(quota) = &self.quota {
                quota.wait().await;
            }
            self.rate.wait().await
        };
        tokio::select! {
            waited = may_start => Ok(waited),
            () = begun.stopped() => Err(ApiError::stopped()),
        }
    }

    /// Waits until fewer requests are in flight.
    async fn wait_to_send(&self, begun: &mut Stoppable) -> Result<SemaphorePermit<'_>, ApiError> {
        tokio::select! {
            permit = self.sending.acquire() => permit.map_err(|_| ApiError::stopped()),
            () = begun.stopped() => Err(ApiError::stopped()),
        }
    }

    /// Fills in `written` from the server's answer.
    async fn try_write(
        &self,
        write: &Write,
        checked: &Checked,
        written: &mut Written,
        mut begun: Stoppable,
        allowance: &Allowance,
        span: &mut WriteSpan,
    ) -> Result<Held, ApiError> {
        let target = &write.target;
        let Checked {
            kind,
            options,
            may_write,
            returns,
        } = checked;
        let waited = self.wait_for_token(&mut begun).await?;
        span.waited(waited);
        let resource = self.discovery.resolve(kind).await?;
        self.check_served(write, &resource).await?;
        let call = self
            .call(write, &resource, checked, &mut begun, allowance)
            .await?;
        let call = call.accept(self.form(write, kind, returns.as_deref()));
        let is_delete = matches!(write.operation, Operation::Delete);
        let before = if is_delete {
            self.cached.before(kind, &target.namespace, &target.name)
        } else {
            None
        };
        let warnings = Warnings::default();
        let answer = {
            let _permit = self.wait_to_send(&mut begun).await?;
            let call = call.charged_to(&self.budget).unless_stopped(&begun);
            let call = call.after_wait(waited).warning_to(&warnings);
            if !options.is_dry_run() {
                span.sending(write, kind);
            }
            let sent = self.client.send_held(call).await;
            self.log_warnings(&warnings.take(), write, kind);
            sent.map_err(|error| may_write.visible().refusal(kind, error))?
        };
        let told = ApiResponse::new(answer.bytes.clone());
        span.acknowledged(&told, before.as_deref());
        let acknowledged = Acknowledged {
            cached: self.cached.clone(),
            kind: kind.clone(),
            subresource: write.subresource().to_owned(),
            deleted: is_delete.then(|| (target.namespace.clone(), target.name.clone())),
            before,
            answer: told,
            is_dry_run: options.is_dry_run(),
            returns: returns.clone(),
        };
        let told = self.read(acknowledged, answer.bytes.len()).await?;
        if let Some(name) = told.name {
            written.name = name;
        }
        written.is_unseen = told.is_unseen;
        Ok(answer.reduced(told.returned))
    }

    /// Logs the server's warnings about a write, for example about fields that it dropped.
    fn log_warnings(&self, warnings: &[String], write: &Write, kind: &Kind) {
        // Without the object's name, so that the log counts the same warning about many objects.
        let write = journal::what(write, kind);
        for warning in warnings.iter().take(MAX_WARNINGS) {
            let warning = printable(warning);
            if self.shows_warnings {
                tracing::warn!(target: WARNINGS, write, "the API server warns: {warning}");
            } else {
                tracing::debug!(target: WARNINGS, write, "the API server warns: {warning}");
            }
        }
        let more = warnings.len().saturating_sub(MAX_WARNINGS);
        if more > 0 && self.shows_warnings {
            tracing::warn!(target: WARNINGS, write, "the API server has {more} further warnings");
        }
    }

    /// Returns the `Accept` header of a write: protobuf where the host can read it, and metadata alone where nothing
    /// else is used.
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

    /// Fails if the kind has no such subresource. Below a namespace, its path would be the path of another kind.
    async fn check_served(&self, write: &Write, resource: &ApiResource) -> Result<(), ApiError> {
        let name = write.subresource();
        let is_served = |resource: &ApiResource| {
            let mut subresources = resource.subresources.iter();
            subresources.any(|subresource| subresource.name == name)
        };
        // The API server never takes `status` for a kind.
        if matches!(name, "" | "status") || is_served(resource) {
            return Ok(());
        }
        // It may have just been added.
        let fresh = self.discovery.catalogue(DISCOVERY_AGE).await;
        let fresh = fresh.map_err(|error| ApiError::unreachable(error.to_string()))?;
        let mut resources = fresh.resources.iter();
        match resources.any(|found| found.kind == resource.kind && is_served(found)) {
            true => Ok(()),
            false => Err(ApiError::invalid(format!(
                "{} has no subresource `{}`",
                resource.kind,
                printable(name)
            ))),
        }
    }

    async fn call(
        &self,
        write: &Write,
        resource: &ApiResource,
        checked: &Checked,
        begun: &mut Stoppable,
        allowance: &Allowance,
    ) -> Result<ApiRequest, ApiError> {
        let (target, options) = (&write.target, &checked.options);
        let request =
            |method, path, body| ApiRequest::write(method, path, body, &checked.may_write);
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
                request(Method::POST, options.append(collection()?), body.clone())
            }
            Operation::Create { object: body } => {
                request(Method::POST, options.append(object()?), body.clone())
            }
            Operation::Update {
                resource_version,
                change,
            } => {
                let base = self
                    .base_of_update(write, resource, resource_version, begun)
                    .await?;
                let body = self.updated(base, resource_version, change, allowance);
                let body = body.await?;
                request(Method::PUT, options.append(object()?), body)
            }
            Operation::UpdateStatus {
                resource_version,
                status,
                metadata,
            } => {
                let base = self.base(write, resource, resource_version, begun).await?;
                let (kind, documents) = (&resource.kind, (base, status, metadata));
                let body = self.with_status(kind, documents, resource_version, allowance);
                let body = body.await?;
                request(Method::PUT, options.append(object()?), body)
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
                let patch = patch.clone();
                request(Method::PATCH, options.append(object()?), patch).content_type(content_type)
            }
            Operation::Delete => request(Method::DELETE, object()?, options.delete_body()),
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
                request(Method::DELETE, path, options.delete_body())
            }
        })
    }
}

fn kind(write: &Write) -> Result<Kind, ApiError> {
    let kind = write.target.kind.parse();
    kind.map_err(|error| ApiError::invalid(format!("{error}")))
}

/// Returns the namespace and the name of the object that a write changed; none if it may have changed others of its kind:
/// a collection, or what a subresource of an unknown sort stands for.
fn changed_object(write: &Write, name: &str) -> Option<(String, String)> {
    let is_of_object = matches!(
        write.subresource(),
        "" | "status" | "scale" | "eviction" | "binding"
    );
    let is_collection = matches!(write.operation, Operation::DeleteCollection { .. });
    let is_one = is_of_object && !is_collection && !name.is_empty();
    is_one.then(|| (write.target.namespace.clone(), name.to_owned()))
}

#[cfg(test)]
mod tests;
