//! A guest that misbehaves as its key requests, for the host's tests and benchmarks. It calls the
//! world's imports directly, without the SDK. Its configuration determines what its `describe`
//! does.
//!
//! If the host returns an error, the outcome contains it.
#![cfg(target_arch = "wasm32")]

mod script;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use flyball_sdk::wasm::bindings::export_controller;
use flyball_sdk::wasm::bindings::exports::flyball::controller::guest::{
    Delta, Guest, Outcome, RoutedKey,
};
use flyball_sdk::wasm::bindings::flyball::controller as host;
use host::types::{Error, ObjectReference};
use host::writer::{Batch, Target};

/// Far more than the host accepts at once.
const LONG: usize = 100 << 20;

/// Marks the place in the file where a test may write a mode of `describe`.
const MARK: &[u8] = b"mode of faulty:";
/// The mark, and the mode after it.
static MODE: [u8; 48] = *b"mode of faulty:                                 ";

struct Faulty;

export_controller!(Faulty with_types_in flyball_sdk::wasm::bindings);

/// Number of calls of this instance.
static CALLS: AtomicU32 = AtomicU32::new(0);

impl Guest for Faulty {
    fn describe() -> Vec<u8> {
        log_panics();
        // A test may also write the mode into the file, for a plugin that nobody has granted a configuration.
        let written = std::hint::black_box(MODE);
        let written = String::from_utf8_lossy(&written[MARK.len()..]);
        let written = Some(written.trim()).filter(|mode| !mode.is_empty());
        if let Some(description) = host::config::get("description") {
            return description.into_bytes();
        }
        let text = match host::config::get("describe").as_deref().or(written) {
            Some("panic") => panic!("panic in describe"),
            Some("unreachable") => unreachable_instruction(),
            Some("spin") => spin(),
            Some("logs") => loop {
                log("a message");
            },
            Some("malformed") => "{\"name\": \"fau".into(),
            Some("long") => " ".repeat(LONG),
            Some("ungranted") => ungranted().join("; "),
            Some("watcher") => WATCHER.to_owned(),
            Some("many-watches") => with("watches", &("{},".repeat(10_000_000) + "{}")),
            Some("few-watches") => with("watches", &vec!["{}"; 25_000].join(",")),
            Some("long-name") => DESCRIPTION.replace("faulty", &"a".repeat(200_000)),
            Some("deep") => with("watches", &"[".repeat(500_000)),
            Some("forged-name") => DESCRIPTION.replace("\"faulty\"", r#""fau\nlty\u001b[2J""#),
            Some("path-name") => DESCRIPTION.replace("\"faulty\"", r#""../faulty""#),
            Some("forged-version") => {
                DESCRIPTION.replace("0.1.0", r#"1\nlevel=ERROR forged-line=1"#)
            }
            Some("built-in") => DESCRIPTION.replace("faulty", "deployment-controller"),
            _ => DESCRIPTION.to_owned(),
        };
        text.into_bytes()
    }

    fn reconcile(queue: String, key: String, _attempt: u32) -> Outcome {
        log_panics();
        let calls = CALLS.fetch_add(1, Relaxed) + 1;
        if key.starts_with('[') {
            return Outcome::Failed(script::run(&key));
        }
        // A suffix after `/` makes keys distinct.
        match key.split('/').next().unwrap_or_default() {
            "script" => Outcome::Failed(format!(
                "{}: {}",
                host::config::get("case").unwrap_or_default(),
                script::run(&host::config::get("script").unwrap_or_default())
            )),
            "spin" => spin(),
            "recurse" => Outcome::Failed(recurse(calls).to_string()),
            "grow" => grow(),
            "huge" => huge(),
            "requeue" => Outcome::RequeueAfter(0),
            "again" => again(&queue, &key),
            "enqueue" => enqueue(&queue),
            "long-key" => outcome(host::queue::add(&queue, &"k".repeat(1 << 20))),
            "logs" => loop {
                log("a message");
            },
            "long-log" => {
                log(&"x".repeat(LONG));
                Outcome::Done
            }
            "some-logs" => {
                (0..10_000).for_each(|_| log("a message"));
                Outcome::Done
            }
            "events" => loop {
                emit("a message");
            },
            "some-events" => {
                (0..10_000).for_each(|_| emit(&"a message ".repeat(10_000)));
                Outcome::Done
            }
            "memo" => memo(),
            "writes" => writes(),
            "handles" => loop {
                std::mem::forget(Batch::new());
            },
            "kept-handles" => {
                (0..100).for_each(|_| std::mem::forget(Batch::new()));
                Outcome::Done
            }
            "labels" => {
                (0..10_000).for_each(|label| {
                    host::metrics::add("faulty_total", &[label.to_string()], 1.0)
                });
                Outcome::Done
            }
            "json" => write(
                target("default", ""),
                b"{\"metadata\": {\"name\": ".to_vec(),
            ),
            "utf-8" => broken_text(),
            "forged" => forged(),
            "other-namespace" => other_namespace(),
            "ungranted" => Outcome::Failed(ungranted().join("; ")),
            "http" => Outcome::Failed(http_get(
                key.split_once('/').map_or("nobody", |(_, server)| server),
            )),
            "long-answer" => Outcome::Failed("x".repeat(LONG)),
            "wordy" => Outcome::Failed("x".repeat(1 << 20)),
            "panic" => panic!("panic in reconcile of {key}"),
            "unreachable" => unreachable_instruction(),
            "hundredth" if calls.is_multiple_of(100) => panic!("this is call {calls}"),
            _ => Outcome::Done,
        }
    }

    fn route(deltas: Vec<Delta>) -> Result<Vec<RoutedKey>, String> {
        log_panics();
        let first = deltas.first().and_then(|delta| delta.new.as_deref());
        match host::config::get("route").as_deref() {
            Some("show") => {
                let shown = String::from_utf8_lossy(first.unwrap_or_default()).into_owned();
                return Err(format!("route saw {shown}"));
            }
            Some("poison") => {
                let is_poison = |delta: &Delta| {
                    let new = delta.new.as_deref().unwrap_or_default();
                    String::from_utf8_lossy(new).contains("poison")
                };
                assert!(!deltas.iter().any(is_poison), "poisoned delta");
                return Ok(Vec::new());
            }
            Some("unknown-queues") => {
                let key = |number: u32| RoutedKey {
                    queue: format!("nobody's {number}"),
                    key: "a".into(),
                    delay_ms: 0,
                };
                return Ok((0..100_000).map(key).collect());
            }
            _ => {}
        }
        match first.unwrap_or_default() {
            b"panic" => panic!("panic in route"),
            b"spin" => spin(),
            b"many" => Ok((0..10_000).map(|key| routed(&key.to_string())).collect()),
            b"long" => Ok(vec![routed(&"k".repeat(LONG))]),
            b"unknown" => Ok(vec![RoutedKey {
                queue: "nobody's".into(),
                key: "a".into(),
                delay_ms: 0,
            }]),
            _ => Ok(Vec::new()),
        }
    }
}

/// Logs the message of a panic, like the SDK.
fn log_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            host::log::write(host::log::Level::Error, &info.to_string(), &[])
        }));
    });
}

