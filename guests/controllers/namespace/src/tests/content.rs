//! The deletion of the objects of each kind, and the report about the objects that remain.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::{content, kinds};

const WIDGET: &str = "example.com/v1/Widget";

/// The namespace with these objects; only Widgets are served, with these verbs.
fn world(objects: impl IntoIterator<Item = Value>, verbs: &[&str]) -> World {
    let world = World::bare(std::iter::once(namespace()).chain(objects));
    world.cluster.serve(WIDGET, "widgets", true, verbs);
    world
}

fn widget(name: &str) -> Value {
    object(WIDGET, name)
}

#[test]
fn a_kind_with_deletecollection_is_deleted_with_one_request_in_the_background() {
    let world = world([widget("a"), widget("b")], ALL);
    assert_eq!(world.sync(), Outcome::Done);
    let writes = world.cluster.writes();
    assert_eq!(
        writes[0].to_string(),
        "deletecollection example.com/v1/Widget team"
    );
    assert_eq!(
        writes[0].options,
        json!({"propagationPolicy": "Background"})
    );
    assert!(world.namespace().is_none());
}

#[test]
fn other_namespaces_are_left_alone() {
    let mut other = widget("a");
    other["metadata"]["namespace"] = "other".into();
    for verbs in [ALL, &["delete", "list"]] {
        let world = world([other.clone(), widget("a")], verbs);
        world.sync();
        assert!(world.cluster.object(WIDGET, "other", "a").is_some() && !world.has(WIDGET, "a"));
    }
}

#[test]
fn without_deletecollection_each_object_is_deleted_by_name_and_uid() {
    let world = world([widget("a"), widget("b")], &["delete", "list"]);
    let uid = world.cluster.object(WIDGET, "team", "a").unwrap()["metadata"]["uid"].clone();
    assert_eq!(world.sync(), Outcome::Done);
    let writes = world.cluster.writes();
    assert_eq!(writes[0].to_string(), "delete example.com/v1/Widget team/a");
    assert_eq!(
        writes[0].options,
        json!({"propagationPolicy": "Background", "preconditions": {"uid": uid}})
    );
    assert_eq!(writes[1].to_string(), "delete example.com/v1/Widget team/b");
    assert!(world.namespace().is_none());
}

#[test]
fn an_unsupported_deletecollection_falls_back_to_single_deletes() {
    for (status, reason) in [(405, "MethodNotAllowed"), (404, "NotFound")] {
        let world = world([widget("a")], ALL);
        world
            .cluster
            .fail("deletecollection", WIDGET, refusal(status, reason));
        assert_eq!(world.sync(), Outcome::Done);
        assert_eq!(
            world.cluster.written()[1],
            "delete example.com/v1/Widget team/a"
        );
        assert!(world.namespace().is_none());
    }
}

#[test]
fn a_missing_or_undeletable_object_is_not_reported_by_itself() {
    for (status, reason) in [(404, "NotFound"), (405, "MethodNotAllowed")] {
        let world = world([widget("a"), widget("b")], &["delete", "list"]);
        world
            .cluster
            .fail("delete", WIDGET, refusal(status, reason));
        assert!(
            world.fail().contains("unexpected items still remain"),
            "only the recount reports it"
        );
        assert_eq!(world.sync(), Outcome::Done);
    }
}

#[test]
fn an_object_that_replaced_a_listed_one_is_not_deleted() {
    let world = world([widget("a")], &["delete", "list"]);
    let mut before = widget("a");
    before["metadata"]["uid"] = "uid-before".into();
    world.cluster.put_live(before);
    assert!(world.fail().contains("precondition"));
    assert!(world.has(WIDGET, "a"));
}

#[test]
fn kinds_that_cannot_be_listed_count_as_empty() {
    let unlisted = world([widget("a")], &["delete", "deletecollection"]);
    assert_eq!(unlisted.sync(), Outcome::Done);
    assert!(unlisted.namespace().is_none());
    assert_eq!(unlisted.cluster.live_reads(), ["get v1/Namespace team"]);

    let undeletable = world([widget("a")], &["delete"]);
    assert_eq!(undeletable.sync(), Outcome::Done);
    assert_eq!(undeletable.cluster.written(), [UPDATE_STATUS, FINALIZE]);

    for (status, reason) in [(405, "MethodNotAllowed"), (404, "NotFound")] {
        let refused = world([], ALL);
        refused
            .cluster
            .fail("list", WIDGET, refusal(status, reason));
        assert_eq!(refused.sync(), Outcome::Done);
        assert!(refused.namespace().is_none());
    }
}

