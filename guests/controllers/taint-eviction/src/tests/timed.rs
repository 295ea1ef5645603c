//! Pods that tolerate a taint for some time.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

fn waiting(seconds: i64) -> Cluster {
    let cluster = Cluster::with([node(&["a"]), pod("b", tolerates("a", Some(seconds)))]);
    assert_eq!(reconcile(&cluster).unwrap(), after(seconds as u64));
    assert_idle(&cluster);
    cluster
}

#[test]
fn a_pod_is_evicted_when_its_time_has_passed() {
    let cluster = waiting(30);
    assert_eq!(pass(&cluster, 29).unwrap(), after(1));
    assert_idle(&cluster);
    assert!(cluster.live_reads().is_empty());
    assert_eq!(pass(&cluster, 1).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
    assert_eq!(cluster.events(), [marking("b")]);
    assert_eq!(counts(&cluster), (1.0, vec![0.0]));
    assert_eq!(pass(&cluster, 1).unwrap(), Outcome::Done);
    assert_idle(&cluster);
}

#[test]
fn the_first_eviction_of_a_node_is_waited_for() {
    let cluster = waiting(30);
    cluster.put(pod("c", tolerates("a", Some(10))));
    assert_eq!(pass(&cluster, 5).unwrap(), after(10));
    assert_eq!(pass(&cluster, 10).unwrap(), after(15));
    assert_eq!(written(&cluster), [vec!["c"], vec!["c"]]);
    assert_eq!(pass(&cluster, 15).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
}

#[test]
fn a_pending_eviction_keeps_its_time_when_taints_or_tolerations_change() {
    let cluster = waiting(30);
    cluster.edit(POD, "team", "b", |pod| {
        pod["spec"]["tolerations"] = json!([{"operator": "Exists", "tolerationSeconds": 5}]);
    });
    taint(&cluster, &["a", "c"]);
    assert_eq!(pass(&cluster, 10).unwrap(), after(20));
    cluster.edit(POD, "team", "b", |pod| {
        pod["spec"]["tolerations"] = json!([{"operator": "Exists", "tolerationSeconds": 600}]);
    });
    assert_eq!(pass(&cluster, 10).unwrap(), after(10));
    assert_idle(&cluster);
    assert_eq!(pass(&cluster, 10).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
}

#[test]
fn a_failed_eviction_is_retried_and_does_not_wait_again() {
    let cluster = waiting(30);
    cluster.put(pod("c", tolerates("a", Some(100))));
    assert_eq!(reconcile(&cluster).unwrap(), after(30));
    cluster.fail("delete", POD, refusal(500, "InternalError"));
    pass(&cluster, 30).unwrap_err();
    let enqueued = cluster.enqueued();
    assert_eq!(
        (enqueued[0].key.as_str(), enqueued[0].delay),
        ("n", Duration::from_secs(70))
    );
    assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
    assert_eq!(pass(&cluster, 0).unwrap(), after(70));
    assert_eq!(written(&cluster), [vec![], vec!["b"]]);
}

#[test]
fn a_step_of_the_wall_clock_evicts_nobody() {
    let cluster = waiting(300);
    // The memo's clock does not step: the entry is put again with the time that is left.
    let due: Vec<String> = vec![format!("due/n/{}", 1_767_225_600_000_u64 + 300_000)];
    cluster.advance(Duration::from_secs(3600));
    let memo = cluster.host().memo();
    for key in due {
        memo.put(&key, &"Host", "", Duration::from_secs(300))
            .unwrap();
    }
    assert_eq!(reconcile(&cluster).unwrap(), after(1));
    assert_idle(&cluster);
}

#[test]
fn times_beyond_the_longest_time_to_live_pass_by_the_wall_clock() {
    let year = 365 * 24 * 60 * 60;
    let cluster = Cluster::with([node(&["a"]), pod("b", tolerates("a", Some(year)))]);
    let month = 40 * 24 * 60 * 60;
    assert_eq!(reconcile(&cluster).unwrap(), after(month));
    assert_eq!(pass(&cluster, 300 * 24 * 60 * 60).unwrap(), after(month));
    assert_idle(&cluster);
    assert_eq!(pass(&cluster, 65 * 24 * 60 * 60).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
}

#[test]
fn the_longest_toleration_of_all_has_no_end_and_the_next_one_no_overflow() {
    let tolerating =
        |seconds| Cluster::with([node(&["a"]), pod("b", tolerates("a", Some(seconds)))]);
    let cluster = tolerating(i64::MAX);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_idle(&cluster);
    let cluster = tolerating(i64::MAX - 1);
    assert!(matches!(
        reconcile(&cluster).unwrap(),
        Outcome::RequeueAfter(_)
    ));
    assert_idle(&cluster);
}

#[test]
fn a_pending_eviction_is_cancelled_if_the_pod_is_then_tolerated_for_the_longest_time() {
    let cluster = waiting(30);
    cluster.edit(POD, "team", "b", |pod| {
        pod["spec"]["tolerations"] = tolerates("a", Some(i64::MAX));
    });
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.events(), [cancelling("b")]);
}

#[test]
fn what_is_pending_stays_so_when_the_node_is_deleted() {
    let cluster = waiting(30);
    cluster.put(pod("late", json!([])));
    cluster.remove(NODE, "", "n");
    assert_eq!(pass(&cluster, 10).unwrap(), after(20));
    assert_idle(&cluster);
    assert_eq!(pass(&cluster, 20).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
}

#[test]
fn a_pod_that_is_bound_later_has_its_own_time() {
    let cluster = waiting(30);
    cluster.advance(Duration::from_secs(10));
    cluster.put(pod("c", tolerates("a", Some(30))));
    assert_eq!(reconcile(&cluster).unwrap(), after(20));
    assert_eq!(pass(&cluster, 20).unwrap(), after(10));
    assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
    assert_eq!(pass(&cluster, 10).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec!["c"], vec!["c"]]);
}