/// Watches ConfigMaps; the policy limits it to one namespace.
const DESCRIPTION: &str = r#"{"format": 1, "name": "faulty", "version": "0.1.0",
    "watches": [{"kind": "v1/ConfigMap", "map": [{"to": "itself"}]}],
    "queues": [{"name": "faulty"}],
    "permissions": [{"kind": "v1/ConfigMap", "verbs": ["get", "create"]}],
    "metrics": [{"name": "faulty_total", "help": "Faults.", "type": "counter", "labels": ["label"]}]}"#;

/// Watches all Secrets whole.
const WATCHER: &str = r#"{"format": 1, "name": "watcher", "queues": [{"name": "watcher"}],
    "watches": [{"kind": "v1/Secret", "fields": ["."], "map": [{"to": "itself"}]}]}"#;

/// The description with another list.
fn with(field: &str, items: &str) -> String {
    format!(
        r#"{{"format": 1, "name": "faulty", "queues": [{{"name": "faulty"}}], "{field}": [{items}]}}"#
    )
}

fn spin() -> ! {
    loop {
        std::hint::black_box(CALLS.load(Relaxed));
    }
}

fn unreachable_instruction() -> ! {
    core::arch::wasm32::unreachable()
}

fn recurse(depth: u32) -> u32 {
    if std::hint::black_box(depth) == u32::MAX {
        0
    } else {
        recurse(depth + 1) + 1
    }
}

