//! Native tests of the whole controller.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal, set_at};
use volumeattributesclass_protection_controller::{ClassProtection, FINALIZER};

const CLASS: &str = "storage.k8s.io/v1/VolumeAttributesClass";
const UPDATE: &str = "update storage.k8s.io/v1/VolumeAttributesClass gold";

/// The class `gold` with these finalizers.
fn class(finalizers: &[&str]) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
           "metadata": {"name": "gold", "uid": "uid-gold", "finalizers": finalizers},
           "driverName": "example.com", "parameters": {"iops": "4000"}})
}

fn deleted(mut class: Value) -> Value {
    class["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    class
}

/// An object with a class's name at a JSON pointer.
fn referring(kind: &str, name: &str, pointer: &str, class: &str) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    if kind == "PersistentVolumeClaim" {
        object["metadata"]["namespace"] = "team".into();
    }
    set_at(&mut object, pointer, class);
    object
}

/// An object for each path at which a class is named.
fn referrers(class: &str) -> [Value; 4] {
    [
        ("PersistentVolume", "/spec/volumeAttributesClassName"),
        ("PersistentVolumeClaim", "/spec/volumeAttributesClassName"),
        (
            "PersistentVolumeClaim",
            "/status/currentVolumeAttributesClassName",
        ),
        (
            "PersistentVolumeClaim",
            "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
        ),
    ]
    .map(|(kind, pointer)| referring(kind, "data", pointer, class))
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<ClassProtection>("gold")
}

#[test]
fn a_class_without_the_finalizer_gets_it_and_keeps_others() {
    let cluster = Cluster::with([class(&["x.io/other"])]);
    reconcile(&cluster).unwrap();
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [UPDATE]);
    let stored = cluster.object(CLASS, "", "gold").unwrap();
    assert_eq!(
        (
            &stored["metadata"]["finalizers"],
            &stored["parameters"]["iops"]
        ),
        (&json!(["x.io/other", FINALIZER]), &json!("4000"))
    );
}

#[test]
fn a_class_with_the_finalizer_and_a_missing_one_are_left_alone() {
    let cluster = Cluster::with([class(&[FINALIZER])]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(reconcile(&Cluster::new()).unwrap(), Outcome::Done);
    assert!(cluster.written().is_empty());
}

#[test]
fn a_deleted_class_is_kept_while_anything_refers_to_it() {
    for referrer in referrers("gold") {
        let cluster = Cluster::with([deleted(class(&[FINALIZER])), referrer]);
        reconcile(&cluster).unwrap();
        assert!(cluster.written().is_empty());
    }
}

#[test]
fn the_last_reference_counts() {
    let cluster = Cluster::with([deleted(class(&[FINALIZER]))]);
    for (kind, name) in [
        ("PersistentVolume", "a"),
        ("PersistentVolumeClaim", "b"),
        ("PersistentVolumeClaim", "c"),
    ] {
        cluster.put(referring(
            kind,
            name,
            "/spec/volumeAttributesClassName",
            "gold",
        ));
    }
    for (kind, namespace, name) in [
        ("v1/PersistentVolume", "", "a"),
        ("v1/PersistentVolumeClaim", "team", "b"),
        ("v1/PersistentVolumeClaim", "team", "c"),
    ] {
        reconcile(&cluster).unwrap();
        assert!(cluster.written().is_empty(), "{name}");
        cluster.remove(kind, namespace, name);
    }
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [UPDATE]);
    assert_eq!(cluster.object(CLASS, "", "gold"), None);
}

#[test]
fn a_claim_that_has_left_the_class_keeps_it_until_its_status_has_too() {
    let mut claim = referring(
        "PersistentVolumeClaim",
        "data",
        "/spec/volumeAttributesClassName",
        "silver",
    );
    set_at(
        &mut claim,
        "/status/currentVolumeAttributesClassName",
        "gold",
    );
    let cluster = Cluster::with([deleted(class(&[FINALIZER])), claim]);
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty());
    cluster.edit("v1/PersistentVolumeClaim", "team", "data", |claim| {
        set_at(claim, "/status/currentVolumeAttributesClassName", "silver");
    });
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [UPDATE]);
}

#[test]
fn references_to_other_classes_do_not_count() {
    let cluster = Cluster::with(referrers("silver"));
    cluster.put(deleted(class(&["x.io/a", FINALIZER])));
    reconcile(&cluster).unwrap();
    let stored = cluster.object(CLASS, "", "gold").unwrap();
    assert_eq!(stored["metadata"]["finalizers"], json!(["x.io/a"]));
}

#[test]
fn a_deleted_class_does_not_get_the_finalizer() {
    let cluster = Cluster::with([deleted(class(&["x.io/other"]))]);
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_failed_update_is_retried() {
    for object in [class(&[]), deleted(class(&[FINALIZER]))] {
        let cluster = Cluster::with([object]);
        cluster.fail("update", CLASS, refusal(409, "Conflict"));
        assert!(!reconcile(&cluster).unwrap_err().is_terminal());
        reconcile(&cluster).unwrap();
        assert_eq!(cluster.written().len(), 2);
    }
}

#[test]
fn the_classes_that_an_object_named_before_and_names_now_are_enqueued() {
    let description = ClassProtection::describe();
    description.check().unwrap();
    let ends = [DeltaType::Modified, DeltaType::Deleted];
    for (watch, paths) in [
        (1, &["spec.volumeAttributesClassName"][..]),
        (
            2,
            &[
                "spec.volumeAttributesClassName",
                "status.currentVolumeAttributesClassName",
                "status.modifyVolumeStatus.targetVolumeAttributesClassName",
            ],
        ),
    ] {
        let expected = paths.iter().fold(watch_kind("v1/Pod"), |all, path| {
            all.enqueue(Mapping::named_in_cluster(path).on(ends))
        });
        let expected = describe("x", "1").watch(expected);
        assert_eq!(description.watches[watch].map, expected.watches[0].map);
        assert_eq!(description.watches[watch].changes.len(), paths.len());
    }
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = ClassProtection::describe();
    assert_eq!(
        description.name,
        "volumeattributesclass-protection-controller"
    );
    assert_eq!(
        (description.queues[0].name.as_str(), description.concurrency),
        ("vacprotection", 1)
    );
    assert_eq!(
        permissions(&description),
        ["storage.k8s.io/v1/VolumeAttributesClass  get,update"]
    );
}
