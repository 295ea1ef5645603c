//! In the sandbox: the WIT imports as [`Imports`], and a [`Controller`] as the WIT exports.

use flyball_types::ApiError;

use crate::controller::{Controller, Delta, Key, Outcome, Request};
use crate::error::Error;
use crate::host::{Host, millis};
use crate::imports::{Imports, MetricOperation, ObjectReference, Pages, Question};
use crate::log::Level;
use crate::time::Time;
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
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "controller",
        pub_export_macro: true,
        export_macro_name: "export_controller",
        default_bindings_module: "flyball_sdk::wasm::bindings",
    });
}

/// A controller as a guest.
pub struct Exported<C>(std::marker::PhantomData<C>);

impl<C: Controller> guest::Guest for Exported<C> {
    fn describe() -> String {
        log_panics();
        serde_json::to_string(&C::describe_configured(&Host::new(&Sandbox)))
            .expect("a description is valid JSON")
    }

    fn reconcile(queue: String, key: String, attempt: u32) -> guest::Outcome {
        log_panics();
        let request = Request {
            queue,
            key: Key::parse(&key),
            attempt,
        };
        match C::reconcile(&Host::new(&Sandbox), &request) {
            Ok(Outcome::Done) => guest::Outcome::Done,
            Ok(Outcome::RequeueAfter(delay)) => guest::Outcome::RequeueAfter(millis(delay)),
            Err(error) if error.is_terminal() => guest::Outcome::Terminal(error.to_string()),
            Err(error) => guest::Outcome::Failed(error.to_string()),
        }
    }

    fn route(deltas: Vec<u8>) -> Result<Vec<guest::Routed>, String> {
        log_panics();
        let deltas: Vec<Delta> = flyball_types::read(&deltas)
            .map_err(|error| Error::Malformed("a batch of deltas".into(), error).to_string())?;
        let routed = C::route(&Host::new(&Sandbox), &deltas).map_err(|error| error.to_string())?;
        let raise = |one: crate::controller::Routed| guest::Routed {
            queue: one.queue,
            key: one.key.to_string(),
            delay_ms: millis(one.delay),
        };
        Ok(routed.into_iter().map(raise).collect())
    }
}

/// Sends the message of a panic to the host's log before the guest traps, so that the trap has a reason.
fn log_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            Sandbox.log(Level::Error, &info.to_string(), &[])
        }))
    });
}

/// The world's imports.
struct Sandbox;

impl Imports for Sandbox {
    fn get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Option<Vec<u8>>, ApiError> {
        wit::lister::get(kind, namespace, name, &owned(fields)).map_err(lift)
    }

    fn open(&self, question: &Question) -> Box<dyn Pages> {
        let query = wit::lister::Query::new(&question.kind);
        if let Some(namespace) = &question.namespace {
            query.namespace(namespace);
        }
        if let Some(selector) = &question.label_selector {
            query.label_selector(selector);
        }
        if let Some((name, value)) = &question.index {
            query.index(name, value);
        }
        if let Some(uid) = &question.uid {
            query.uid(uid);
        }
        if let Some(uid) = &question.owner {
            query.owner(uid);
        }
        if let Some(uid) = &question.controller {
            query.controller(uid);
        }
        if question.orphans {
            query.orphans();
        }
        if !question.fields.is_empty() {
            query.fields(&question.fields);
        }
        if !question.columns.is_empty() {
            query.columns(&question.columns);
        }
        Box::new(query)
    }

    fn gone(&self, object: &ObjectReference) -> bool {
        wit::lister::gone(&named(object))
    }

    fn live_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Vec<u8>, ApiError> {
        wit::reader::get(kind, namespace, name, &owned(fields)).map_err(lift)
    }

    fn live_list(
        &self,
        kind: &str,
        namespace: &str,
        parameters: &[(String, String)],
        fields: &[&str],
    ) -> Result<Vec<u8>, ApiError> {
        wit::reader::list(kind, namespace, parameters, &owned(fields)).map_err(lift)
    }

