//! Tests of recorded calls that are repeated natively.

use flyball_recording::{Asked, Kept, Step, StopLimit, answer, asked};
use serde_json::{Value, json};

use super::*;
use crate::prelude::*;

#[derive(View, Debug, Default)]
#[view(kind = "v1/Namespace")]
struct Namespace {
    #[view(path = "metadata")]
    meta: Meta,
}

/// Labels namespaces and panics for the namespace `worse`.
struct Marker;

impl Controller for Marker {
    fn describe() -> Description {
        describe("marker", "1.0.0")
            .watch(watch::<Namespace>().enqueue(Mapping::itself()))
            .queue("marker")
            .permission("v1/Namespace", ["get", "update"])
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        assert_ne!(request.key.name, "worse", "this one is worse");
        let Some(namespace) = host.get_by_key::<Namespace>(&request.key)? else {
            return Ok(Outcome::Done);
        };
        let change = json!({"metadata": {"labels": {"marked": "yes"}}});
        host.update(Namespace::KIND, &namespace.meta, &change)?;
        Ok(Outcome::Done)
    }
}

fn step(asked: Asked, answered: Value) -> Step {
    Step {
        import: asked.import.into(),
        asked: answer::write(&asked.arguments),
        answered: Some(answer::write(&answered)),
    }
}

/// The steps of a call that marks a namespace with this label.
fn steps(label: &str) -> Vec<Step> {
    let object = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
    let get = asked::lister_get("v1/Namespace", "", "a", Namespace::READS);
    let body = json!({"metadata": {"labels": {"marked": label}}}).to_string();
    let update = asked::Write {
        verb: "update",
        kind: "v1/Namespace",
        name: "a",
        resource_version: "7",
        body: Some(body.as_bytes()),
        ..asked::Write::default()
    };
    let update = asked::writer_run(vec![update.value()], None, false);
    vec![
        step(get, json!({"ok": {"object": object}})),
        step(update, json!({"ok": [{"ok": {"$base64": ""}}]})),
    ]
}

fn call(key: &str, steps: Vec<Step>, ended: Ended) -> Call {
    Call {
        call: Input::Reconcile {
            queue: "marker".into(),
            key: key.into(),
            attempt: 0,
        },
        digest: String::new(),
        began: String::new(),
        took_ms: 0.0,
        kept: Kept::Asked,
        hidden: 0,
        steps,
        ended,
    }
}

fn recording(call: Call) -> Recording {
    Recording {
        path: "calls.fbrec".into(),
        header: Header::default(),
        calls: vec![(2, call)],
    }
}

#[test]
fn a_call_is_repeated_natively() {
    recording(call("a", steps("yes"), Ended::Done {})).replay::<Marker>();
}

#[test]
#[should_panic = "writes[0].body.metadata.labels.marked: \"no\" → \"yes\""]
fn a_write_that_differs_fails_the_test() {
    recording(call("a", steps("no"), Ended::Done {})).replay::<Marker>();
}

#[test]
#[should_panic = "before: it is done, and asks to be called again"]
fn another_end_fails_the_test() {
    recording(call("a", steps("yes"), Ended::RequeueAfter { ms: 1 })).replay::<Marker>();
}

#[test]
fn a_trap_is_repeated_by_the_same_panic() {
    let trapped = |message: &str| Ended::Trapped {
        message: "wasm `unreachable` instruction executed".into(),
        last_error: Some(format!("panic: {message} (src/lib.rs:1)")),
        backtrace: None,
    };
    let repeat = |ended| {
        let recording = recording(call("worse", Vec::new(), ended));
        catch_unwind(AssertUnwindSafe(|| recording.replay::<Marker>()))
    };
    let message =
        "assertion `left != right` failed: this one is worse\n  left: \"worse\"\n right: \"worse\"";
    assert!(repeat(trapped(message)).is_ok());
    assert!(repeat(trapped("another")).is_err());
    assert!(repeat(Ended::Done {}).is_err());
}

#[test]
fn a_recorded_failure_must_end_well_or_get_past_its_last_step() {
    let failed = || Ended::Failed {
        message: "no".into(),
    };
    let fixed = |key: &str, steps: Vec<Step>, ended: Ended| {
        let recording = recording(call(key, steps, ended));
        let caught = catch_unwind(AssertUnwindSafe(|| recording.replay_fixed::<Marker>()));
        caught.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
    };
    assert_eq!(fixed("a", steps("yes"), failed()), Ok(()));
    let mut read = steps("yes");
    read.truncate(1);
    assert_eq!(fixed("a", read, failed()), Ok(()));
    let otherwise = fixed("a", steps("no"), failed()).unwrap_err();
    assert!(otherwise.contains("\"no\" → \"yes\""), "{otherwise}");
    let message =
        "assertion `left != right` failed: this one is worse\n  left: \"worse\"\n right: \"worse\"";
    let trapped = Ended::Trapped {
        message: "wasm `unreachable` instruction executed".into(),
        last_error: Some(format!("panic: {message} (src/lib.rs:1)")),
        backtrace: None,
    };
    let still = fixed("worse", Vec::new(), trapped).unwrap_err();
    assert!(still.contains("it still "), "{still}");
    let none = fixed("a", steps("yes"), Ended::Done {}).unwrap_err();
    assert!(none.contains("no call that failed"), "{none}");
}

#[test]
fn a_call_that_was_stopped_at_a_limit_is_stopped_after_its_last_step() {
    let stopped = Ended::Stopped {
        limit: StopLimit::Cpu,
        message: "used 1 s".into(),
        backtrace: None,
    };
    let mut steps = steps("yes");
    steps.truncate(1);
    recording(call("a", steps, stopped)).replay_line::<Marker>(2);
}

#[test]
fn the_description_is_repeated() {
    let mut described = call("a", Vec::new(), Ended::Done {});
    described.call = Input::Describe {
        config: BTreeMap::new(),
    };
    let description = serde_json::to_vec(&Marker::describe()).unwrap();
    described.ended = Ended::Described {
        description: Document(description),
    };
    recording(described).replay::<Marker>();
}
