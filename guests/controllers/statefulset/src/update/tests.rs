use flyball_sdk::testing::view;

use super::*;

fn set(strategy: Value) -> StatefulSet {
    view(json!({"spec": {"replicas": 4, "updateStrategy": strategy}}))
}

fn rolling(max_unavailable: Value) -> StatefulSet {
    let rolling = json!({"partition": 0, "maxUnavailable": max_unavailable});
    set(json!({"type": "RollingUpdate", "rollingUpdate": rolling}))
}

/// Pods by a letter each: `o` and `n` of the old and the new revision; in upper case if unavailable;
/// `t` is terminating and old, `.` is missing.
fn next_of(set: &StatefulSet, pods: &str, max: Option<usize>) -> Vec<String> {
    let is_two_phase = false;
    next_within(set, pods, max.map(|max| Budget { max, is_two_phase }))
}

fn next_within(set: &StatefulSet, pods: &str, budget: Option<Budget>) -> Vec<String> {
    let pod = |(at, letter): (usize, char)| -> Option<Pod> {
        let revision = if letter.eq_ignore_ascii_case(&'n') {
            "new"
        } else {
            "old"
        };
        let status = if letter.is_ascii_lowercase() {
            "True"
        } else {
            "False"
        };
        let mut pod = json!({
            "metadata": {"name": format!("web-{at}"), "labels": {"controller-revision-hash": revision}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
        });
        if letter == 't' {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        (letter != '.').then(|| view(pod))
    };
    let pods: Vec<Option<Pod>> = pods.chars().enumerate().map(pod).collect();
    let replicas: Vec<Replica> = pods
        .iter()
        .enumerate()
        .map(|(at, pod)| Replica {
            ordinal: at as i64,
            pod: pod.as_ref(),
        })
        .collect();
    let update = next(set, &replicas, "new", budget, Time::default());
    update
        .to_delete
        .iter()
        .map(|pod| pod.meta.name.clone())
        .collect()
}

#[test]
fn the_highest_old_pod_is_next_unless_one_above_is_unavailable() {
    let set = rolling(Value::Null);
    for (pods, expected) in [
        ("oooo", vec!["web-3"]),
        ("oooO", vec!["web-3"]),
        ("ooon", vec!["web-2"]),
        ("oooN", vec![]),
        ("ooot", vec![]),
        ("ooo.", vec![]),
        ("noOn", vec!["web-2"]),
        ("nnnn", vec![]),
        ("", vec![]),
    ] {
        assert_eq!(next_of(&set, pods, None), expected, "{pods}");
    }
}

#[test]
fn with_a_maximum_as_many_are_next_as_may_become_unavailable() {
    let set = rolling(Value::Null);
    for (pods, max, expected) in [
        ("oooo", 1, vec!["web-3"]),
        ("oooo", 2, vec!["web-3", "web-2"]),
        ("oooo", 9, vec!["web-3", "web-2", "web-1", "web-0"]),
        ("oooN", 2, vec!["web-2"]),
        ("oooN", 1, vec![]),
        ("Ooon", 2, vec!["web-2"]),
        ("ONon", 2, vec![]),
        ("ooot", 2, vec!["web-2"]),
        ("nnnn", 2, vec![]),
    ] {
        assert_eq!(next_of(&set, pods, Some(max)), expected, "{pods} {max}");
    }
}

#[test]
fn in_two_phases_unavailable_pods_are_next_whatever_the_maximum() {
    let set = rolling(Value::Null);
    for (pods, max, expected) in [
        ("oooo", 2, vec!["web-3", "web-2"]),
        ("oOoO", 1, vec!["web-3", "web-1"]),
        ("oOoO", 2, vec!["web-3", "web-1"]),
        ("oOoO", 3, vec!["web-3", "web-1", "web-2"]),
        ("OOOO", 1, vec!["web-3", "web-2", "web-1", "web-0"]),
        ("ooON", 1, vec!["web-2"]),
        ("ooON", 3, vec!["web-2", "web-1"]),
        ("oot.", 2, vec![]),
        ("oOt.", 3, vec!["web-1"]),
        ("nNnN", 3, vec![]),
    ] {
        let is_two_phase = true;
        let budget = Some(Budget { max, is_two_phase });
        assert_eq!(next_within(&set, pods, budget), expected, "{pods} {max}");
    }
}

#[test]
fn in_two_phases_too_pods_below_the_partition_are_not_replaced() {
    let set = set(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}));
    let budget = Some(Budget {
        max: 2,
        is_two_phase: true,
    });
    assert_eq!(next_within(&set, "OOOo", budget), ["web-2"]);
}

#[test]
fn on_delete_and_recreate_replace_nothing() {
    for strategy in ["OnDelete", "Recreate"] {
        let set = set(json!({ "type": strategy }));
        assert_eq!(next_of(&set, "oooo", None), [""; 0]);
        assert_eq!(next_of(&set, "oooo", Some(2)), [""; 0]);
    }
}

#[test]
fn pods_below_the_partition_are_not_replaced() {
    let at = |partition: i32| {
        let rolling = json!({ "partition": partition });
        set(json!({"type": "RollingUpdate", "rollingUpdate": rolling}))
    };
    assert_eq!(next_of(&at(3), "oooo", None), ["web-3"]);
    assert_eq!(next_of(&at(3), "ooon", None), [""; 0]);
    assert_eq!(next_of(&at(2), "oooo", Some(4)), ["web-3", "web-2"]);
    assert_eq!(next_of(&at(9), "oooo", None), [""; 0]);
    assert_eq!(
        next_of(&set(json!({"type": "RollingUpdate"})), "oooo", None),
        ["web-3"]
    );
}

#[test]
fn the_maximum_is_at_least_one_and_percentages_are_rounded_down() {
    for (value, expected) in [
        (Value::Null, 1),
        (json!(2), 2),
        (json!(0), 1),
        (json!("50%"), 2),
        (json!("49%"), 1),
        (json!("1%"), 1),
        (json!("100%"), 4),
    ] {
        assert_eq!(
            max_unavailable(&rolling(value.clone())).unwrap(),
            expected,
            "{value}"
        );
    }
    assert_eq!(
        max_unavailable(&set(json!({"type": "OnDelete"}))).unwrap(),
        1
    );
    assert!(max_unavailable(&rolling(json!("many"))).is_err());
}
