//! Scopes of quotas on pods, and how scopes select by names.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::views::Requirement;

/// How many of these pods a quota with these scopes counts.
fn count(pods: &[Value], spec: Value) -> String {
    let [count] = used_under(pods.iter().cloned(), ["pods"], spec);
    count
}

fn selecting(scope: &str, operator: &str, values: &[&str]) -> Value {
    let requirement = json!({"scopeName": scope, "operator": operator, "values": values});
    json!({"scopeSelector": {"matchExpressions": [requirement]}})
}

/// A scope is named alone or in a selector.
fn in_scope(pods: &[Value], scope: &str) -> String {
    let alone = count(pods, json!({"scopes": [scope]}));
    assert_eq!(alone, count(pods, selecting(scope, "Exists", &[])));
    alone
}

#[test]
fn pods_with_a_deadline_are_terminating() {
    let with_deadline = |seconds: i64| with(pod("a"), "/spec/activeDeadlineSeconds", seconds);
    for (pod, terminating) in [
        (pod("a"), false),
        (with_deadline(0), true),
        (with_deadline(30), true),
        (with_deadline(-1), false),
    ] {
        let counts = ["0", "1"];
        assert_eq!(
            in_scope(std::slice::from_ref(&pod), "Terminating"),
            counts[usize::from(terminating)]
        );
        assert_eq!(
            in_scope(&[pod], "NotTerminating"),
            counts[usize::from(!terminating)]
        );
    }
}

#[test]
fn pods_are_best_effort_by_their_class_or_their_resources() {
    let classed = |class: &str| with(pod("a"), "/status/qosClass", class);
    let of_pod = |resources: Value| {
        with(
            pod_of("a", json!({"requests": {"cpu": "1"}})),
            "/spec/resources",
            resources,
        )
    };
    let init = json!([{"name": "init", "resources": {"limits": {"memory": "1"}}}]);
    for (pod, best_effort) in [
        (classed("BestEffort"), true),
        (classed("Burstable"), false),
        (classed("Guaranteed"), false),
        (pod("a"), true),
        (pod_of("a", json!({"requests": {"cpu": "1"}})), false),
        (pod_of("a", json!({"limits": {"memory": "1"}})), false),
        (
            pod_of(
                "a",
                json!({"requests": {"cpu": "0", "example.com/gpu": "1"}}),
            ),
            true,
        ),
        (with(pod("a"), "/spec/initContainers", init), false),
        (of_pod(json!({"limits": {"cpu": "1"}})), false),
        (of_pod(json!({"limits": {"hugepages-2Mi": "2Mi"}})), true),
    ] {
        let counts = ["0", "1"];
        assert_eq!(
            in_scope(std::slice::from_ref(&pod), "BestEffort"),
            counts[usize::from(best_effort)],
            "{pod}"
        );
        assert_eq!(
            in_scope(&[pod], "NotBestEffort"),
            counts[usize::from(!best_effort)]
        );
    }
}

#[test]
fn pods_are_selected_by_their_priority_class() {
    let of_class = |name: &str, class: &str| with(pod(name), "/spec/priorityClassName", class);
    let pods = [
        pod("none"),
        of_class("high", "high"),
        of_class("low", "low"),
    ];
    for (operator, values, expected) in [
        ("Exists", &[][..], "2"),
        ("DoesNotExist", &[], "1"),
        ("In", &["high"], "1"),
        ("In", &["high", "low"], "2"),
        ("In", &["other"], "0"),
        ("NotIn", &["high"], "2"),
        ("NotIn", &["high", "low"], "1"),
    ] {
        let counted = count(&pods, selecting("PriorityClass", operator, values));
        assert_eq!(counted, expected, "{operator} {values:?}");
    }
}

#[test]
fn a_selector_that_cannot_be_evaluated_counts_nothing_and_is_no_failure() {
    let pods = [with(pod("a"), "/spec/priorityClassName", "high")];
    let long = "x".repeat(64);
    for (operator, values) in [
        ("", &["high"][..]),
        ("Like", &["high"]),
        ("In", &[]),
        ("NotIn", &[&long]),
        ("NotIn", &["-dash"]),
        ("NotIn", &["a/b"]),
        ("DoesNotExist", &["high"]),
    ] {
        let counted = count(&pods, selecting("PriorityClass", operator, values));
        assert_eq!(counted, "0", "{operator} {values:?}");
    }
}

