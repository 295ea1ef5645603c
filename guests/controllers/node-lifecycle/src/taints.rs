//! The taints that follow from a node's conditions: pure functions.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: doNoScheduleTaintingPass,
//! doNoExecuteTaintingPass, processTaintBaseEviction, markNodeAsReachable.
//! Upstream: pkg/util/taints/taints.go: TaintSetDiff, TaintSetFilter.

use flyball_sdk::prelude::*;
use flyball_taints::{NO_EXECUTE, NO_SCHEDULE, Taint};

use crate::views::{Node, UNKNOWN};

/// The taint of a node that is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The taint of a node that is silent.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The taint of a node to which an operator allows no new pods.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The conditions that keep new pods away: type, status and taint.
const OF_CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", UNKNOWN, UNREACHABLE),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Returns the taints of a node with the `NoSchedule` taints that follow from its conditions, and without the
/// controller's other ones. Returns `None` if nothing changes.
pub fn no_schedule(node: &Node, taints: &[Value], now: Time) -> Option<Vec<Value>> {
    let mut wanted: Vec<&str> = Vec::new();
    for condition in &node.conditions {
        let follows = |(name, status, _): &&(&str, &str, &str)| {
            condition["type"] == *name && condition["status"] == *status
        };
        wanted.extend(OF_CONDITIONS.iter().find(follows).map(|(.., taint)| taint));
    }
    if node.unschedulable {
        wanted.push(UNSCHEDULABLE);
    }
    let is_ours = |taint: &Value| {
        let keys = OF_CONDITIONS.iter().map(|(.., key)| *key);
        taint["effect"] == NO_SCHEDULE && keys.chain([UNSCHEDULABLE]).any(|key| taint["key"] == key)
    };
    let is_wrong =
        |taint: &&Value| is_ours(taint) && !wanted.iter().any(|key| taint["key"] == *key);
    let has = |key: &str| has(taints, key, NO_SCHEDULE);
    let missing: Vec<&str> = wanted.iter().copied().filter(|key| !has(key)).collect();
    if missing.is_empty() && !taints.iter().any(|taint| is_wrong(&taint)) {
        return None;
    }
    let kept = taints.iter().filter(|taint| !is_wrong(taint)).cloned();
    let added = missing.into_iter().map(|key| taint(key, NO_SCHEDULE, now));
    Some(kept.chain(added).collect())
}

/// The `NoExecute` taint that a node with this status of the condition `Ready` should have, and the one that it should
/// not. `None` if it is ready.
pub fn of_status(ready: &str) -> Option<(&'static str, &'static str)> {
    match ready {
        "False" => Some((NOT_READY, UNREACHABLE)),
        UNKNOWN => Some((UNREACHABLE, NOT_READY)),
        _ => None,
    }
}

/// Returns the taints of a node that is not ready with the `NoExecute` taint `key`, and without the taint `opposite`.
/// `None` if they are right.
pub fn swapped(node: &Node, key: &str, opposite: &str, now: Time) -> Option<Vec<Value>> {
    let [has_key, has_opposite] = [key, opposite].map(|key| has(&node.taints, key, NO_EXECUTE));
    if has_key && !has_opposite {
        return None;
    }
    let mut taints = without(node, &[opposite]);
    if !has_key {
        taints.push(taint(key, NO_EXECUTE, now));
    }
    Some(taints)
}

/// Returns the taints of a node without those `NoExecute` taints that this controller adds. `None` if it has none.
pub fn cleared(node: &Node) -> Option<Vec<Value>> {
    let taints = without(node, &[NOT_READY, UNREACHABLE]);
    (taints.len() < node.taints.len()).then_some(taints)
}

/// Whether a node has a `NoExecute` taint with this key.
pub fn evicts(taints: &[Taint], key: &str) -> bool {
    taints
        .iter()
        .any(|taint| taint.evicts() && taint.key == key)
}

fn without(node: &Node, keys: &[&str]) -> Vec<Value> {
    let is_kept = |taint: &&Value| {
        taint["effect"] != NO_EXECUTE || !keys.iter().any(|key| taint["key"] == *key)
    };
    node.taints.iter().filter(is_kept).cloned().collect()
}

fn has(taints: &[Value], key: &str, effect: &str) -> bool {
    taints
        .iter()
        .any(|taint| taint["key"] == key && taint["effect"] == effect)
}

fn taint(key: &str, effect: &str, now: Time) -> Value {
    json!({"key": key, "effect": effect, "timeAdded": now})
}

