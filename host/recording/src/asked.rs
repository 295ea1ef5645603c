//! What guests ask: the arguments of the world's imports, as recordings hold them. Host and SDKs build them with these
//! functions, so that they can be compared. Names and shapes are those of `docs/test-server.md`; each read of a batch is a
//! step of its own, because the host runs the reads side by side.

use flyball_types::{Projection, Query};
use serde_json::{Map, Value, json};

use crate::Document;

/// A question of a guest: an import with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The interface and the function, as in `lister.get`.
    pub import: &'static str,
    /// An object.
    pub arguments: Value,
}

fn asked(import: &'static str, arguments: Value) -> Asked {
    Asked { import, arguments }
}

pub const LISTER_GET: &str = "lister.get";
pub const LISTER_LIST: &str = "lister.list";
pub const LISTER_NEXT: &str = "lister.next";
pub const READER_READ: &str = "reader.read";
pub const WRITER_RUN: &str = "writer.run";
pub const MEMO_GET: &str = "memo.get";
pub const MEMO_PUT: &str = "memo.put";
pub const CLOCK_NOW: &str = "clock.now";
pub const RANDOM_BYTES: &str = "random.bytes";
pub const LOG_WRITE: &str = "log.write";
pub const LOG_ENABLED: &str = "log.enabled";
pub const METRICS_RECORD: &str = "metrics.record";
pub const CONFIG_GET: &str = "config.get";
pub const SIGN_JWT: &str = "signer.sign-jwt";
pub const VERIFY_JWT: &str = "signer.verify-jwt";
pub const CREDENTIALS_GET: &str = "credentials.get";
pub const HTTP: &str = "http.request";

/// Whether an import neither reads the cluster nor changes anything: its calls may be more or fewer, or in another order,
/// without a difference in what the guest does.
pub fn is_ambient(import: &str) -> bool {
    matches!(
        import,
        CLOCK_NOW | RANDOM_BYTES | LOG_WRITE | LOG_ENABLED | METRICS_RECORD | CONFIG_GET
    )
}

pub fn lister_get(kind: &str, namespace: &str, name: &str, fields: &[impl AsRef<str>]) -> Asked {
    asked(
        LISTER_GET,
        json!({"kind": kind, "namespace": namespace, "name": name, "fields": texts(fields)}),
    )
}

pub fn lister_list(query: &Query, projection: &Projection, limit: u32) -> Asked {
    let projection = match projection {
        Projection::All => json!("all"),
        Projection::Fields(paths) => json!({"fields": paths}),
        Projection::Columns(paths) => json!({"columns": paths}),
    };
    asked(
        LISTER_LIST,
        json!({"query": query_value(query), "projection": projection, "limit": limit}),
    )
}

/// `rest` is the number of the cursor, counted from 0 in the order in which the call got them.
pub fn lister_next(rest: u32, limit: u32) -> Asked {
    asked(LISTER_NEXT, json!({"rest": rest, "limit": limit}))
}

pub fn lister_count(query: &Query) -> Asked {
    asked("lister.count", json!({"query": query_value(query)}))
}

pub fn deletion_observed(kind: &str, namespace: &str, name: &str, uid: &str) -> Asked {
    let object = reference(kind, namespace, name, uid);
    asked("lister.deletion-observed", json!({"object": object}))
}

pub fn reader_get(kind: &str, namespace: &str, name: &str, fields: &[impl AsRef<str>]) -> Asked {
    asked(
        READER_READ,
        json!({"verb": "get", "kind": kind, "namespace": namespace, "name": name, "fields": texts(fields)}),
    )
}

pub fn reader_list(
    kind: &str,
    namespace: &str,
    parameters: &[(String, String)],
    fields: &[impl AsRef<str>],
) -> Asked {
    let fields = texts(fields);
    asked(
        READER_READ,
        json!({"verb": "list", "kind": kind, "namespace": namespace, "parameters": parameters, "fields": fields}),
    )
}

