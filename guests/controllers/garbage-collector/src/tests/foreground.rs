//! Owners that wait for their dependents.

use super::*;
use crate::FOREGROUND;
use flyball_sdk::testing::refusal;

#[test]
fn an_owner_waits_for_blocking_dependents_and_enqueues_them() {
    let cluster = cluster([
        going(map("owner", &[]), FOREGROUND),
        map("blocks", &[("owner", true)]),
        map("does-not", &[("owner", false)]),
        going(map("going", &[("owner", true)]), "x"),
    ]);
    collect(&cluster, &key("owner")).unwrap();
    assert_eq!(
        (cluster.written(), queued(&cluster)),
        (vec![], vec![key("blocks")])
    );
}

#[test]
fn an_owner_without_blocking_dependents_loses_its_finalizer() {
    let cluster = cluster([
        going(map("owner", &[]), FOREGROUND),
        map("does-not", &[("owner", false)]),
    ]);
    collect(&cluster, &key("owner")).unwrap();
    assert_eq!(cluster.written(), ["patch v1/ConfigMap a/owner"]);
    assert!(cluster.object(MAP, "a", "owner").is_none());
}

#[test]
fn an_owner_that_the_cache_still_has_loses_its_finalizer_once() {
    let owner = going(map("owner", &[]), FOREGROUND);
    let cluster = cluster([owner.clone()]);
    collect(&cluster, &key("owner")).unwrap();
    assert_eq!(cluster.written(), ["patch v1/ConfigMap a/owner"]);
    cluster.put(owner);
    let Outcome::RequeueAfter(pause) = collect(&cluster, &key("owner")).unwrap() else {
        panic!("it is checked again");
    };
    assert!(cluster.written().is_empty());
    // Somebody has added the finalizer again.
    cluster.advance(pause);
    collect(&cluster, &key("owner")).unwrap();
    assert_eq!(cluster.written(), ["patch v1/ConfigMap a/owner"]);
}

#[test]
fn other_finalizers_of_an_owner_are_kept() {
    let mut owner = going(map("owner", &[]), FOREGROUND);
    owner["metadata"]["finalizers"] = json!(["first", FOREGROUND, "last"]);
    let cluster = cluster([owner]);
    collect(&cluster, &key("owner")).unwrap();
    assert_eq!(
        cluster.object(MAP, "a", "owner").unwrap()["metadata"]["finalizers"],
        json!(["first", "last"])
    );
}

#[test]
fn a_dependent_without_dependents_is_deleted_in_the_background() {
    let cluster = cluster([
        going(map("owner", &[]), FOREGROUND),
        map("child", &[("owner", true)]),
    ]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(
        cluster.writes()[0].options["propagationPolicy"],
        "Background"
    );
}

#[test]
fn a_dependent_with_dependents_is_deleted_in_the_foreground() {
    let cluster = cluster([
        going(map("owner", &[]), FOREGROUND),
        map("child", &[("owner", true)]),
        map("grandchild", &[("child", true)]),
    ]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(
        cluster.writes()[0].options["propagationPolicy"],
        "Foreground"
    );
    collect(&cluster, &key("grandchild")).unwrap();
    assert_eq!(
        cluster.writes()[0].options["propagationPolicy"],
        "Background"
    );
    collect(&cluster, &key("child")).unwrap();
    collect(&cluster, &key("owner")).unwrap();
    assert_eq!(cluster.objects(MAP), Vec::<Value>::new());
}

#[test]
fn a_waiting_owner_is_removed_from_a_dependent_that_has_another_owner() {
    let cluster = cluster([
        going(map("owner", &[]), FOREGROUND),
        map("other", &[]),
        map("child", &[("owner", true), ("other", true)]),
    ]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(owners(&cluster, "child"), ["other"]);
    collect(&cluster, &key("owner")).unwrap();
    assert!(cluster.object(MAP, "a", "owner").is_none());
}

#[test]
fn a_cycle_of_waiting_owners_is_broken() {
    let cluster = cluster([
        going(map("one", &[("two", true)]), FOREGROUND),
        map("two", &[("one", true)]),
    ]);
    collect(&cluster, &key("two")).unwrap();
    assert_eq!(
        cluster.written(),
        ["patch v1/ConfigMap a/two", "delete v1/ConfigMap a/two"]
    );
    let two = cluster.object(MAP, "a", "two").unwrap();
    assert_eq!(
        two["metadata"]["ownerReferences"][0]["blockOwnerDeletion"],
        false
    );
    collect(&cluster, &key("one")).unwrap();
    collect(&cluster, &key("two")).unwrap();
    assert_eq!(cluster.objects(MAP), Vec::<Value>::new());
}

#[test]
fn a_finalizer_is_removed_at_its_current_index() {
    let cluster = cluster([going(map("owner", &[]), FOREGROUND)]);
    let mut now = going(map("owner", &[]), "first");
    now["metadata"]["finalizers"] = json!(["first", FOREGROUND]);
    cluster.fail("patch", MAP, refusal(422, "Invalid"));
    cluster.put_live(now);
    let _ = collect(&cluster, &key("owner"));
    let writes = cluster.writes();
    assert_eq!(writes[1].body[1]["path"], "/metadata/finalizers/1");
}

#[test]
fn a_change_that_always_conflicts_is_an_error_in_the_end() {
    let cluster = cluster([going(map("owner", &[]), FOREGROUND)]);
    for _ in 0..5 {
        cluster.fail("patch", MAP, refusal(409, "Conflict"));
    }
    assert!(collect(&cluster, &key("owner")).is_err());
    assert_eq!(cluster.written().len(), 5);
}

#[test]
fn a_change_that_an_admission_policy_refuses_is_tried_once() {
    let cluster = cluster([going(map("owner", &[]), FOREGROUND)]);
    cluster.fail("patch", MAP, refusal(422, "Invalid"));
    assert!(collect(&cluster, &key("owner")).is_err());
    assert_eq!(cluster.written().len(), 1);
}
