//! Volumes that are detached.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::memory::Standing;

fn standing(cluster: &flyball_sdk::testing::Cluster) -> Option<Standing> {
    let memory = memory(cluster, "a");
    memory
        .volumes
        .get(&unique("disk"))
        .map(|held| held.standing)
}

#[test]
fn a_volume_leaves_the_status_before_it_is_detached() {
    let cluster = attached();
    cluster.remove(POD, "team", "web");
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    assert_eq!(
        written(&cluster),
        ["patch v1/Node/status a", "delete VolumeAttachment"]
    );
    assert_eq!(cluster.live_reads(), ["get v1/Node a"]);
    let node = cluster.object(NODE, "", "a").unwrap();
    assert_eq!(node["status"].get("volumesAttached"), None);
    assert!(attachments(&cluster).is_empty() && cluster.events().is_empty());
    assert_eq!(standing(&cluster), None);
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    assert!(written(&cluster).is_empty());
}

#[test]
fn a_volume_stays_while_a_pod_that_is_being_deleted_still_runs() {
    let cluster = attached();
    cluster.edit(POD, "team", "web", |pod| {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        pod["status"]["containerStatuses"] = json!([{"state": {"running": {}}}]);
    });
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    assert!(written(&cluster).is_empty());
    cluster.edit(POD, "team", "web", |pod| {
        pod["status"]["containerStatuses"] = json!([{"state": {"terminated": {"exitCode": 0}}}]);
    });
    pass(&cluster, "a");
    assert_eq!(written(&cluster).len(), 2);
}

#[test]
fn a_mounted_volume_waits_for_the_unmount_on_a_ready_node_for_ever() {
    let cluster = attached();
    mount(&cluster, "a", &["disk"]);
    cluster.remove(POD, "team", "web");
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_secs(360))
    );
    advance(&cluster, 360);
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    advance(&cluster, 100_000);
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    assert!(written(&cluster).is_empty());
    mount(&cluster, "a", &[]);
    pass(&cluster, "a");
    assert_eq!(
        written(&cluster),
        ["patch v1/Node/status a", "delete VolumeAttachment"]
    );
}

#[test]
fn a_volume_that_the_node_has_begun_to_use_meanwhile_is_not_detached() {
    let cluster = attached();
    cluster.remove(POD, "team", "web");
    let mut live = cluster.object(NODE, "", "a").unwrap();
    live["status"]["volumesInUse"] = json!([unique("disk")]);
    cluster.put_live(live);
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_millis(500))
    );
    assert_eq!(written(&cluster), ["patch v1/Node/status a"]);
    assert_eq!(standing(&cluster), Some(Standing::Uncertain));
    assert!(cluster.events().is_empty());
    // The pod comes back, and the volume is attached again.
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    assert_eq!(reported(&cluster, "a"), [unique("disk")]);
    assert_eq!(cluster.events().len(), 1);
}

#[test]
fn a_status_that_can_not_be_written_keeps_the_volume_attached() {
    let cluster = attached();
    cluster.remove(POD, "team", "web");
    cluster.fail("patch", "v1/Node/status", refusal(500, "InternalError"));
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_millis(100))
    );
    assert_eq!(standing(&cluster), Some(Standing::Attached));
    assert_eq!(attachments(&cluster), ["a disk"]);
    cluster.put(pod("web", "a", &["disk"]));
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    assert_eq!(reported(&cluster, "a"), [unique("disk")]);
}

#[test]
fn a_node_that_can_not_be_read_keeps_the_volume() {
    let cluster = attached();
    cluster.remove(POD, "team", "web");
    cluster.fail("get", NODE, refusal(500, "InternalError"));
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_millis(500))
    );
    assert_eq!(attachments(&cluster), ["a disk"]);
    advance(&cluster, 1);
    pass(&cluster, "a");
    assert!(attachments(&cluster).is_empty());
}

#[test]
fn a_detachment_has_ended_once_the_volume_attachment_is_gone() {
    let cluster = attached();
    hold(&cluster, "disk", "a");
    cluster.remove(POD, "team", "web");
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_secs(120))
    );
    assert_eq!(standing(&cluster), Some(Standing::Detaching));
    // A pod that comes back has to wait.
    cluster.put(pod("web", "a", &["disk"]));
    forget(&cluster);
    pass(&cluster, "a");
    assert!(written(&cluster).is_empty());
    release(&cluster, "disk", "a");
    assert_eq!(pass(&cluster, "a"), Outcome::RequeueAfter(Duration::ZERO));
    pass(&cluster, "a");
    assert_eq!(written(&cluster), ["create VolumeAttachment"]);
}

