//! Native tests of the whole controller.

use clusterrole_aggregation_controller::RoleAggregation;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta, permissions, refusal};

const ROLE: &str = "rbac.authorization.k8s.io/v1/ClusterRole";
const PATCH: &str = "patch rbac.authorization.k8s.io/v1/ClusterRole combined";

/// A rule for a verb on a resource.
fn rule(verb: &str, resource: &str) -> Value {
    json!({"verbs": [verb], "apiGroups": [""], "resources": [resource]})
}

fn hammer() -> Vec<Value> {
    vec![rule("hammer", "nails"), rule("hammer", "wedges")]
}

fn chisel() -> Vec<Value> {
    vec![rule("chisel", "mortises")]
}

fn saw() -> Vec<Value> {
    vec![rule("saw", "boards")]
}

fn role(name: &str, label: &str, rules: Vec<Value>) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
           "metadata": {"name": name, "labels": {"foo": label}}, "rules": rules})
}

/// The role `combined` with these selectors and rules.
fn combined(selectors: Value, rules: Vec<Value>) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "combined"},
           "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": rules})
}

fn selecting(values: &[&str]) -> Value {
    values
        .iter()
        .map(|value| json!({"matchLabels": {"foo": value}}))
        .collect()
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<RoleAggregation>("combined")
}

/// Reconciles twice, and returns the body of the only write; `None` if nothing is written.
fn applied(roles: impl IntoIterator<Item = Value>) -> Option<Value> {
    let cluster = Cluster::with(roles);
    reconcile(&cluster).unwrap();
    let mut writes = cluster.writes();
    assert!(writes.len() < 2);
    writes.pop().map(|write| {
        assert_eq!(write.to_string(), PATCH);
        assert_eq!(
            write.options,
            json!({"fieldManager": "clusterrole-aggregation-controller", "force": true})
        );
        write.body
    })
}

/// The rules of the only write.
fn rules(roles: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let body = applied(roles).expect("it is written");
    body["rules"].as_array().expect("it has rules").clone()
}

#[test]
fn rules_are_replaced_by_those_of_the_selected_roles() {
    let roles = [
        role("hammer", "bar", hammer()),
        combined(selecting(&["bar"]), saw()),
    ];
    assert_eq!(
        applied(roles).unwrap(),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "combined"},
               "rules": hammer()})
    );
}

#[test]
fn rules_are_in_the_order_of_the_selectors_and_of_the_names() {
    let one = [
        role("hammer", "bar", hammer()),
        role("chisel", "bar", chisel()),
        role("saw", "not-bar", saw()),
    ];
    assert_eq!(
        rules(
            one.clone()
                .into_iter()
                .chain([combined(selecting(&["bar"]), vec![])])
        ),
        [chisel(), hammer()].concat()
    );
    let two = [combined(selecting(&["not-bar", "bar"]), vec![])];
    assert_eq!(
        rules(one.into_iter().chain(two)),
        [saw(), chisel(), hammer()].concat()
    );
}

#[test]
fn each_rule_is_kept_once() {
    let mut again = saw();
    again[0]["resourceNames"] = json!([]);
    again[0]["nonResourceURLs"] = Value::Null;
    let roles = [
        role("saw", "bar", saw()),
        role("other-saw", "not-bar", again),
        role("twice", "bar", [saw(), saw()].concat()),
        combined(selecting(&["bar", "not-bar", "bar"]), vec![]),
    ];
    assert_eq!(rules(roles), saw());
}

#[test]
fn rules_that_differ_only_in_the_order_of_their_lists_differ() {
    let rule = |verbs: [&str; 2]| json!({"verbs": verbs, "nonResourceURLs": ["/healthz"]});
    let all = vec![rule(["get", "head"]), rule(["head", "get"])];
    let roles = [
        role("a", "bar", all.clone()),
        combined(selecting(&["bar"]), vec![]),
    ];
    assert_eq!(rules(roles), all);
}

#[test]
fn all_lists_of_a_rule_are_copied() {
    let rule = json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale"],
                      "resourceNames": ["web"], "nonResourceURLs": ["/metrics"]});
    let roles = [
        role("a", "bar", vec![rule.clone()]),
        combined(selecting(&["bar"]), vec![]),
    ];
    assert_eq!(rules(roles), [rule]);
}