pub fn reader_raw(path: &str) -> Asked {
    asked(READER_READ, json!({"verb": "raw", "path": path}))
}

pub fn discovery_kinds() -> Asked {
    asked("discovery.kinds", json!({}))
}

/// A write of a batch. Parts that its verb does not have are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Write<'a> {
    /// `create`, `update`, `update-status`, `patch`, `delete` or `delete-collection`.
    pub verb: &'static str,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub subresource: &'a str,
    pub resource_version: &'a str,
    /// The object, the change, the status or the patch.
    pub body: Option<&'a [u8]>,
    pub metadata: &'a [u8],
    pub patch_type: &'a str,
    pub label_selector: &'a str,
    pub field_selector: &'a str,
    /// A document; empty for `{}`.
    pub options: &'a [u8],
    pub returns: &'a [String],
}

impl Write<'_> {
    /// Returns the write without its empty parts.
    pub fn value(&self) -> Value {
        let mut write = Map::new();
        for (name, text) in [
            ("verb", self.verb),
            ("kind", self.kind),
            ("namespace", self.namespace),
            ("name", self.name),
            ("subresource", self.subresource),
            ("resourceVersion", self.resource_version),
            ("patchType", self.patch_type),
            ("labelSelector", self.label_selector),
            ("fieldSelector", self.field_selector),
        ] {
            if !text.is_empty() {
                write.insert(name.into(), text.into());
            }
        }
        if let Some(body) = self.body {
            write.insert("body".into(), Document::value(body));
        }
        for (name, document) in [("metadata", self.metadata), ("options", self.options)] {
            let value = document_or_nothing(document);
            if !value.is_null() {
                write.insert(name.into(), value);
            }
        }
        if !self.returns.is_empty() {
            write.insert("returns".into(), json!(self.returns));
        }
        write.into()
    }
}

/// A batch of writes, each as [`Write::value`] returns it.
pub fn writer_run(writes: Vec<Value>, slow_start: Option<u32>, stop_on_error: bool) -> Asked {
    let slow_start = slow_start.unwrap_or(0);
    asked(
        WRITER_RUN,
        json!({"writes": writes, "slowStart": slow_start, "stopOnError": stop_on_error}),
    )
}

/// `about` is a reference to the object that the event is about.
pub fn events_emit(
    about: Value,
    event_type: &str,
    reason: &str,
    message: &str,
    options: &[u8],
) -> Asked {
    let options = document_or_nothing(options);
    asked(
        "events.emit",
        json!({"about": about, "type": event_type, "reason": reason, "message": message, "options": options}),
    )
}

/// A reference to an object.
pub fn reference(kind: &str, namespace: &str, name: &str, uid: &str) -> Value {
    json!({"kind": kind, "namespace": namespace, "name": name, "uid": uid})
}

/// A key that is added at once has no delay.
pub fn queue_add(queue: &str, key: &str, delay_ms: u32) -> Asked {
    asked(
        "queue.add",
        json!({"queue": queue, "key": key, "delayMs": delay_ms}),
    )
}

pub fn queue_forget(queue: &str, key: &str) -> Asked {
    asked("queue.forget", json!({"queue": queue, "key": key}))
}

pub fn queue_requeues(queue: &str, key: &str) -> Asked {
    asked("queue.requeues", json!({"queue": queue, "key": key}))
}

pub fn clock_now() -> Asked {
    asked(CLOCK_NOW, json!({}))
}

pub fn random_bytes(count: usize) -> Asked {
    asked(RANDOM_BYTES, json!({"count": count}))
}

/// `level` is `trace`, `debug`, `info`, `warn` or `error`.
pub fn log_write(level: &str, message: &str, fields: &[(String, String)]) -> Asked {
    asked(
        LOG_WRITE,
        json!({"level": level, "message": message, "fields": fields}),
    )
}

