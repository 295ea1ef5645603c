//! An API server that is unreachable when evictions are due.

use flyball_sdk::ApiError;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

fn outage() -> ApiError {
    refusal(503, "Unreachable")
}

#[test]
fn evictions_that_became_due_in_an_outage_wait_until_kubelets_can_have_reported() {
    let cluster = Cluster::with([node(&["a"]), pod("b", tolerates("a", Some(300)))]);
    assert_eq!(reconcile(&cluster).unwrap(), after(300));
    for _ in 0..10 {
        cluster.fail("get", NODE, outage());
        pass(&cluster, 300).unwrap_err();
    }
    assert_idle(&cluster);
    assert_eq!(reconcile(&cluster).unwrap(), after(60));
    assert_idle(&cluster);
    // A kubelet has reported.
    taint(&cluster, &[]);
    assert_eq!(pass(&cluster, 5).unwrap(), Outcome::Done);
    assert_eq!(cluster.events(), [cancelling("b")]);
    assert!(cluster.written().is_empty());
}

#[test]
fn a_node_that_stays_tainted_after_an_outage_loses_its_pods() {
    let cluster = Cluster::with([node(&["a"]), pod("b", tolerates("a", Some(300)))]);
    reconcile(&cluster).unwrap();
    cluster.fail("get", NODE, outage());
    pass(&cluster, 300).unwrap_err();
    assert_eq!(pass(&cluster, 1).unwrap(), after(60));
    assert_eq!(pass(&cluster, 60).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
}

#[test]
fn a_refusal_is_no_outage() {
    let cluster = Cluster::with([node(&["a"]), pod("b", tolerates("a", Some(300)))]);
    reconcile(&cluster).unwrap();
    cluster.fail("get", NODE, refusal(429, "TooManyRequests"));
    pass(&cluster, 300).unwrap_err();
    assert_eq!(pass(&cluster, 1).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
}