    fn live_raw(&self, path: &str) -> Result<Vec<u8>, ApiError> {
        wit::reader::raw(path).map_err(lift)
    }

    fn kinds(&self) -> Result<Vec<u8>, ApiError> {
        wit::discovery::kinds().map_err(lift)
    }

    fn run(&self, batch: Batch) -> Vec<Result<Vec<u8>, ApiError>> {
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
        writes
            .run()
            .into_iter()
            .map(|result| result.map_err(lift))
            .collect()
    }

    fn emit(&self, about: &ObjectReference, event_type: &str, reason: &str, message: &str) {
        wit::events::emit(&named(about), event_type, reason, message);
    }

    fn enqueue(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError> {
        match delay_ms {
            0 => wit::queue::add(queue, key),
            delay => wit::queue::add_after(queue, key, delay),
        }
        .map_err(lift)
    }

    fn forget(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        wit::queue::forget(queue, key).map_err(lift)
    }

    fn requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError> {
        wit::queue::requeues(queue, key).map_err(lift)
    }

    fn now(&self) -> Time {
        let wit::types::Time {
            seconds,
            nanoseconds,
        } = wit::clock::now();
        Time {
            seconds: seconds.into(),
            nanoseconds,
        }
    }

    fn random(&self, count: u32) -> Vec<u8> {
        wit::random::bytes(count)
    }

    fn log(&self, level: Level, message: &str, fields: &[(String, String)]) {
        wit::log::write(lower(level), message, fields);
    }

    fn logs(&self, level: Level) -> bool {
        wit::log::enabled(lower(level))
    }

    fn metric(&self, operation: MetricOperation, name: &str, labels: &[&str], value: f64) {
        let labels = owned(labels);
        match operation {
            MetricOperation::Add => wit::metrics::add(name, &labels, value),
            MetricOperation::Set => wit::metrics::set(name, &labels, value),
            MetricOperation::Observe => wit::metrics::observe(name, &labels, value),
        }
    }

    fn config(&self, key: &str) -> Option<String> {
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

    fn sign_jwt(&self, key: &str, claims: &[u8]) -> Result<String, ApiError> {
        wit::signer::sign_jwt(key, claims).map_err(lift)
    }

    fn verify_jwt(&self, key: &str, token: &str) -> Result<Vec<u8>, ApiError> {
        wit::signer::verify_jwt(key, token).map_err(lift)
    }

    fn sign_certificate(
        &self,
        key: &str,
        request: &str,
        options: &str,
    ) -> Result<String, ApiError> {
        wit::signer::sign_certificate(key, request, options).map_err(lift)
    }

    fn trust_bundle(&self, key: &str) -> Result<String, ApiError> {
        wit::signer::trust_bundle(key).map_err(lift)
    }
}

impl Pages for wit::lister::Query {
    fn page(&self, limit: u32) -> Result<Vec<u8>, ApiError> {
        wit::lister::Query::page(self, limit).map_err(lift)
    }

    fn count(&self) -> Result<u32, ApiError> {
        wit::lister::Query::count(self).map_err(lift)
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
        String::new()
    } else {
        // Not by `Value`'s `to_string`, which would bring a second serializer into every guest.
        serde_json::to_string(&options).expect("options are valid JSON")
    };
    match action {
        Action::Create(object) => batch.create(&target, &object, &options, &returns),
        Action::Modify(version, change) => {
            batch.modify(&target, &version, &change, &options, &returns)
        }
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
    } = object.clone();
    wit::types::ObjectReference {
        kind,
        namespace,
        name,
        uid,
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn lift(error: wit::types::Error) -> ApiError {
    ApiError {
        status: error.status,
        reason: error.reason,
        message: error.message,
        retry_after_ms: error.retry_after_ms,
    }
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
