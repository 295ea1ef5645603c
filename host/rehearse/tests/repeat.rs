//! Calls of a guest are recorded and repeated: against the same guest, against others, and from recordings that lie.

#[path = "repeat/hostile.rs"]
mod hostile;
#[path = "repeat/shadow.rs"]
mod shadow;
#[path = "../../plugin/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_plugin::{Delta, Engine, Limits, Plugin};
use flyball_recording::file::{call as read_call, call_line};
use flyball_recording::{Call, Ended, FORMAT, Header, Input, Kept, Parted};
use flyball_rehearse::{Recorder, Verdict, Wanted, limits, of_reconcile, of_route, replay};
use flyball_types::description::DeltaType;
use serde_json::value::RawValue;
use support::{Fake, component, engine, guest, plain};

/// The memory of the recorder, in bytes.
const MEMORY: usize = 8 << 20;

fn header() -> Header {
    Header {
        flyball_recording: FORMAT,
        with_secrets: true,
        ..Header::default()
    }
}

async fn plugin_of(engine: &Engine, wasm: Vec<u8>, limits: Limits) -> Plugin {
    let component = engine.load(wasm.into()).await.unwrap();
    Plugin::new(engine, component, limits).unwrap()
}

/// Reconciles a key with these imports, and returns the recorded call.
async fn recorded(plugin: &Plugin, imports: Arc<Fake>, key: &str, attempt: u32) -> Call {
    let recorder = Recorder::new(MEMORY);
    let mut listener = recorder.listen(Wanted {
        key: None,
        all: true,
    });
    let session = recorder.begin(imports);
    let result = plugin
        .reconcile(session.imports(), "queue", key, attempt)
        .await;
    let input = || Input::Reconcile {
        queue: "queue".into(),
        key: key.into(),
        attempt,
    };
    session
        .end("0123", Some(key), of_reconcile(&result), input)
        .await;
    let line = listener.next().await.expect("a call");
    read_call(&line).unwrap()
}

async fn recorded_by(wasm: Vec<u8>, imports: Arc<Fake>, key: &str, attempt: u32) -> Call {
    let plugin = plugin_of(&engine(), wasm, Limits::default()).await;
    recorded(&plugin, imports, key, attempt).await
}

/// Repeats a call with a guest.
async fn repeated(wasm: Vec<u8>, header: &Header, call: &Call) -> Verdict {
    let plugin = plugin_of(&engine(), wasm, limits(header, call)).await;
    replay(&plugin, header, call, &BTreeMap::new())
        .await
        .unwrap()
}

/// The guest with one part of its text replaced.
fn mutant(from: &str, to: &str) -> Vec<u8> {
    let text = include_str!("../../plugin/tests/support/guest.wat");
    assert_eq!(text.matches(from).count(), 1, "{from}");
    component(&text.replace(from, to), None)
}

#[tokio::test]
async fn each_call_is_repeated_as_it_was() {
    for (key, attempt) in [
        ("done", 0),
        ("calls", 0),
        ("fail", 0),
        ("terminal", 0),
        ("get", 0),
        ("page", 0),
        ("write", 0),
        ("raw", 3),
        ("all", 40),
        ("o", 0),
        ("unreachable", 0),
        ("nest", 0),
        ("x", 0),
        ("keep", 0),
    ] {
        let call = recorded_by(guest(), plain(), key, attempt).await;
        let verdict = repeated(guest(), &header(), &call).await;
        assert_eq!(verdict.parted, None, "{key}");
        assert_eq!(
            verdict
                .ended
                .as_ref()
                .map(|ended| ended.is_like(&call.ended)),
            Some(true),
            "{key}"
        );
        assert_eq!(verdict.note(&call), None, "{key}");
    }
}

#[tokio::test]
async fn a_recording_that_went_through_a_file_is_repeated_too() {
    let call = recorded_by(guest(), plain(), "write", 0).await;
    let call = read_call(&call_line(&call).unwrap()).unwrap();
    assert_eq!(repeated(guest(), &header(), &call).await.parted, None);
}

#[tokio::test]
async fn mutants_of_a_guest_are_found() {
    // A mutant, and a call that it does otherwise.
    let mutants = [
        (
            "(call $write (i32.const 3) (i32.const 7))",
            "(call $write (i32.const 2) (i32.const 7))",
            "write",
        ),
        (
            "(call $write (i32.const 3) (i32.const 7))",
            "(call $write (i32.const 3) (i32.const 6))",
            "write",
        ),
        (
            "(data (i32.const 256) \"v1/Pod\")",
            "(data (i32.const 256) \"v1/Job\")",
            "get",
        ),
        (
            "(data (i32.const 272) \"default\")",
            "(data (i32.const 272) \"another\")",
            "write",
        ),
        (
            "(call $list-pods (i32.const 1000))",
            "(call $list-pods (i32.const 999))",
            "page",
        ),
        (
            "(data (i32.const 288) \"it went wrong\")",
            "(data (i32.const 288) \"it was wrong!\")",
            "fail",
        ),
        (
            "(call $fail (i32.const 3))",
            "(call $fail (i32.const 2))",
            "terminal",
        ),
        (
            "(data (i32.const 336) \"/slow\")",
            "(data (i32.const 336) \"/fast\")",
            "raw",
        ),
        (
            "(if (i32.eq (local.get $do) (i32.const 103)) (then (call $read-one)))",
            "",
            "get",
        ),
        (
            "(call $run (local.get $handle) (i32.const 64))",
            "",
            "write",
        ),
        (
            "(call $log (i32.const 4) (i32.const 288)",
            "(call $log (i32.const 4) (i32.const 304)",
            "unreachable",
        ),
    ];
    for (from, to, key) in mutants {
        let call = recorded_by(guest(), plain(), key, 1).await;
        assert_eq!(
            repeated(guest(), &header(), &call).await.parted,
            None,
            "{key}"
        );
        let verdict = repeated(mutant(from, to), &header(), &call).await;
        assert!(verdict.parted.is_some(), "{from} → {to}");
    }
}