/// Allocates memory until there is none left, without freeing it.
fn grow() -> ! {
    loop {
        std::hint::black_box(vec![1_u8; 1 << 20].leak());
    }
}

/// Allocates more memory at once than there is.
fn huge() -> Outcome {
    let bytes = std::hint::black_box(vec![1_u8; 1 << 30]);
    Outcome::Failed(bytes.len().to_string())
}

fn log(message: &str) {
    host::log::write(host::log::Level::Info, message, &[]);
}

fn emit(message: &str) {
    let about = ObjectReference {
        kind: "v1/ConfigMap".into(),
        namespace: "default".into(),
        name: "a".into(),
        uid: "u".into(),
    };
    host::events::emit(&about, "Normal", "Fault", message, &[]);
}

/// Converts the result of a host call to an outcome.
fn outcome<T>(result: Result<T, Error>) -> Outcome {
    result.map_or_else(
        |error| Outcome::Failed(format!("{}: {}", error.reason, error.message)),
        |_| Outcome::Done,
    )
}

/// Enqueues the key again at once.
fn again(queue: &str, key: &str) -> Outcome {
    outcome(host::queue::add(queue, key))
}

/// Enqueues keys until the host refuses.
fn enqueue(queue: &str) -> Outcome {
    for key in 0.. {
        if let Err(error) = host::queue::add_after(queue, &format!("done/{key}"), 3_600_000) {
            return outcome::<()>(Err(error));
        }
    }
    Outcome::Done
}

/// Fills the memo until the host refuses.
fn memo() -> Outcome {
    for key in 0.. {
        if let Err(error) = host::memo::put(&key.to_string(), 0, &[0; 4096], "", 0) {
            return outcome::<()>(Err(error));
        }
    }
    Outcome::Done
}

