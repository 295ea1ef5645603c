//! Whole reconciles against an in-memory API server.

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

fn edit_pod(cluster: &Cluster, name: &str, change: impl FnOnce(&mut Value)) {
    cluster.edit("v1/Pod", "default", name, change);
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
fn orphans_that_match_are_adopted_after_a_live_check() {
    let foreign = orphan("foreign").labels(json!({"app": "other"}));
    let owned = orphan("owned").with(
        "/metadata/ownerReferences",
        json!([{"uid": "uid-x", "controller": true}]),
    );
    let cluster = cluster([
        web(2),
        orphan("a"),
        orphan("b"),
        foreign,
        owned,
        orphan("ended").phase("Failed"),
    ]);
    reconcile(&cluster).unwrap();
    assert_eq!(
        cluster.written(),
        ["patch v1/Pod default/a", "patch v1/Pod default/b", STATUS]
    );
    let owner =
        &cluster.object("v1/Pod", "default", "a").unwrap()["metadata"]["ownerReferences"][0];
    assert_eq!(
        (owner["uid"].as_str(), owner["controller"].as_bool()),
        (Some("uid-web"), Some(true))
    );
    assert_eq!(status(&cluster)["replicas"], 2);
}

#[test]
fn nothing_is_adopted_if_a_live_read_finds_the_set_deleted_replaced_or_being_deleted() {
    for (live, problem) in [
        (None, "was deleted"),
        (Some(web(2).with("/metadata/uid", "uid-new")), "another"),
        (Some(web(2).deleting()), "being deleted"),
    ] {
        let cluster = cluster([
            web(2),
            orphan("a"),
            pod("lost").labels(json!({"app": "other"})),
        ]);
        match live {
            Some(live) => cluster.put_live(live.0),
            None => cluster.remove_live("apps/v1/ReplicaSet", "default", "web"),
        }
        let error = reconcile(&cluster).unwrap_err();
        assert!(error.contains(problem), "{error}");
        // No pod is created instead of the one not adopted, but pods that do not match are
        // released.
        assert_eq!(cluster.written(), ["patch v1/Pod default/lost"]);
    }
}

#[test]
fn a_failed_adoption_is_an_error_and_no_pod_is_created_instead() {
    let cluster = cluster([web(2), orphan("a"), orphan("b")]);
    cluster.fail("patch", "v1/Pod", refusal(500, "InternalError", "broken"));
    assert!(
        reconcile(&cluster)
            .unwrap_err()
            .contains("adopting pod default/a: broken")
    );
    assert_eq!(count(&cluster.written(), "patch"), 2);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), ["patch v1/Pod default/a", STATUS]);
}

#[test]
fn an_orphan_deleted_in_the_meantime_is_replaced() {
    let cluster = cluster([web(1), orphan("a")]);
    cluster.fail(
        "patch",
        "v1/Pod",
        refusal(404, "NotFound", "pods \"a\" not found"),
    );
    reconcile(&cluster).unwrap();
    assert_eq!(count(&cluster.written(), "create v1/Pod"), 1);
}

#[test]
fn pods_that_no_longer_match_are_released_and_replaced() {
    let cluster = cluster([web(1), pod("a").labels(json!({"app": "debug"}))]);
    reconcile(&cluster).unwrap();
    let written = cluster.written();
    assert_eq!(
        (written[0].as_str(), count(&written, "create v1/Pod")),
        ("patch v1/Pod default/a", 1)
    );
    assert_eq!(
        cluster.object("v1/Pod", "default", "a").unwrap()["metadata"]["ownerReferences"],
        json!([])
    );
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
    let namespace = Object(
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"},
                                  "status": {"phase": "Terminating"}}),
    );
    let cluster = cluster([namespace, web(5)]);
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

#[test]
fn a_failed_status_update_is_repeated_once_on_the_latest_version() {
    let cluster = cluster([web(1), pod("a")]);
    // Another client has scaled it, which is not in the cache: the status is for the generation in
    // the cache.
    cluster.put_live(web(4).with("/metadata/generation", 3).0);
    cluster.fail(
        "update",
        "apps/v1/ReplicaSet/status",
        refusal(409, "Conflict", "the object has been modified"),
    );
    assert_eq!(reconcile(&cluster), Ok(Outcome::Done));
    assert_eq!(
        cluster.written(),
        [
            &format!("{STATUS}: the object has been modified (409 Conflict)"),
            STATUS
        ]
    );
    assert_eq!(status(&cluster)["observedGeneration"], 2);
}

#[test]
fn a_status_update_that_fails_twice_is_an_error() {
    let cluster = cluster([web(1), pod("a")]);
    for _ in 0..2 {
        cluster.fail_nth(
            "update",
            "apps/v1/ReplicaSet/status",
            1,
            refusal(409, "Conflict", "modified"),
        );
    }
    assert!(reconcile(&cluster).unwrap_err().contains("modified"));
    assert_eq!(cluster.writes().len(), 2);
}

#[test]
fn the_status_of_a_recreated_set_is_not_written() {
    let cluster = cluster([web(1), pod("a")]);
    cluster.fail(
        "update",
        "apps/v1/ReplicaSet/status",
        refusal(409, "Conflict", "modified"),
    );
    cluster.put_live(web(1).with("/metadata/uid", "uid-new").0);
    assert!(reconcile(&cluster).unwrap_err().contains("was deleted"));
    assert_eq!(cluster.writes().len(), 1);
}

#[test]
fn a_set_is_requeued_when_the_next_pod_becomes_available() {
    let patient = web(3).with("/spec/minReadySeconds", 30);
    let cluster = cluster([patient, pod("a").ready(10), pod("b").ready(25), pod("c")]);
    assert_eq!(
        reconcile(&cluster),
        Ok(Outcome::RequeueAfter(Duration::from_secs(5)))
    );
    cluster.advance(Duration::from_secs(5));
    assert_eq!(
        reconcile(&cluster),
        Ok(Outcome::RequeueAfter(Duration::from_secs(15)))
    );
    assert_eq!(
        (
            status(&cluster)["readyReplicas"].as_i64(),
            status(&cluster)["availableReplicas"].as_i64()
        ),
        (Some(2), Some(1))
    );
    cluster.advance(Duration::from_secs(15));
    assert_eq!(reconcile(&cluster), Ok(Outcome::Done));
    assert_eq!(status(&cluster)["availableReplicas"], 2);
}

#[test]
fn a_changed_status_is_corrected_but_other_conditions_are_kept() {
    let theirs = json!({"type": "Theirs", "status": "True", "lastTransitionTime": ago(7)});
    let cluster = cluster([web(1), pod("a")]);
    settle(&cluster);
    cluster.edit("apps/v1/ReplicaSet", "default", "web", |set| {
        set["status"]["replicas"] = 77.into();
        set["status"]["conditions"] = json!([theirs]);
    });
    settle(&cluster);
    assert_eq!(
        (
            status(&cluster)["replicas"].as_i64(),
            &status(&cluster)["conditions"]
        ),
        (Some(1), &json!([theirs]))
    );
}