pub fn log_enabled(level: &str) -> Asked {
    asked(LOG_ENABLED, json!({"level": level}))
}

/// `operation` is `add`, `set` or `observe`.
pub fn metrics_record(
    operation: &str,
    name: &str,
    labels: &[impl AsRef<str>],
    value: f64,
) -> Asked {
    asked(
        METRICS_RECORD,
        json!({"operation": operation, "name": name, "labels": texts(labels), "value": value}),
    )
}

pub fn config_get(key: &str) -> Asked {
    asked(CONFIG_GET, json!({"key": key}))
}

pub fn memo_get(key: &str) -> Asked {
    asked(MEMO_GET, json!({"key": key}))
}

pub fn memo_put(key: &str, expected: u32, value: &[u8], object_uid: &str, ttl_ms: u32) -> Asked {
    let value = Document::value(value);
    asked(
        MEMO_PUT,
        json!({"key": key, "expected": expected, "value": value, "objectUid": object_uid, "ttlMs": ttl_ms}),
    )
}

pub fn memo_remove(key: &str) -> Asked {
    asked("memo.remove", json!({"key": key}))
}

pub fn sign_jwt(key: &str, claims: &[u8]) -> Asked {
    asked(
        SIGN_JWT,
        json!({"key": key, "claims": Document::value(claims)}),
    )
}

pub fn verify_jwt(key: &str, token: &str) -> Asked {
    asked(VERIFY_JWT, json!({"key": key, "token": token}))
}

pub fn certificate_authority(signer: &str) -> Asked {
    asked("signer.certificate-authority", json!({"signer": signer}))
}

/// `template` has the fields of the world's record in camelCase.
pub fn sign_certificate(signer: &str, template: Value) -> Asked {
    asked(
        "signer.sign-certificate",
        json!({"signer": signer, "template": template}),
    )
}

pub fn cloud_capabilities() -> Asked {
    asked("cloud.capabilities", json!({}))
}

pub fn cloud_call(method: &str, arguments: &[u8], nodes: &[u8]) -> Asked {
    let (arguments, nodes) = (document_or_nothing(arguments), document_or_nothing(nodes));
    asked(
        "cloud.call",
        json!({"method": method, "arguments": arguments, "nodes": nodes}),
    )
}

pub fn credentials_get(name: &str) -> Asked {
    asked(CREDENTIALS_GET, json!({"name": name}))
}

/// A request to a server. What it sends and receives is not recorded.
pub fn http(server: &str) -> Asked {
    asked(HTTP, json!({"server": server}))
}

fn query_value(query: &Query) -> Value {
    json!({"kind": query.kind, "namespace": query.namespace, "conditions": query.conditions()})
}

/// An empty document stands for `{}`; both are left out.
fn document_or_nothing(document: &[u8]) -> Value {
    match Document::value(document) {
        _ if document.is_empty() => Value::Null,
        Value::Object(members) if members.is_empty() => Value::Null,
        value => value,
    }
}

fn texts(texts: &[impl AsRef<str>]) -> Vec<&str> {
    texts.iter().map(AsRef::as_ref).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_parts_of_a_write_are_left_out() {
        let write = Write {
            verb: "update",
            kind: "v1/Pod",
            name: "a",
            body: Some(b"{\"b\":1}"),
            options: b"{}",
            ..Write::default()
        };
        let expected = json!({"verb": "update", "kind": "v1/Pod", "name": "a", "body": {"b": 1}});
        assert_eq!(write.value(), expected);
    }

    #[test]
    fn options_that_are_empty_in_two_ways_are_the_same() {
        let emit = |options: &[u8]| {
            events_emit(
                reference("v1/Pod", "a", "b", ""),
                "Normal",
                "R",
                "m",
                options,
            )
        };
        assert_eq!(emit(b""), emit(b"{}"));
        assert_ne!(emit(b""), emit(b"{\"once\":true}"));
    }
}
