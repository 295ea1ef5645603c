//! Native tests of the whole controller.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::Cluster;
use validatingadmissionpolicy_status_controller::PolicyStatus;

const POLICY: &str = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy";
const APPLIED: &str = "patch admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy/status demo";
const GANGS: &str = "/openapi/v3/apis/apps/v1";
/// The documents that the API server serves, by their paths.
const DOCUMENTS: &str = include_str!("../testdata/documents.json");
/// Policies, and the warnings of kube-controller-manager v1.36.3 with these documents. The numbers in the names of types are
/// replaced: 0 for objects, and 1 for parameters.
const CASES: &str = include_str!("../testdata/policies.json");

/// A cluster that serves the kinds of the documents.
fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.set_now(Time::of_seconds(1_800_000_000));
    let documents: Value = serde_json::from_str(DOCUMENTS).unwrap();
    for (path, document) in documents.as_object().unwrap() {
        cluster.put_raw(path, document.clone());
    }
    for kind in ["Broken", "Crew", "Gang", "Missing", "Untyped"] {
        let plural = format!("{}s", kind.to_lowercase());
        cluster.serve(&format!("apps/v1/{kind}"), &plural, true, &["list"]);
    }
    cluster.serve("example.com/v1/Widget", "widgets", true, &["list"]);
    cluster.serve("gone.example.com/v1/Gadget", "gadgets", true, &["list"]);
    cluster
}

fn policy(spec: Value) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
           "metadata": {"name": "demo", "generation": 3}, "spec": spec})
}

/// A policy for a resource of the group `apps`, with one expression.
fn checking(resource: &str, expression: &str) -> Value {
    policy(json!({
        "matchConstraints": {"resourceRules": [rule("apps", resource)]},
        "validations": [{"expression": expression}],
    }))
}

fn rule(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["v1"], "resources": [resource]})
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<PolicyStatus>("demo")
}

/// Reconciles a policy, and returns the status that is applied.
fn applied(cluster: &Cluster, policy: Value) -> Value {
    cluster.put(policy);
    assert_eq!(reconcile(cluster).unwrap(), Outcome::Done);
    let write = cluster.writes().pop().expect("the status is written");
    assert_eq!(write.to_string(), APPLIED);
    assert_eq!(
        write.options,
        json!({"fieldManager": "validatingadmissionpolicy-status", "force": true})
    );
    assert_eq!(write.body["metadata"], json!({"name": "demo"}));
    write.body["status"].clone()
}

/// The text of the only warning.
fn warning(cluster: &Cluster, policy: Value) -> String {
    let status = applied(cluster, policy);
    let warnings = status["typeChecking"]["expressionWarnings"].as_array();
    let [warning] = warnings.unwrap().as_slice() else {
        panic!("not one warning: {status}");
    };
    warning["warning"].as_str().unwrap().to_owned()
}

#[test]
fn a_kind_of_a_group_that_is_read_again_counts_once() {
    let cluster = cluster();
    let plurals = ["brokens", "crews", "gangs", "missings", "untypeds"];
    let read = plurals.map(|name| {
        let kind = name[..1].to_uppercase() + name[1..].trim_end_matches('s');
        json!({"name": name, "kind": kind})
    });
    cluster.put_raw("/apis/apps/v1", json!({"resources": read}));
    // Something is missing in `apps`, so it is read again.
    let resources = [&plurals[..], &["late", "widgets"]].concat();
    let rule = json!({"apiGroups": ["apps", "example.com"], "apiVersions": ["v1"], "resources": resources});
    let policy = policy(json!({
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.nope == 1"}],
    }));
    let warning = warning(&cluster, policy);
    assert!(
        warning.contains("example.com/v1, Kind=Widget: ERROR"),
        "{warning}"
    );
}

#[test]
fn warnings_are_those_of_stock() {
    let cases: Value = serde_json::from_str(CASES).unwrap();
    let cases = cases.as_array().unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let status = applied(&cluster(), policy(case["spec"].clone()));
        let found = &status["typeChecking"]["expressionWarnings"];
        let expected = match case["warnings"].as_array().unwrap().is_empty() {
            true => &Value::Null,
            false => &case["warnings"],
        };
        assert_eq!(found, expected, "{}", case["spec"]);
    }
}

#[test]
fn the_generation_is_observed_and_no_warning_is_left() {
    let status = applied(&cluster(), checking("gangs", "object.spec.replicas > 1"));
    assert_eq!(status, json!({"observedGeneration": 3, "typeChecking": {}}));
}

#[test]
fn a_generation_is_checked_once() {
    let cluster = cluster();
    applied(&cluster, checking("gangs", "object.foo"));
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
    cluster.edit(POLICY, "", "demo", |policy| {
        policy["spec"]["validations"][0]["expression"] = json!("object.bar");
    });
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [APPLIED]);
}

#[test]
fn a_deleted_policy_is_left_alone() {
    let cluster = cluster();
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    cluster.put(checking("gangs", "object.foo"));
    let missing = ApiError::not_found("no such policy");
    cluster.fail("patch", &format!("{POLICY}/status"), missing);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
}

