//! Volumes whose policy is to recycle them.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;
use crate::Binder;

const RELEASED: &str = "update v1/PersistentVolume/status disk";
const UNBOUND: &str = "update v1/PersistentVolume disk";
const CREATED: &str = "create v1/Pod default/recycler-for-disk";
const DELETED: &str = "delete v1/Pod default/recycler-for-disk";

fn disk() -> Value {
    released(volume("disk", "1Gi"), "Recycle")
}

/// A cluster in which the recycler pod of `disk` runs.
fn recycling() -> Cluster {
    let cluster = Cluster::with([disk()]);
    assert_eq!(sync_volume(&cluster, "disk"), [RELEASED, CREATED]);
    assert!(sync_volume(&cluster, "disk").is_empty());
    cluster
}

fn end_pod(cluster: &Cluster, status: Value) {
    cluster.edit(POD, "default", "recycler-for-disk", |pod| {
        pod["status"] = status
    });
}

/// Checks that a recycling failed with this text.
fn assert_failed(cluster: &Cluster, problem: &str) {
    let message = format!("Recycle failed: {problem}");
    let status = json!({"phase": "Failed", "message": message});
    assert_eq!(volume_of(cluster, "disk")["status"], status);
    assert_eq!(
        cluster.events(),
        [format!("Warning VolumeFailedRecycle {message}")]
    );
}

#[test]
fn a_pod_empties_the_volume() {
    let cluster = recycling();
    let pod = cluster.object(POD, "default", "recycler-for-disk").unwrap();
    assert_eq!(
        pod["spec"]["volumes"],
        json!([{"name": "vol", "hostPath": {"path": "/tmp/disk"}}])
    );
    end_pod(&cluster, json!({"phase": "Succeeded"}));
    assert_eq!(sync_volume(&cluster, "disk"), [DELETED, UNBOUND, RELEASED]);
    assert_eq!(cluster.events(), ["Normal VolumeRecycled Volume recycled"]);
    let disk = volume_of(&cluster, "disk");
    assert_eq!(disk["status"]["phase"], "Available");
    assert!(
        disk["spec"]["claimRef"].is_null()
            && disk["metadata"]["annotations"][BY_CONTROLLER].is_null()
    );
    assert!(sync_volume(&cluster, "disk").is_empty());
}

#[test]
fn a_recycled_volume_that_the_user_reserved_stays_reserved() {
    let mut disk = disk();
    disk["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations");
    let cluster = mocked([disk]);
    assert_eq!(sync_volume(&cluster, "disk"), [RELEASED, UNBOUND, RELEASED]);
    let reference = &volume_of(&cluster, "disk")["spec"]["claimRef"];
    assert_eq!(
        (&reference["name"], &reference["uid"]),
        (&"gone".into(), &Value::Null)
    );
}

#[test]
fn the_message_of_a_failed_pod_is_reported() {
    for (status, problem) in [
        (
            json!({"phase": "Failed", "message": "not empty"}),
            "failed to recycle volume: not empty",
        ),
        (
            json!({"phase": "Failed"}),
            "failed to recycle volume: pod failed, pod.Status.Message unknown",
        ),
    ] {
        let cluster = recycling();
        end_pod(&cluster, status);
        assert_eq!(sync_volume(&cluster, "disk"), [DELETED, RELEASED]);
        assert_failed(&cluster, problem);
        // The next attempt has another pod, and the failure stays visible.
        assert_eq!(sync_volume(&cluster, "disk"), [CREATED]);
        assert!(cluster.events().is_empty());
    }
}

#[test]
fn a_deleted_pod_is_a_failure() {
    let cluster = recycling();
    cluster.remove(POD, "default", "recycler-for-disk");
    sync_volume(&cluster, "disk");
    assert_failed(
        &cluster,
        "failed to recycle volume: recycler pod was deleted",
    );
}

#[test]
fn a_pod_of_an_earlier_process_is_deleted() {
    let mut old = pod("recycler-for-disk", "x");
    old["metadata"]["namespace"] = "default".into();
    let cluster = Cluster::with([disk(), old]);
    let writes = sync_volume(&cluster, "disk");
    assert!(writes[1].starts_with(CREATED) && writes[1].ends_with("(409 AlreadyExists)"));
    assert_eq!(writes[2..], [DELETED, RELEASED]);
    assert_failed(&cluster, "old recycler pod found, will retry later");
    assert_eq!(sync_volume(&cluster, "disk"), [CREATED]);
}

#[test]
fn a_refused_pod_is_a_failure() {
    let cluster = Cluster::with([disk()]);
    cluster.fail("create", POD, refusal(403, "Forbidden"));
    sync_volume(&cluster, "disk");
    assert_failed(
        &cluster,
        "unexpected error creating recycler pod:  the test refuses this: Forbidden",
    );
}

#[test]
fn a_volume_is_not_emptied_while_pods_use_it() {
    let user = with(pod("web", "gone"), "/spec/nodeName", "node-0");
    let ended = with(pod("done", "gone"), "/status/phase", "Failed");
    let cluster = Cluster::with([disk(), user.clone(), ended, pod("api", "gone")]);
    assert_eq!(sync_volume(&cluster, "disk"), [RELEASED]);
    let event = "Normal VolumeFailedRecycle Volume is used by pods: team/api,team/web";
    assert_eq!(cluster.events(), [event]);
    // They use a new claim of the name, which has another volume.
    let newer = with(bound_claim("gone", "other"), "/metadata/uid", "uid-newer");
    let cluster = Cluster::with([disk(), user, newer]);
    assert_eq!(sync_volume(&cluster, "disk"), [RELEASED, CREATED]);
}

#[test]
fn a_volume_without_a_recycler_is_a_failure() {
    let mut csi = with(
        disk(),
        "/spec/csi",
        json!({"driver": "example.com", "volumeHandle": "1"}),
    );
    csi["spec"].as_object_mut().unwrap().remove("hostPath");
    let cluster = Cluster::with([csi]);
    sync_volume(&cluster, "disk");
    let event = "Warning VolumeFailedRecycle No recycler plugin found for the volume!";
    assert_eq!(cluster.events(), [event]);
    assert_eq!(volume_phase(&cluster, "disk"), "Failed");
}

#[test]
fn events_about_the_pod_are_copied() {
    let event = |name: &str, uid: &str, kind: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
               "involvedObject": {"kind": "Pod", "namespace": "default", "name": "recycler-for-disk", "uid": uid},
               "type": kind, "message": "Started container"})
    };
    let cluster = recycling();
    let uid =
        text(&cluster.object(POD, "default", "recycler-for-disk").unwrap()["metadata"]["uid"]);
    for event in [
        event("a", &uid, "Normal"),
        event("b", &uid, "Warning"),
        event("c", "uid-earlier", "Normal"),
    ] {
        cluster.put(event);
    }
    for name in ["a", "b", "c", "lost"] {
        let key = format!("event:/{name}");
        cluster
            .reconcile_request::<Binder>(&request("volumes", &key))
            .unwrap();
    }
    let copied = "RecyclerPod Recycler pod: Started container";
    assert_eq!(
        cluster.events(),
        [format!("Normal {copied}"), format!("Warning {copied}")]
    );
}
