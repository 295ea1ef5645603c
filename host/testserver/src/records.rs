//! The records of a cluster, as JSON. Each entry that tests compare as text has its `line`, so that it is the same in
//! all languages.

use flyball_sdk::PatchType;
use flyball_sdk::certificate::CertificateTemplate;
use flyball_sdk::imports::MetricOperation;
use flyball_sdk::log::Level;
use flyball_sdk::testing::{Enqueued, Event, Logged, Signed, Written};
use flyball_types::Catalogue;
use serde::Serialize;
use serde_json::{Value, json};

use crate::documents::{Error, Reference, Template};

/// The levels of the log and their names in the world.
pub(crate) const LEVELS: [(Level, &str); 5] = [
    (Level::Trace, "trace"),
    (Level::Debug, "debug"),
    (Level::Info, "info"),
    (Level::Warn, "warn"),
    (Level::Error, "error"),
];

/// The functions of the world's interface `metrics` and their names.
pub(crate) const OPERATIONS: [(MetricOperation, &str); 3] = [
    (MetricOperation::Add, "add"),
    (MetricOperation::Set, "set"),
    (MetricOperation::Observe, "observe"),
];

/// Converts each entry.
pub(crate) fn list<T, R: Serialize>(entries: Vec<T>, convert: impl Fn(T) -> R) -> Vec<R> {
    entries.into_iter().map(convert).collect()
}

pub(crate) fn written(written: Written) -> Value {
    json!({
        "line": written.to_string(),
        "verb": written.verb,
        "kind": written.kind,
        "namespace": written.namespace,
        "name": written.name,
        "subresource": written.subresource,
        "patchType": written.patch_type.map(PatchType::as_str),
        "body": written.body,
        "options": written.options,
        "warnings": written.warnings,
        "error": written.error.map(Error::from),
    })
}

pub(crate) fn event(event: Event) -> Value {
    json!({
        "line": event.to_string(),
        "about": Reference::from(event.about),
        "type": event.event_type,
        "reason": event.reason,
        "message": event.message,
        "options": event.options,
    })
}

pub(crate) fn enqueued(enqueued: Enqueued) -> Value {
    json!({
        "queue": enqueued.queue,
        "key": enqueued.key,
        "delayMs": u64::try_from(enqueued.delay.as_millis()).unwrap_or(u64::MAX),
    })
}

pub(crate) fn logged(logged: Logged) -> Value {
    let named = LEVELS.iter().find(|(level, _)| *level == logged.level);
    json!({
        "level": named.map(|(_, name)| name),
        "message": logged.message,
        "fields": logged.fields,
    })
}

pub(crate) fn measured(
    (operation, name, labels, value): (MetricOperation, String, Vec<String>, f64),
) -> Value {
    let named = OPERATIONS.iter().find(|(own, _)| *own == operation);
    json!({
        "operation": named.map(|(_, name)| name),
        "name": name,
        "labels": labels,
        "value": value,
    })
}

pub(crate) fn signed(signed: Signed) -> Value {
    json!({"key": signed.key, "claims": signed.claims, "token": signed.token})
}

pub(crate) fn certificate((signer, template): (String, CertificateTemplate)) -> Value {
    json!({"signer": signer, "template": Template::from(template)})
}

/// The result of discovery. Subresources and failures are pairs.
pub(crate) fn catalogue(catalogue: Catalogue) -> Value {
    let kinds = list(catalogue.kinds, |served| {
        let subresources = list(served.subresources, |below| (below.name, below.verbs));
        json!({
            "kind": served.kind,
            "plural": served.plural,
            "namespaced": served.namespaced,
            "preferred": served.preferred,
            "verbs": served.verbs,
            "subresources": subresources,
        })
    });
    let failures = list(catalogue.failures, |failed| {
        (failed.group_version, failed.message)
    });
    json!({"kinds": kinds, "failures": failures})
}
