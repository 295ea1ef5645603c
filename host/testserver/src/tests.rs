//! The protocol, line by line.

use serde_json::{Value, json};

use super::serve;

/// Sends calls to cluster 0, which is created first, and returns the replies.
fn replies(calls: &[(&str, Value)]) -> Vec<Value> {
    let line = |call: &str, with: &Value| json!({"cluster": 0, "call": call, "with": with});
    let mut lines = vec![json!({"call": "new"}).to_string()];
    lines.extend(
        calls
            .iter()
            .map(|(call, with)| line(call, with).to_string()),
    );
    let mut output = Vec::new();
    serve(lines.join("\n").as_bytes(), &mut output).expect("memory");
    let text = String::from_utf8(output).expect("JSON");
    let parsed = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let mut replies: Vec<Value> = parsed.collect();
    assert_eq!(replies.remove(0), json!({"ok": 0}));
    assert_eq!(replies.len(), calls.len());
    replies
}

/// Returns the last reply.
fn last(calls: &[(&str, Value)]) -> Value {
    replies(calls).pop().expect("a reply")
}

fn put(name: &str) -> (&'static str, Value) {
    let metadata = json!({"namespace": "a", "name": name, "resourceVersion": "1"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    ("put", json!({"object": object}))
}

#[test]
fn a_write_changes_the_cluster_and_is_recorded_as_a_line() {
    let update = json!({"verb": "update", "kind": "v1/ConfigMap", "namespace": "a", "name": "x",
                        "resourceVersion": "1", "body": {"data": {"b": "2"}}, "returns": ["data"]});
    let run = json!({"writes": [update, update], "slowStart": 0, "stopOnError": false});
    let key = json!({"kind": "v1/ConfigMap", "namespace": "a", "name": "x"});
    let found = replies(&[
        put("x"),
        ("writer.run", run),
        ("object", key),
        ("writes", Value::Null),
    ]);
    let results = &found[1]["ok"];
    assert_eq!(results[0]["ok"]["data"], json!({"b": "2"}));
    assert_eq!(results[1]["error"]["reason"], "Conflict");
    assert_eq!(found[2]["ok"]["data"], json!({"b": "2"}));
    let writes = &found[3]["ok"];
    assert_eq!(writes[0]["line"], "update v1/ConfigMap a/x");
    assert_eq!(writes[1]["error"]["effect"], "refused");
}

#[test]
fn the_description_restricts_the_controller_until_it_is_taken_back() {
    let description = json!({"format": 1, "name": "a", "queues": [{"name": "a"}]});
    let get = || {
        let key = json!({"kind": "v1/ConfigMap", "namespace": "a", "name": "x", "fields": []});
        ("lister.get", key)
    };
    let found = replies(&[
        put("x"),
        ("restrict", json!({"description": description})),
        get(),
        ("restrict", json!({"description": null})),
        get(),
    ]);
    assert_eq!(found[2]["error"]["reason"], "Denied");
    assert_eq!(found[2]["error"]["effect"], "none");
    assert_eq!(found[4]["ok"]["metadata"]["name"], "x");
}

#[test]
fn a_long_list_has_pages() {
    let query = json!({"kind": "v1/ConfigMap", "namespace": "", "conditions": [["orphan", ""]]});
    let list = json!({"query": query, "projection": {"columns": ["metadata.name"]}, "limit": 2});
    let next = json!({"rest": 0, "limit": 2});
    let found = replies(&[
        put("x"),
        put("y"),
        put("z"),
        ("lister.list", list),
        ("lister.next", next.clone()),
        ("lister.next", next),
    ]);
    assert_eq!(found[3]["ok"], json!({"items": [["x"], ["y"]], "rest": 0}));
    assert_eq!(found[4]["ok"], json!({"items": [["z"]], "rest": null}));
    assert_eq!(found[5]["mistake"], "there is no such rest of a list");
}

#[test]
fn a_live_read_without_fields_returns_the_whole_object() {
    let list = json!({"verb": "list", "kind": "v1/ConfigMap", "namespace": "a", "parameters": [], "fields": []});
    let get =
        json!({"verb": "get", "kind": "v1/ConfigMap", "namespace": "a", "name": "x", "fields": []});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "1"},
                        "metadata": {"namespace": "a", "name": "x"}});
    let found = last(&[
        ("put-live", json!({"object": object})),
        ("reader.run", json!({"reads": [get, list]})),
    ]);
    assert_eq!(found["ok"][0], json!({"ok": object}));
    assert_eq!(found["ok"][1]["ok"]["items"], json!([object]));
}

