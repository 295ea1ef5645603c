//! Owners that are not where their dependents' references point.

use super::*;

/// The key of an owner, as its dependents refer to it.
fn named(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}/{namespace}/{name}/u-{name}")
}

#[test]
fn the_dependents_of_an_absent_owner_are_enqueued() {
    let cluster = cluster([
        map("one", &[("gone", false)]),
        map("two", &[("gone", false)]),
        map("other", &[]),
    ]);
    collect(&cluster, &key("gone")).unwrap();
    assert_eq!(queued(&cluster), [key("one"), key("two")]);
    assert_eq!(cluster.written(), Vec::<String>::new());
}

#[test]
fn only_dependents_with_exactly_this_reference_are_enqueued() {
    let mut misnaming = map("misnaming", &[]);
    misnaming["metadata"]["ownerReferences"] = json!([owner("v1", "Secret", "owner", false)]);
    let cluster = cluster([
        map("owner", &[]),
        map("child", &[("owner", false)]),
        misnaming,
    ]);
    cluster.serve("v1/Secret", "secrets", true, &["delete", "list", "watch"]);
    collect(&cluster, &named("v1/Secret", "a", "owner")).unwrap();
    assert_eq!(queued(&cluster), [key("misnaming")]);
    collect(&cluster, &key("misnaming")).unwrap();
    assert_eq!(cluster.written(), ["delete v1/ConfigMap a/misnaming"]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(cluster.written(), Vec::<String>::new());
}

#[test]
fn an_owner_in_another_namespace_does_not_count_and_is_reported_by_an_event() {
    let mut owner = map("owner", &[]);
    owner["metadata"]["namespace"] = "b".into();
    let cluster = cluster([owner, map("child", &[("owner", false)])]);
    collect(&cluster, &key("owner")).unwrap();
    assert_eq!(
        cluster.events(),
        [
            "Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: a, name: owner, uid: u-owner] does not exist \
          in namespace \"a\""
        ]
    );
    assert_eq!(queued(&cluster), [key("child")]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(cluster.written(), ["delete v1/ConfigMap a/child"]);
}

#[test]
fn each_dependent_of_an_owner_in_another_namespace_is_reported_once() {
    let mut owner = map("owner", &[]);
    owner["metadata"]["namespace"] = "b".into();
    // A finalizer holds the first one.
    let held = going(map("one", &[("owner", false)]), "example.com/held");
    let cluster = cluster([owner, held]);
    let reported = || -> Vec<String> {
        collect(&cluster, &key("owner")).unwrap();
        let events = cluster.recorded_events().into_iter();
        events.map(|event| event.about.name).collect()
    };
    assert_eq!(reported(), ["one"]);
    cluster.put(map("two", &[("owner", false)]));
    assert_eq!(reported(), ["two"]);
    assert!(reported().is_empty());
}

#[test]
fn a_cluster_scoped_object_with_a_namespaced_owner_is_reported_and_kept() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": "n", "uid": "u-n", "ownerReferences": [owner("v1", "ConfigMap", "owner", false)],
    }});
    let cluster = cluster([map("owner", &[]), node]);
    collect(&cluster, &named("v1/ConfigMap", "", "owner")).unwrap();
    collect(&cluster, "v1/Node//n/u-n").unwrap();
    cluster.remove(MAP, "a", "owner");
    cluster.observe_deletion(MAP, "a", "owner", "u-owner");
    collect(&cluster, "v1/Node//n/u-n").unwrap();
    assert_eq!(cluster.events().len(), 1);
    assert_eq!((cluster.written(), queued(&cluster)), (vec![], vec![]));
}

#[test]
fn rightful_dependents_are_not_reported_with_a_cluster_scoped_one() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": "n", "uid": "u-n", "ownerReferences": [owner("v1", "ConfigMap", "owner", false)],
    }});
    let cluster = cluster([map("owner", &[]), map("child", &[("owner", false)]), node]);
    collect(&cluster, &named("v1/ConfigMap", "", "owner")).unwrap();
    let events = cluster.recorded_events();
    let reported: Vec<&str> = events
        .iter()
        .map(|event| event.about.kind.as_str())
        .collect();
    assert_eq!(reported, ["v1/Node"]);
    assert_eq!((cluster.written(), queued(&cluster)), (vec![], vec![]));
}

#[test]
fn a_cluster_scoped_owner_owns_in_every_namespace() {
    let mut child = map("child", &[]);
    child["metadata"]["ownerReferences"] = json!([owner("v1", "Node", "n", false)]);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u-n"}});
    let cluster = cluster([node, child]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(cluster.written(), Vec::<String>::new());
    cluster.remove("v1/Node", "", "n");
    collect(&cluster, &key("child")).unwrap();
    assert_eq!(cluster.live_reads(), ["get v1/Node n"]);
    assert_eq!(cluster.written(), ["delete v1/ConfigMap a/child"]);
}

/// A Widget `w`, and a dependent of it whose reference has another version.
fn widget_and_child() -> [Value; 2] {
    let mut child = map("child", &[]);
    child["metadata"]["ownerReferences"] =
        json!([owner("example.com/v1alpha1", "Widget", "w", false)]);
    let mut widget = map("w", &[]);
    widget["apiVersion"] = "example.com/v1".into();
    widget["kind"] = "Widget".into();
    [widget, child]
}

#[test]
fn a_reference_with_another_version_of_the_kind_is_equivalent() {
    let cluster = cluster(widget_and_child());
    cluster.serve("example.com/v1alpha1/Widget", "widgets", true, &["get"]);
    collect(&cluster, &key("child")).unwrap();
    assert_eq!((cluster.written(), cluster.live_reads()), (vec![], vec![]));
}

#[test]
fn a_dependent_whose_reference_has_a_version_that_is_not_served_is_kept() {
    let [mut widget, child] = widget_and_child();
    widget["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    widget["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let cluster = cluster([widget, child]);
    let error = collect(&cluster, &key("child")).unwrap_err();
    assert!(
        error.to_string().contains("example.com/v1alpha1/Widget"),
        "{error}"
    );
    cluster.remove("example.com/v1/Widget", "a", "w");
    cluster.observe_deletion("example.com/v1/Widget", "a", "w", "u-w");
    collect(&cluster, &key("child")).unwrap_err();
    assert_eq!(cluster.written(), Vec::<String>::new());
}

#[test]
fn an_owner_too_new_for_the_cache_is_checked_again() {
    let cluster = cluster([map("child", &[("new", false)])]);
    cluster.put_live(map("new", &[]));
    let mut waits = Vec::new();
    for _ in 0..12 {
        let Outcome::RequeueAfter(wait) = collect(&cluster, &key("new")).unwrap() else {
            panic!("the owner is not requeued")
        };
        waits.push(wait.as_millis());
    }
    assert_eq!(
        (waits[0], waits[1], waits[2], waits[11]),
        (100, 200, 400, 60_000)
    );
    assert_eq!(queued(&cluster), Vec::<String>::new());
}

#[test]
fn an_owner_without_dependents_is_not_read() {
    let cluster = cluster([]);
    assert_eq!(collect(&cluster, &key("gone")).unwrap(), Outcome::Done);
    assert_eq!(cluster.live_reads(), Vec::<String>::new());
}
