//! The sandbox side: the WIT imports as [`Imports`], and a [`Controller`] as the WIT exports.

use std::rc::Rc;

use flyball_types::{ApiError, Catalogue, Effect, EventOptions, Projection, Query};

use crate::certificate::{Attribute, CertificateTemplate, SubjectKey};
use crate::controller::Controller;
use crate::describe::DeltaType;
use crate::host::Host;
use crate::imports::{Cursor, Imports, MetricOperation, Page, Read};
use crate::key::Key;
use crate::log::Level;
use crate::malformed_events;
use crate::reconcile::{Outcome, Request};
use crate::reference::ObjectReference;
use crate::route::{Delta, RoutedKey};
use crate::time::{Time, millis};
use crate::write::{Action, Batch, Write};

use bindings::exports::flyball::controller::guest;
use bindings::flyball::controller as wit;

#[allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    reason = "generated from wit/"
)]
#[rustfmt::skip]
pub mod bindings;

/// Implements the WIT exports for a controller.
pub struct Exported<C>(std::marker::PhantomData<C>);

impl<C: Controller> guest::Guest for Exported<C> {
    fn describe() -> Vec<u8> {
        log_panics();
        serde_json::to_vec(&C::describe_configured(&Host::new(&Sandbox)))
            .expect("a description is valid JSON")
    }

    fn reconcile(queue: String, key: String, attempt: u32) -> guest::Outcome {
        log_panics();
        let request = Request {
            queue,
            key: Key::parse(&key),
            attempt,
        };
        let host = Host::new(&Sandbox);
        let result = C::reconcile(&host, &request);
        match result.inspect_err(|error| malformed_events::emit(&host, error, C::describe)) {
            Ok(Outcome::Done) => guest::Outcome::Done,
            Ok(Outcome::RequeueAfter(delay)) => guest::Outcome::RequeueAfter(millis(delay)),
            Err(error) if error.is_terminal() => guest::Outcome::Terminal(error.to_string()),
            Err(error) => guest::Outcome::Failed(error.to_string()),
        }
    }

    fn route(deltas: Vec<guest::Delta>) -> Result<Vec<guest::RoutedKey>, String> {
        log_panics();
        let deltas: Vec<Delta> = deltas.into_iter().map(lift_delta).collect();
        let host = Host::new(&Sandbox);
        let routed = C::route(&host, &deltas);
        let routed = routed.inspect_err(|error| malformed_events::emit(&host, error, C::describe));
        let routed = routed.map_err(|error| error.to_string())?;
        let lower = |one: RoutedKey| guest::RoutedKey {
            queue: one.queue,
            key: one.key.to_string(),
            delay_ms: millis(one.delay),
        };
        Ok(routed.into_iter().map(lower).collect())
    }
}

fn lift_delta(delta: guest::Delta) -> Delta {
    let guest::Delta {
        watch,
        delta_type,
        old,
        new,
        initial,
    } = delta;
    let delta_type = match delta_type {
        guest::DeltaType::Added => DeltaType::Added,
        guest::DeltaType::Modified => DeltaType::Modified,
        guest::DeltaType::Deleted => DeltaType::Deleted,
    };
    Delta {
        watch,
        delta_type,
        old,
        new,
        initial,
    }
}

/// Logs the message of a panic before the guest traps: the trap itself has no message.
fn log_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            Sandbox.log_write(Level::Error, &panic_text(info), &[])
        }))
    });
}

/// The message of a panic and its place, in the form of all SDKs: `panic: MESSAGE (FILE:LINE)`.
fn panic_text(info: &std::panic::PanicHookInfo<'_>) -> String {
    let message = info.payload_as_str().unwrap_or("without a message");
    let place = info
        .location()
        .map(|place| format!(" ({}:{})", place.file(), place.line()));
    format!("panic: {message}{}", place.unwrap_or_default())
}

/// Runs the function of another package's export with the host.
pub fn with_host<T>(run: impl FnOnce(Host) -> T) -> T {
    log_panics();
    run(Host::new(&Sandbox))
}

/// The world's imports.
struct Sandbox;

impl Imports for Sandbox {
    fn share(&self) -> Rc<dyn Imports> {
        Rc::new(Sandbox)
    }

    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Option<Vec<u8>>, ApiError> {
        wit::lister::get(kind, namespace, name, &owned(fields)).map_err(lift)
    }

    fn lister_list(
        &self,
        query: Query,
        projection: Projection,
        limit: u32,
    ) -> Result<Page, ApiError> {
        let projection = match projection {
            Projection::All => wit::lister::Projection::All,
            Projection::Fields(paths) => wit::lister::Projection::Fields(paths),
            Projection::Columns(paths) => wit::lister::Projection::Columns(paths),
        };
        lift_page(wit::lister::list(&lower_query(query), &projection, limit))
    }

    fn lister_count(&self, query: Query) -> Result<u32, ApiError> {
        wit::lister::count(&lower_query(query)).map_err(lift)
    }

    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool {
        wit::lister::deletion_observed(&named(object))
    }

