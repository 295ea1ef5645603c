//! A guest that misbehaves as its key says, for the tests and the benchmarks of the host: it calls
//! the world's imports without the SDK's care. What it does when it is described, its configuration
//! says.
//!
//! Where the host refuses something, the outcome says with which words.
#![cfg(target_arch = "wasm32")]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use flyball_sdk::wasm::bindings::export_controller;
use flyball_sdk::wasm::bindings::exports::flyball::controller::guest::{
    Delta, Guest, Outcome, RoutedKey,
};
use flyball_sdk::wasm::bindings::flyball::controller as host;
use host::types::{Error, ObjectReference};
use host::writer::{Batch, Target};

/// Far more than the host takes at once.
const LONG: usize = 100 << 20;

struct Faulty;

export_controller!(Faulty with_types_in flyball_sdk::wasm::bindings);

/// The calls of this instance.
static CALLS: AtomicU32 = AtomicU32::new(0);

impl Guest for Faulty {
    fn describe() -> Vec<u8> {
        log_panics();
        let text = match host::config::get("describe").as_deref() {
            Some("panic") => panic!("it can't say what it is"),
            Some("unreachable") => unreachable_instruction(),
            Some("spin") => spin(),
            Some("logs") => loop {
                log("what am I?");
            },
            Some("malformed") => "{\"name\": \"fau".into(),
            Some("long") => " ".repeat(LONG),
            Some("ungranted") => ungranted().join("; "),
            _ => DESCRIPTION.to_owned(),
        };
        text.into_bytes()
    }

    fn reconcile(queue: String, key: String, _attempt: u32) -> Outcome {
        log_panics();
        let calls = CALLS.fetch_add(1, Relaxed) + 1;
        // What follows a `/` makes keys different.
        match key.split('/').next().unwrap_or_default() {
            "spin" => spin(),
            "recurse" => Outcome::Failed(recurse(calls).to_string()),
            "grow" => grow(),
            "huge" => huge(),
            "requeue" => Outcome::RequeueAfter(0),
            "again" => again(&queue, &key),
            "enqueue" => enqueue(&queue),
            "long-key" => said(host::queue::add(&queue, &"k".repeat(1 << 20))),
            "logs" => loop {
                log("what a day");
            },
            "long-log" => {
                log(&"x".repeat(LONG));
                Outcome::Done
            }
            "some-logs" => {
                (0..10_000).for_each(|_| log("what a day"));
                Outcome::Done
            }
            "events" => loop {
                emit("what a day");
            },
            "some-events" => {
                (0..10_000).for_each(|_| emit(&"what a day ".repeat(10_000)));
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
            "http" => said_by(key.split_once('/').map_or("nobody", |(_, server)| server)),
            "long-answer" => Outcome::Failed("x".repeat(LONG)),
            "wordy" => Outcome::Failed("x".repeat(1 << 20)),
            "panic" => panic!("it does not know what to do with {key}"),
            "unreachable" => unreachable_instruction(),
            "hundredth" if calls.is_multiple_of(100) => panic!("this is call {calls}"),
            _ => Outcome::Done,
        }
    }

    fn route(deltas: Vec<Delta>) -> Result<Vec<RoutedKey>, String> {
        log_panics();
        let first = deltas.first().and_then(|delta| delta.new.as_deref());
        match first.unwrap_or_default() {
            b"panic" => panic!("it does not know where to go"),
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

/// Sends the message of a panic to the host's log, as the SDK does.
fn log_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            host::log::write(host::log::Level::Error, &info.to_string(), &[])
        }));
    });
}

/// It wants ConfigMaps, in one namespace by its policy.
const DESCRIPTION: &str = r#"{"format": 1, "name": "faulty", "version": "0.1.0",
    "watches": [{"kind": "v1/ConfigMap", "map": [{"to": "itself"}]}],
    "queues": [{"name": "faulty"}],
    "permissions": [{"kind": "v1/ConfigMap", "verbs": ["get", "create"]}],
    "metrics": [{"name": "faulty_total", "help": "Faults.", "type": "counter", "labels": ["label"]}]}"#;

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

/// Takes memory until there is none, and does not let it go.
fn grow() -> ! {
    loop {
        std::hint::black_box(vec![1_u8; 1 << 20].leak());
    }
}

/// Takes more at once than there is.
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

/// What the host says, as an outcome.
fn said<T>(answer: Result<T, Error>) -> Outcome {
    answer.map_or_else(
        |error| Outcome::Failed(format!("{}: {}", error.reason, error.message)),
        |_| Outcome::Done,
    )
}

/// Done, and once more at once.
fn again(queue: &str, key: &str) -> Outcome {
    said(host::queue::add(queue, key))
}

/// Adds keys until the host takes no more.
fn enqueue(queue: &str) -> Outcome {
    for key in 0.. {
        if let Err(error) = host::queue::add_after(queue, &format!("done/{key}"), 3_600_000) {
            return said::<()>(Err(error));
        }
    }
    Outcome::Done
}

