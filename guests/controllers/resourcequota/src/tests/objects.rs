//! Numbers of objects of any kind.

use std::time::Duration;

use flyball_sdk::ApiError;
use flyball_sdk::discovery::Catalogue;
use flyball_sdk::prelude::*;

use super::world::*;

#[test]
fn objects_of_any_kind_are_counted_by_their_resource() {
    let objects = [
        object("v1/ConfigMap", "a"),
        object("v1/ConfigMap", "b"),
        object("v1/Secret", "a"),
        object("apps/v1/Deployment", "a"),
        object("example.com/v1/Widget", "a"),
        with(
            object("example.com/v1/Widget", "b"),
            "/metadata/namespace",
            "other",
        ),
    ];
    let names = [
        "configmaps",
        "count/configmaps",
        "secrets",
        "count/secrets",
        "replicationcontrollers",
        "resourcequotas",
        "count/resourcequotas",
        "count/deployments.apps",
        "count/replicasets.apps",
        "count/widgets.example.com",
    ];
    assert_eq!(
        used_of(objects, names),
        ["2", "2", "1", "1", "0", "1", "1", "1", "0", "1"]
    );
}

#[test]
fn limits_that_name_no_resource_that_can_be_counted_have_no_use() {
    let objects = [object("apps/v1/Deployment", "a"), object("v1/Event", "a")];
    let names = [
        // Events are not counted, because they expire. The next two names are not full names of the resource. Gadgets
        // are not served.
        "count/events",
        "count/deployments",
        "deployments.apps",
        "count/gadgets.example.com",
        "count/",
    ];
    assert_eq!(used_of(objects, names), ["-", "-", "-", "-", "-"]);
}

#[test]
fn only_namespaced_kinds_that_can_be_created_listed_watched_and_deleted_are_counted() {
    let cluster = cluster([quota(json!({
        "count/nodes": "1", "count/reviews.example.org": "1", "count/relics.example.org": "1", "count/news.example.org": "1",
    }))]);
    cluster.serve("v1/Node", "nodes", false, &crate::kinds::VERBS);
    cluster.serve("example.org/v2/Review", "reviews", true, &["create"]);
    cluster.serve("example.org/v2/New", "news", true, &crate::kinds::VERBS);
    // The preferred version decides, or the first that has the kind.
    cluster.serve(
        "example.org/v1/Review",
        "reviews",
        true,
        &crate::kinds::VERBS,
    );
    cluster.serve("example.org/v1/Relic", "relics", true, &crate::kinds::VERBS);
    cluster.put(object("example.org/v1/Relic", "a"));
    reconcile(&cluster).unwrap();
    let used: Vec<_> = listed(&cluster, "used").into_iter().collect();
    let expected = [
        ("count/news.example.org", "0"),
        ("count/relics.example.org", "1"),
    ];
    assert_eq!(
        used,
        expected.map(|(name, used)| (name.to_owned(), used.to_owned()))
    );
}

#[test]
fn kinds_are_discovered_again_after_thirty_seconds_and_only_if_a_limit_needs_it() {
    let cluster = cluster([
        quota(json!({"count/widgets.example.com": "5", "pods": "1", "count/secrets": "1"})),
        object("example.com/v1/Widget", "a"),
        object("example.com/v1/Widget", "b"),
    ]);
    let kinds = cluster.host().kinds().unwrap();
    cluster.set_catalogue(Catalogue::default());
    let used = || {
        reconcile(&cluster).unwrap();
        listed(&cluster, "used")
            .get("count/widgets.example.com")
            .cloned()
    };
    assert_eq!(used(), None);
    cluster.set_catalogue(kinds);
    cluster.advance(Duration::from_secs(29));
    assert_eq!(used(), None);
    cluster.advance(Duration::from_secs(1));
    assert_eq!(used().as_deref(), Some("2"));
    let cluster = self::cluster([quota(json!({"pods": "1", "count/secrets": "1"}))]);
    cluster.fail("discover", "", ApiError::unreachable("no route"));
    reconcile(&cluster).unwrap();
}

#[test]
fn nothing_is_used_of_a_kind_that_was_counted_and_is_no_longer_served() {
    let cluster = cluster([settled(
        json!({"count/gadgets.example.com": "5", "count/tools.example.net": "5"}),
        json!({"count/gadgets.example.com": "2", "count/tools.example.net": "3"}),
    )]);
    // The kinds that this group serves are not known.
    cluster.fail_discovery("example.net/v1", "no answer");
    reconcile(&cluster).unwrap();
    assert_eq!(
        Vec::from_iter(listed(&cluster, "used").into_values()),
        ["0", "3"]
    );
}

#[test]
fn while_discovery_fails_the_kinds_that_were_known_are_counted() {
    let cluster = cluster([
        quota(json!({"count/widgets.example.com": "5", "pods": "5"})),
        pod("a"),
        object("example.com/v1/Widget", "a"),
    ]);
    let used = |name: &str| listed(&cluster, "used").get(name).cloned();
    cluster.fail("discover", "", ApiError::unreachable("no route"));
    let error = reconcile(&cluster).unwrap_err();
    assert!(
        error.to_string().contains("discovering the kinds"),
        "{error}"
    );
    assert_eq!(
        (used("pods").as_deref(), used("count/widgets.example.com")),
        (Some("1"), None)
    );
    reconcile(&cluster).unwrap();
    assert_eq!(used("count/widgets.example.com").as_deref(), Some("1"));
    cluster.advance(Duration::from_secs(60));
    cluster.put(object("example.com/v1/Widget", "b"));
    cluster.fail("discover", "", ApiError::unreachable("no route"));
    reconcile(&cluster).unwrap();
    assert_eq!(used("count/widgets.example.com").as_deref(), Some("2"));
}