    fn reader_run(&self, reads: Vec<Read>) -> Vec<Result<Vec<u8>, ApiError>> {
        let batch = wit::reader::Batch::new();
        reads.into_iter().for_each(|read| add_read(&batch, read));
        lift_results(batch.run())
    }

    fn discovery_kinds(&self) -> Result<Catalogue, ApiError> {
        wit::discovery::kinds().map(lift_catalogue).map_err(lift)
    }

    fn writer_run(&self, batch: Batch) -> Vec<Result<Vec<u8>, ApiError>> {
        let writes = wit::writer::Batch::new();
        if let Some(initial) = batch.slow_start {
            writes.slow_start(initial);
        }
        if batch.stop_on_error {
            writes.stop_on_error();
        }
        batch
            .writes
            .into_iter()
            .for_each(|write| add(&writes, write));
        lift_results(writes.run())
    }

    fn events_emit(
        &self,
        about: &ObjectReference,
        event_type: &str,
        reason: &str,
        message: &str,
        options: &EventOptions,
    ) {
        let options = options.to_document();
        wit::events::emit(&named(about), event_type, reason, message, &options);
    }

    fn queue_add(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        wit::queue::add(queue, key).map_err(lift)
    }

    fn queue_add_after(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError> {
        wit::queue::add_after(queue, key, delay_ms).map_err(lift)
    }

    fn queue_forget(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        wit::queue::forget(queue, key).map_err(lift)
    }

    fn queue_requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError> {
        wit::queue::requeues(queue, key).map_err(lift)
    }

    fn clock_now(&self) -> Time {
        let wit::types::Time {
            seconds,
            nanoseconds,
        } = wit::clock::now();
        Time {
            seconds: seconds.into(),
            nanoseconds,
        }
    }

    fn random_bytes(&self, count: u32) -> Vec<u8> {
        wit::random::bytes(count)
    }

    fn log_write(&self, level: Level, message: &str, fields: &[(String, String)]) {
        let field = |(name, value): &(String, String)| wit::log::Field {
            name: name.clone(),
            value: value.clone(),
        };
        let fields: Vec<_> = fields.iter().map(field).collect();
        wit::log::write(lower(level), message, &fields);
    }

    fn log_enabled(&self, level: Level) -> bool {
        wit::log::enabled(lower(level))
    }

    fn metrics(&self, operation: MetricOperation, name: &str, labels: &[&str], value: f64) {
        let labels = owned(labels);
        match operation {
            MetricOperation::Add => wit::metrics::add(name, &labels, value),
            MetricOperation::Set => wit::metrics::set(name, &labels, value),
            MetricOperation::Observe => wit::metrics::observe(name, &labels, value),
        }
    }

    fn config_get(&self, key: &str) -> Option<String> {
        wit::config::get(key)
    }

    fn memo_get(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        wit::memo::get(key).map(|entry| (entry.value, entry.version))
    }

    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: &[u8],
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError> {
        wit::memo::put(key, expected, value, object_uid, ttl_ms).map_err(lift)
    }

    fn memo_remove(&self, key: &str) {
        wit::memo::remove(key);
    }

    fn signer_sign_jwt(&self, key: &str, claims: &[u8]) -> Result<String, ApiError> {
        wit::signer::sign_jwt(key, claims).map_err(lift)
    }

    fn signer_verify_jwt(&self, key: &str, token: &str) -> Result<Vec<u8>, ApiError> {
        wit::signer::verify_jwt(key, token).map_err(lift)
    }

    fn signer_certificate_authority(&self, signer: &str) -> Result<Vec<Vec<u8>>, ApiError> {
        wit::signer::certificate_authority(signer).map_err(lift)
    }

    fn signer_sign_certificate(
        &self,
        signer: &str,
        template: &CertificateTemplate,
    ) -> Result<Vec<u8>, ApiError> {
        wit::signer::sign_certificate(signer, &lower_template(template)).map_err(lift)
    }
}

impl Cursor for wit::lister::Cursor {
    fn next(self: Box<Self>, limit: u32) -> Result<Page, ApiError> {
        lift_page(wit::lister::next(*self, limit))
    }
}

fn lift_page(page: Result<wit::lister::Page, wit::types::Error>) -> Result<Page, ApiError> {
    let wit::lister::Page { items, rest } = page.map_err(lift)?;
    let rest = rest.map(|rest| Box::new(rest) as Box<dyn Cursor>);
    Ok(Page { items, rest })
}

fn lower_query(query: Query) -> wit::lister::Query {
    let condition = |(name, value)| wit::lister::Condition { name, value };
    let conditions = query.conditions().into_iter().map(condition).collect();
    wit::lister::Query {
        kind: query.kind,
        namespace: query.namespace,
        conditions,
    }
}

fn lift_results(
    results: Vec<Result<Vec<u8>, wit::types::Error>>,
) -> Vec<Result<Vec<u8>, ApiError>> {
    results
        .into_iter()
        .map(|result| result.map_err(lift))
        .collect()
}

fn lift_catalogue(catalogue: wit::discovery::Catalogue) -> Catalogue {
    let subresource = |one: wit::discovery::Subresource| flyball_types::Subresource {
        name: one.name,
        verbs: one.verbs,
    };
    let kind = |kind: wit::discovery::ServedKind| flyball_types::ServedKind {
        kind: kind.kind,
        plural: kind.plural,
        namespaced: kind.namespaced,
        preferred: kind.preferred,
        verbs: kind.verbs,
        subresources: kind.subresources.into_iter().map(subresource).collect(),
    };
    let failure = |failure: wit::discovery::Failure| flyball_types::DiscoveryFailure {
        group_version: failure.group_version,
        message: failure.message,
    };
    Catalogue {
        kinds: catalogue.kinds.into_iter().map(kind).collect(),
        failures: catalogue.failures.into_iter().map(failure).collect(),
    }
}

fn add_read(batch: &wit::reader::Batch, read: Read) {
    match read {
        Read::Get {
            kind,
            namespace,
            name,
            fields,
        } => batch.get(&kind, &namespace, &name, &fields),
        Read::List {
            kind,
            namespace,
            parameters,
            fields,
        } => {
            let parameter = |(name, value)| wit::reader::Parameter { name, value };
            let parameters: Vec<_> = parameters.into_iter().map(parameter).collect();
            batch.list(&kind, &namespace, &parameters, &fields);
        }
        Read::Raw { path } => batch.raw(&path),
    }
}

fn add(batch: &wit::writer::Batch, write: Write) {
    let Write {
        target,
        action,
        options,
        returns,
    } = write;
    let target = wit::writer::Target {
        kind: target.kind,
        namespace: target.namespace,
        name: target.name,
        subresource: target.subresource,
    };
    let options = if options.is_empty() {
        Vec::new()
    } else {
        // Not `Value::to_string`, which would add a second serializer to every guest.
        serde_json::to_vec(&options).expect("options are valid JSON")
    };
    match action {
        Action::Create(object) => batch.create(&target, &object, &options, &returns),
        Action::Update(version, change) => {
            batch.update(&target, &version, &change, &options, &returns)
        }
        Action::UpdateStatus {
            resource_version,
            status,
            metadata,
        } => batch.update_status(
            &target,
            &resource_version,
            &status,
            &metadata,
            &options,
            &returns,
        ),
        Action::Patch(patch_type, patch) => {
            batch.patch(&target, patch_type.as_str(), &patch, &options, &returns)
        }
        Action::Delete => batch.delete(&target, &options, &returns),
        Action::DeleteCollection(labels, fields) => {
            batch.delete_collection(&target, &labels, &fields, &options, &returns)
        }
    }
}

fn named(object: &ObjectReference) -> wit::types::ObjectReference {
    let ObjectReference {
        kind,
        namespace,
        name,
        uid,
        resource_version: _,
    } = object.clone();
    wit::types::ObjectReference {
        kind,
        namespace,
        name,
        uid,
    }
}

fn lower_template(template: &CertificateTemplate) -> wit::signer::CertificateTemplate {
    let attribute = |attribute: &Attribute| wit::signer::Attribute {
        oid: attribute.oid.clone(),
        value: attribute.value.clone(),
    };
    let name = |attributes: &Vec<Attribute>| attributes.iter().map(attribute).collect();
    let time = |time: Time| wit::types::Time {
        seconds: time.seconds.clamp(0, u32::MAX.into()) as u32,
        nanoseconds: 0,
    };
    wit::signer::CertificateTemplate {
        key: match &template.key {
            SubjectKey::PublicKey(der) => wit::signer::SubjectKey::PublicKey(der.clone()),
            SubjectKey::Request(der) => wit::signer::SubjectKey::Request(der.clone()),
        },
        subject: template.subject.iter().map(name).collect(),
        dns_names: template.dns_names.clone(),
        email_addresses: template.email_addresses.clone(),
        ip_addresses: template.ip_addresses.clone(),
        uris: template.uris.clone(),
        key_usages: wit::signer::KeyUsages::from_bits_retain(template.key_usages.bits()),
        extended_key_usages: template.extended_key_usages.clone(),
        not_before: time(template.not_before),
        not_after: time(template.not_after),
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn lift(error: wit::types::Error) -> ApiError {
    let effect = match error.effect {
        wit::types::Effect::None => Effect::None,
        wit::types::Effect::Refused => Effect::Refused,
        wit::types::Effect::Unknown => Effect::Unknown,
    };
    ApiError::of_server(error.status, &error.reason, error.message)
        .with_effect(effect)
        .with_retry_after(error.retry_after_ms)
}

fn lower(level: Level) -> wit::log::Level {
    match level {
        Level::Trace => wit::log::Level::Trace,
        Level::Debug => wit::log::Level::Debug,
        Level::Info => wit::log::Level::Info,
        Level::Warn => wit::log::Level::Warn,
        Level::Error => wit::log::Level::Error,
    }
}
