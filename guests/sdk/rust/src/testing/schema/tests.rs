use serde_json::json;

use crate::log::Level;
use crate::prelude::*;
use crate::testing::{Cluster, set_at};

const KIND: &str = "a.b/v1/Web";

/// The definition of a namespaced kind with a subresource `status`.
fn definition() -> Value {
    let port = json!({"type": "object", "required": ["number"], "properties": {
        "number": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
        "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
    }});
    let spec = json!({"type": "object", "required": ["host"], "properties": {
        "host": {"type": "string", "pattern": "^[a-z.]+$", "maxLength": 10},
        "replicas": {"type": "integer", "default": 1},
        "ports": {"type": "array", "items": port, "maxItems": 2,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["number"]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "surge": {"x-kubernetes-int-or-string": true},
        "since": {"type": "string", "format": "date-time", "nullable": true},
    }});
    let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}}});
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "webs.a.b"},
        "spec": {
            "group": "a.b", "scope": "Namespaced", "names": {"kind": "Web", "plural": "webs"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    })
}

fn web(spec: Value) -> Value {
    json!({"apiVersion": "a.b/v1", "kind": "Web", "metadata": {"name": "w", "namespace": "n"}, "spec": spec})
}

fn created(spec: Value) -> Result<Cluster, ApiError> {
    let cluster = Cluster::with([definition()]);
    cluster.host().create(KIND, "n", &web(spec))?;
    Ok(cluster)
}

#[test]
fn unknown_fields_are_dropped_with_a_warning_and_absent_ones_get_their_defaults() {
    let cluster = Cluster::with([definition()]);
    let mut object = web(json!({
        "host": "x.y", "replica": 3, "ports": [{"number": 80, "nmae": "http"}],
        "labels": {"any": "thing"}, "extra": {"any": {"thing": 1}}, "since": null,
    }));
    object["dta"] = json!({"a": "b"});
    object["metadata"]["label"] = json!({});
    object["status"] = json!({"ready": true});
    cluster.host().create(KIND, "n", &object).unwrap();
    let stored = cluster.object(KIND, "n", "w").unwrap();
    assert_eq!(
        stored["spec"],
        json!({
            "host": "x.y", "replicas": 1, "ports": [{"number": 80, "protocol": "TCP"}],
            "labels": {"any": "thing"}, "extra": {"any": {"thing": 1}}, "since": null,
        })
    );
    assert_eq!((stored.get("dta"), stored.get("status")), (None, None));
    let dropped = [
        "dta",
        "metadata.label",
        "spec.ports[0].nmae",
        "spec.replica",
    ];
    let warnings = dropped.map(|field| format!("unknown field {field:?}"));
    let [written] = cluster.writes().try_into().unwrap();
    assert_eq!(written.warnings, warnings);
    assert!(
        written
            .to_string()
            .starts_with("create a.b/v1/Web n/w: warning: unknown field \"dta\""),
        "{written}"
    );
    let logged = cluster.logged();
    let message = "the API server warns: unknown field \"dta\"".to_owned();
    assert_eq!((logged.len(), &logged[0]), (4, &(Level::Warn, message)));
}

#[test]
fn a_write_that_does_not_fit_is_refused_and_stores_nothing() {
    for (pointer, value, problem) in [
        (
            "/host",
            json!(1),
            "spec.host in body must be of type string: \"integer\"",
        ),
        (
            "/host",
            json!("A"),
            "spec.host in body should match '^[a-z.]+$'",
        ),
        (
            "/host",
            json!("aaaaaaaaaaa"),
            "should be at most 10 chars long",
        ),
        ("/host", json!(null), "must be of type string: \"null\""),
        (
            "/replicas",
            json!(1.5),
            "must be of type integer: \"number\"",
        ),
        ("/surge", json!(true), "must be of type integer,string"),
        (
            "/since",
            json!("today"),
            "spec.since in body must be of type date-time: \"today\"",
        ),
        (
            "/labels",
            json!({"a": 1}),
            "spec.labels.a in body must be of type string",
        ),
        (
            "/ports",
            json!([{}]),
            "spec.ports[0].number: Required value",
        ),
        (
            "/ports",
            json!([{"number": 0}]),
            "should be greater than or equal to 1",
        ),
        (
            "/ports",
            json!([{"number": 1, "protocol": "X"}]),
            "Unsupported value: \"X\": supported values: \"TCP\", \"UDP\"",
        ),
        (
            "/ports",
            json!([{"number": 1}, {"number": 1}]),
            "spec.ports[1]: Duplicate value",
        ),
        (
            "/ports",
            json!([{"number": 1}, {"number": 2}, {"number": 3}]),
            "Too many: 3: must have at most 2 items",
        ),
    ] {
        let mut spec = json!({"host": "x"});
        set_at(&mut spec, pointer, value);
        let error = created(spec).map(drop).expect_err(problem);
        assert_eq!((error.status, &*error.reason), (422, "Invalid"));
        assert!(
            error.message.starts_with("Web.a.b \"w\" is invalid: spec.")
                && error.message.contains(problem),
            "{error}"
        );
    }
    let error = created(json!({"replicas": "x"})).map(drop).unwrap_err();
    assert!(
        error
            .message
            .contains("is invalid: [spec.host: Required value, spec.replicas:"),
        "{error}"
    );
}