/// Writes endlessly.
fn writes() -> ! {
    for number in 0_u64.. {
        let batch = Batch::new();
        for place in 0..100 {
            let object = format!(r#"{{"metadata": {{"name": "flood-{number}-{place}"}}}}"#);
            batch.create(&target("default", ""), object.as_bytes(), &[], &[]);
        }
        batch.run();
    }
    unreachable_instruction()
}

fn target(namespace: &str, name: &str) -> Target {
    Target {
        kind: "v1/ConfigMap".into(),
        namespace: namespace.into(),
        name: name.into(),
        subresource: String::new(),
    }
}

fn write(target: Target, object: Vec<u8>) -> Outcome {
    let batch = Batch::new();
    batch.create(&target, &object, &[], &[]);
    outcome(batch.run().pop().unwrap_or(Ok(Vec::new())))
}

/// Runs one live read.
fn read(add: impl FnOnce(&host::reader::Batch)) -> Result<Vec<u8>, Error> {
    let batch = host::reader::Batch::new();
    add(&batch);
    batch.run().pop().unwrap_or(Ok(Vec::new()))
}

/// Passes invalid UTF-8, which the host must reject.
fn broken_text() -> Outcome {
    #[allow(unsafe_code, reason = "a text that is not UTF-8 can't be made without")]
    // SAFETY: the text is only passed on.
    let text = unsafe { String::from_utf8_unchecked(vec![0xff, 0xfe, b'a', 0xc3]) };
    log(&text);
    Outcome::Done
}

/// Passes names that would refer to other resources if they were inserted into a path.
fn forged() -> Outcome {
    let mut results = Vec::new();
    for (namespace, name) in [
        ("default", "../../secrets/token"),
        ("default/../kube-system", "a"),
        ("default", "a?watch=true"),
        ("default", "a%2f..%2fb"),
        ("../../apis", ".."),
    ] {
        results.push(
            host::lister::get("v1/ConfigMap", namespace, name, &[])
                .is_ok_and(|found| found.is_some()),
        );
        results.push(read(|batch| batch.get("v1/ConfigMap", namespace, name, &[])).is_ok());
        results.push(matches!(
            write(target(namespace, name), b"{}".to_vec()),
            Outcome::Done
        ));
    }
    let accepted = results.iter().filter(|accepted| **accepted).count();
    Outcome::Failed(format!(
        "{accepted} of {} forged names were accepted",
        results.len()
    ))
}

fn other_namespace() -> Outcome {
    write(
        target("kube-system", "mine"),
        br#"{"metadata": {"name": "mine"}}"#.to_vec(),
    )
}

/// The host's error for each import without a grant.
fn ungranted() -> Vec<String> {
    let line = |name: &str, result: Result<(), Error>| match result {
        Ok(()) => format!("{name}: granted"),
        Err(error) => format!("{name}: {}", error.reason),
    };
    vec![
        line(
            "sign-jwt",
            host::signer::sign_jwt("service-account", b"{}").map(drop),
        ),
        line(
            "verify-jwt",
            host::signer::verify_jwt("service-account", "a.b.c").map(drop),
        ),
        line(
            "certificate-authority",
            host::signer::certificate_authority("example.com/a").map(drop),
        ),
        line(
            "sign-certificate",
            host::signer::sign_certificate(
                "example.com/a",
                &script::template(&flyball_sdk::serde_json::Value::Null),
            )
            .map(drop),
        ),
        line("raw", read(|batch| batch.raw("/api/v1/secrets")).map(drop)),
        line("kinds", host::discovery::kinds().map(drop)),
        line(
            "secrets",
            host::lister::get("v1/Secret", "kube-system", "token", &[]).map(drop),
        ),
        line(
            "live-secrets",
            read(|batch| batch.get("v1/Secret", "kube-system", "token", &[])).map(drop),
        ),
    ]
}

/// Returns the status and the body of a server's HTTP response, or the error.
fn http_get(server: &str) -> String {
    use wasip2::http::outgoing_handler::handle;
    use wasip2::http::types::{ErrorCode, Fields, OutgoingRequest, Scheme};

    let read = || -> Result<(u16, Vec<u8>), ErrorCode> {
        let request = OutgoingRequest::new(Fields::new());
        let set = [
            request.set_scheme(Some(&Scheme::Http)),
            request.set_authority(Some(server)),
            request.set_path_with_query(Some("/")),
        ];
        set.into_iter()
            .collect::<Result<(), ()>>()
            .map_err(|()| ErrorCode::HttpRequestUriInvalid)?;
        let future = handle(request, None)?;
        future.subscribe().block();
        let response = future
            .get()
            .and_then(Result::ok)
            .ok_or(ErrorCode::ConnectionTerminated)??;
        let status = response.status();
        let body = response
            .consume()
            .map_err(|()| ErrorCode::HttpResponseIncomplete)?;
        let stream = body
            .stream()
            .map_err(|()| ErrorCode::HttpResponseIncomplete)?;
        // A stream that has ended has no more to read.
        Ok((status, stream.blocking_read(1024).unwrap_or_default()))
    };
    match read() {
        Ok((status, body)) => {
            let body = String::from_utf8_lossy(&body);
            format!("{server} responded {status} {body}")
        }
        Err(error) => format!("no response from {server}: {error:?}"),
    }
}

fn routed(key: &str) -> RoutedKey {
    RoutedKey {
        queue: "faulty".into(),
        key: key.into(),
        delay_ms: 0,
    }
}
