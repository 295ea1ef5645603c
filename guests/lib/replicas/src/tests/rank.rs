//! The order in which pods are deleted.

use flyball_sdk::serde_json;

use super::*;
use crate::rank::{DELETION_COST, RelatedPods, age_ratios, least_useful};
use crate::views::RelatedPod;

fn names_of<'a>(pods: impl IntoIterator<Item = &'a Candidate>) -> Vec<&'a str> {
    pods.into_iter().map(|pod| pod.meta.name.as_str()).collect()
}

/// The names of the pods in the order of deletion. The pods are passed in reverse, so that missing
/// sorting is noticed.
fn order_with(related: &RelatedPods, mut expected: Vec<Object>) -> (Vec<String>, Vec<String>) {
    // One more pod, which must be kept, so that there is a choice.
    expected.push(pod("zz-last").ready(100_000).with(&cost(), "2147483647"));
    let wanted = candidates(&expected);
    expected.reverse();
    let given = candidates(&expected);
    let order = least_useful(&given, wanted.len() - 1, related, NOON);
    let own = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    (
        own(names_of(order)),
        own(names_of(&wanted[..wanted.len() - 1])),
    )
}

fn assert_order(expected: Vec<Object>) {
    let (order, expected) = order_with(&RelatedPods::default(), expected);
    assert_eq!(order, expected);
}

fn cost() -> String {
    format!("/metadata/annotations/{}", DELETION_COST.replace('/', "~1"))
}

#[test]
fn less_useful_pods_are_deleted_first() {
    assert_order(vec![
        pod("unassigned").phase("Pending").node(""),
        pod("pending").phase("Pending"),
        pod("unknown").phase("Unknown"),
        pod("not-ready"),
        pod("ready").ready(60),
    ]);
}

#[test]
fn an_unassigned_pod_is_first_whatever_its_phase_and_cost() {
    assert_order(vec![
        pod("unassigned").node("").with(&cost(), "100"),
        pod("pending").phase("Pending"),
    ]);
}

#[test]
fn the_cheaper_pod_is_first_if_both_are_equally_ready() {
    assert_order(vec![
        pod("not-ready").with(&cost(), "50"),
        pod("cheap").ready(600).with(&cost(), "-10"),
        pod("free").ready(600),
        pod("dear").ready(60).with(&cost(), "7"),
    ]);
}

#[test]
fn a_malformed_cost_is_ignored() {
    for wrong in ["+10", "007", "1.5", "", "2147483648", "cheap", "00", " 1"] {
        assert_order(vec![
            pod("minus").ready(9).with(&cost(), "-1"),
            pod("wrong").ready(9).with(&cost(), wrong),
        ]);
        assert_order(vec![
            pod("wrong").ready(9).with(&cost(), wrong),
            pod("one").ready(9).with(&cost(), "1"),
        ]);
    }
}

fn related_pod(uid: &str, node: &str) -> RelatedPod {
    serde_json::from_value(pod(uid).node(node).0).unwrap()
}

#[test]
fn a_pod_that_shares_its_node_is_before_one_that_does_not() {
    let mut related = RelatedPods::default();
    for (uid, node) in [("a", "busy"), ("b", "busy"), ("c", "quiet")] {
        related.add(related_pod(uid, node));
    }
    let lonely = pod("lonely").node("quiet").ready(1);
    let crowded = pod("crowded").node("busy").ready(1000);
    let (order, expected) = order_with(&related, vec![crowded, lonely]);
    assert_eq!(order, expected);
}

#[test]
fn each_active_related_pod_is_counted_once() {
    let mut related = RelatedPods::default();
    related.add(related_pod("a", "one"));
    related.add(related_pod("a", "one"));
    for ended in [
        pod("b").phase("Succeeded"),
        pod("c").phase("Failed"),
        pod("d").deleting(),
    ] {
        related.add(serde_json::from_value(ended.node("one").0).unwrap());
    }
    related.add(related_pod("e", "two"));
    related.add(related_pod("f", "two"));
    let (order, expected) = order_with(
        &related,
        vec![
            pod("two").node("two").ready(9),
            pod("one").node("one").ready(9),
        ],
    );
    assert_eq!(order, expected);
}

#[test]
fn the_pod_that_is_ready_for_less_time_is_first_by_powers_of_two() {
    // Just below 2^39, 2^40 and 2^41 nanoseconds: 549, 1,099 and 2,199 seconds.
    assert_order(vec![
        pod("c").ready(500),
        pod("b").ready(600),
        pod("a").ready(1200),
    ]);
    // Within a power of two the UID decides.
    assert_order(vec![pod("a").ready(1000), pod("b").ready(600)]);
    assert_order(vec![pod("a").ready(600), pod("b").ready(1000)]);
}