#[tokio::test]
async fn the_first_difference_is_shown_with_its_fields() {
    let call = recorded_by(guest(), plain(), "page", 0).await;
    let other = mutant(
        "(call $list-pods (i32.const 1000))",
        "(call $list-pods (i32.const 999))",
    );
    let parted = repeated(other, &header(), &call).await.parted.unwrap();
    let text = parted.to_string();
    assert!(text.contains("asked before: lister.list"), "{text}");
    assert!(text.contains("limit: 1000 → 999"), "{text}");
}

#[tokio::test]
async fn a_call_without_end_is_repeated_up_to_its_limit() {
    let short = || Limits {
        cpu_per_call: Duration::from_millis(50),
        ..Limits::default()
    };
    let header = Header {
        limits: flyball_recording::GuestLimits {
            cpu_ms: 50,
            ..flyball_recording::GuestLimits::default()
        },
        ..header()
    };
    for key in ["spin", "R"] {
        let plugin = plugin_of(&engine(), guest(), short()).await;
        let call = recorded(&plugin, plain(), key, 0).await;
        assert!(call.ended.is_by_time(), "{key}: {}", call.ended);
        assert_eq!(call.kept, Kept::Trapped);
        let verdict = repeated(guest(), &header, &call).await;
        assert_eq!(verdict.parted, None, "{key}");
        assert!(verdict.note(&call).is_some(), "{key}");
    }
    // A version that ends by itself is another one.
    let plugin = plugin_of(&engine(), guest(), short()).await;
    let call = recorded(&plugin, plain(), "spin", 0).await;
    let cured = mutant(
        "(loop $again (br $again))))\n    ;; memory",
        "))\n    ;; memory",
    );
    let parted = repeated(cured, &header, &call).await.parted;
    assert!(matches!(parted, Some(Parted::Ends { .. })), "{parted:?}");
}

#[tokio::test]
async fn a_call_that_was_stopped_while_it_waited_is_stopped_there() {
    let limits = Limits {
        wall_per_call: Duration::from_millis(100),
        ..Limits::default()
    };
    let plugin = plugin_of(&engine(), guest(), limits).await;
    let hanging = Fake::new(|fake| fake.hangs = true);
    let call = recorded(&plugin, hanging, "raw", 1).await;
    assert!(call.steps.last().unwrap().answered.is_none());
    let verdict = repeated(guest(), &header(), &call).await;
    assert_eq!((verdict.parted, verdict.ended), (None, None));
}

#[tokio::test]
async fn routes_are_repeated() {
    let delta = |object: &str| Delta {
        watch: "v1/Pod".into(),
        delta_type: DeltaType::Modified,
        old: Some(Bytes::from("{}")),
        new: Some(object.to_owned().into()),
        initial: false,
    };
    for object in ["[1]", "!", "?"] {
        let plugin = plugin_of(&engine(), guest(), Limits::default()).await;
        let recorder = Recorder::new(MEMORY);
        let mut listener = recorder.listen(Wanted {
            key: None,
            all: true,
        });
        let session = recorder.begin(plain());
        let routed = plugin.route(session.imports(), vec![delta(object)]).await;
        let input = || Input::Route {
            deltas: vec![flyball_recording::Delta {
                watch: "v1/Pod".into(),
                delta_type: DeltaType::Modified,
                old: Some(flyball_recording::Document(b"{}".to_vec())),
                new: Some(flyball_recording::Document(object.into())),
                initial: false,
            }],
        };
        session.end("0123", None, of_route(&routed), input).await;
        let call = read_call(&listener.next().await.unwrap()).unwrap();
        let verdict = repeated(guest(), &header(), &call).await;
        assert_eq!(verdict.parted, None, "{object}");
    }
}

