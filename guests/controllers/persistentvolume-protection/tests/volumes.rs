//! Native tests of the whole controller.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal};
use persistentvolume_protection_controller::{FINALIZER, VolumeProtection};

const PV: &str = "v1/PersistentVolume";
const UPDATE: &str = "update v1/PersistentVolume pv-1";

/// A volume in this phase with these finalizers.
fn volume(phase: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume",
           "metadata": {"name": "pv-1", "uid": "uid-1", "finalizers": finalizers},
           "spec": {"capacity": {"storage": "1Gi"}}, "status": {"phase": phase}})
}

fn deleted(mut volume: Value) -> Value {
    volume["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    volume
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<VolumeProtection>("pv-1")
}

/// Reconciles a volume twice, and returns the writes and the finalizers that are left.
fn settle(volume: Value) -> (Vec<String>, Value) {
    let cluster = Cluster::with([volume]);
    reconcile(&cluster).unwrap();
    reconcile(&cluster).unwrap();
    let left = cluster.object(PV, "", "pv-1").unwrap_or_default();
    (cluster.written(), left["metadata"]["finalizers"].clone())
}

#[test]
fn a_volume_without_the_finalizer_gets_it_and_keeps_others() {
    let (writes, finalizers) = settle(volume("Available", &["x.io/other"]));
    assert_eq!(writes, [UPDATE]);
    assert_eq!(finalizers, json!(["x.io/other", FINALIZER]));
}

#[test]
fn a_volume_with_the_finalizer_and_a_missing_one_are_left_alone() {
    for phase in ["Available", "Bound", "Released"] {
        assert!(settle(volume(phase, &[FINALIZER])).0.is_empty());
    }
    assert_eq!(reconcile(&Cluster::new()).unwrap(), Outcome::Done);
}

#[test]
fn a_deleted_volume_is_released_unless_it_is_bound() {
    for phase in ["Pending", "Available", "Released", "Failed", ""] {
        let (writes, finalizers) = settle(deleted(volume(phase, &["x.io/a", FINALIZER])));
        assert_eq!(
            (writes, finalizers),
            (vec![UPDATE.into()], json!(["x.io/a"])),
            "{phase}"
        );
    }
    let (writes, finalizers) = settle(deleted(volume("Bound", &[FINALIZER])));
    assert_eq!((writes, finalizers), (vec![], json!([FINALIZER])));
}

#[test]
fn the_last_finalizer_deletes_the_volume() {
    let cluster = Cluster::with([deleted(volume("Available", &[FINALIZER]))]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.object(PV, "", "pv-1"), None);
}

#[test]
fn a_deleted_volume_does_not_get_the_finalizer() {
    assert!(
        settle(deleted(volume("Available", &["x.io/other"])))
            .0
            .is_empty()
    );
}

#[test]
fn a_failed_update_is_retried_unless_the_volume_was_deleted() {
    for object in [
        volume("Available", &[]),
        deleted(volume("Available", &[FINALIZER])),
    ] {
        let cluster = Cluster::with([object]);
        cluster.fail("update", PV, refusal(409, "Conflict"));
        assert!(!reconcile(&cluster).unwrap_err().is_terminal());
        cluster.fail("update", PV, refusal(404, "NotFound"));
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        reconcile(&cluster).unwrap();
        assert_eq!(cluster.written().len(), 3);
    }
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = VolumeProtection::describe();
    description.check().unwrap();
    assert_eq!(description.name, "persistentvolume-protection-controller");
    assert_eq!(
        (description.queues[0].name.as_str(), description.concurrency),
        ("pvprotection", 1)
    );
    assert_eq!(
        permissions(&description),
        ["v1/PersistentVolume  get,update"]
    );
}
