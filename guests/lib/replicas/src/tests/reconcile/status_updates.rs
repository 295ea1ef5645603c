//! Status updates, and the requeue for pods that become available.

use super::*;

#[test]
fn a_failed_status_update_is_repeated_once_on_the_latest_version() {
    let cluster = cluster([web(1), pod("a")]);
    // Another client has scaled the set, which the cache does not show yet. The status is for the generation in the
    // cache.
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
