//! Host calls that a test writes as JSON into the plugin's configuration, or as a key. Each call is an object with one
//! field, the name of the call, and its arguments:
//!
//! ```json
//! [{"get": ["v1/Secret", "demo", "token", ["data"]]}, {"write": {"verb": "delete", "kind": "v1/Pod", "name": "web"}}]
//! ```
//!
//! Numbers make large arguments out of small scripts: `times` repeats a text, and `count` a call.

use flyball_sdk::serde_json::{self, Value};
use flyball_sdk::wasm::bindings::flyball::controller as host;
use host::lister::{Condition, Projection, Query};
use host::reader::Parameter;
use host::types::{Error, ObjectReference};
use host::writer::Target;

/// Bytes of each result that are shown.
const SHOWN: usize = 300;

/// Runs a script, and returns its results as one line.
pub(crate) fn run(script: &str) -> String {
    let calls: Vec<Value> = match serde_json::from_str(script) {
        Ok(calls) => calls,
        Err(error) => return format!("the script is not JSON: {error}"),
    };
    let results: Vec<String> = calls.iter().map(run_one).collect();
    results.join(" | ")
}

fn run_one(call: &Value) -> String {
    let Some((name, arguments)) = call.as_object().and_then(|call| call.iter().next()) else {
        return "not a call".into();
    };
    match name.as_str() {
        "get" => shown(
            host::lister::get(
                text(&arguments[0]).as_str(),
                &text(&arguments[1]),
                &text(&arguments[2]),
                &texts(&arguments[3]),
            )
            .map(Option::unwrap_or_default),
        ),
        "list" => list(arguments),
        "count" => shown(
            host::lister::count(&query(arguments)).map(|count| count.to_string().into_bytes()),
        ),
        "live" => live(arguments),
        "write" => write(arguments),
        "event" => event(arguments),
        "log" => {
            let count = arguments["count"].as_u64().unwrap_or(1);
            let fields: Vec<_> = texts(&arguments["fields"])
                .into_iter()
                .map(|name| host::log::Field {
                    name,
                    value: "value".into(),
                })
                .collect();
            for _ in 0..count {
                host::log::write(host::log::Level::Info, &text(&arguments["text"]), &fields);
            }
            format!("logged {count}")
        }
        "enqueue" => {
            let mut last = Ok(());
            for number in 0..arguments[2].as_u64().unwrap_or(1) {
                let key = format!("{}/{number}", text(&arguments[1]));
                last = host::queue::add(&text(&arguments[0]), &key);
            }
            shown(last.map(|()| Vec::new()))
        }
        "requeues" => shown(
            host::queue::requeues(&text(&arguments[0]), &text(&arguments[1]))
                .map(|count| count.to_string().into_bytes()),
        ),
        "memo-get" => match host::memo::get(&text(arguments)) {
            Some(entry) => format!(
                "{} at {}",
                String::from_utf8_lossy(&entry.value),
                entry.version
            ),
            None => "nothing".into(),
        },
        "memo-put" => shown(
            host::memo::put(
                &text(&arguments[0]),
                number(&arguments[1]),
                text(&arguments[2]).as_bytes(),
                "",
                0,
            )
            .map(|version| version.to_string().into_bytes()),
        ),
        "memo-remove" => {
            host::memo::remove(&text(arguments));
            "removed".into()
        }
        "metric" => {
            host::metrics::add(&text(&arguments[0]), &texts(&arguments[1]), 1.0);
            "added".into()
        }
        "kinds" => shown(
            host::discovery::kinds().map(|served| served.kinds.len().to_string().into_bytes()),
        ),
        "sign" => shown(host::signer::sign_jwt(&text(arguments), b"{}").map(String::into_bytes)),
        "certificate" => shown(host::signer::sign_certificate(
            &text(&arguments["signer"]),
            &template(arguments),
        )),
        "http" => super::http_get(&text(arguments)),
        "memory" => {
            let bytes = vec![1_u8; arguments.as_u64().unwrap_or(0) as usize];
            format!("{} bytes", std::hint::black_box(bytes).len())
        }
        "fail" => panic!("{}", text(arguments)),
        other => format!("there is no call {other}"),
    }
}