#[tokio::test]
async fn calls_that_end_well_are_not_kept_and_hold_no_memory() {
    let plugin = plugin_of(&engine(), guest(), Limits::default()).await;
    let recorder = Recorder::new(MEMORY);
    for key in ["done", "get", "write"] {
        let session = recorder.begin(plain());
        let result = plugin.reconcile(session.imports(), "queue", key, 0).await;
        let input = || -> Input { panic!("it is not written down") };
        session
            .end("0123", Some(key), of_reconcile(&result), input)
            .await;
        assert_eq!(recorder.bytes(), 0, "{key}");
    }
    let session = recorder.begin(plain());
    let result = plugin
        .reconcile(session.imports(), "queue", "fail", 0)
        .await;
    let input = || Input::Reconcile {
        queue: "queue".into(),
        key: "fail".into(),
        attempt: 0,
    };
    session
        .end("0123", Some("fail"), of_reconcile(&result), input)
        .await;
    let kept = recorder.kept();
    assert_eq!(kept.len(), 1);
    assert_eq!(read_call(&kept[0]).unwrap().kept, Kept::Failed);
}

#[tokio::test]
async fn lies_end_a_call_and_harm_nobody() {
    let raw = |text: &str| Some(RawValue::from_string(text.into()).unwrap());
    let honest = recorded_by(guest(), plain(), "write", 0).await;
    let last = honest.steps.len() - 1;
    for (lie, is_parted) in [
        // Other types, more answers than writes, and no answer at all.
        (raw("{\"ok\":7}"), true),
        (
            raw("{\"ok\":[{\"ok\":{}},{\"ok\":{}},{\"ok\":{}},{\"ok\":{}}]}"),
            true,
        ),
        (raw("null"), true),
        (None, false),
    ] {
        let mut call = honest.clone();
        call.steps[last].answered = lie;
        let verdict = repeated(guest(), &header(), &call).await;
        assert_eq!(verdict.parted.is_some(), is_parted, "{:?}", verdict.parted);
    }
    // A cursor that there is not, and an answer that is larger than a call may get.
    let mut call = recorded_by(guest(), plain(), "page", 0).await;
    let large = format!("{{\"ok\":{{\"items\":[\"{}\"]}}}}", "x".repeat(1 << 20));
    let last = call.steps.len() - 1;
    call.steps[last].answered = raw(&large);
    let header = Header {
        limits: flyball_recording::GuestLimits {
            answer_bytes: 1000,
            ..flyball_recording::GuestLimits::default()
        },
        ..header()
    };
    let verdict = repeated(guest(), &header, &call).await;
    assert!(
        matches!(verdict.ended, Some(Ended::RequeueAfter { ms: 1_000_000 })),
        "{:?}",
        verdict.ended
    );
}

fn input(key: &str) -> Input {
    Input::Reconcile {
        queue: "queue".into(),
        key: key.into(),
        attempt: 0,
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_took_long_is_kept_although_it_ended_well() {
    let recorder = Recorder::new(MEMORY);
    for (seconds, kept) in [(0, 0), (1, 1)] {
        let session = recorder.begin(plain());
        tokio::time::advance(Duration::from_secs(seconds)).await;
        let ended = Some(Ended::Done {});
        session
            .end("0123", Some("a/b"), ended, || input("a/b"))
            .await;
        assert_eq!(recorder.kept().len(), kept, "{seconds} s");
    }
    assert_eq!(read_call(&recorder.kept()[0]).unwrap().kept, Kept::Slow);
}

#[tokio::test]
async fn without_memory_nothing_is_noted_unless_somebody_listens() {
    let recorder = Recorder::new(0);
    let failed = || {
        Some(Ended::Failed {
            message: "no".into(),
        })
    };
    let session = recorder.begin(plain());
    session.imports().config_get("a");
    assert_eq!(recorder.bytes(), 0);
    session
        .end("0123", None, failed(), || panic!("it is not written down"))
        .await;
    let mut listener = recorder.listen(Wanted {
        key: Some("a/b".into()),
        all: false,
    });
    for key in ["a/a", "a/b"] {
        let session = recorder.begin(plain());
        session.imports().config_get("a");
        session
            .end("0123", Some(key), failed(), || input(key))
            .await;
    }
    let call = read_call(&listener.next().await.unwrap()).unwrap();
    assert_eq!((call.call.key(), call.steps.len()), (Some("a/b"), 1));
    assert!(recorder.kept().is_empty());
    drop(listener);
    // The listener is forgotten at the end of the next call.
    let session = recorder.begin(plain());
    session.end("0123", None, failed(), || input("a/c")).await;
    let session = recorder.begin(plain());
    session.imports().config_get("a");
    assert_eq!(recorder.bytes(), 0);
}

#[tokio::test]
async fn a_call_with_more_than_fits_is_counted_for_its_listener() {
    let recorder = Recorder::new(1000);
    let large = Fake::new(|fake| fake.object = vec![b'1'; 100 << 20]);
    let listener = recorder.listen(Wanted {
        key: None,
        all: true,
    });
    let session = recorder.begin(large);
    session
        .imports()
        .lister_get("v1/Pod", "a", "b", &[])
        .unwrap();
    assert_eq!(recorder.bytes(), 0, "its notes are dropped at once");
    session
        .end("0123", None, Some(Ended::Done {}), || input("a/b"))
        .await;
    assert_eq!(listener.dropped(), 1);
}
