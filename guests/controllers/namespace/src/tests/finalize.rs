//! Writes to the namespace itself.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::update;
use crate::views::Namespace;

fn conflict() -> ApiError {
    refusal(409, "Conflict")
}

/// Another namespace with the same name.
fn another() -> Value {
    let mut another = namespace();
    another["metadata"]["uid"] = "another-uid".into();
    another
}

/// A world whose namespace has these finalizers in its spec.
fn with_finalizers(finalizers: &[&str]) -> World {
    let world = World::of([]);
    let mut namespace = namespace();
    namespace["spec"]["finalizers"] = json!(finalizers);
    world.cluster.put(namespace);
    world
}

#[test]
fn an_empty_namespace_is_finalized() {
    let world = World::of([]);
    assert_eq!(world.sync(), Outcome::Done);
    let writes = world.cluster.writes();
    assert_eq!(writes.last().unwrap().to_string(), FINALIZE);
    assert_eq!(
        writes.last().unwrap().body,
        json!({"spec": {"finalizers": []}})
    );
    assert!(
        writes.iter().all(|write| write.error.is_none()),
        "writes must use the current version"
    );
    assert!(world.namespace().is_none());
}

#[test]
fn finalizers_of_other_controllers_are_kept() {
    let world = with_finalizers(&[
        "z.example.com",
        "kubernetes",
        "a.example.com",
        "z.example.com",
    ]);
    assert_eq!(world.sync(), Outcome::Done);
    let finalizers = || world.namespace().unwrap()["spec"]["finalizers"].clone();
    assert_eq!(finalizers(), json!(["a.example.com", "z.example.com"]));
    world.cluster.written();

    // Objects created in the meantime are still deleted, and no unnecessary write is made.
    world.cluster.put(object(MAP, "late"));
    assert_eq!(world.sync(), Outcome::Done);
    assert!(!world.has(MAP, "late"));
    assert!(
        world
            .cluster
            .written()
            .iter()
            .all(|write| write.starts_with("deletecollection"))
    );
    assert_eq!(finalizers(), json!(["a.example.com", "z.example.com"]));
}

#[test]
fn a_namespace_without_finalizers_is_left_to_the_server() {
    let world = with_finalizers(&[]);
    world.cluster.put(object(MAP, "settings"));
    assert_eq!(world.sync(), Outcome::Done);
    assert!(world.cluster.written().is_empty());
}

#[test]
fn a_namespace_not_being_deleted_costs_no_request() {
    let world = World::of([object(MAP, "settings")]);
    let mut active = namespace();
    active["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("deletionTimestamp");
    world.cluster.put(active);
    assert_eq!(world.sync(), Outcome::Done);
    world.cluster.remove(NAMESPACE, "", "team");
    assert_eq!(world.sync(), Outcome::Done);
    assert!(world.cluster.written().is_empty() && world.cluster.live_reads().is_empty());
}

#[test]
fn a_live_read_decides_whether_it_is_being_deleted() {
    let world = World::of([object(MAP, "settings")]);
    // The namespace was deleted and recreated, and the new one is not being deleted; the cache is
    // stale.
    let mut fresh = another();
    fresh["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("deletionTimestamp");
    fresh["status"]["phase"] = "Active".into();
    world.cluster.put_live(fresh);
    assert_eq!(world.sync(), Outcome::Done);
    world.cluster.remove_live(NAMESPACE, "", "team");
    assert_eq!(world.sync(), Outcome::Done);
    assert!(world.cluster.written().is_empty() && world.has(MAP, "settings"));
}

#[test]
fn a_namespace_without_the_phase_gets_it_first() {
    let world = World::of([]);
    let mut namespace = namespace();
    namespace["status"] =
        json!({"phase": "Active", "conditions": [{"type": "Theirs", "status": "True"}]});
    world.cluster.put(namespace);
    assert_eq!(world.sync(), Outcome::Done);
    let writes = world.cluster.writes();
    assert_eq!(writes[0].to_string(), UPDATE_STATUS);
    assert_eq!(writes[0].body["status"]["phase"], "Terminating");
    assert_eq!(writes[0].body["status"]["conditions"][0]["type"], "Theirs");
    assert!(writes.iter().all(|write| write.error.is_none()));
    assert!(world.namespace().is_none());
}

#[test]
fn a_conflict_is_retried_on_the_latest_version() {
    for subresource in ["status", "finalize"] {
        let world = World::of([]);
        let mut namespace = namespace();
        namespace["status"]["phase"] = "Active".into();
        world.cluster.put(namespace);
        world
            .cluster
            .fail("update", &format!("{NAMESPACE}/{subresource}"), conflict());
        assert_eq!(world.sync(), Outcome::Done);
        assert!(world.namespace().is_none(), "{subresource}");
    }
}

#[test]
fn repeated_conflicts_are_left_to_the_queue() {
    let world = World::of([]);
    for _ in 0..10 {
        world
            .cluster
            .fail("update", "v1/Namespace/finalize", conflict());
    }
    assert_eq!(
        world.fail(),
        "the test refuses this: Conflict (409 Conflict)"
    );
    assert_eq!(world.sync(), Outcome::Done);
}

#[test]
fn another_error_of_finalize_is_not_retried_at_once() {
    let world = World::of([]);
    world.cluster.fail(
        "update",
        "v1/Namespace/finalize",
        refusal(500, "InternalError"),
    );
    world.fail();
    assert!(world.namespace().is_some());
}

#[test]
fn a_namespace_deleted_before_a_write_needs_nothing() {
    let world = World::of([]);
    let mut active = namespace();
    active["status"]["phase"] = "Active".into();
    world.cluster.put(active);
    world
        .cluster
        .fail("update", "v1/Namespace/status", refusal(404, "NotFound"));
    assert_eq!(world.sync(), Outcome::Done);
    assert_eq!(world.cluster.written().len(), 1);

    let world = World::of([]);
    world
        .cluster
        .fail("update", "v1/Namespace/finalize", refusal(404, "NotFound"));
    assert_eq!(world.sync(), Outcome::Done);
}

#[test]
fn another_namespace_of_the_same_name_is_not_written_to() {
    let world = World::bare([namespace()]);
    let host = world.cluster.host();
    let before: Namespace = host.live().get("", "team").unwrap().unwrap();
    world.cluster.put(another());
    let version = |namespace: &Value| namespace["metadata"]["resourceVersion"].clone();
    let found = world.namespace().unwrap();
    assert_ne!(version(&found), before.meta.resource_version);
    let error = update::apply(&host, before, update::finalize).unwrap_err();
    assert_eq!(
        error.to_string(),
        "namespace uid has changed across retries"
    );
    assert_eq!(world.namespace().unwrap(), found);
}
