//! Creations, changes and deletions.

use std::collections::HashSet;

use serde_json::json;

use super::*;
use crate::testing::apply::Writer;
use crate::write::PatchType;

const WRITER: Writer = Writer {
    manager: "test",
    force: false,
};

#[test]
fn a_status_is_written_whole_with_changed_metadata() {
    let mut store = Store::new(Time::default());
    store
        .put(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                     "metadata": {"name": "web", "annotations": {"a": "1"}, "generation": 1},
                     "spec": {"replicas": 1}, "status": {"old": 1}}))
        .unwrap();
    let id = Id::new("apps/v1/ReplicaSet", "", "web");
    let change = json!({"metadata": {"annotations": {"a": null, "b": "2"}, "name": "other"},
                        "status": {"replicas": 3, "gone": null}});
    let web = store
        .update_status(&id, "1", &change, WRITER)
        .expect("it is of this version");
    assert_eq!(
        (&web["metadata"]["annotations"], &web["metadata"]["name"]),
        (&json!({"b": "2"}), &"web".into())
    );
    assert_eq!(
        (&web["spec"], &web["status"]),
        (&json!({"replicas": 1}), &json!({"replicas": 3}))
    );
    assert_eq!(
        (
            &web["metadata"]["generation"],
            &web["metadata"]["resourceVersion"]
        ),
        (&1.into(), &"2".into())
    );
}

#[test]
fn a_custom_resource_of_the_test_has_what_a_server_always_sets() {
    let mut store = Store::new(Time::default());
    let object = |kind: &str, generation: Value| json!({"apiVersion": "a.b/v1", "kind": kind, "metadata": {"name": "a", "generation": generation}});
    store.put(object("Plain", Value::Null)).unwrap();
    store.put(object("Chosen", json!(7))).unwrap();
    let metadata = |kind: &str| {
        let found = store.get(&Id::new(kind, "", "a"));
        found.expect("it was put")["metadata"].clone()
    };
    let plain = metadata("a.b/v1/Plain");
    assert_eq!(plain["generation"], 1);
    for field in ["uid", "creationTimestamp", "resourceVersion"] {
        assert!(plain[field].is_string(), "{field} in {plain}");
    }
    assert_eq!(metadata("a.b/v1/Chosen")["generation"], 7);
}

#[test]
#[should_panic(expected = "a server-side apply is a `patch`")]
fn a_test_can_t_make_a_verb_fail_that_does_not_exist() {
    let error = flyball_types::ApiError::invalid("no");
    crate::testing::Cluster::new().fail("apply", "v1/ConfigMap", error);
}

#[test]
fn generated_names_do_not_repeat() {
    let mut store = Store::new(Time::default());
    let mut made = HashSet::new();
    for _ in 0..1000 {
        let pod = store
            .create(
                "v1/Pod",
                "a",
                json!({"metadata": {"generateName": "web-"}}),
                WRITER,
            )
            .expect("it is new");
        made.insert(text(&pod, "/metadata/name").to_owned());
    }
    assert_eq!(made.len(), 1000);
    assert!(made.iter().all(|name| name.len() == "web-".len() + 5));
}

/// A store with one ConfigMap with this finalizer, and its ID.
fn with_config_map(finalizer: &str) -> (Store, Id) {
    let mut store = Store::new(Time::default());
    store
        .put(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
                     "metadata": {"name": "m", "namespace": "d", "finalizers": [finalizer]}}),
        )
        .unwrap();
    (store, Id::new("v1/ConfigMap", "d", "m"))
}

#[test]
fn a_write_of_an_old_version_is_a_conflict() {
    let (mut store, id) = with_config_map("x.io/a");
    let change = json!({"data": {"a": "2"}});
    let new = store
        .update(&id, "", "1", &change, WRITER)
        .expect("the version is current");
    assert_eq!(text(&new, "/metadata/resourceVersion"), "2");
    let stale = store
        .update(&id, "", "1", &change, WRITER)
        .expect_err("the version is old");
    assert!(stale.is_conflict());
    let patch = json!({"metadata": {"resourceVersion": "1"}, "data": {"a": "3"}});
    for patch_type in [PatchType::Merge, PatchType::Apply] {
        let error = store
            .patch(&id, "", patch_type, &patch, WRITER)
            .expect_err("it is old");
        assert!(error.is_conflict());
    }
    // A write without changes keeps the version.
    let same = store
        .update(&id, "", "2", &change, WRITER)
        .expect("the version is current");
    assert_eq!(text(&same, "/metadata/resourceVersion"), "2");
}

#[test]
fn a_deleted_object_stays_until_its_last_finalizer_is_removed() {
    let (mut store, id) = with_config_map("x.io/a");
    let marked = store
        .delete(&id, &DeleteOptions::default())
        .expect("it exists");
    assert!(!text(&marked, "/metadata/deletionTimestamp").is_empty());
    assert!(store.get(&id).is_some() && store.take_deleted().is_empty());
    let patch = |finalizers| json!({"metadata": {"finalizers": finalizers}});
    let more = patch(json!(["x.io/a", "x.io/b"]));
    let error = store
        .patch(&id, "", PatchType::Merge, &more, WRITER)
        .expect_err("it is being deleted");
    assert_eq!((error.status, error.reason.as_str()), (422, "Invalid"));
    // The server keeps its own deletion time.
    let revived = json!({"metadata": {"deletionTimestamp": null}});
    let kept = store
        .patch(&id, "", PatchType::Merge, &revived, WRITER)
        .expect("it exists");
    assert!(!text(&kept, "/metadata/deletionTimestamp").is_empty());
    store
        .patch(&id, "", PatchType::Merge, &patch(json!([])), WRITER)
        .expect("it exists");
    assert_eq!(store.take_deleted().len(), 1);
    assert!(store.get(&id).is_none());
}

#[test]
fn an_apply_creates_an_object_and_then_owns_its_fields() {
    let mut store = Store::new(Time::default());
    let id = Id::new("v1/ConfigMap", "d", "m");
    let apply = |store: &mut Store, data: Value, writer| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
        store.patch(&id, "", PatchType::Apply, &object, writer)
    };
    let created = apply(&mut store, json!({"a": "1", "b": "1"}), WRITER).expect("it is new");
    assert_eq!(text(&created, "/metadata/name"), "m");
    let same = apply(&mut store, json!({"a": "1", "b": "1"}), WRITER).expect("it is the same");
    assert_eq!(same, created);
    store.edit(&id, |object| object["data"]["a"] = "2".into());
    let error = apply(&mut store, json!({"a": "1"}), WRITER).expect_err("another owns it");
    assert!(error.is_conflict() && error.message.contains("\"another-client\": .data.a"));
    let forced = Writer {
        force: true,
        ..WRITER
    };
    let taken = apply(&mut store, json!({"a": "1"}), forced).expect("it is forced");
    assert_eq!(taken["data"], json!({"a": "1"}));
}

#[test]
fn an_apply_to_the_status_changes_nothing_else() {
    let (mut store, id) = with_config_map("x.io/a");
    let applied = json!({"data": {"a": "2"}, "status": {"phase": "Ready"}});
    let new = store
        .patch(&id, "status", PatchType::Apply, &applied, WRITER)
        .expect("it exists");
    assert_eq!(
        (&new["data"], &new["status"]),
        (&json!({"a": "1"}), &json!({"phase": "Ready"}))
    );
    let new = store.patch(&id, "", PatchType::Apply, &json!({"status": {}}), WRITER);
    assert_eq!(new.expect("it exists")["status"], json!({"phase": "Ready"}));
}