#[test]
fn a_failing_kind_does_not_stop_others_but_keeps_the_namespace() {
    let world = World::of([object(MAP, "settings"), object(DEPLOYMENT, "web")]);
    world
        .cluster
        .fail("deletecollection", MAP, refusal(403, "Forbidden"));
    assert_eq!(world.fail(), "the test refuses this: Forbidden");
    assert!(world.has(MAP, "settings") && !world.has(DEPLOYMENT, "web"));
    assert_eq!(
        world.true_conditions(),
        [
            "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: \
          the test refuses this: Forbidden"
        ]
    );
    assert!(world.namespace().is_some());
    assert_eq!(world.sync(), Outcome::Done);
    assert!(world.namespace().is_none());
}

#[test]
fn failures_of_lists_and_single_deletes_are_reported() {
    let world = world([widget("a"), widget("b")], &["delete", "list"]);
    world
        .cluster
        .fail("delete", WIDGET, refusal(500, "InternalError"));
    assert_eq!(world.fail(), "the test refuses this: InternalError");
    assert!(
        !world.has(WIDGET, "b"),
        "a failure must not stop other deletes"
    );
    world
        .cluster
        .fail("list", WIDGET, refusal(503, "ServiceUnavailable"));
    assert_eq!(world.fail(), "the test refuses this: ServiceUnavailable");
    world
        .cluster
        .fail_nth("list", WIDGET, 2, refusal(503, "ServiceUnavailable"));
    assert_eq!(world.fail(), "the test refuses this: ServiceUnavailable");
    assert!(world.namespace().is_some());
}

#[test]
fn objects_with_finalizers_are_counted_and_waited_for() {
    let objects = [
        held(MAP, "a", &["example.com/x", "example.com/y"]),
        held(MAP, "b", &["example.com/x"]),
        held(DEPLOYMENT, "web", &["foregroundDeletion"]),
    ];
    let world = World::of(objects);
    assert_eq!(world.sync(), Outcome::RequeueAfter(Duration::from_secs(8)));
    assert_eq!(
        world.true_conditions(),
        [
            "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: configmaps. has 2 resource \
             instances, deployments.apps has 1 resource instances",
            "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers \
             remaining: example.com/x in 2 resource instances, example.com/y in 1 resource instances, \
             foregroundDeletion in 1 resource instances",
        ]
    );
    for (kind, name) in [(MAP, "a"), (MAP, "b"), (DEPLOYMENT, "web")] {
        world.cluster.remove(kind, "team", name);
    }
    assert_eq!(world.sync(), Outcome::Done);
    assert!(world.namespace().is_none());
}

#[test]
fn finalizers_are_waited_for_fifteen_seconds_whatever_else_remains() {
    let world = World::of([held(MAP, "a", &["example.com/x"])]);
    world.cluster.put_live(object(DEPLOYMENT, "web"));
    let host = world.cluster.host();
    let namespace = host.live().get("", "team").unwrap().unwrap();
    let kinds = kinds::deletable(host.kinds()).deletable;
    let content = content::delete(&host, &namespace, &kinds);
    assert_eq!((content.wait_seconds, content.failures.len()), (15, 1));
    assert_eq!(
        content.remaining.into_iter().collect::<Vec<_>>(),
        [("configmaps.".into(), 1), ("deployments.apps".into(), 1)]
    );
    assert_eq!(
        content.finalizers.into_iter().collect::<Vec<_>>(),
        [("example.com/x".into(), 1)]
    );
}

#[test]
fn objects_that_remain_without_a_reason_are_a_failure() {
    let world = World::of([]);
    // A live list still has it.
    world.cluster.put_live(object(DEPLOYMENT, "web"));
    assert_eq!(
        world.fail(),
        "unexpected items still remain in namespace: team for gvr: apps/v1, Resource=deployments"
    );
    assert_eq!(
        world.true_conditions()[1],
        "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: deployments.apps has 1 resource \
         instances"
    );
}