#[test]
fn other_scopes_need_no_operator() {
    assert_eq!(count(&[pod("a")], selecting("BestEffort", "", &[])), "1");
}

#[test]
fn pods_with_an_affinity_to_other_namespaces_are_in_a_scope() {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let elsewhere = [
        json!({"topologyKey": "x", "namespaces": ["other"]}),
        json!({"topologyKey": "x", "namespaceSelector": {}}),
        json!({"topologyKey": "x", "namespaceSelector": {"matchLabels": {"a": "b"}}}),
    ];
    let here = json!({"topologyKey": "x", "labelSelector": {}});
    let pod_with = |affinity: &str, terms: &str, term: &Value| {
        let term = match terms {
            PREFERRED => json!({"weight": 1, "podAffinityTerm": term}),
            _ => term.clone(),
        };
        with(
            pod("a"),
            "/spec/affinity",
            json!({affinity: {terms: [term]}}),
        )
    };
    for affinity in ["podAffinity", "podAntiAffinity"] {
        for terms in [REQUIRED, PREFERRED] {
            for term in &elsewhere {
                let pod = pod_with(affinity, terms, term);
                assert_eq!(
                    in_scope(&[pod], "CrossNamespacePodAffinity"),
                    "1",
                    "{affinity} {terms} {term}"
                );
            }
            let pod = pod_with(affinity, terms, &here);
            assert_eq!(in_scope(&[pod], "CrossNamespacePodAffinity"), "0");
        }
    }
    assert_eq!(in_scope(&[pod("a")], "CrossNamespacePodAffinity"), "0");
}

#[test]
fn an_object_must_be_in_all_scopes() {
    let pods = [
        pod("a"),
        with(pod("b"), "/spec/activeDeadlineSeconds", 1),
        with(
            with(pod("c"), "/spec/activeDeadlineSeconds", 1),
            "/spec/priorityClassName",
            "high",
        ),
    ];
    let both = with(
        selecting("PriorityClass", "In", &["high"]),
        "/scopes",
        json!(["Terminating"]),
    );
    assert_eq!(count(&pods, both), "1");
    assert_eq!(
        count(&pods, json!({"scopes": ["Terminating", "BestEffort"]})),
        "2"
    );
}

#[test]
fn a_scope_narrows_the_number_of_objects_too() {
    let spec = json!({"scopes": ["Terminating"]});
    let pods = [pod("a"), with(pod("b"), "/spec/activeDeadlineSeconds", 1)];
    assert_eq!(used_under(pods, ["count/pods", "cpu"], spec), ["1", "0"]);
}

#[test]
fn kinds_without_the_scope_have_no_objects_in_it() {
    let objects = [
        object("v1/Service", "a"),
        object("v1/ConfigMap", "b"),
        object("v1/PersistentVolumeClaim", "c"),
        object("resource.k8s.io/v1/ResourceClaim", "d"),
        pod("e"),
    ];
    let names = [
        "services",
        "configmaps",
        "persistentvolumeclaims",
        "count/resourceclaims.resource.k8s.io",
        "pods",
    ];
    assert_eq!(
        used_under(objects.clone(), names, json!({"scopes": ["BestEffort"]})),
        ["0", "0", "0", "0", "1"]
    );
    assert_eq!(
        used_under(objects, names, json!({"scopes": ["Unheard"]})),
        ["0", "0", "0", "0", "0"]
    );
}

#[test]
fn values_are_label_values() {
    let valid = |value: &str| {
        let requirement = Requirement {
            scope_name: "PriorityClass".into(),
            operator: "In".into(),
            values: vec![value.into()],
        };
        requirement.is_valid()
    };
    for value in ["", "a", "A-b_c.d", "0", &"x".repeat(63)] {
        assert!(valid(value), "{value}");
    }
    for value in ["-a", "a-", ".", "a b", "é", &"x".repeat(64)] {
        assert!(!valid(value), "{value}");
    }
}
