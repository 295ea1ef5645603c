//! Owners that orphan their dependents.

use super::*;
use crate::ORPHAN;
use flyball_sdk::testing::refusal;

fn family() -> Cluster {
    cluster([
        going(map("owner", &[]), ORPHAN),
        map("other", &[]),
        map("one", &[("owner", true)]),
        map("two", &[("other", false), ("owner", false)]),
    ])
}

#[test]
fn dependents_are_orphaned_before_the_finalizer_is_removed() {
    let cluster = family();
    orphan(&cluster, &key("owner")).unwrap();
    let patched = [
        "patch v1/ConfigMap a/one",
        "patch v1/ConfigMap a/two",
        "patch v1/ConfigMap a/owner",
    ];
    assert_eq!(cluster.written(), patched);
    assert_eq!(
        (owners(&cluster, "one"), owners(&cluster, "two")),
        (vec![], vec!["other".to_owned()])
    );
    assert!(cluster.object(MAP, "a", "owner").is_none());
}

#[test]
fn the_owner_is_kept_until_all_its_dependents_are_orphaned() {
    let cluster = family();
    cluster.fail_nth("patch", MAP, 2, refusal(500, "InternalError"));
    let error = orphan(&cluster, &key("owner")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("orphaning v1/ConfigMap/a/two/u-two"),
        "{error}"
    );
    assert!(cluster.object(MAP, "a", "owner").is_some());
    orphan(&cluster, &key("owner")).unwrap();
    assert!(cluster.object(MAP, "a", "owner").is_none());
    assert_eq!(owners(&cluster, "two"), ["other"]);
}

#[test]
fn a_changed_dependent_is_read_again() {
    let cluster = family();
    cluster.fail_nth("patch", MAP, 2, refusal(409, "Conflict"));
    orphan(&cluster, &key("owner")).unwrap();
    assert_eq!(cluster.live_reads(), ["get v1/ConfigMap a/two"]);
    assert_eq!(owners(&cluster, "two"), ["other"]);
}

#[test]
fn a_dependent_that_an_admission_policy_keeps_is_patched_once() {
    let cluster = family();
    cluster.fail_nth("patch", MAP, 2, refusal(422, "Invalid"));
    assert!(orphan(&cluster, &key("owner")).is_err());
    let patched = cluster.writes();
    let patched: Vec<&str> = patched.iter().map(|write| write.name.as_str()).collect();
    assert_eq!(patched, ["one", "two"]);
}

#[test]
fn a_deleted_dependent_is_not_an_error() {
    let cluster = family();
    cluster.fail("patch", MAP, refusal(404, "NotFound"));
    orphan(&cluster, &key("owner")).unwrap();
    assert!(cluster.object(MAP, "a", "owner").is_none());
}

#[test]
fn only_an_owner_being_deleted_with_the_finalizer_orphans_its_dependents() {
    let mut staying = map("owner", &[]);
    staying["metadata"]["finalizers"] = json!([ORPHAN]);
    for owner in [staying, going(map("owner", &[]), "x"), map("owner", &[])] {
        let cluster = cluster([owner, map("one", &[("owner", false)])]);
        orphan(&cluster, &key("owner")).unwrap();
        assert_eq!(cluster.written(), Vec::<String>::new());
    }
    orphan(&cluster([]), &key("owner")).unwrap();
}
