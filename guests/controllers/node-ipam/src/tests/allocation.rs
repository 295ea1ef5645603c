//! Nodes that get ranges, and nodes that have some.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

#[test]
fn a_node_reserves_the_first_free_block_and_then_gets_it() {
    let cluster = cluster([node("a", &[])]);
    let outcome = reconcile(&cluster, "a").unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(Duration::ZERO));
    assert!(cluster.written().is_empty());
    assert_eq!(reconcile(&cluster, "a").unwrap(), Outcome::Done);
    let writes = cluster.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].to_string(), "patch v1/Node a");
    let node = cluster.object(NODE, "", "a").unwrap();
    assert_eq!(
        node["spec"],
        json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]})
    );
    assert!(cluster.events().is_empty());
}

#[test]
fn a_node_of_a_dual_stack_cluster_gets_a_range_of_each_family_in_the_order_of_the_flag() {
    let cluster = dual_stack([node("a", &[]), node("b", &[])]);
    assert_eq!(settle(&cluster, "a"), ["10.0.0.0/24", "fd00::/64"]);
    assert_eq!(settle(&cluster, "b"), ["10.0.1.0/24", "fd00:0:0:1::/64"]);
    let cluster = configured([node("a", &[])], "fd00::/63,10.0.0.0/22", "64,24", "");
    assert_eq!(settle(&cluster, "a"), ["fd00::/64", "10.0.0.0/24"]);
}

#[test]
fn blocks_of_existing_nodes_and_of_services_are_skipped() {
    let nodes = [
        node("old", &["10.0.0.0/24"]),
        node("new", &[]),
        node("last", &[]),
    ];
    let cluster = configured(nodes, "10.0.0.0/22", "24", "10.0.1.128/25,fd00::/108");
    assert_eq!(settle(&cluster, "new"), ["10.0.2.0/24"]);
    assert_eq!(settle(&cluster, "last"), ["10.0.3.0/24"]);
}

#[test]
fn a_larger_range_and_one_in_another_place_are_skipped_too() {
    let cluster = dual_stack([
        node("large", &["10.0.0.0/23"]),
        node("swapped", &["fd00::/64", "10.0.2.0/24"]),
        node("new", &[]),
    ]);
    assert_eq!(settle(&cluster, "new"), ["10.0.3.0/24", "fd00:0:0:1::/64"]);
}

#[test]
fn the_block_of_a_deleted_node_is_given_again_only_after_all_others() {
    let cluster = cluster(["a", "b", "c", "d", "e"].map(|name| node(name, &[])));
    assert_eq!(settle(&cluster, "a"), ["10.0.0.0/24"]);
    assert_eq!(settle(&cluster, "b"), ["10.0.1.0/24"]);
    cluster.remove(NODE, "", "a");
    assert_eq!(settle(&cluster, "c"), ["10.0.2.0/24"]);
    assert_eq!(settle(&cluster, "d"), ["10.0.3.0/24"]);
    assert_eq!(settle(&cluster, "e"), ["10.0.0.0/24"]);
}

#[test]
fn a_deleted_node_a_node_that_is_being_deleted_and_one_that_has_ranges_are_left_alone() {
    let mut deleting = node("deleting", &[]);
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let cluster = cluster([deleting, node("fine", &["10.0.3.0/24"])]);
    for name in ["gone", "deleting", "fine"] {
        assert_eq!(reconcile(&cluster, name).unwrap(), Outcome::Done, "{name}");
    }
    assert!(cluster.written().is_empty() && cluster.events().is_empty());
}

#[test]
fn ranges_that_are_not_the_clusters_are_errors_that_no_retry_helps() {
    let cluster = cluster([
        node("outside", &["10.9.0.0/24"]),
        node("family", &["fd00::/64"]),
        node("more", &["10.0.0.0/24", "fd00::/64"]),
        node("garbage", &["all"]),
        node("smaller", &["10.0.0.0/28"]),
        node("larger", &["10.0.0.0/8"]),
    ]);
    for (name, expected) in [
        (
            "outside",
            "range 1 of node outside: 10.9.0.0/24 is not in the range 10.0.0.0/22",
        ),
        ("family", "fd00::/64 is not in the range"),
        (
            "more",
            "node more has more ranges than the cluster: fd00::/64",
        ),
        ("garbage", "`all`"),
    ] {
        let error = reconcile(&cluster, name).unwrap_err();
        assert!(error.is_terminal());
        assert!(error.to_string().contains(expected), "{error}");
    }
    for name in ["smaller", "larger"] {
        assert_eq!(reconcile(&cluster, name).unwrap(), Outcome::Done, "{name}");
    }
    assert!(cluster.events().is_empty());
}

#[test]
fn without_a_free_block_the_node_is_reported_and_retried() {
    let cluster = configured(
        [node("a", &["10.0.0.0/24"]), node("b", &[])],
        "10.0.0.0/24",
        "24",
        "",
    );
    let error = reconcile(&cluster, "b").unwrap_err();
    assert!(!error.is_terminal());
    assert!(
        error.to_string().contains("all of 10.0.0.0/24 are in use"),
        "{error}"
    );
    assert_eq!(cluster.events(), [not_available("b")]);
    cluster.remove(NODE, "", "a");
    assert_eq!(settle(&cluster, "b"), ["10.0.0.0/24"]);
}

#[test]
fn an_exhausted_second_family_keeps_no_block_of_the_first_one() {
    let cluster = dual_stack(["a", "b", "c"].map(|name| node(name, &[])));
    settle(&cluster, "a");
    settle(&cluster, "b");
    for _ in 0..9 {
        let error = reconcile(&cluster, "c").unwrap_err().to_string();
        assert!(error.contains("all of fd00::/63"), "{error}");
    }
    cluster.remove(NODE, "", "b");
    assert_eq!(settle(&cluster, "c"), ["10.0.2.0/24", "fd00:0:0:1::/64"]);
}

#[test]
fn a_refused_write_is_tried_three_times_and_then_reported_and_the_block_stays_reserved() {
    let cluster = cluster([node("a", &[]), node("b", &[])]);
    for _ in 0..3 {
        cluster.fail("patch", NODE, refusal(403, "Forbidden"));
    }
    reconcile(&cluster, "a").unwrap();
    let error = reconcile(&cluster, "a").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("writing the ranges 10.0.0.0/24 of node a"),
        "{error}"
    );
    assert_eq!(cluster.written().len(), 3);
    assert_eq!(cluster.events(), [assignment_failed("a")]);
    assert_eq!(settle(&cluster, "b"), ["10.0.1.0/24"]);
    assert_eq!(settle(&cluster, "a"), ["10.0.0.0/24"]);
}

#[test]
fn a_write_that_succeeds_at_the_second_attempt_is_not_reported() {
    let cluster = cluster([node("a", &[])]);
    cluster.fail("patch", NODE, refusal(409, "Conflict"));
    assert_eq!(settle(&cluster, "a"), ["10.0.0.0/24"]);
    assert!(cluster.events().is_empty());
}

#[test]
fn a_node_of_the_same_name_does_not_get_the_ranges_of_the_deleted_one() {
    let cluster = cluster([node("a", &[])]);
    reconcile(&cluster, "a").unwrap();
    cluster.remove(NODE, "", "a");
    let mut other = node("a", &[]);
    other["metadata"]["uid"] = "uid-2".into();
    cluster.put(other);
    // The reservation has ended with its node.
    assert_eq!(settle(&cluster, "a"), ["10.0.1.0/24"]);
}
