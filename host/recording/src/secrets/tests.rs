//! Tests of hiding.

use serde_json::{Value, json};

use super::*;
use crate::{Asked, Delta, Kept, answer, asked};

/// `hunter-two-2` in Base64.
const DATA: &str = "aHVudGVyLXR3by0y";
const PLAIN: &str = "hunter-two-2";

fn step(asked: Asked, answered: Value) -> Step {
    Step {
        import: asked.import.into(),
        asked: answer::write(&asked.arguments),
        answered: Some(answer::write(&answered)),
    }
}

fn call(steps: Vec<Step>) -> Call {
    Call {
        call: Input::Reconcile {
            queue: "q".into(),
            key: "a/b".into(),
            attempt: 0,
        },
        digest: String::new(),
        began: String::new(),
        took_ms: 0.0,
        kept: Kept::Failed,
        hidden: 0,
        steps,
        ended: Ended::Failed {
            message: format!("the password {PLAIN} is wrong"),
        },
    }
}

/// Hides a call, and returns it as text.
fn hidden(mut call: Call) -> String {
    hide(&mut call, true).unwrap();
    let text = serde_json::to_string(&call).unwrap();
    assert!(!text.contains(DATA), "{text}");
    assert!(!text.contains(PLAIN), "{text}");
    assert!(call.hidden > 0);
    text
}

fn secret() -> Value {
    json!({"metadata": {"name": "s", "annotations": {LAST_APPLIED: PLAIN}}, "data": {"password": DATA}})
}

#[test]
fn data_is_hidden_in_reads_of_each_way() {
    let none: [&str; 0] = [];
    let query = flyball_types::Query {
        kind: SECRET.into(),
        ..flyball_types::Query::default()
    };
    let columns = flyball_types::Projection::Columns(vec!["metadata.name".into(), "data".into()]);
    let all = flyball_types::Projection::All;
    let ways = [
        step(
            asked::lister_get(SECRET, "a", "s", &none),
            json!({"ok": {"object": secret()}}),
        ),
        step(
            asked::lister_list(&query, &all, 0),
            json!({"ok": {"items": [secret()], "rest": 0}}),
        ),
        step(
            asked::lister_list(&query, &columns, 0),
            json!({"ok": {"items": [["s", {"password": DATA}]]}}),
        ),
        step(
            asked::reader_get(SECRET, "a", "s", &none),
            json!({"ok": secret()}),
        ),
        step(
            asked::reader_list(SECRET, "a", &[], &none),
            json!({"ok": {"items": [secret()]}}),
        ),
        step(
            asked::reader_raw("/api/v1/namespaces/a/secrets?limit=1"),
            json!({"ok": {"items": [secret()]}}),
        ),
    ];
    for way in ways {
        let text = hidden(call(vec![way]));
        assert!(
            text.contains("AAAAAAAAAAAAAAAA"),
            "of the same length: {text}"
        );
    }
}

#[test]
fn the_further_pages_of_a_list_of_secrets_are_hidden() {
    let query = flyball_types::Query {
        kind: SECRET.into(),
        ..flyball_types::Query::default()
    };
    let all = flyball_types::Projection::All;
    let first = step(
        asked::lister_list(&query, &all, 1),
        json!({"ok": {"items": [], "rest": 4}}),
    );
    let next = step(
        asked::lister_next(4, 1),
        json!({"ok": {"items": [secret()]}}),
    );
    hidden(call(vec![first, next]));
}