/// Fills the memo until the host takes no more.
fn memo() -> Outcome {
    for key in 0.. {
        if let Err(error) = host::memo::put(&key.to_string(), 0, &[0; 4096], "", 0) {
            return said::<()>(Err(error));
        }
    }
    Outcome::Done
}

/// Writes without end.
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
    said(batch.run().pop().unwrap_or(Ok(Vec::new())))
}

/// Makes one live read.
fn read(add: impl FnOnce(&host::reader::Batch)) -> Result<Vec<u8>, Error> {
    let batch = host::reader::Batch::new();
    add(&batch);
    batch.run().pop().unwrap_or(Ok(Vec::new()))
}

/// A text that is none: the host must not take it for one.
fn broken_text() -> Outcome {
    #[allow(unsafe_code, reason = "a text that is not UTF-8 can't be made without")]
    // SAFETY: the text is only passed on.
    let text = unsafe { String::from_utf8_unchecked(vec![0xff, 0xfe, b'a', 0xc3]) };
    log(&text);
    Outcome::Done
}

/// Names that would lead elsewhere if they were put into a path.
fn forged() -> Outcome {
    let mut answers = Vec::new();
    for (namespace, name) in [
        ("default", "../../secrets/token"),
        ("default/../kube-system", "a"),
        ("default", "a?watch=true"),
        ("default", "a%2f..%2fb"),
        ("../../apis", ".."),
    ] {
        answers.push(
            host::lister::get("v1/ConfigMap", namespace, name, &[])
                .is_ok_and(|found| found.is_some()),
        );
        answers.push(read(|batch| batch.get("v1/ConfigMap", namespace, name, &[])).is_ok());
        answers.push(matches!(
            write(target(namespace, name), b"{}".to_vec()),
            Outcome::Done
        ));
    }
    let taken = answers.iter().filter(|taken| **taken).count();
    Outcome::Failed(format!(
        "{taken} of {} forged names were taken",
        answers.len()
    ))
}

fn other_namespace() -> Outcome {
    write(
        target("kube-system", "mine"),
        br#"{"metadata": {"name": "mine"}}"#.to_vec(),
    )
}

/// What the host says of each import that nobody granted.
fn ungranted() -> Vec<String> {
    let words = |name: &str, answer: Result<(), Error>| match answer {
        Ok(()) => format!("{name}: granted"),
        Err(error) => format!("{name}: {}", error.reason),
    };
    vec![
        words(
            "sign-jwt",
            host::signer::sign_jwt("service-account", b"{}").map(drop),
        ),
        words(
            "verify-jwt",
            host::signer::verify_jwt("service-account", "a.b.c").map(drop),
        ),
        words("raw", read(|batch| batch.raw("/api/v1/secrets")).map(drop)),
        words("kinds", host::discovery::kinds().map(drop)),
        words(
            "secrets",
            host::lister::get("v1/Secret", "kube-system", "token", &[]).map(drop),
        ),
        words(
            "live-secrets",
            read(|batch| batch.get("v1/Secret", "kube-system", "token", &[])).map(drop),
        ),
    ]
}

/// Fails with what a server answers to a request over HTTP, or with why it answers nothing.
fn said_by(server: &str) -> Outcome {
    use wasip2::http::outgoing_handler::handle;
    use wasip2::http::types::{ErrorCode, Fields, OutgoingRequest, Scheme};

    let read = || -> Result<Vec<u8>, ErrorCode> {
        let request = OutgoingRequest::new(Fields::new());
        let set = [
            request.set_scheme(Some(&Scheme::Http)),
            request.set_authority(Some(server)),
            request.set_path_with_query(Some("/")),
        ];
        set.into_iter()
            .collect::<Result<(), ()>>()
            .map_err(|()| ErrorCode::HttpRequestUriInvalid)?;
        let answer = handle(request, None)?;
        answer.subscribe().block();
        let response = answer
            .get()
            .and_then(Result::ok)
            .ok_or(ErrorCode::ConnectionTerminated)??;
        let body = response
            .consume()
            .map_err(|()| ErrorCode::HttpResponseIncomplete)?;
        let stream = body
            .stream()
            .map_err(|()| ErrorCode::HttpResponseIncomplete)?;
        stream
            .blocking_read(1024)
            .map_err(|_| ErrorCode::HttpResponseIncomplete)
    };
    Outcome::Failed(match read() {
        Ok(body) => format!("{server} says {}", String::from_utf8_lossy(&body)),
        Err(error) => format!("{server} says nothing: {error:?}"),
    })
}

fn routed(key: &str) -> RoutedKey {
    RoutedKey {
        queue: "faulty".into(),
        key: key.into(),
        delay_ms: 0,
    }
}