#[test]
fn an_unchanged_mistake_does_not_hinder_other_writes() {
    // It was stored before the definition.
    let cluster = Cluster::with([web(json!({"host": "TOO LONG A NAME"})), definition()]);
    let meta = |cluster: &Cluster| -> Meta {
        serde_json::from_value(cluster.object(KIND, "n", "w").unwrap()["metadata"].clone()).unwrap()
    };
    let host = cluster.host();
    host.update_status(KIND, &meta(&cluster), &json!({"ready": true, "raedy": 1}))
        .unwrap();
    assert_eq!(
        cluster.written(),
        ["update a.b/v1/Web/status n/w: warning: unknown field \"status.raedy\""]
    );
    assert_eq!(
        cluster.object(KIND, "n", "w").unwrap()["status"],
        json!({"ready": true})
    );
    let error = host
        .update(KIND, &meta(&cluster), &json!({"spec": {"host": "STILL"}}))
        .unwrap_err();
    assert_eq!(error.reason, "Invalid");
}

#[test]
fn field_validation_is_an_option_of_the_write() {
    let cluster = Cluster::with([definition()]);
    let object = web(json!({"host": "x", "replica": 1}));
    let write = |validation: &str| {
        let write = Write::create(KIND, "n", &object).option("fieldValidation", validation);
        cluster.host().write(write).map(drop)
    };
    let error = write("Strict").unwrap_err();
    assert_eq!((error.status, &*error.reason), (400, "BadRequest"));
    assert_eq!(
        error.message,
        "strict decoding error: unknown field \"spec.replica\""
    );
    write("Ignore").unwrap();
    assert_eq!(cluster.logged(), []);
}

#[test]
fn a_kind_without_the_subresource_keeps_its_status_and_has_no_status_writes() {
    let mut definition = definition();
    definition["spec"]["versions"][0]["subresources"] = json!({});
    let cluster = Cluster::with([definition]);
    let mut object = web(json!({"host": "x"}));
    object["status"] = json!({"ready": true});
    cluster.host().create(KIND, "n", &object).unwrap();
    let stored = cluster.object(KIND, "n", "w").unwrap();
    assert_eq!(stored["status"], json!({"ready": true}));
    let meta: Meta = serde_json::from_value(stored["metadata"].clone()).unwrap();
    let error = cluster
        .host()
        .update_status(KIND, &meta, &json!({}))
        .unwrap_err();
    assert_eq!(error.reason, "NotFound");
}

#[test]
#[should_panic(
    expected = "the test's a.b/v1/Web \"w\" does not fit the CustomResourceDefinition: strict decoding error: \
                           unknown field \"spec.replica\""
)]
fn an_object_of_the_test_that_does_not_fit_is_a_mistake() {
    Cluster::with([definition(), web(json!({"host": "x", "replica": 1}))]);
}

#[test]
fn a_description_reads_no_field_that_the_schema_lacks() {
    let cluster = Cluster::with([definition()]);
    let restrict = |field: &str| {
        let watch = watch_kind(KIND).fields(&[field]).enqueue(Mapping::itself());
        cluster.check_fields(&describe("a", "1").watch(watch).queue("a"))
    };
    for field in [
        "spec.replicas",
        "spec.ports[*].number",
        "spec.labels['a/b']",
        "spec.extra.any.thing",
        "metadata.labels",
        "status",
        ".",
    ] {
        restrict(field).unwrap();
    }
    for field in ["spec.replica", "spec.ports[*].nmae", "stats"] {
        let problem = restrict(field).unwrap_err();
        assert!(
            problem.contains(&format!("reads `{field}` of {KIND}")) && problem.contains("Web.a.b"),
            "{problem}"
        );
    }
}
