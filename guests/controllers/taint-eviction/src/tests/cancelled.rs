//! Pending evictions that end.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

fn waiting() -> Cluster {
    let cluster = Cluster::with([
        node(&["a"]),
        pod("b", tolerates("a", Some(30))),
        pod("c", tolerates("a", None)),
    ]);
    assert_eq!(reconcile(&cluster).unwrap(), after(30));
    cluster
}

/// Nothing is evicted later.
fn assert_over(cluster: &Cluster) {
    assert_eq!(pass(cluster, 60).unwrap(), Outcome::Done);
    assert_idle(cluster);
}

#[test]
fn an_eviction_is_cancelled_when_the_taint_is_removed() {
    let cluster = waiting();
    taint(&cluster, &[]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.events(), [cancelling("b")]);
    assert!(cluster.written().is_empty());
    assert_over(&cluster);
    // The time begins again.
    taint(&cluster, &["a"]);
    assert_eq!(reconcile(&cluster).unwrap(), after(30));
}

#[test]
fn an_eviction_is_cancelled_when_the_pod_tolerates_the_taint_for_ever() {
    let cluster = waiting();
    cluster.edit(POD, "team", "b", |pod| {
        pod["spec"]["tolerations"] = tolerates("a", None);
    });
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.events(), [cancelling("b")]);
    assert_over(&cluster);
}

#[test]
fn the_deletion_of_the_pod_ends_its_pending_eviction() {
    let cluster = waiting();
    cluster.remove(POD, "team", "b");
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.events(), [cancelling("b")]);
    assert_over(&cluster);
}

#[test]
fn another_pod_of_the_same_name_has_its_own_time() {
    let cluster = waiting();
    cluster.remove(POD, "team", "b");
    cluster.put(with(
        pod("b", tolerates("a", Some(30))),
        "/metadata/uid",
        "uid-2",
    ));
    assert_eq!(pass(&cluster, 10).unwrap(), after(30));
    assert_eq!(cluster.events(), [cancelling("b")]);
}

#[test]
fn a_taint_that_is_not_tolerated_evicts_at_once_what_was_pending() {
    let cluster = waiting();
    taint(&cluster, &["a", "x"]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec!["b", "c"], vec!["b", "c"]]);
    assert_eq!(
        cluster.events(),
        [cancelling("b"), marking("b"), marking("c")]
    );
    assert_over(&cluster);
}

#[test]
fn a_due_eviction_is_cancelled_if_only_the_api_server_knows_that_the_taint_is_removed() {
    let cluster = waiting();
    cluster.put_live(node(&[]));
    assert_eq!(pass(&cluster, 30).unwrap(), Outcome::Done);
    assert_eq!(cluster.events(), [cancelling("b")]);
    assert!(cluster.written().is_empty());
}
