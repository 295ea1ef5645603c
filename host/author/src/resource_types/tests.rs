use serde_json::json;

use super::*;

/// A definition with a stored and a served version, whose specs have this schema.
fn records(spec: Value) -> Vec<Record> {
    let version = |name: &str, stored: bool| {
        let properties = json!({"metadata": {"type": "object"}, "spec": spec});
        let schema = json!({"type": "object", "description": "A web.", "required": ["spec"], "properties": properties});
        json!({"name": name, "served": true, "storage": stored, "schema": {"openAPIV3Schema": schema}})
    };
    let spec = json!({"names": {"kind": "Web"}, "versions": [version("v1", true), version("v1beta1", false)]});
    read(&[json!({"spec": spec})])
}

fn spec() -> Value {
    json!({"type": "object", "required": ["host"], "properties": {
        "host": {"type": "string", "description": "The name.\n\nMore of it */."},
        "replicas": {"type": "integer", "default": 1},
        "ratio": {"type": "number", "nullable": true},
        "protocol": {"type": "string", "enum": ["TCP", "UDP"]},
        "ports": {"type": "array", "items": {"type": "object", "properties": {"from": {"type": "integer"}}}},
        "names": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "surge": {"x-kubernetes-int-or-string": true},
        "is-on": {"type": "boolean"},
        "open": {"type": "object", "properties": {}, "x-kubernetes-preserve-unknown-fields": true},
    }})
}

#[test]
fn each_version_has_records_of_its_own() {
    let names: Vec<String> = records(spec())
        .into_iter()
        .map(|record| record.name)
        .collect();
    let expected = [
        "Web",
        "WebSpec",
        "WebSpecOpen",
        "WebSpecPorts",
        "WebV1beta1",
        "WebV1beta1Spec",
        "WebV1beta1SpecOpen",
        "WebV1beta1SpecPorts",
    ];
    assert_eq!(names, expected);
}

#[test]
fn names_that_two_records_would_have_are_numbered() {
    let inner =
        json!({"type": "object", "properties": {"b": {"type": "object", "properties": {}}}});
    let spec = json!({"type": "object", "properties": {"a": inner, "a-b": {"type": "object", "properties": {}}}});
    let records = records(spec);
    let names: Vec<&str> = records.iter().map(|record| &*record.name).take(5).collect();
    assert_eq!(
        names,
        ["Web", "WebSpec", "WebSpecA", "WebSpecAB", "WebSpecAB2"]
    );
}

#[test]
fn typescript_has_an_interface_for_each_record() {
    let printed = typescript::print(&records(spec()));
    for part in [
        "/** A web. */\nexport interface Web extends KubernetesObject {\n  spec: WebSpec;\n}\n",
        "  /**\n   * The name.\n   *\n   * More of it *\u{200b}/.\n   */\n  host: string;\n",
        "  replicas: number;\n",
        "  ratio?: number | null;\n",
        "  protocol?: \"TCP\" | \"UDP\";\n",
        "  ports?: WebSpecPorts[];\n",
        "  names?: (\"a\" | \"b\")[];\n",
        "  labels?: Record<string, string>;\n",
        "  extra?: Record<string, any>;\n",
        "  any?: any;\n",
        "  surge?: number | string;\n",
        "  \"is-on\"?: boolean;\n",
        "export interface WebSpecOpen {\n  [field: string]: any;\n}\n",
    ] {
        assert!(printed.contains(part), "{part} is not in\n{printed}");
    }
}

#[test]
fn python_has_a_typed_dictionary_for_each_record() {
    let printed = python::print(&records(spec()));
    for part in [
        "class Web(TypedDict):\n    \"\"\"A web.\"\"\"\n\n    apiVersion: str\n    kind: str\n    metadata: dict[str, Any]\n    \
         spec: WebSpec\n",
        "WebSpec = TypedDict(\n    \"WebSpec\",\n    {\n",
        "        \"host\": \"str\",\n",
        "        \"replicas\": \"int\",\n",
        "        \"ratio\": \"NotRequired[float | None]\",\n",
        "        \"protocol\": \"NotRequired[Literal['TCP', 'UDP']]\",\n",
        "        \"ports\": \"NotRequired[list[WebSpecPorts]]\",\n",
        "        \"is-on\": \"NotRequired[bool]\",\n",
        "class WebSpecOpen(TypedDict):\n    pass\n",
        // `from` is a keyword.
        "WebSpecPorts = TypedDict(\n",
    ] {
        assert!(printed.contains(part), "{part} is not in\n{printed}");
    }
}
