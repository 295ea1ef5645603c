//! Whole reconciles against an in-memory API server.

mod claims;
mod status_updates;

use std::time::Duration;

use flyball_sdk::testing::Cluster;

use super::*;
use crate::ReplicaSets;

const KEY: &str = "default/web";
const STATUS: &str = "update apps/v1/ReplicaSet/status default/web";

fn cluster(objects: impl IntoIterator<Item = Object>) -> Cluster {
    let cluster = Cluster::with(objects.into_iter().map(|object| object.0));
    cluster.set_now(NOON);
    cluster
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, String> {
    cluster
        .reconcile::<ReplicaSets>(KEY)
        .map_err(|error| error.to_string())
}

/// Reconciles until nothing is written any more; panics if that takes too long.
fn settle(cluster: &Cluster) {
    for _ in 0..5 {
        reconcile(cluster).unwrap();
        if cluster.writes().is_empty() {
            return;
        }
    }
    panic!("the set does not settle");
}

fn status(cluster: &Cluster) -> Value {
    cluster
        .object("apps/v1/ReplicaSet", "default", "web")
        .unwrap()["status"]
        .take()
}

fn count(lines: &[String], prefix: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(prefix)).count()
}

fn terminating_namespace() -> Object {
    Object(
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"},
               "status": {"phase": "Terminating"}}),
    )
}

fn edit_pod(cluster: &Cluster, name: &str, change: impl FnOnce(&mut Value)) {
    cluster.edit("v1/Pod", "default", name, change);
}

#[test]
fn a_terminating_namespace_gets_one_creation_however_many_pods_go() {
    let cluster = cluster([terminating_namespace(), web(3)]);
    reconcile(&cluster).unwrap();
    assert_eq!(count(&cluster.written(), "create v1/Pod"), 1);
    reconcile(&cluster).unwrap();
    assert_eq!(count(&cluster.written(), "create v1/Pod"), 0);
    assert!(cluster.events().is_empty());
}

#[test]
fn missing_pods_are_created_and_counted_once() {
    let cluster = cluster([web(3)]);
    reconcile(&cluster).unwrap();
    let written = cluster.written();
    // The status update is left to the next reconcile, which the new pods cause.
    assert_eq!(
        (
            count(&written, "create v1/Pod default/web-"),
            count(&written, STATUS)
        ),
        (3, 0)
    );
    assert_eq!(
        count(
            &cluster.events(),
            "Normal SuccessfulCreate Created pod: web-"
        ),
        3
    );

    // The next reconcile sees the pods, although no watch has reported them: no expectations are
    // needed.
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [STATUS]);
    assert_eq!(
        (
            status(&cluster)["replicas"].as_i64(),
            status(&cluster)["observedGeneration"].as_i64()
        ),
        (Some(3), Some(2))
    );
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn the_status_is_delayed_only_once_if_each_reconcile_creates_pods() {
    let cluster = cluster([web(1)]);
    let fail_all = || {
        for line in cluster.written() {
            if let Some(name) = line.strip_prefix("create v1/Pod default/") {
                edit_pod(&cluster, name, |pod| {
                    pod["status"]["phase"] = "Failed".into()
                });
            }
        }
    };
    reconcile(&cluster).unwrap();
    assert_eq!(status(&cluster)["observedGeneration"], Value::Null);
    fail_all();
    reconcile(&cluster).unwrap();
    assert_eq!(count(&cluster.written(), "create v1/Pod"), 1);
    assert_eq!(status(&cluster)["observedGeneration"], 2);
}

#[test]
fn a_status_with_more_changes_than_the_generation_is_not_delayed() {
    let cluster = cluster([web(3), pod("a").ready(600)]);
    reconcile(&cluster).unwrap();
    let written = cluster.written();
    assert_eq!(
        (count(&written, "create v1/Pod"), count(&written, STATUS)),
        (2, 1)
    );
    assert_eq!(status(&cluster)["readyReplicas"], 1);
}

#[test]
fn events_reference_the_set() {
    let cluster = cluster([web(1)]);
    reconcile(&cluster).unwrap();
    let about = &cluster.recorded_events()[0].about;
    assert_eq!(
        (about.kind.as_str(), about.name.as_str(), about.uid.as_str()),
        ("apps/v1/ReplicaSet", "web", "uid-web")
    );
}

