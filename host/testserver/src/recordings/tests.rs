//! Recorded calls over the protocol.

use flyball_recording::{Call, FORMAT, Header, Input, Kept, Step, StopLimit, answer, asked, file};

use super::*;

/// Writes a recording of a call that reads an object, and of one that was stopped. Returns the folder with `a.fbrec`.
fn recorded() -> tempfile::TempDir {
    let header = Header {
        flyball_recording: FORMAT,
        ..Header::default()
    };
    let asked = asked::lister_get("v1/ConfigMap", "a", "x", &["data"]);
    let call = |ended| Call {
        call: Input::Reconcile {
            queue: "q".into(),
            key: "a/x".into(),
            attempt: 2,
        },
        digest: String::new(),
        began: String::new(),
        took_ms: 0.0,
        kept: Kept::Asked,
        hidden: 0,
        steps: vec![Step {
            import: asked.import.into(),
            asked: answer::write(&asked.arguments),
            answered: Some(answer::write(
                &json!({"ok": {"object": {"data": {"b": "1"}}}}),
            )),
        }],
        ended,
    };
    let stopped = Ended::Stopped {
        limit: StopLimit::Cpu,
        message: String::new(),
        backtrace: None,
    };
    let lines = [call(Ended::Done {}), call(stopped)].map(|call| file::call_line(&call).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let bytes = [file::header_line(&header), lines.concat()].concat();
    std::fs::write(folder.path().join("a.fbrec"), bytes).unwrap();
    folder
}

/// Sends calls to a server, and returns the replies.
fn replies(lines: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let mut output = Vec::new();
    crate::serve(lines.join("\n").as_bytes(), &mut output).expect("memory");
    let text = String::from_utf8(output).expect("JSON");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn a_recorded_call_answers_a_controller_in_place_of_a_cluster() {
    let folder = recorded();
    let file = folder.path().join("a.fbrec");
    let get = json!({"kind": "v1/ConfigMap", "namespace": "a", "name": "x", "fields": ["data"]});
    let found = replies(&[
        json!({"call": "recording", "with": {"file": file}}),
        json!({"call": "replay", "with": {"file": file, "line": 2}}),
        json!({"cluster": 0, "call": "lister.get", "with": get}),
        json!({"cluster": 0, "call": "replayed", "with": {"ended": {"done": {}}}}),
    ]);
    let listed = found[0]["ok"].as_array().unwrap();
    assert_eq!(listed.len(), 1, "the call that was stopped is left out");
    assert_eq!(listed[0]["line"], 2);
    assert_eq!(listed[0]["call"]["reconcile"]["attempt"], 2);
    assert_eq!(found[2], json!({"ok": {"data": {"b": "1"}}}));
    assert_eq!(found[3], json!({"ok": null}));
}

#[test]
fn a_call_that_must_be_fixed_and_did_not_fail_is_repeated_as_ever() {
    let folder = recorded();
    let file = folder.path().join("a.fbrec");
    let get = json!({"kind": "v1/ConfigMap", "namespace": "a", "name": "x", "fields": ["data"]});
    let ended = |ended: Value| json!({"cluster": 0, "call": "replayed", "with": {"ended": ended, "fixed": true}});
    let of = |end: Value| {
        replies(&[
            json!({"call": "replay", "with": {"file": file, "line": 2}}),
            json!({"cluster": 0, "call": "lister.get", "with": get}),
            ended(end),
        ])
        .remove(2)
    };
    assert_eq!(of(json!({"done": {}})), json!({"ok": null}));
    // The recording has a failed call: the one that was stopped.
    let list = |file: &Path| {
        let of_failed = json!({"call": "recording", "with": {"file": file, "fixed": true}});
        replies(&[of_failed]).remove(0)
    };
    assert!(list(&file)["ok"].is_array());
    let bytes = std::fs::read(&file).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    let without = folder.path().join("without.fbrec");
    std::fs::write(&without, lines[..2].concat()).unwrap();
    let mistake = list(&without)["mistake"].to_string();
    assert!(
        mistake.contains("without.fbrec: the recording has no call that failed"),
        "{mistake}"
    );
    let failed = of(json!({"failed": {"message": "no"}}));
    let mistake = failed["mistake"].as_str().unwrap_or_default();
    assert!(mistake.contains("now:    it fails: no"), "{failed}");
}

#[test]
fn a_call_that_parts_is_a_mistake_that_says_where() {
    let folder = recorded();
    let file = folder.path().join("a.fbrec");
    let get = json!({"kind": "v1/ConfigMap", "namespace": "a", "name": "y", "fields": ["data"]});
    let found = replies(&[
        json!({"call": "replay", "with": {"file": file, "line": 2}}),
        json!({"cluster": 0, "call": "lister.get", "with": get}),
        json!({"call": "replay", "with": {"file": file, "line": 2}}),
        json!({"cluster": 1, "call": "replayed", "with": {"ended": {"done": {}}}}),
        json!({"call": "replay", "with": {"file": file, "line": 9}}),
    ]);
    let mistake = |reply: &Value| reply["mistake"].as_str().unwrap_or_default().to_owned();
    assert!(
        mistake(&found[1]).contains("name: \"x\" → \"y\""),
        "{}",
        found[1]
    );
    assert!(
        mistake(&found[3]).contains("asks nothing more"),
        "{}",
        found[3]
    );
    assert!(mistake(&found[4]).contains("no call there"), "{}", found[4]);
}
