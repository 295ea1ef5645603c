//! Nodes that are reconciled at once, and changes that the cache does not have yet.

use std::time::Duration;

use flyball_sdk::ApiError;
use flyball_sdk::prelude::*;

use super::world::*;

#[test]
fn a_reserved_block_is_given_to_nobody_else() {
    let cluster = cluster([node("a", &[]), node("b", &[])]);
    reconcile(&cluster, "a").unwrap();
    assert_eq!(settle(&cluster, "b"), ["10.0.1.0/24"]);
    assert_eq!(settle(&cluster, "a"), ["10.0.0.0/24"]);
}

#[test]
fn of_two_nodes_that_reserve_a_block_at_once_the_first_one_gets_it() {
    let cluster = cluster([node("a", &[]), node("b", &[])]);
    reconcile(&cluster, "a").unwrap();
    // The memo has kept the entry of the other call.
    let host = cluster.host();
    host.memo()
        .put("block/0/0", &"uid-b", "uid-b", Duration::ZERO)
        .unwrap();
    let outcome = reconcile(&cluster, "a").unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(Duration::ZERO));
    assert_eq!(settle(&cluster, "a"), ["10.0.1.0/24"]);
    assert_eq!(
        cluster.host().memo().get::<String>("block/0/0").as_deref(),
        Some("uid-b")
    );
}

#[test]
fn a_reservation_ends_if_another_node_got_the_block() {
    let cluster = cluster([node("a", &[]), node("b", &[])]);
    reconcile(&cluster, "a").unwrap();
    cluster.edit(NODE, "", "b", |b| {
        b["spec"] = json!({"podCIDRs": ["10.0.0.0/23"]})
    });
    assert_eq!(settle(&cluster, "a"), ["10.0.2.0/24"]);
}

#[test]
fn a_reservation_ends_when_somebody_else_gives_the_node_ranges() {
    let cluster = cluster(["a", "b", "c", "d", "e"].map(|name| node(name, &[])));
    reconcile(&cluster, "a").unwrap();
    cluster.edit(NODE, "", "a", |a| {
        a["spec"] = json!({"podCIDRs": ["10.0.3.0/24"]})
    });
    assert_eq!(reconcile(&cluster, "a").unwrap(), Outcome::Done);
    assert_eq!(settle(&cluster, "b"), ["10.0.1.0/24"]);
    assert_eq!(settle(&cluster, "c"), ["10.0.2.0/24"]);
    assert_eq!(settle(&cluster, "d"), ["10.0.0.0/24"]);
    assert!(reconcile(&cluster, "e").is_err());
}

#[test]
fn a_write_of_unknown_effect_keeps_its_block_from_others() {
    let cluster = cluster([node("a", &[]), node("b", &[])]);
    reconcile(&cluster, "a").unwrap();
    cluster.fail("patch", NODE, ApiError::timeout("no answer"));
    assert!(reconcile(&cluster, "a").is_err());
    // It is not repeated at once.
    assert_eq!(cluster.written().len(), 1);
    assert_eq!(cluster.events(), [assignment_failed("a")]);
    assert_eq!(settle(&cluster, "b"), ["10.0.1.0/24"]);
    assert_eq!(settle(&cluster, "a"), ["10.0.0.0/24"]);
}

#[test]
fn before_the_first_allocation_the_nodes_are_read_from_the_api_server() {
    let cluster = cluster([node("a", &[]), node("b", &[]), node("c", &[])]);
    // Written by the last leader.
    cluster.put_live(node("b", &["10.0.0.0/24"]));
    assert_eq!(settle(&cluster, "a"), ["10.0.1.0/24"]);
    assert_eq!(cluster.live_reads(), ["list v1/Node "]);
    assert_eq!(settle(&cluster, "c"), ["10.0.2.0/24"]);
    assert!(cluster.live_reads().is_empty());
}

#[test]
fn without_an_answer_of_the_api_server_nothing_is_allocated() {
    let cluster = cluster([node("a", &[])]);
    cluster.fail("list", NODE, ApiError::timeout("no answer"));
    let error = reconcile(&cluster, "a").unwrap_err().to_string();
    assert!(error.contains("reading all nodes"), "{error}");
    assert_eq!(settle(&cluster, "a"), ["10.0.0.0/24"]);
}