/// A template of a certificate: a common name `user`, organizations `groups`, whose attribute may be spelt by
/// `attribute`, and `names`, each `times` times.
pub(crate) fn template(arguments: &Value) -> host::signer::CertificateTemplate {
    use host::signer::{Attribute, CertificateTemplate, KeyUsages, SubjectKey};
    let attribute = |oid: &str, value: String| Attribute {
        oid: oid.into(),
        value,
    };
    let groups = texts(&arguments["groups"]);
    let user = attribute("2.5.4.3", text(&arguments["user"]));
    let organization = arguments["attribute"].as_str().unwrap_or("2.5.4.10");
    let groups = groups
        .into_iter()
        .map(|group| attribute(organization, group));
    let times = arguments["times"].as_u64().unwrap_or(1) as usize;
    let names = texts(&arguments["names"]);
    CertificateTemplate {
        key: SubjectKey::Request(text(&arguments["request"]).into_bytes()),
        subject: vec![groups.chain([user]).collect()],
        dns_names: names
            .iter()
            .cycle()
            .take(names.len() * times)
            .cloned()
            .collect(),
        email_addresses: Vec::new(),
        ip_addresses: Vec::new(),
        uris: Vec::new(),
        // All nine.
        key_usages: KeyUsages::from_bits_retain((1 << 9) - 1),
        extended_key_usages: Vec::new(),
        not_before: host::types::Time {
            seconds: 0,
            nanoseconds: 0,
        },
        not_after: host::types::Time {
            seconds: u32::MAX,
            nanoseconds: 0,
        },
    }
}

/// A query: `kind`, `namespace` and `conditions`.
fn query(arguments: &Value) -> Query {
    let conditions = arguments["conditions"].as_array().into_iter().flatten();
    Query {
        kind: text(&arguments["kind"]),
        namespace: text(&arguments["namespace"]),
        conditions: conditions
            .map(|condition| Condition {
                name: text(&condition[0]),
                value: text(&condition[1]),
            })
            .collect(),
    }
}

/// A cached list: a query with `fields` or `columns`, a `limit`, and the number of further `pages`.
fn list(arguments: &Value) -> String {
    let query = query(arguments);
    let projection = match (&arguments["fields"], &arguments["columns"]) {
        (Value::Null, Value::Null) => Projection::All,
        (Value::Null, columns) => Projection::Columns(texts(columns)),
        (fields, _) => Projection::Fields(texts(fields)),
    };
    let mut kept = Vec::new();
    for _ in 0..arguments["count"].as_u64().unwrap_or(1) {
        match host::lister::list(&query, &projection, number(&arguments["limit"])) {
            Ok(page) => kept.push(page),
            Err(error) => return shown(Err(error)),
        }
    }
    let Some(mut page) = kept.pop() else {
        return "no list".into();
    };
    for _ in 0..number(&arguments["pages"]) {
        let Some(rest) = page.rest else { break };
        match host::lister::next(rest, number(&arguments["limit"])) {
            Ok(next) => page = next,
            Err(error) => return shown(Err(error)),
        }
    }
    format!("{} bytes {}", page.items.len(), shown(Ok(page.items)))
}

/// Live reads of one batch: `raw`, or `kind`, `namespace` and `name` or `parameters`.
fn live(arguments: &Value) -> String {
    let batch = host::reader::Batch::new();
    let (kind, namespace) = (text(&arguments["kind"]), text(&arguments["namespace"]));
    let fields = texts(&arguments["fields"]);
    for _ in 0..arguments["count"].as_u64().unwrap_or(1) {
        if let Some(path) = arguments["raw"].as_str() {
            batch.raw(path);
        } else if let Some(name) = arguments["name"].as_str() {
            batch.get(&kind, &namespace, name, &fields);
        } else {
            let parameters = arguments["parameters"].as_array().into_iter().flatten();
            let parameters: Vec<Parameter> = parameters
                .map(|parameter| Parameter {
                    name: text(&parameter[0]),
                    value: text(&parameter[1]),
                })
                .collect();
            batch.list(&kind, &namespace, &parameters, &fields);
        }
    }
    let mut results = batch.run();
    // An error is preferred to the results of the other reads.
    let error = results.iter().position(Result::is_err);
    shown(match error {
        Some(error) => results.swap_remove(error),
        None => results.pop().unwrap_or(Ok(Vec::new())),
    })
}