#[test]
fn surplus_pods_are_deleted_and_counted_as_terminating_until_they_end() {
    let cluster = cluster([web(1), pod("a").ready(600), pod("b"), pod("c").ready(1200)]);
    reconcile(&cluster).unwrap();
    assert_eq!(
        cluster.written(),
        ["delete v1/Pod default/b", "delete v1/Pod default/a", STATUS]
    );
    assert_eq!(
        cluster.events(),
        [
            "Normal SuccessfulDelete Deleted pod: b",
            "Normal SuccessfulDelete Deleted pod: a"
        ]
    );

    settle(&cluster);
    assert_eq!(
        (
            status(&cluster)["replicas"].as_i64(),
            status(&cluster)["terminatingReplicas"].as_i64()
        ),
        (Some(1), Some(2))
    );
    cluster.remove("v1/Pod", "default", "a");
    edit_pod(&cluster, "b", |pod| {
        pod["status"]["phase"] = "Succeeded".into()
    });
    settle(&cluster);
    assert_eq!(status(&cluster)["terminatingReplicas"], 0);
}

#[test]
fn without_its_feature_gate_terminating_pods_are_not_counted() {
    let cluster = cluster([web(1), pod("a"), pod("b")]);
    let key = "feature-gates.DeploymentReplicaSetTerminatingReplicas";
    cluster.set_config(key, "false");
    settle(&cluster);
    let status = status(&cluster);
    assert_eq!(status.get("terminatingReplicas"), None, "{status}");
    assert_eq!(status["replicas"], 1);
}

#[test]
fn deletion_costs_count_only_with_their_feature_gate() {
    let cost = "/metadata/annotations/controller.kubernetes.io~1pod-deletion-cost";
    for (gate, deleted) in [("true", "cheap"), ("false", "young")] {
        let pods = [
            pod("young").ready(60).with(cost, "9"),
            pod("cheap").ready(100_000).with(cost, "-9"),
        ];
        let [young, cheap] = pods;
        let cluster = cluster([web(1), young, cheap]);
        cluster.set_config("feature-gates.PodDeletionCost", gate);
        reconcile(&cluster).unwrap();
        let expected = format!("delete v1/Pod default/{deleted}");
        assert_eq!(cluster.written()[0], expected, "{gate}");
    }
}

#[test]
fn no_age_ratio_is_observed_where_all_pods_are_deleted() {
    let cluster = cluster([web(0), pod("a").ready(600), pod("b").ready(1200)]);
    reconcile(&cluster).unwrap();
    assert_eq!(count(&cluster.written(), "delete v1/Pod"), 2);
    assert_eq!(cluster.metrics(), []);
}

#[test]
fn the_age_ratio_of_deleted_pods_is_observed() {
    let old = pod("old")
        .ready(600)
        .with("/metadata/creationTimestamp", ago(3000));
    let cluster = cluster([web(1), old, pod("young").ready(1200)]);
    reconcile(&cluster).unwrap();
    let observed: Vec<_> = cluster
        .metrics()
        .into_iter()
        .map(|(_, name, _, value)| (name, value))
        .collect();
    assert_eq!(
        observed,
        [(
            "replicaset_controller_sorting_deletion_age_ratio".to_owned(),
            3.0
        )]
    );
}

#[test]
fn ended_and_terminating_pods_are_replaced() {
    let cluster = cluster([
        web(2),
        pod("a").phase("Failed"),
        pod("b").phase("Succeeded"),
        pod("c").deleting(),
        pod("d"),
    ]);
    reconcile(&cluster).unwrap();
    assert_eq!(count(&cluster.written(), "create v1/Pod"), 1);
    assert_eq!(
        (
            status(&cluster)["replicas"].as_i64(),
            status(&cluster)["terminatingReplicas"].as_i64()
        ),
        (Some(1), Some(1))
    );
}

#[test]
fn siblings_pods_on_the_same_node_affect_which_pod_is_deleted() {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "uid-d", "controller": true}]);
    let ours = web(1).with("/metadata/ownerReferences", owner.clone());
    let sibling = web(1)
        .with("/metadata/name", "new")
        .with("/metadata/uid", "uid-new")
        .with("/spec/selector", json!({"matchLabels": {"app": "new"}}))
        .with("/metadata/ownerReferences", owner);
    let broken = sibling
        .clone()
        .with("/metadata/name", "broken")
        .with("/spec/selector", json!({"matchLabels": {"-": ""}}));
    let new = orphan("new-1").labels(json!({"app": "new"})).node("shared");
    let pods = [
        pod("a").ready(1200).node("shared"),
        pod("b").ready(600).node("lonely"),
    ];
    let cluster = cluster([ours, sibling, broken, new].into_iter().chain(pods));
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written()[0], "delete v1/Pod default/a");
}

