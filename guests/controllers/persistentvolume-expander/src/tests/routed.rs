//! The changes that enqueue a claim.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta};

use super::world::*;
use crate::Expansion;

fn route(old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let routed = Cluster::new().route::<Expansion>(&[delta(CLAIM, old, new)]);
    let keys = routed.unwrap().into_iter();
    keys.map(|routed| routed.key.to_string()).collect()
}

#[test]
fn a_new_claim_is_enqueued_if_it_is_bound() {
    assert_eq!(route(None, Some(&claim("1Gi", "1Gi"))), ["team/data"]);
    let pending = with(claim("1Gi", "1Gi"), "/status/phase", "Pending");
    assert!(route(None, Some(&pending)).is_empty());
}

#[test]
fn a_claim_is_enqueued_when_its_request_or_its_capacity_grows() {
    let small = claim("1Gi", "1Gi");
    assert_eq!(
        route(Some(&small), Some(&claim("2Gi", "1Gi"))),
        ["team/data"]
    );
    assert_eq!(
        route(Some(&small), Some(&claim("1Gi", "2Gi"))),
        ["team/data"]
    );
}

#[test]
fn a_claim_that_is_the_same_or_shrinks_is_not_enqueued() {
    let large = claim("2Gi", "2Gi");
    for after in [
        claim("2Gi", "2Gi"),
        // Another notation of the same size.
        claim("2048Mi", "2Gi"),
        claim("1Gi", "2Gi"),
        claim("2Gi", "1Gi"),
        with(claim("3Gi", "3Gi"), "/status/phase", "Lost"),
    ] {
        assert!(route(Some(&large), Some(&after)).is_empty(), "{after}");
    }
    assert!(route(Some(&large), None).is_empty());
}

#[test]
fn a_claim_that_becomes_bound_is_enqueued_because_it_gets_a_capacity() {
    let mut pending = with(claim("1Gi", "1Gi"), "/status/phase", "Pending");
    pending["status"]["capacity"] = Value::Null;
    assert_eq!(
        route(Some(&pending), Some(&claim("1Gi", "1Gi"))),
        ["team/data"]
    );
}

#[test]
fn a_claim_that_was_created_again_is_enqueued() {
    let next = with(claim("1Gi", "1Gi"), "/metadata/uid", "another");
    assert_eq!(
        route(Some(&claim("2Gi", "2Gi")), Some(&next)),
        ["team/data"]
    );
}
