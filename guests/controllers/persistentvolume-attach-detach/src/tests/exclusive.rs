//! Volumes that only one node at a time may have.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

const MULTI_ATTACH: &str = "Warning FailedAttachVolume Waiting for detach for volume \"disk\" ";

/// A cluster whose node `a` has the volume, for which a pod at `b` waits too.
fn contended() -> Cluster {
    let cluster = attached();
    cluster.put(pod("late", "b", &["disk"]));
    cluster
}

#[test]
fn a_pod_at_another_node_is_told_once_who_has_its_volume() {
    let cluster = contended();
    let outcome = pass(&cluster, "b");
    assert_eq!(outcome, Outcome::RequeueAfter(Duration::from_secs(30)));
    let events = cluster.recorded_events();
    assert_eq!(
        events[0].to_string(),
        format!("{MULTI_ATTACH}Volume is already used by pod(s) web")
    );
    assert_eq!((events.len(), &*events[0].about.name), (1, "late"));
    for _ in 0..3 {
        advance(&cluster, 30);
        pass(&cluster, "b");
    }
    assert!(cluster.events().is_empty() && written(&cluster).is_empty());
    // The pod gives up, and another one comes.
    cluster.remove(POD, "team", "late");
    pass(&cluster, "b");
    cluster.put(pod("later", "b", &["disk"]));
    pass(&cluster, "b");
    assert_eq!(cluster.events().len(), 1);
}

#[test]
fn a_volume_that_a_node_still_uses_without_pods_belongs_to_nobody_that_is_named() {
    let cluster = contended();
    mount(&cluster, "a", &["disk"]);
    cluster.remove(POD, "team", "web");
    pass(&cluster, "b");
    let text = "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another \
                node";
    assert_eq!(cluster.events(), [format!("{MULTI_ATTACH}{text}")]);
}

#[test]
fn in_kubernetes_1_36_it_is_called_an_error() {
    let cluster = contended();
    cluster.set_config("emulated-version", "1.36");
    pass(&cluster, "b");
    assert_eq!(
        cluster.events(),
        [
            "Warning FailedAttachVolume Multi-Attach error for volume \"disk\" Volume is already used by pod(s) web"
        ]
    );
}

#[test]
fn a_volume_that_is_about_to_be_detached_is_waited_for_silently() {
    let cluster = contended();
    hold(&cluster, "disk", "a");
    cluster.remove(POD, "team", "web");
    pass(&cluster, "b");
    assert_eq!(enqueued(&cluster), ["a"]);
    pass(&cluster, "a");
    pass(&cluster, "b");
    assert!(cluster.events().is_empty());
    assert_eq!(attachments(&cluster), ["a disk"]);
    forget(&cluster);
    release(&cluster, "disk", "a");
    pass(&cluster, "a");
    assert_eq!(enqueued(&cluster), ["b"]);
    pass(&cluster, "b");
    assert_eq!(attachments(&cluster), ["b disk"]);
    assert!(cluster.events().is_empty());
}

#[test]
fn two_nodes_are_never_given_a_volume_at_once() {
    let cluster = cluster();
    cluster.put(pod("one", "a", &["disk"]));
    cluster.put(pod("two", "b", &["disk"]));
    pass(&cluster, "a");
    pass(&cluster, "b");
    assert_eq!(attachments(&cluster), ["a disk"]);
    assert!(cluster.events().is_empty());
    answer(&cluster, "disk", "a", json!({"attached": true}));
    pass(&cluster, "a");
    forget(&cluster);
    pass(&cluster, "b");
    assert_eq!(attachments(&cluster), ["a disk"]);
    assert_eq!(cluster.events().len(), 1);
}

#[test]
fn a_failed_attachment_does_not_keep_the_volume_from_another_node() {
    let cluster = cluster();
    cluster.put(pod("one", "a", &["disk"]));
    cluster.put(pod("two", "b", &["disk"]));
    pass(&cluster, "a");
    pass(&cluster, "b");
    forget(&cluster);
    answer(
        &cluster,
        "disk",
        "a",
        json!({"attachError": {"message": "no"}}),
    );
    advance(&cluster, 1);
    pass(&cluster, "a");
    assert_eq!(enqueued(&cluster), ["b"]);
    pass(&cluster, "b");
    assert_eq!(attachments(&cluster), ["a disk", "b disk"]);
}

#[test]
fn a_shared_volume_is_attached_to_several_nodes() {
    for modes in [
        &["ReadWriteMany"][..],
        &["ReadWriteOnce", "ReadOnlyMany"],
        &[],
    ] {
        let cluster = attached();
        cluster.put(volume("disk", modes));
        cluster.put(pod("late", "b", &["disk"]));
        pass(&cluster, "b");
        assert_eq!(attachments(&cluster), ["a disk", "b disk"]);
        assert!(cluster.events().is_empty());
    }
    let cluster = attached();
    cluster.put(volume("disk", &["ReadWriteOncePod"]));
    cluster.put(pod("late", "b", &["disk"]));
    pass(&cluster, "b");
    assert_eq!(attachments(&cluster), ["a disk"]);
}

#[test]
fn a_deleted_node_keeps_its_volume_until_its_time_is_over() {
    let cluster = contended();
    mount(&cluster, "a", &["disk"]);
    pass(&cluster, "a");
    delete_node(&cluster, "a");
    cluster.remove(POD, "team", "web");
    pass(&cluster, "b");
    assert_eq!(attachments(&cluster), ["a disk"]);
    assert_eq!(cluster.events().len(), 1);
    pass(&cluster, "a");
    advance(&cluster, 360);
    forget(&cluster);
    pass(&cluster, "a");
    pass_enqueued(&cluster);
    assert_eq!(attachments(&cluster), ["b disk"]);
}

#[test]
fn a_deleted_node_keeps_a_volume_without_an_attachment_too() {
    let mut disk = volume("disk", &["ReadWriteOnce"]);
    disk["spec"]["csi"] = Value::Null;
    disk["spec"]["fc"] = json!({"wwids": ["x"]});
    let cluster = Cluster::with([node("a"), node("b"), disk, claim("disk")]);
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    assert_eq!(reported(&cluster, "a"), ["kubernetes.io/fc/[x]"]);
    delete_node(&cluster, "a");
    pass(&cluster, "a");
    cluster.put(pod("late", "b", &["disk"]));
    pass(&cluster, "b");
    assert!(reported(&cluster, "b").is_empty());
    cluster.remove(POD, "team", "web");
    forget(&cluster);
    pass(&cluster, "a");
    pass_enqueued(&cluster);
    assert_eq!(reported(&cluster, "b").len(), 1);
}

#[test]
fn two_volumes_with_one_handle_are_one_volume() {
    let cluster = attached();
    let mut twin = volume("twin", &["ReadWriteOnce"]);
    twin["spec"]["csi"]["volumeHandle"] = "disk".into();
    twin["spec"]["claimRef"]["namespace"] = "other".into();
    cluster.put(twin);
    let mut claim = claim("twin");
    claim["metadata"]["namespace"] = "other".into();
    cluster.put(claim);
    let mut foreign = pod("foreign", "b", &["twin"]);
    foreign["metadata"]["namespace"] = "other".into();
    cluster.put(foreign);
    pass(&cluster, "b");
    assert_eq!(attachments(&cluster), ["a disk"]);
    let text = "Volume is already used by 1 pod(s) in different namespaces";
    let expected =
        format!("Warning FailedAttachVolume Waiting for detach for volume \"twin\" {text}");
    assert_eq!(cluster.events(), [expected]);
}
