//! Pods that are evicted at once.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

#[test]
fn pods_that_do_not_tolerate_a_taint_are_marked_and_deleted() {
    let cluster = Cluster::with([
        node(&["a"]),
        pod("b", json!([])),
        pod("c", tolerates("a", None)),
        pod("d", tolerates("x", None)),
        with(pod("elsewhere", json!([])), "/spec/nodeName", "m"),
    ]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.live_reads(), ["get v1/Node n"]);
    assert_eq!(written(&cluster), [vec!["b", "d"], vec!["b", "d"]]);
    let events = cluster.recorded_events();
    assert!(events.iter().all(|event| event.about.uid.is_empty()));
    let events: Vec<String> = events.iter().map(ToString::to_string).collect();
    assert_eq!(events, [marking("b"), marking("d")]);
    assert_eq!(counts(&cluster), (2.0, vec![0.0, 0.0]));
}

#[test]
fn taints_with_another_effect_evict_nobody() {
    let taints =
        json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "PreferNoSchedule"}]);
    let cluster = Cluster::with([with(node(&[]), "/spec/taints", taints), pod("b", json!([]))]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_idle(&cluster);
    assert!(cluster.live_reads().is_empty());
}

#[test]
fn a_toleration_for_no_time_is_none() {
    for seconds in [0, -1] {
        let cluster = Cluster::with([node(&["a"]), pod("b", tolerates("a", Some(seconds)))]);
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
    }
}

fn marked(pod: Value) -> Value {
    let condition = json!([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
                            "message": "Taint manager: deleting due to NoExecute taint"}]);
    with(pod, "/status/conditions", condition)
}

#[test]
fn an_evicted_pod_that_still_runs_is_left_alone() {
    let cluster = Cluster::with([
        node(&["a"]),
        // Another client has deleted it.
        deleting(pod("b", json!([]))),
        deleting(marked(pod("c", json!([])))),
        // The deletion has failed.
        marked(pod("d", json!([]))),
        with(
            ending(marked(pod("e", json!([])))),
            "/metadata/finalizers",
            json!(["example.com/held"]),
        ),
    ]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec!["b"], vec!["b", "d"]]);
}

#[test]
fn the_last_step_of_a_deletion_is_not_taken_for_an_abandoned_one() {
    for tolerations in [json!([]), tolerates("a", Some(0)), tolerates("a", Some(30))] {
        let cluster = Cluster::with([node(&["a"]), pod("b", tolerations)]);
        reconcile(&cluster).unwrap();
        pass(&cluster, 30).unwrap();
        assert_eq!(cluster.events(), [marking("b")]);
        cluster.written();
        cluster.edit(POD, "team", "b", |pod| *pod = ending(pod.clone()));
        for _ in 0..3 {
            assert!(matches!(
                pass(&cluster, 1).unwrap(),
                Outcome::RequeueAfter(_)
            ));
        }
        cluster.remove(POD, "team", "b");
        assert_eq!(pass(&cluster, 1).unwrap(), Outcome::Done);
        assert_idle(&cluster);
    }
}

#[test]
fn a_deletion_that_the_api_server_has_abandoned_is_requested_again() {
    let cluster = Cluster::with([node(&["a"]), ending(marked(pod("b", json!([]))))]);
    assert_eq!(reconcile(&cluster).unwrap(), after(20));
    assert_eq!(pass(&cluster, 15).unwrap(), after(5));
    assert_idle(&cluster);
    assert_eq!(pass(&cluster, 5).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec![], vec!["b"]]);
    assert_eq!(pass(&cluster, 20).unwrap(), Outcome::Done);
}

#[test]
fn without_the_taint_an_abandoned_deletion_is_left_alone() {
    let cluster = Cluster::with([node(&["a"]), ending(marked(pod("b", json!([]))))]);
    assert_eq!(reconcile(&cluster).unwrap(), after(20));
    taint(&cluster, &[]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(pass(&cluster, 20).unwrap(), Outcome::Done);
    assert_idle(&cluster);
}

#[test]
fn the_mark_of_another_disruption_is_replaced_and_keeps_its_time() {
    let before = json!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                         "message": "", "lastTransitionTime": "2025-01-01T00:00:00Z"}]);
    let cluster = Cluster::with([
        node(&["a"]),
        with(pod("b", json!([])), "/status/conditions", before),
    ]);
    reconcile(&cluster).unwrap();
    let writes = cluster.writes();
    let condition = &writes[0].body["status"]["conditions"][0];
    assert_eq!(condition["lastTransitionTime"], "2025-01-01T00:00:00Z");
    assert_eq!(condition["reason"], "DeletionByTaintManager");
}

#[test]
fn a_pod_that_can_not_be_marked_is_not_deleted_and_the_others_are() {
    let cluster = Cluster::with([node(&["a"]), pod("b", json!([])), pod("c", json!([]))]);
    cluster.fail("patch", STATUS, refusal(500, "InternalError"));
    let error = reconcile(&cluster).unwrap_err();
    assert!(error.to_string().contains("deleting pod team/b"), "{error}");
    assert_eq!(cluster.events(), [marking("b"), marking("c")]);
    let deletion = |name: &str| {
        cluster.object(POD, "team", name).unwrap()["metadata"]["deletionTimestamp"].clone()
    };
    assert!(deletion("b").is_null() && deletion("c").is_string());

    cluster.writes();
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
    assert!(cluster.events().is_empty(), "it was announced before");
}

#[test]
fn an_eviction_that_is_refused_for_long_is_announced_once() {
    let cluster = Cluster::with([node(&["a"]), pod("b", json!([]))]);
    for expected in [vec![marking("b")], vec![], vec![]] {
        cluster.fail("delete", POD, refusal(403, "Forbidden"));
        pass(&cluster, 10).unwrap_err();
        assert_eq!(cluster.events(), expected);
    }
    // Another taint evicts it long after.
    cluster.fail("delete", POD, refusal(403, "Forbidden"));
    pass(&cluster, 120).unwrap_err();
    assert_eq!(cluster.events(), [marking("b")]);
    assert_eq!(counts(&cluster), (0.0, vec![]));
}

#[test]
fn a_pod_that_is_gone_meanwhile_is_no_failure() {
    let cluster = Cluster::with([node(&["a"]), pod("b", json!([]))]);
    cluster.fail("patch", STATUS, refusal(404, "NotFound"));
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.events(), [marking("b")]);
    assert_eq!(counts(&cluster), (0.0, vec![]));
}

#[test]
fn a_node_that_the_cache_shows_as_tainted_and_the_api_server_does_not_keeps_its_pods() {
    let cluster = Cluster::with([node(&["a"]), pod("b", json!([]))]);
    cluster.put_live(node(&[]));
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_idle(&cluster);
    cluster.remove_live(NODE, "", "n");
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_idle(&cluster);
}

#[test]
fn numbers_are_compared_only_behind_the_feature_gate() {
    let more = json!([{"key": "load", "operator": "Gt", "value": "3", "effect": "NoExecute"}]);
    let taints = json!([{"key": "load", "value": "4", "effect": "NoExecute"}]);
    let cluster = Cluster::with([with(node(&[]), "/spec/taints", taints), pod("b", more)]);
    cluster.set_config("feature-gates.TaintTolerationComparisonOperators", "true");
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_idle(&cluster);
    cluster.set_config("feature-gates.TaintTolerationComparisonOperators", "false");
    reconcile(&cluster).unwrap();
    assert_eq!(written(&cluster), [vec!["b"], vec!["b"]]);
}