#[test]
fn an_error_of_the_write_is_retried() {
    let cluster = cluster();
    cluster.put(checking("gangs", "object.foo"));
    let refused = ApiError::of_server(403, "Forbidden", "not you");
    cluster.fail("patch", &format!("{POLICY}/status"), refused);
    assert!(reconcile(&cluster).is_err());
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
}

#[test]
fn each_kind_has_a_text_of_its_own() {
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule("apps", "gangs"), rule("apps", "crews")]},
        "validations": [{"expression": "object.foo"}],
    });
    assert_eq!(
        warning(&cluster(), policy(spec)),
        "apps/v1, Kind=Crew: ERROR: <input>:1:7: undefined field 'foo'\n | object.foo\n | ......^\n\n\
         apps/v1, Kind=Gang: ERROR: <input>:1:7: undefined field 'foo'\n | object.foo\n | ......^\n"
    );
}

#[test]
fn each_document_is_read_once() {
    let cluster = cluster();
    let rules = [
        rule("apps", "gangs"),
        rule("apps", "crews"),
        rule("gone.example.com", "gadgets"),
    ];
    let spec = json!({"matchConstraints": {"resourceRules": rules},
                      "paramKind": {"apiVersion": "apps/v1", "kind": "Gang"},
                      "validations": [{"expression": "object.foo == params.foo"}]});
    applied(&cluster, policy(spec));
    let mut read = cluster.live_reads();
    read.sort();
    let expected = [GANGS, "/openapi/v3/apis/gone.example.com/v1"];
    assert_eq!(read, expected.map(|path| format!("raw {path}")));
}

#[test]
fn a_policy_that_matches_nothing_needs_no_document() {
    let cluster = cluster();
    for spec in [
        json!({"validations": [{"expression": "object.foo"}], "paramKind": {"apiVersion": "apps/v1", "kind": "Gang"}}),
        json!({"matchConstraints": {"resourceRules": [rule("*", "gangs")]}, "validations": [{"expression": "object.foo"}]}),
        json!({"matchConstraints": null, "validations": null, "variables": null}),
    ] {
        let status = applied(&cluster, policy(spec));
        assert_eq!(status, json!({"observedGeneration": 3, "typeChecking": {}}));
    }
    assert_eq!(cluster.live_reads(), [""; 0]);
}

#[test]
fn a_document_that_can_not_be_read_is_retried_and_then_left_out() {
    let cluster = cluster();
    cluster.put(checking("gangs", "object.foo"));
    let unavailable = || ApiError::of_server(503, "ServiceUnavailable", "not now");
    cluster.fail("raw", GANGS, unavailable());
    assert!(reconcile(&cluster).is_err());
    assert_eq!(cluster.written(), [""; 0]);
    cluster.fail("raw", GANGS, unavailable());
    let mut request = Request::new("validatingadmissionpolicy-status", "demo");
    request.attempt = 11;
    cluster.reconcile_request::<PolicyStatus>(&request).unwrap();
    let status = &cluster.writes()[0].body["status"];
    assert_eq!(
        *status,
        json!({"observedGeneration": 3, "typeChecking": {}})
    );
}

#[test]
fn nothing_is_written_while_the_kinds_are_not_known() {
    let cluster = cluster();
    cluster.put(checking("gangs", "object.foo"));
    cluster.fail("discover", "", ApiError::unreachable("no route"));
    assert!(reconcile(&cluster).is_err());
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn a_schema_can_be_nested_deep() {
    let cluster = cluster();
    let mut spec = json!({"type": "object", "properties": {"leaf": {"type": "string"}}});
    for _ in 0..100 {
        spec = json!({"type": "object", "properties": {"a": spec}});
    }
    let schemas = json!({"Widget": {
        "type": "object", "properties": {"spec": spec},
        "x-kubernetes-group-version-kind": [{"group": "example.com", "kind": "Widget", "version": "v1"}],
    }});
    let document = json!({"components": {"schemas": schemas}});
    cluster.put_raw("/openapi/v3/apis/example.com/v1", document);
    let spec = |expression: &str| {
        json!({"matchConstraints": {"resourceRules": [rule("example.com", "widgets")]},
               "validations": [{"expression": expression}]})
    };
    assert!(warning(&cluster, policy(spec("object.spec.a.a.a.b"))).contains("undefined field 'b'"));
    let below = format!("object.spec{}.b", ".a".repeat(80));
    let status = applied(&cluster, policy(spec(&below)));
    assert_eq!(status["typeChecking"], json!({}));
}

#[test]
fn a_kind_that_was_defined_just_now_is_looked_up() {
    let cluster = cluster();
    cluster.set_catalogue(Default::default());
    let resources = json!([{"name": "widgets/status", "kind": "Widget"}, {"name": "widgets", "kind": "Widget"}]);
    cluster.put_raw("/apis/example.com/v1", json!({"resources": resources}));
    let spec = json!({"matchConstraints": {"resourceRules": [rule("example.com", "widgets")]},
                      "validations": [{"expression": "object.foo"}]});
    assert!(warning(&cluster, policy(spec)).starts_with("example.com/v1, Kind=Widget: ERROR"));
    let unknown = checking("widgets", "object.foo");
    assert_eq!(applied(&cluster, unknown)["typeChecking"], json!({}));
}