#[test]
fn correct_rules_are_not_written() {
    let mut correct = hammer();
    correct[0]["resourceNames"] = json!([]);
    let roles = [
        role("hammer", "bar", hammer()),
        combined(selecting(&["bar"]), correct),
    ];
    assert_eq!(applied(roles), None);
    let mut empty = combined(selecting(&["bar"]), vec![]);
    assert_eq!(applied([empty.clone()]), None);
    empty["rules"] = Value::Null;
    assert_eq!(applied([empty]), None);
}

#[test]
fn rules_are_stripped_by_an_apply_without_rules() {
    for selectors in [selecting(&["bar"]), json!([]), Value::Null] {
        let roles = [
            role("hammer", "not-bar", hammer()),
            combined(selectors, hammer()),
        ];
        let body = applied(roles).unwrap();
        assert!(body.get("rules").is_none(), "{body}");
    }
}

#[test]
fn rules_that_the_controller_has_applied_are_removed_again() {
    let cluster = Cluster::with([
        role("hammer", "bar", hammer()),
        combined(selecting(&["bar"]), vec![]),
    ]);
    let stored = |cluster: &Cluster| cluster.object(ROLE, "", "combined").unwrap()["rules"].take();
    reconcile(&cluster).unwrap();
    assert_eq!(stored(&cluster), json!(hammer()));
    cluster.remove(ROLE, "", "hammer");
    reconcile(&cluster).unwrap();
    assert!(stored(&cluster).is_null());
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [PATCH, PATCH]);
}

#[test]
fn a_role_does_not_select_itself() {
    let mut own = combined(selecting(&["bar"]), saw());
    own["metadata"]["labels"] = json!({"foo": "bar"});
    assert_eq!(rules([own, role("hammer", "bar", hammer())]), hammer());
}

#[test]
fn selectors_can_have_expressions_and_can_be_empty() {
    let roles = || {
        [
            role("hammer", "bar", hammer()),
            role("saw", "not-bar", saw()),
        ]
    };
    let expression = json!([{"matchExpressions": [{"key": "foo", "operator": "NotIn", "values": ["bar"]},
                                                  {"key": "foo", "operator": "Exists"}]}]);
    assert_eq!(
        rules(roles().into_iter().chain([combined(expression, vec![])])),
        saw()
    );
    assert_eq!(
        rules(roles().into_iter().chain([combined(json!([{}]), vec![])])),
        [hammer(), saw()].concat()
    );
}

#[test]
fn roles_without_an_aggregation_rule_and_missing_roles_are_left_alone() {
    let mut plain = combined(selecting(&["bar"]), saw());
    plain["aggregationRule"] = Value::Null;
    assert_eq!(applied([plain, role("hammer", "bar", hammer())]), None);
    assert_eq!(applied([]), None);
}

#[test]
fn an_invalid_selector_writes_nothing_and_is_retried() {
    let invalid =
        json!([{"matchExpressions": [{"key": "foo", "operator": "Near", "values": ["bar"]}]}]);
    let cluster = Cluster::with([combined(invalid, hammer())]);
    assert!(!reconcile(&cluster).unwrap_err().is_terminal());
    assert!(cluster.written().is_empty());
}

#[test]
fn a_failed_write_is_retried() {
    let cluster = Cluster::with([
        role("hammer", "bar", hammer()),
        combined(selecting(&["bar"]), vec![]),
    ]);
    cluster.fail("patch", ROLE, refusal(403, "Forbidden"));
    assert!(!reconcile(&cluster).unwrap_err().is_terminal());
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written().len(), 2);
}

#[test]
fn any_change_of_a_role_enqueues_those_with_an_aggregation_rule() {
    let mut another = combined(json!([]), vec![]);
    another["metadata"]["name"] = "another".into();
    another["aggregationRule"] = json!({});
    let hammer = role("hammer", "bar", hammer());
    let cluster = Cluster::with([
        combined(selecting(&["bar"]), vec![]),
        another,
        hammer.clone(),
    ]);
    let deltas = [
        delta(ROLE, None, Some(&hammer)),
        delta(ROLE, Some(&hammer), None),
    ];
    let routed = RoleAggregation::route(&cluster.host(), &deltas).unwrap();
    let keys: Vec<_> = routed.iter().map(|routed| routed.key.to_string()).collect();
    assert_eq!(keys, ["another", "combined"]);
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = RoleAggregation::describe();
    description.check().unwrap();
    assert_eq!(description.name, "clusterrole-aggregation-controller");
    assert_eq!(
        (description.queues[0].name.as_str(), description.concurrency),
        ("ClusterRoleAggregator", 5)
    );
    assert_eq!(
        permissions(&description),
        ["rbac.authorization.k8s.io/v1/ClusterRole  patch"]
    );
}
