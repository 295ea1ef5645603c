//! Tests of the deltas that are dropped before they are mapped.

use super::*;

#[test]
fn what_a_router_says_is_of_no_concern_yields_nothing() {
    let controller = json!({"to": "controller", "kind": "apps/v1/Deployment"});
    let owner = json!({"to": "owner", "kind": "apps/v1/Deployment"});
    let selecting = json!({"to": "selecting", "kind": "apps/v1/Deployment", "path": "spec.selector", "orphans": true});
    let held = json!({"to": "route", "having": {"path": "metadata.finalizers", "value": "x/held"}});
    let maps = [
        controller,
        owner,
        selecting,
        held,
        json!({"to": "ownerReferences", "which": "missing"}),
    ];
    let changes = [
        json!([]),
        json!(["generation"]),
        json!(["labels"]),
        json!([{"path": "spec.x"}]),
    ];
    let mut versions = vec![None];
    for metadata in [
        json!({"labels": {"app": "web"}}),
        json!({"finalizers": ["x/held"], "generation": 2, "labels": {"app": "web"}}),
        owned_by("web", "u-web"),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n", "controller": true}]}),
    ] {
        versions.push(Some(set(metadata)));
    }
    let (mut concerned, mut spared) = (0, 0);
    for (map, changes) in maps
        .iter()
        .flat_map(|map| changes.iter().map(move |changes| (map, changes)))
    {
        let router = router(json!({"map": [map], "changes": changes}));
        for (old, new) in versions
            .iter()
            .flat_map(|old| versions.iter().map(move |new| (old, new)))
        {
            if old.is_none() && new.is_none() {
                continue;
            }
            let delta = delta(old.clone(), new.clone());
            let yields =
                !all_keys(&router, &delta, &CACHE).is_empty() || asks_guest(&router, &delta);
            let seen = router.seen(&delta);
            assert!(router.may_concern(&delta) || !router.concerns(&seen));
            if router.concerns(&seen) {
                concerned += 1;
            } else {
                assert!(
                    !(yields && router.selects_change(&seen)),
                    "{map} {changes}: {old:?} {new:?}"
                );
                spared += 1;
            }
        }
    }
    assert!(concerned > 50 && spared > 50, "{concerned} {spared}");
}

#[test]
fn what_concerns_no_mapping_is_known_without_the_caches() {
    let to_owner = |to: &str| json!({"to": to, "kind": "apps/v1/Deployment"});
    let having =
        |path: &str, value: &str| json!({"to": "itself", "having": {"path": path, "value": value}});
    let of_node = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n", "controller": true}]});
    let (owned, free) = (owned_by("web", "u-web"), json!({}));
    let held = json!({"finalizers": ["x/other"]});
    let named = || json!({"to": "named", "path": "metadata.finalizers", "namespaced": true});
    let missing = json!({"to": "ownerReferences", "which": "missing"});
    for (mapping, metadata, may) in [
        (to_owner("controller"), &owned, true),
        (to_owner("controller"), &of_node, false),
        (to_owner("controller"), &free, false),
        (to_owner("owner"), &owned, true),
        (to_owner("owner"), &of_node, false),
        (missing.clone(), &of_node, true),
        (missing, &free, false),
        (json!({"to": "itself", "on": ["deleted"]}), &free, false),
        (json!({"to": "route", "on": ["deleted"]}), &free, false),
        (having("metadata.finalizers", "x/other"), &held, true),
        (having("metadata.finalizers", "x/held"), &held, false),
        (having("metadata.finalizers", "x/held"), &free, false),
        (having("metadata.labels.app", "web"), &free, false),
        (named(), &held, true),
        (named(), &free, false),
    ] {
        let router = router(json!({"map": [mapping]}));
        let added = delta(None, Some(set(metadata.clone())));
        let concerns = router.concerns(&router.seen(&added));
        assert_eq!(concerns, may, "{mapping}: {metadata}");
    }
    let same = json!({"generation": 1, "labels": {"app": "web"}});
    for (changes, may) in [
        (json!([]), true),
        (json!(["generation"]), false),
        (json!(["labels"]), false),
        (json!([{"path": "metadata.labels.app"}]), false),
        (json!([{"path": "metadata.resourceVersion"}]), false),
    ] {
        let router = router(json!({"map": [{"to": "itself"}], "changes": changes}));
        let modified = delta(Some(set(same.clone())), Some(set(same.clone())));
        let concerns = router.concerns(&router.seen(&modified));
        assert_eq!(concerns, may, "{changes}");
    }
}

#[test]
fn a_modification_counts_only_if_it_changes_what_counts() {
    let counts = |changes: Value, old: Value, new: Value| {
        let router = router(json!({"map": [{"to": "itself"}], "changes": changes}));
        let delta = delta(Some(set(old)), Some(set(new)));
        router.selects_change(&router.seen(&delta))
    };
    let (one, two) = (json!({"generation": 1}), json!({"generation": 2}));
    assert!(counts(json!([]), one.clone(), one.clone()));
    assert!(!counts(json!(["generation"]), one.clone(), one.clone()));
    assert!(counts(json!(["generation"]), one.clone(), two.clone()));
    assert!(!counts(json!(["labels"]), one, two));
    let labelled = |app: &str| json!({"labels": {"app": app}});
    assert!(counts(json!(["labels"]), labelled("a"), labelled("b")));
    let path = json!([{"path": "metadata.labels['app']"}]);
    assert!(counts(path.clone(), labelled("a"), labelled("b")));
    assert!(!counts(path, labelled("a"), labelled("a")));
}

#[test]
fn additions_and_deletions_always_count() {
    let router = router(json!({"map": [{"to": "itself"}], "changes": ["generation"]}));
    let added = delta(None, Some(set(json!({}))));
    let deleted = delta(Some(set(json!({}))), None);
    assert!(router.selects_change(&router.seen(&added)));
    assert!(router.selects_change(&router.seen(&deleted)));
}
