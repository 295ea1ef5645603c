//! Restarts, and controllers of kube-controller-manager that were stopped in the middle.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

/// A cluster with a VolumeAttachment that another controller has created for node `a`.
fn uncertain(is_attached: bool) -> Cluster {
    let cluster = cluster();
    cluster.put(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": attachment_name("disk", "a")},
        "spec": {"attacher": DRIVER, "nodeName": "a", "source": {"persistentVolumeName": "disk"}},
        "status": {"attached": is_attached},
    }));
    cluster
}

#[test]
fn volumes_in_the_status_are_attached_and_nothing_is_written() {
    let cluster = attached();
    restart(&cluster, &["a", "b"], &["disk"]);
    for node in ["a", "b"] {
        assert_eq!(pass(&cluster, node), Outcome::Done);
    }
    assert!(written(&cluster).is_empty() && cluster.events().is_empty());
}

#[test]
fn a_volume_of_a_pod_that_was_deleted_meanwhile_is_detached() {
    let cluster = attached();
    restart(&cluster, &["a"], &["disk"]);
    cluster.remove(POD, "team", "web");
    // Nothing but the name of the volume is left.
    cluster.remove(PV, "", "disk");
    pass(&cluster, "a");
    assert_eq!(
        written(&cluster),
        ["patch v1/Node/status a", "delete VolumeAttachment"]
    );
}

#[test]
fn an_attachment_that_is_under_way_is_finished() {
    let cluster = uncertain(false);
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    assert!(written(&cluster).is_empty());
    answer(&cluster, "disk", "a", json!({"attached": true}));
    pass(&cluster, "a");
    assert_eq!(written(&cluster), ["patch v1/Node/status a"]);
    assert_eq!(cluster.events().len(), 1);
}

#[test]
fn an_attachment_that_was_not_reported_is_reported() {
    let cluster = uncertain(true);
    cluster.put(pod("web", "a", &["disk"]));
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    assert_eq!(written(&cluster), ["patch v1/Node/status a"]);
    assert_eq!(reported(&cluster, "a"), [unique("disk")]);
}

#[test]
fn an_attachment_that_nobody_needs_is_detached() {
    for is_attached in [false, true] {
        let cluster = uncertain(is_attached);
        assert_eq!(pass(&cluster, "a"), Outcome::Done);
        assert_eq!(written(&cluster), ["delete VolumeAttachment"]);
    }
}

#[test]
fn an_uncertain_attachment_does_not_keep_the_volume_from_another_node() {
    let cluster = uncertain(true);
    cluster.put(pod("web", "b", &["disk"]));
    pass(&cluster, "b");
    assert_eq!(attachments(&cluster), ["a disk", "b disk"]);
    assert!(cluster.events().is_empty());
}

#[test]
fn a_detachment_that_is_under_way_is_finished() {
    let cluster = uncertain(true);
    hold(&cluster, "disk", "a");
    cluster.delete(ATTACHMENT, "", &attachment_name("disk", "a"));
    cluster.put(pod("web", "b", &["disk"]));
    pass(&cluster, "a");
    pass(&cluster, "b");
    assert_eq!(attachments(&cluster), ["a disk"]);
    release(&cluster, "disk", "a");
    pass(&cluster, "a");
    pass_enqueued(&cluster);
    assert_eq!(attachments(&cluster), ["b disk"]);
}

#[test]
fn attachments_that_are_not_this_controllers_are_left_alone() {
    let cluster = uncertain(true);
    let mut foreign = cluster.objects(ATTACHMENT).remove(0);
    release(&cluster, "disk", "a");
    foreign["metadata"]["name"] = "by-hand".into();
    let mut lost = foreign.clone();
    lost["metadata"]["name"] = attachment_name("lost", "a").into();
    lost["spec"]["source"]["persistentVolumeName"] = "lost".into();
    cluster.put(foreign);
    cluster.put(lost);
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    assert!(written(&cluster).is_empty());
}

#[test]
fn the_time_for_unmounting_begins_anew() {
    let cluster = attached();
    mount(&cluster, "a", &["disk"]);
    set_ready(&cluster, "a", false);
    cluster.remove(POD, "team", "web");
    pass(&cluster, "a");
    advance(&cluster, 300);
    restart(&cluster, &["a"], &["disk"]);
    pass(&cluster, "a");
    advance(&cluster, 359);
    pass(&cluster, "a");
    assert!(written(&cluster).is_empty());
}
