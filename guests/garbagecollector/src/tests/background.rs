//! Objects whose owners are gone.

use super::*;
use flyball_sdk::testing::refusal;

#[test]
fn what_its_only_owner_left_is_deleted_just_as_it_is_known() {
    let cluster = cluster([map("child", &[("owner", false)])]);
    assert_eq!(collect(&cluster, &key("child")).unwrap(), Outcome::Done);
    let writes = cluster.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].to_string(), "delete v1/ConfigMap a/child");
    let expected = json!({"preconditions": {"uid": "u-child", "resourceVersion": "1"}, "propagationPolicy": "Background"});
    assert_eq!(writes[0].options, expected);
}

#[test]
fn what_has_an_owner_stays_and_costs_no_call() {
    let cluster = cluster([map("owner", &[]), map("child", &[("owner", false)])]);
    collect(&cluster, &key("child")).unwrap();
    collect(&cluster, &key("owner")).unwrap();
    assert_eq!((cluster.written(), cluster.live_reads()), (vec![], vec![]));
}

#[test]
fn owners_that_are_gone_are_taken_away_while_one_stays() {
    let cluster = cluster([
        map("stays", &[]),
        map("child", &[("gone", true), ("stays", false), ("too", false)]),
    ]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(cluster.written(), ["patch v1/ConfigMap a/child"]);
    assert_eq!(owners(&cluster, "child"), ["stays"]);
}

#[test]
fn an_owner_that_only_the_server_knows_is_an_owner() {
    let cluster = cluster([map("child", &[("new", false)])]);
    cluster.put_live(map("new", &[]));
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(
        (cluster.written(), cluster.live_reads()),
        (vec![], vec!["get v1/ConfigMap a/new".to_owned()])
    );
}

#[test]
fn the_server_is_asked_once_for_an_owner_that_is_gone() {
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
fn an_owner_of_that_name_with_another_uid_is_another() {
    let mut other = map("owner", &[]);
    other["metadata"]["uid"] = "u-other".into();
    let cluster = cluster([other, map("child", &[("owner", false)])]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(cluster.written(), ["delete v1/ConfigMap a/child"]);
}

#[test]
fn nothing_is_deleted_while_the_server_does_not_answer() {
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
fn the_finalizers_of_an_object_say_how_it_goes() {
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
fn what_is_being_deleted_is_left_to_end() {
    let cluster = cluster([going(map("child", &[("gone", false)]), "x")]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!((cluster.written(), cluster.live_reads()), (vec![], vec![]));
}

#[test]
fn a_change_that_leaves_the_owners_alone_does_not_save_an_object() {
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
fn a_change_of_the_owners_gives_an_object_another_chance() {
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
fn what_is_gone_already_is_no_error() {
    let cluster = cluster([map("child", &[("gone", false)])]);
    cluster.fail("delete", MAP, refusal(404, "NotFound"));
    assert_eq!(collect(&cluster, &key("child")).unwrap(), Outcome::Done);
}

#[test]
fn an_owner_that_was_seen_to_go_is_not_asked_for_and_its_kind_may_be_gone_too() {
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