/// Adds the replacement of the taints to a patch, which then fails if the node has changed.
pub fn with_taints(mut patch: Value, node: &Node, taints: &[Value]) -> Value {
    patch["metadata"]["resourceVersion"] = node.meta.resource_version.as_str().into();
    // An empty list is not stored.
    patch["spec"]["taints"] = match taints {
        [] => Value::Null,
        taints => taints.into(),
    };
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Time {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn node(conditions: &[(&str, &str)], taints: &[(&str, &str)]) -> Node {
        let conditions = conditions
            .iter()
            .map(|(name, status)| json!({"type": name, "status": status}));
        let taints = taints.iter().map(|(key, effect)| {
            json!({"key": format!("node.kubernetes.io/{key}"), "effect": effect, "extra": 1})
        });
        Node {
            conditions: conditions.collect(),
            taints: taints.collect(),
            ..Node::default()
        }
    }

    /// Taints as lines.
    fn lines(taints: Option<Vec<Value>>) -> Option<Vec<String>> {
        let line = |taint: &Value| {
            let key = taint["key"].as_str().unwrap();
            let key = key.trim_start_matches("node.kubernetes.io/");
            format!("{key} {}", taint["effect"].as_str().unwrap())
        };
        taints.map(|taints| taints.iter().map(line).collect())
    }

    fn of_conditions(node: &Node) -> Option<Vec<String>> {
        lines(no_schedule(node, &node.taints, now()))
    }

    #[test]
    fn each_condition_has_its_taint() {
        for (name, status, expected) in [
            ("Ready", "True", None),
            ("Ready", "False", Some("not-ready")),
            ("Ready", "Unknown", Some("unreachable")),
            ("MemoryPressure", "True", Some("memory-pressure")),
            ("MemoryPressure", "False", None),
            ("MemoryPressure", "Unknown", None),
            ("DiskPressure", "True", Some("disk-pressure")),
            ("PIDPressure", "True", Some("pid-pressure")),
            ("NetworkUnavailable", "True", Some("network-unavailable")),
            ("Custom", "True", None),
        ] {
            let expected = expected.map(|key| vec![format!("{key} NoSchedule")]);
            assert_eq!(of_conditions(&node(&[(name, status)], &[])), expected);
        }
    }

    #[test]
    fn taints_that_do_not_follow_are_removed_and_others_stay_as_they_are() {
        let node = node(
            &[("Ready", "True"), ("DiskPressure", "True")],
            &[
                ("not-ready", "NoSchedule"),
                ("not-ready", "NoExecute"),
                ("disk-pressure", "PreferNoSchedule"),
                ("unschedulable", "NoSchedule"),
                ("custom", "NoSchedule"),
            ],
        );
        let taints = no_schedule(&node, &node.taints, now());
        assert_eq!(taints.as_ref().unwrap()[0]["extra"], 1);
        assert_eq!(
            lines(taints).unwrap(),
            [
                "not-ready NoExecute",
                "disk-pressure PreferNoSchedule",
                "custom NoSchedule",
                "disk-pressure NoSchedule"
            ]
        );
    }

    #[test]
    fn a_node_that_is_right_is_left_alone() {
        let right = node(&[("Ready", "False")], &[("not-ready", "NoSchedule")]);
        assert_eq!(of_conditions(&right), None);
        let cordoned = Node {
            unschedulable: true,
            ..node(&[], &[])
        };
        assert_eq!(
            of_conditions(&cordoned).unwrap(),
            ["unschedulable NoSchedule"]
        );
        assert_eq!(of_conditions(&node(&[], &[])), None);
    }

    #[test]
    fn an_added_taint_has_its_time() {
        let node = node(&[("Ready", "False")], &[]);
        let taints = no_schedule(&node, &[], now()).unwrap();
        assert_eq!(taints[0]["timeAdded"], "2026-01-01T00:00:00Z");
    }

    #[test]
    fn the_taint_for_a_node_that_is_not_ready_takes_the_place_of_its_opposite() {
        let swap = |taints: &[(&str, &str)]| {
            let (key, opposite) = of_status("Unknown").unwrap();
            lines(swapped(&node(&[], taints), key, opposite, now()))
        };
        let text = |line: &str| Some(vec![line.to_owned()]);
        assert_eq!(swap(&[]), text("unreachable NoExecute"));
        assert_eq!(
            swap(&[("not-ready", "NoExecute")]),
            text("unreachable NoExecute")
        );
        assert_eq!(swap(&[("unreachable", "NoExecute")]), None);
        let both = [("unreachable", "NoExecute"), ("not-ready", "NoExecute")];
        assert_eq!(swap(&both), text("unreachable NoExecute"));
        assert_eq!(
            swap(&[("not-ready", "NoSchedule")]).unwrap(),
            ["not-ready NoSchedule", "unreachable NoExecute"]
        );
        assert_eq!(of_status("True"), None);
        assert_eq!(of_status("False"), Some((NOT_READY, UNREACHABLE)));
    }

    #[test]
    fn both_taints_of_a_node_that_is_ready_are_removed() {
        let clear = |taints: &[(&str, &str)]| lines(cleared(&node(&[], taints)));
        assert_eq!(
            clear(&[("not-ready", "NoSchedule"), ("custom", "NoExecute")]),
            None
        );
        assert_eq!(
            clear(&[("not-ready", "NoExecute"), ("unreachable", "NoExecute")]),
            Some(vec![])
        );
    }

    #[test]
    fn an_empty_list_of_taints_is_removed() {
        let node = node(&[], &[]);
        assert_eq!(
            with_taints(json!({"metadata": {"labels": {}}}), &node, &[]),
            json!({"metadata": {"labels": {}, "resourceVersion": ""}, "spec": {"taints": null}})
        );
    }
}