#[test]
fn a_ready_pod_without_a_transition_time_is_first() {
    let unknown = pod("unknown").with(
        "/status/conditions",
        json!([{"type": "Ready", "status": "True"}]),
    );
    assert_order(vec![unknown.clone(), pod("a").ready(0)]);
    let null = unknown.with(
        "/status/conditions",
        json!([{"type": "Ready", "status": "True", "lastTransitionTime": null}]),
    );
    assert_order(vec![null, pod("a").ready(0)]);
}

fn restarts(pod: Object, containers: &[i32]) -> Object {
    let statuses: Vec<Value> = containers
        .iter()
        .map(|count| json!({"restartCount": count}))
        .collect();
    pod.with("/status/containerStatuses", statuses)
}

#[test]
fn the_pod_with_the_most_restarts_is_first() {
    assert_order(vec![
        restarts(pod("b"), &[0, 5]),
        restarts(pod("a"), &[3, 4]),
        pod("c"),
    ]);
}

#[test]
fn restarts_count_among_pods_that_are_ready_for_the_same_time() {
    assert_order(vec![restarts(pod("b").ready(60), &[5]), pod("a").ready(60)]);
}

#[test]
fn restarts_of_sidecars_rank_after_those_of_containers_and_init_containers_are_ignored() {
    let with_init = |object: Object, policy: Value, count: i32| {
        object
            .with(
                "/spec/initContainers",
                json!([{"name": "i", "restartPolicy": policy}]),
            )
            .with(
                "/status/initContainerStatuses",
                json!([{"name": "i", "restartCount": count}]),
            )
    };
    assert_order(vec![
        restarts(pod("d"), &[1]),
        with_init(pod("c"), "Always".into(), 7),
        with_init(pod("a"), Value::Null, 9).with("/metadata/creationTimestamp", ago(1000)),
        with_init(pod("b"), "Always".into(), 0).with("/metadata/creationTimestamp", ago(900)),
    ]);
}

#[test]
fn the_younger_pod_is_first_by_powers_of_two() {
    let created = |name: &str, seconds| pod(name).with("/metadata/creationTimestamp", ago(seconds));
    assert_order(vec![
        created("c", 500),
        created("a", 1000),
        created("b", 600),
        created("d", 1200),
    ]);
    // A pod created just now, or after the clock's time, is the youngest.
    assert_order(vec![created("b", 0), created("a", 1)]);
}

#[test]
fn nothing_is_sorted_if_all_are_deleted() {
    let all = candidates(&[pod("ready").ready(60), pod("not-ready")]);
    assert_eq!(
        names_of(least_useful(&all, 2, &RelatedPods::default(), NOON)),
        ["ready", "not-ready"]
    );
}

#[test]
fn an_intransitive_order_does_not_panic() {
    // `restarted` sorts before `steady`, which became ready in the same second; both are compared
    // with `other` by UID.
    let cycle = |i: u32| {
        [
            restarts(pod(&format!("z-restarted-{i}")).ready(600), &[9]),
            pod(&format!("a-steady-{i}")).ready(600),
            pod(&format!("m-other-{i}")).ready(601),
        ]
    };
    let many: Vec<Object> = (0..100).flat_map(cycle).collect();
    let chosen = candidates(&many);
    let chosen = least_useful(&chosen, 150, &RelatedPods::default(), NOON);
    let distinct: std::collections::BTreeSet<_> =
        names_of(chosen).into_iter().map(str::to_owned).collect();
    assert_eq!(distinct.len(), 150);
}

#[test]
fn age_ratios_are_multiples_of_the_youngest_ready_pod() {
    let aged = |name: &str, seconds| {
        pod(name)
            .with("/metadata/creationTimestamp", ago(seconds))
            .ready(1)
    };
    let all = candidates(&[
        aged("a", 100),
        aged("b", 250),
        pod("not-ready"),
        aged("c", 900),
    ]);
    assert_eq!(
        age_ratios(&all, &[&all[1], &all[2], &all[0]], NOON),
        [2.0, 1.0]
    );
    let newborn = candidates(&[aged("a", 0), aged("b", 5)]);
    assert!(age_ratios(&newborn, &[&newborn[1]], NOON).is_empty());
    assert!(age_ratios(&all[2..3], &[&all[2]], NOON).is_empty());
}