#[test]
fn a_failed_detachment_leaves_the_volume_uncertain_and_is_tried_again() {
    let cluster = attached();
    hold(&cluster, "disk", "a");
    cluster.remove(POD, "team", "web");
    pass(&cluster, "a");
    cluster.edit(
        ATTACHMENT,
        "",
        &attachment_name("disk", "a"),
        |attachment| {
            attachment["status"]["detachError"] = json!({"message": "busy"});
        },
    );
    let half = Duration::from_millis(500);
    assert_eq!(pass(&cluster, "a"), Outcome::RequeueAfter(half));
    cluster.advance(half);
    assert_eq!(pass(&cluster, "a"), Outcome::RequeueAfter(half));
    assert_eq!(standing(&cluster), Some(Standing::Uncertain));
    assert!(cluster.events().is_empty());
    forget(&cluster);
    cluster.advance(half);
    // It is being deleted already.
    assert_eq!(pass(&cluster, "a"), Outcome::RequeueAfter(half));
    assert!(written(&cluster).is_empty());
    release(&cluster, "disk", "a");
    pass(&cluster, "a");
    assert_eq!(standing(&cluster), None);
}

#[test]
fn an_attacher_that_does_not_detach_is_given_up_after_two_minutes() {
    let cluster = attached();
    hold(&cluster, "disk", "a");
    cluster.remove(POD, "team", "web");
    pass(&cluster, "a");
    advance(&cluster, 120);
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_millis(500))
    );
    assert_eq!(standing(&cluster), Some(Standing::Uncertain));
    let logged = cluster.logged();
    let expected =
        "timed out waiting for external-attacher of unknown CSI driver to detach volume disk";
    assert!(
        logged.iter().any(|(_, text)| text.contains(expected)),
        "{logged:?}"
    );
}

#[test]
fn a_refused_deletion_is_tried_again_and_a_missing_attachment_is_detached() {
    let cluster = attached();
    cluster.remove(POD, "team", "web");
    cluster.fail("delete", ATTACHMENT, refusal(500, "InternalError"));
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_millis(500))
    );
    assert_eq!(standing(&cluster), Some(Standing::Uncertain));
    release(&cluster, "disk", "a");
    advance(&cluster, 1);
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    assert_eq!(standing(&cluster), None);
}

#[test]
fn a_volume_of_a_pod_that_was_deleted_while_it_was_attached_is_detached_afterwards() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    cluster.remove(POD, "team", "web");
    // The operation goes on.
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_secs(120))
    );
    answer(&cluster, "disk", "a", json!({"attached": true}));
    assert_eq!(pass(&cluster, "a"), Outcome::RequeueAfter(Duration::ZERO));
    pass(&cluster, "a");
    assert!(attachments(&cluster).is_empty() && reported(&cluster, "a").is_empty());
}

#[test]
fn a_handle_may_have_the_separator_of_names() {
    let cluster = cluster();
    let mut odd = volume("odd", &["ReadWriteOnce"]);
    odd["spec"]["csi"]["volumeHandle"] = "a^b".into();
    cluster.put(odd);
    cluster.put(claim("odd"));
    cluster.put(pod("web", "a", &["odd"]));
    pass(&cluster, "a");
    answer(&cluster, "a^b", "a", json!({"attached": true}));
    pass(&cluster, "a");
    assert_eq!(reported(&cluster, "a"), [unique("a^b")]);
    cluster.remove(POD, "team", "web");
    pass(&cluster, "a");
    assert!(attachments(&cluster).is_empty());
}

#[test]
fn volumes_that_no_plugin_has_attached_stay_in_the_status() {
    let cluster = attached();
    restart(&cluster, &["a"], &["disk"]);
    cluster.edit(NODE, "", "a", |node| {
        let volumes = node["status"]["volumesAttached"].as_array_mut().unwrap();
        volumes.push(json!({"name": "example.com/flex/x", "devicePath": "/dev/x"}));
    });
    cluster.remove(POD, "team", "web");
    pass(&cluster, "a");
    assert_eq!(reported(&cluster, "a"), ["example.com/flex/x"]);
    assert!(attachments(&cluster).is_empty());
}