#[test]
fn creation_starts_slowly_and_stops_at_the_first_error() {
    let cluster = cluster([web(10)]);
    let quota = "pods \"web-\" is forbidden: exceeded quota: q";
    // The rounds have 1, 2 and 4 pods; the second of the third round fails.
    cluster.fail_nth("create", "v1/Pod", 5, refusal(403, "Forbidden", quota));
    assert_eq!(reconcile(&cluster), Err(quota.into()));
    assert_eq!(count(&cluster.written(), "create v1/Pod"), 7);
    let events = cluster.events();
    assert_eq!(count(&events, "Normal SuccessfulCreate"), 6);
    assert_eq!(
        events[4],
        "Warning FailedCreate Error creating: pods \"web-\" is forbidden: exceeded quota: q"
    );

    let condition = status(&cluster)["conditions"][0].take();
    let expected = json!({"type": "ReplicaFailure", "status": "True", "lastTransitionTime": ago(0),
                          "reason": "FailedCreate", "message": quota});
    assert_eq!(condition, expected);

    settle(&cluster);
    assert_eq!(
        (
            status(&cluster)["replicas"].as_i64(),
            &status(&cluster)["conditions"]
        ),
        (Some(10), &json!([]))
    );
}

#[test]
fn an_exceeded_quota_costs_one_request_and_no_status_write_each_time() {
    let cluster = cluster([web(5)]);
    let refuse = || {
        cluster.fail(
            "create",
            "v1/Pod",
            refusal(403, "Forbidden", "exceeded quota"),
        )
    };
    refuse();
    reconcile(&cluster).unwrap_err();
    cluster.writes();
    refuse();
    cluster.advance(Duration::from_secs(60));
    reconcile(&cluster).unwrap_err();
    assert_eq!(cluster.written().len(), 1);
}

#[test]
fn a_terminating_namespace_gets_no_pods_and_no_error_is_reported() {
    let cluster = cluster([terminating_namespace(), web(5)]);
    assert_eq!(reconcile(&cluster), Ok(Outcome::Done));
    assert_eq!(count(&cluster.written(), "create v1/Pod"), 1);
    assert!(cluster.events().is_empty());
    assert_eq!(status(&cluster)["conditions"], json!([]));
}

#[test]
fn a_failed_deletion_is_reported_and_retried() {
    let cluster = cluster([web(0), pod("a"), pod("b"), pod("c")]);
    cluster.fail_nth(
        "delete",
        "v1/Pod",
        1,
        refusal(404, "NotFound", "pods \"a\" not found"),
    );
    cluster.fail_nth(
        "delete",
        "v1/Pod",
        1,
        refusal(500, "InternalError", "broken"),
    );
    assert_eq!(
        reconcile(&cluster),
        Err("unable to delete pods: broken".into())
    );
    assert_eq!(count(&cluster.written(), "delete v1/Pod"), 3);
    assert_eq!(
        cluster.events(),
        [
            "Warning FailedDelete Error deleting: broken",
            "Normal SuccessfulDelete Deleted pod: c"
        ]
    );
    assert_eq!(status(&cluster)["conditions"][0]["reason"], "FailedDelete");
    settle(&cluster);
    assert_eq!(status(&cluster)["conditions"], json!([]));
}

#[test]
fn a_set_being_deleted_creates_and_claims_no_pods_but_counts_them() {
    let lost = pod("lost").labels(json!({"app": "other"}));
    let cluster = cluster([web(5).deleting(), pod("a").ready(9), orphan("b"), lost]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [STATUS]);
    assert_eq!(
        (
            status(&cluster)["replicas"].as_i64(),
            status(&cluster)["readyReplicas"].as_i64()
        ),
        (Some(1), Some(1))
    );
}

#[test]
fn a_deleted_set_needs_nothing() {
    let cluster = cluster([pod("a")]);
    assert_eq!(reconcile(&cluster), Ok(Outcome::Done));
    assert!(cluster.writes().is_empty());
}

#[test]
fn an_invalid_selector_is_logged_and_not_retried() {
    let expression = json!([{"key": "app", "operator": "In", "values": []}]);
    let cluster = cluster([
        web(1).with("/spec/selector", json!({"matchExpressions": expression})),
        orphan("a"),
    ]);
    assert_eq!(reconcile(&cluster), Ok(Outcome::Done));
    assert!(cluster.writes().is_empty());
    assert!(cluster.logged()[0].1.contains("default/web"));
}