#[test]
fn bytes_cross_in_base64() {
    let put = json!({"key": "k", "expected": 0, "value": "AP8=", "objectUid": "", "ttlMs": 0});
    let found = last(&[("memo.put", put), ("memo.get", json!({"key": "k"}))]);
    assert_eq!(found, json!({"ok": {"value": "AP8=", "version": 1}}));
}

#[test]
fn a_certificate_is_recorded_as_it_was_asked_for() {
    let template = json!({
        "key": {"publicKey": "AP8="}, "subject": [[["2.5.4.3", "me"]]], "dnsNames": ["a.b"],
        "emailAddresses": [], "ipAddresses": [], "uris": [], "keyUsages": 5,
        "extendedKeyUsages": [], "notBefore": {"seconds": 1, "nanoseconds": 0},
        "notAfter": {"seconds": 2, "nanoseconds": 0},
    });
    let sign = json!({"signer": "s", "template": template});
    let found = last(&[
        ("add-authority", json!({"signer": "s"})),
        ("signer.sign-certificate", sign.clone()),
        ("certificates", Value::Null),
    ]);
    assert_eq!(found["ok"], json!([sign]));
}

#[test]
fn a_mistake_is_told_and_ends_nothing() {
    let key = json!({"kind": "v1/ConfigMap", "namespace": "a", "name": "absent"});
    let no_name = json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}});
    let unknown = json!({"description": {"format": 1, "name": "a", "queue": []}});
    for (call, with, part) in [
        ("put", no_name, "lacks /metadata/name"),
        ("delete", key, "v1/ConfigMap \"absent\" not found"),
        ("restrict", unknown, "queue"),
        ("objects", json!({}), "missing field `kind`"),
        ("get", json!({}), "unknown variant `get`"),
    ] {
        let found = replies(&[(call, with), ("clock.now", Value::Null)]);
        let mistake = found[0]["mistake"].as_str().expect("a mistake");
        assert!(mistake.contains(part), "{mistake}");
        assert_eq!(found[1]["ok"]["seconds"], 1_767_225_600);
    }
}

#[test]
fn a_file_with_a_definition_prunes_and_checks_the_objects_of_its_kind() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/greeter.crd.yaml"
    );
    let greeting = |spec: Value| {
        let metadata = json!({"name": "hello", "namespace": "a"});
        json!({"object": {"apiVersion": "greeter.flyball.dev/v1", "kind": "Greeting", "metadata": metadata, "spec": spec}})
    };
    let key = json!({"kind": "greeter.flyball.dev/v1/Greeting", "namespace": "a", "name": "hello"});
    let mut write =
        json!({"verb": "patch", "patchType": "merge", "body": {"spec": {"txet": "bye"}}});
    for (name, value) in key.as_object().expect("a key") {
        write[name] = value.clone();
    }
    let found = replies(&[
        ("define", json!({"file": file})),
        ("put", greeting(json!({"text": "hello"}))),
        (
            "writer.run",
            json!({"writes": [write], "slowStart": 0, "stopOnError": false}),
        ),
        ("writes", Value::Null),
        ("logs", Value::Null),
        ("put", greeting(json!({"txet": "hello"}))),
        ("define", json!({"file": "/no/such.yaml"})),
    ]);
    let warning = "unknown field \"spec.txet\"";
    let written = &found[3]["ok"][0];
    assert_eq!(written["warnings"], json!([warning]), "{found:?}");
    let line = format!("patch greeter.flyball.dev/v1/Greeting a/hello: warning: {warning}");
    assert_eq!(written["line"], line);
    assert_eq!(found[4]["ok"][0]["level"], "warn");
    let mistake = |at: usize| found[at]["mistake"].as_str().expect("a mistake");
    assert!(mistake(5).contains(warning), "{}", mistake(5));
    assert!(
        mistake(6).contains("/no/such.yaml: the file can't be read"),
        "{}",
        mistake(6)
    );
}

#[test]
fn the_page_names_every_call() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-server.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let found = last(&[("no-such-call", Value::Null)]);
    let mistake = found["mistake"].as_str().expect("a mistake");
    let (_, names) = mistake.split_once("expected one of ").expect("names");
    let names: Vec<&str> = names.split('`').skip(1).step_by(2).collect();
    assert!(
        names.contains(&"lister.get") && names.len() > 40,
        "{names:?}"
    );
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}
