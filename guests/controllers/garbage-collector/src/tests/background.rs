//! Objects whose owners were deleted.

use super::*;
use flyball_sdk::testing::refusal;

#[test]
fn an_object_without_remaining_owners_is_deleted_with_its_version_as_a_precondition() {
    let cluster = cluster([map("child", &[("owner", false)])]);
    assert_eq!(collect(&cluster, &key("child")).unwrap(), Outcome::Done);
    let writes = cluster.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].to_string(), "delete v1/ConfigMap a/child");
    let expected = json!({"preconditions": {"uid": "u-child", "resourceVersion": "1"}, "propagationPolicy": "Background"});
    assert_eq!(writes[0].options, expected);
}

#[test]
fn an_object_with_an_owner_is_kept_without_a_request() {
    let cluster = cluster([map("owner", &[]), map("child", &[("owner", false)])]);
    collect(&cluster, &key("child")).unwrap();
    collect(&cluster, &key("owner")).unwrap();
    assert_eq!((cluster.written(), cluster.live_reads()), (vec![], vec![]));
}

#[test]
fn deleted_owners_are_removed_while_another_remains() {
    let cluster = cluster([
        map("stays", &[]),
        map("child", &[("gone", true), ("stays", false), ("too", false)]),
    ]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(cluster.written(), ["patch v1/ConfigMap a/child"]);
    assert_eq!(owners(&cluster, "child"), ["stays"]);
}

#[test]
fn an_owner_missing_from_the_cache_is_read_live() {
    let cluster = cluster([map("child", &[("new", false)])]);
    cluster.put_live(map("new", &[]));
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(
        (cluster.written(), cluster.live_reads()),
        (vec![], vec!["get v1/ConfigMap a/new".to_owned()])
    );
}

#[test]
fn a_deleted_owner_is_read_live_only_once() {
    let cluster = cluster([
        map("one", &[("gone", false)]),
        map("two", &[("gone", false)]),
    ]);
    collect(&cluster, &key("one")).unwrap();
    collect(&cluster, &key("two")).unwrap();
    assert_eq!(cluster.live_reads(), ["get v1/ConfigMap a/gone"]);
    assert_eq!(
        cluster.written(),
        ["delete v1/ConfigMap a/one", "delete v1/ConfigMap a/two"]
    );
}

#[test]
fn an_object_with_the_owners_name_and_another_uid_is_not_the_owner() {
    let mut other = map("owner", &[]);
    other["metadata"]["uid"] = "u-other".into();
    let cluster = cluster([other, map("child", &[("owner", false)])]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(cluster.written(), ["delete v1/ConfigMap a/child"]);
}

#[test]
fn nothing_is_deleted_while_the_server_does_not_respond() {
    let cluster = cluster([map("child", &[("owner", false)])]);
    cluster.fail("get", MAP, refusal(500, "InternalError"));
    assert!(collect(&cluster, &key("child")).is_err());
    assert_eq!(cluster.written(), Vec::<String>::new());
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(cluster.written(), ["delete v1/ConfigMap a/child"]);
}

#[test]
fn nothing_is_deleted_for_an_owner_of_a_kind_that_is_not_served() {
    let mut child = map("child", &[]);
    child["metadata"]["ownerReferences"] =
        json!([owner("lost.example.com/v1", "Gadget", "g", false)]);
    let cluster = cluster([child]);
    let error = collect(&cluster, &key("child")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("serves no lost.example.com/v1/Gadget"),
        "{error}"
    );
    assert_eq!(cluster.written(), Vec::<String>::new());
}

#[test]
fn finalizers_determine_the_propagation_policy() {
    for (finalizer, policy) in [
        ("orphan", "Orphan"),
        ("foregroundDeletion", "Foreground"),
        ("x", "Background"),
    ] {
        let mut child = map("child", &[("gone", false)]);
        child["metadata"]["finalizers"] = json!([finalizer]);
        let cluster = cluster([child]);
        collect(&cluster, &key("child")).unwrap();
        assert_eq!(cluster.writes()[0].options["propagationPolicy"], policy);
    }
}

#[test]
fn objects_being_deleted_are_left_alone() {
    let cluster = cluster([going(map("child", &[("gone", false)]), "x")]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!((cluster.written(), cluster.live_reads()), (vec![], vec![]));
}

#[test]
fn an_unrelated_change_does_not_prevent_the_deletion() {
    let cluster = cluster([map("child", &[("gone", false)])]);
    cluster.fail("delete", MAP, refusal(409, "Conflict"));
    let mut now = map("child", &[("gone", false)]);
    now["metadata"]["resourceVersion"] = "99".into();
    cluster.put_live(now);
    collect(&cluster, &key("child")).unwrap();
    let writes = cluster.writes();
    assert_eq!(writes.len(), 2);
    assert_eq!(
        writes[1].options["preconditions"],
        json!({"uid": "u-child"})
    );
}

#[test]
fn a_change_of_the_owners_postpones_the_deletion() {
    let cluster = cluster([map("child", &[("gone", false)])]);
    cluster.fail("delete", MAP, refusal(409, "Conflict"));
    cluster.put_live(map("child", &[("other", false)]));
    assert!(matches!(
        collect(&cluster, &key("child")).unwrap(),
        Outcome::RequeueAfter(_)
    ));
    assert_eq!(cluster.written().len(), 1);
}

#[test]
fn an_already_deleted_object_is_not_an_error() {
    let cluster = cluster([map("child", &[("gone", false)])]);
    cluster.fail("delete", MAP, refusal(404, "NotFound"));
    assert_eq!(collect(&cluster, &key("child")).unwrap(), Outcome::Done);
}

#[test]
fn an_owner_whose_deletion_was_observed_is_not_read_even_if_its_kind_is_not_served() {
    let mut child = map("child", &[]);
    child["metadata"]["ownerReferences"] =
        json!([owner("lost.example.com/v1", "Gadget", "g", false)]);
    let cluster = cluster([child]);
    cluster.observe_deletion("lost.example.com/v2/Gadget", "a", "g", "u-g");
    collect(&cluster, &key("child")).unwrap_err();
    cluster.observe_deletion("lost.example.com/v1/Gadget", "a", "g", "u-g");
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(
        (cluster.live_reads(), cluster.written()),
        (vec![], vec!["delete v1/ConfigMap a/child".to_owned()])
    );
}