#[test]
fn data_is_hidden_in_writes_of_each_way() {
    let bodies: [(&'static str, Value); 4] = [
        ("create", secret()),
        ("update", json!({"data": {"password": DATA}})),
        (
            "patch",
            json!([{"op": "add", "path": "/data/password", "value": DATA}]),
        ),
        ("patch", json!({"stringData": {"password": PLAIN}})),
    ];
    for (verb, body) in bodies {
        let body = body.to_string();
        let write = asked::Write {
            verb,
            kind: SECRET,
            body: Some(body.as_bytes()),
            ..asked::Write::default()
        };
        let asked = asked::writer_run(vec![write.value()], None, false);
        hidden(call(vec![step(asked, json!({"ok": [{"ok": secret()}]}))]));
    }
}

#[test]
fn tokens_and_credentials_are_hidden() {
    let write = asked::Write {
        verb: "create",
        kind: "v1/ServiceAccount",
        subresource: "token",
        ..asked::Write::default()
    };
    let asked = asked::writer_run(vec![write.value()], None, false);
    let token = json!({"ok": [{"ok": {"status": {"token": PLAIN}}}]});
    for way in [
        step(asked, token),
        step(asked::sign_jwt("key", b"{}"), json!({"ok": PLAIN})),
        step(asked::verify_jwt("key", PLAIN), json!({"ok": {}})),
        step(asked::credentials_get("a"), json!({"ok": PLAIN})),
    ] {
        hidden(call(vec![way]));
    }
}

#[test]
fn what_a_call_does_with_the_data_is_hidden_too() {
    let none: [&str; 0] = [];
    let read = step(
        asked::lister_get(SECRET, "a", "s", &none),
        json!({"ok": {"object": secret()}}),
    );
    let body = json!({"data": {"copy": format!("password={PLAIN}")}}).to_string();
    let write = asked::Write {
        verb: "create",
        kind: "v1/ConfigMap",
        body: Some(body.as_bytes()),
        ..asked::Write::default()
    };
    let steps = vec![
        read,
        step(
            asked::writer_run(vec![write.value()], None, false),
            json!({"ok": [{"ok": {}}]}),
        ),
        step(
            asked::log_write("info", &format!("it is {PLAIN}!"), &[]),
            json!({"ok": null}),
        ),
        step(
            asked::memo_put("k", 0, DATA.as_bytes(), "", 0),
            json!({"ok": 1}),
        ),
        step(
            asked::memo_put("k", 0, format!("\u{1}{PLAIN}").as_bytes(), "", 0),
            json!({"ok": 1}),
        ),
    ];
    let text = hidden(call(steps));
    assert!(text.contains("password=AAAAAAAAAAAA"), "{text}");
    assert!(
        text.contains("the password AAAAAAAAAAAA is wrong"),
        "{text}"
    );
}

#[test]
fn deltas_of_secrets_are_hidden() {
    let mut call = call(Vec::new());
    call.call = Input::Route {
        deltas: vec![Delta {
            watch: SECRET.into(),
            delta_type: flyball_types::description::DeltaType::Added,
            old: None,
            new: Some(Document(secret().to_string().into())),
            initial: false,
        }],
    };
    hidden(call);
}

#[test]
fn other_objects_stay_as_they_are_byte_by_byte() {
    let none: [&str; 0] = [];
    let asked = asked::lister_get("v1/ConfigMap", "a", "s", &none);
    let answered =
        RawValue::from_string("{\"ok\": {\"object\":{\"data\" : {\"a\":1.0}}}}".into()).unwrap();
    let mut one = step(asked, Value::Null);
    one.answered = Some(answered.clone());
    let mut call = call(vec![one]);
    hide(&mut call, true).unwrap();
    assert_eq!(call.hidden, 0);
    assert_eq!(
        call.steps[0].answered.as_ref().unwrap().get(),
        answered.get()
    );
}

#[test]
fn a_call_with_too_much_to_hide_is_refused() {
    let many: Value = (0..MAX_TEXTS + 1)
        .map(|n| (format!("k{n}"), json!(format!("password-{n}"))))
        .collect();
    let none: [&str; 0] = [];
    let asked = asked::lister_get(SECRET, "a", "s", &none);
    let mut call = call(vec![step(asked, json!({"ok": {"object": {"data": many}}}))]);
    assert_eq!(hide(&mut call, false), Err(TooMany));
}