/// Writes of one batch: `verb`, `kind`, `namespace`, `name`, `subresource`, `body`, `version`, `type`, `options`,
/// `returns`.
fn write(arguments: &Value) -> String {
    let batch = host::writer::Batch::new();
    let (body, options) = (
        text(&arguments["body"]).into_bytes(),
        text(&arguments["options"]).into_bytes(),
    );
    let returns = texts(&arguments["returns"]);
    let count = arguments["count"].as_u64().unwrap_or(1);
    for number in 0..count {
        let suffix = if count > 1 {
            number.to_string()
        } else {
            String::new()
        };
        let target = Target {
            kind: text(&arguments["kind"]),
            namespace: text(&arguments["namespace"]),
            name: text(&arguments["name"]),
            subresource: text(&arguments["subresource"]),
        };
        let version = text(&arguments["version"]);
        let body = String::from_utf8_lossy(&body)
            .replace("%N", &suffix)
            .into_bytes();
        match arguments["verb"].as_str().unwrap_or_default() {
            "create" => batch.create(&target, &body, &options, &returns),
            "update" => batch.update(&target, &version, &body, &options, &returns),
            "update-status" => {
                batch.update_status(&target, &version, &body, &[], &options, &returns);
            }
            "patch" => batch.patch(
                &target,
                &text(&arguments["type"]),
                &body,
                &options,
                &returns,
            ),
            "delete" => batch.delete(&target, &options, &returns),
            other => return format!("there is no verb {other}"),
        }
    }
    let mut results = batch.run();
    let done = results.iter().filter(|result| result.is_ok()).count();
    let last = shown(results.pop().unwrap_or(Ok(Vec::new())));
    if count > 1 {
        format!("{done} of {count} written, the last: {last}")
    } else {
        last
    }
}

fn event(arguments: &Value) -> String {
    let about = ObjectReference {
        kind: text(&arguments["kind"]),
        namespace: text(&arguments["namespace"]),
        name: text(&arguments["name"]),
        uid: "u".into(),
    };
    let count = arguments["count"].as_u64().unwrap_or(1);
    for _ in 0..count {
        host::events::emit(
            &about,
            "Normal",
            "Hostile",
            &text(&arguments["message"]),
            &[],
        );
    }
    format!("emitted {count}")
}

/// A text; an object `{"text": "a", "times": 3, "end": "b"}` is a repeated one.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(repeated) => {
            let part = |name: &str| {
                repeated
                    .get(name)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            let times = repeated.get("times").and_then(Value::as_u64).unwrap_or(1);
            [
                part("begin"),
                &part("text").repeat(times as usize),
                part("end"),
            ]
            .concat()
        }
        _ => String::new(),
    }
}

/// A list of texts; a repeated text makes as many of it, with `%N` replaced by their numbers.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        Value::Object(repeated) => {
            let times = repeated.get("times").and_then(Value::as_u64).unwrap_or(1);
            let one = repeated
                .get("text")
                .and_then(Value::as_str)
                .unwrap_or_default();
            (0..times)
                .map(|number| one.replace("%N", &number.to_string()))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn number(value: &Value) -> u32 {
    value.as_u64().unwrap_or(0) as u32
}

fn shown(result: Result<Vec<u8>, Error>) -> String {
    match result {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
            format!("ok: {text}")
        }
        Err(error) => {
            let message: String = error.message.chars().take(SHOWN).collect();
            format!("{}: {message}", error.reason)
        }
    }
}
