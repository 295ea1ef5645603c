//! Adoptions and releases of pods.

use super::*;

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
