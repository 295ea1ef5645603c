//! Volumes that are attached.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{delta, refusal};

use super::world::*;
use crate::AttachDetach;

const SUCCESS: &str =
    "Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"disk\" ";

fn failure(error: &str) -> String {
    format!("Warning FailedAttachVolume AttachVolume.Attach failed for volume \"disk\" : {error}")
}

#[test]
fn a_volume_is_attached_by_a_volume_attachment_and_then_reported() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_secs(120))
    );
    let name = attachment_name("disk", "a");
    assert_eq!(name.len(), 4 + 64);
    let attachment = cluster.object(ATTACHMENT, "", &name).unwrap();
    assert_eq!(
        attachment["spec"],
        json!({"attacher": DRIVER, "nodeName": "a", "source": {"persistentVolumeName": "disk"}})
    );
    assert_eq!(written(&cluster), ["create VolumeAttachment"]);
    pass(&cluster, "a");
    assert!(cluster.events().is_empty() && reported(&cluster, "a").is_empty());

    answer(&cluster, "disk", "a", json!({"attached": true}));
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    assert_eq!(written(&cluster), ["patch v1/Node/status a"]);
    assert_eq!(reported(&cluster, "a"), [unique("disk")]);
    let node = cluster.object(NODE, "", "a").unwrap();
    assert_eq!(node["status"]["volumesAttached"][0]["devicePath"], "");
    let events = cluster.recorded_events();
    assert_eq!(events[0].to_string(), SUCCESS);
    assert_eq!(events[0].about.name, "web");
    assert!(!events[0].about.resource_version.is_empty());
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    assert!(written(&cluster).is_empty() && cluster.events().is_empty());
}

#[test]
fn all_pods_of_a_volume_have_the_event_and_share_the_attachment() {
    let cluster = cluster();
    cluster.put(pod("db", "a", &["disk"]));
    cluster.put(pod("web", "a", &["disk", "disk"]));
    pass(&cluster, "a");
    answer(&cluster, "disk", "a", json!({"attached": true}));
    pass(&cluster, "a");
    assert_eq!(written(&cluster).len(), 2);
    let about: Vec<String> = { cluster.recorded_events().into_iter() }
        .map(|event| event.about.name)
        .collect();
    assert_eq!(about, ["db", "web"]);
}

#[test]
fn the_pods_that_were_there_when_the_attachment_began_have_the_event() {
    let cluster = cluster();
    cluster.put(pod("first", "a", &["disk"]));
    pass(&cluster, "a");
    cluster.put(pod("second", "a", &["disk"]));
    cluster.remove(POD, "team", "first");
    answer(&cluster, "disk", "a", json!({"attached": true}));
    pass(&cluster, "a");
    let events = cluster.recorded_events();
    assert_eq!((events.len(), &*events[0].about.name), (1, "first"));
}

#[test]
fn nothing_is_attached_for_pods_that_have_ended_or_at_nodes_that_are_not_managed() {
    let cluster = cluster();
    let mut unmanaged = node("c");
    unmanaged["metadata"]["annotations"] = json!({});
    cluster.put(unmanaged);
    cluster.put(pod("unmanaged", "c", &["disk"]));
    cluster.put(pod("nowhere", "missing", &["disk"]));
    let mut ended = pod("ended", "a", &["disk"]);
    ended["status"]["phase"] = "Succeeded".into();
    cluster.put(ended);
    let mut stopped = pod("stopped", "a", &["disk"]);
    stopped["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    stopped["status"]["containerStatuses"] = json!([{"state": {"terminated": {"exitCode": 0}}}]);
    cluster.put(stopped);
    for node in ["a", "c", "missing"] {
        assert_eq!(pass(&cluster, node), Outcome::Done);
    }
    assert!(written(&cluster).is_empty());

    let mut stopping = pod("stopping", "a", &["disk"]);
    stopping["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    stopping["status"]["containerStatuses"] = json!([{"state": {"running": {}}}]);
    cluster.put(stopping);
    pass(&cluster, "a");
    assert_eq!(written(&cluster), ["create VolumeAttachment"]);
}

#[test]
fn a_refused_creation_is_reported_and_tried_again_with_backoff() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    let mut expected = Duration::from_millis(500);
    for _ in 0..3 {
        cluster.fail("create", ATTACHMENT, refusal(403, "Forbidden"));
        assert_eq!(pass(&cluster, "a"), Outcome::RequeueAfter(expected));
        let error = "kubernetes.io/csi: attacher.Attach failed: the test refuses this: Forbidden";
        assert_eq!(cluster.events(), [failure(error)]);
        // Too early.
        pass(&cluster, "a");
        assert_eq!(written(&cluster).len(), 1);
        cluster.advance(expected);
        expected *= 2;
    }
    pass(&cluster, "a");
    assert_eq!(attachments(&cluster), ["a disk"]);
}

#[test]
fn an_attachment_that_exists_already_is_waited_for() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    cluster.fail("create", ATTACHMENT, refusal(409, "AlreadyExists"));
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_secs(120))
    );
    assert!(cluster.events().is_empty());
}

#[test]
fn an_attachers_error_is_reported_and_it_has_a_moment_to_correct_it() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    answer(
        &cluster,
        "disk",
        "a",
        json!({"attached": false, "attachError": {"message": "no room"}}),
    );
    let half = Duration::from_millis(500);
    assert_eq!(pass(&cluster, "a"), Outcome::RequeueAfter(half));
    assert!(cluster.events().is_empty());
    cluster.advance(half);
    assert_eq!(pass(&cluster, "a"), Outcome::RequeueAfter(half));
    assert_eq!(cluster.events(), [failure("no room")]);

    // The next operation finds the same error, and then a success.
    cluster.advance(half);
    assert_eq!(pass(&cluster, "a"), Outcome::RequeueAfter(half));
    assert!(cluster.events().is_empty());
    answer(&cluster, "disk", "a", json!({"attached": true}));
    pass(&cluster, "a");
    assert_eq!(cluster.events(), [SUCCESS]);
    assert_eq!(
        written(&cluster),
        ["create VolumeAttachment", "patch v1/Node/status a"]
    );
}

#[test]
fn an_attacher_that_does_not_answer_is_reported_after_two_minutes() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    advance(&cluster, 119);
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_secs(1))
    );
    advance(&cluster, 1);
    pass(&cluster, "a");
    let error = format!(
        "timed out waiting for external-attacher of {DRIVER} CSI driver to attach volume disk"
    );
    assert_eq!(cluster.events(), [failure(&error)]);
    assert_eq!(attachments(&cluster), ["a disk"]);
}

#[test]
fn an_attachment_that_is_being_deleted_fails_and_is_created_again_later() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    hold(&cluster, "disk", "a");
    cluster.delete(ATTACHMENT, "", &attachment_name("disk", "a"));
    advance(&cluster, 1);
    pass(&cluster, "a");
    assert_eq!(
        cluster.events(),
        [failure("volume attachment is being deleted")]
    );
    release(&cluster, "disk", "a");
    forget(&cluster);
    advance(&cluster, 1);
    pass(&cluster, "a");
    assert_eq!(written(&cluster), ["create VolumeAttachment"]);
}

#[test]
fn a_status_that_can_not_be_written_is_tried_again_and_the_event_comes_once() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    answer(&cluster, "disk", "a", json!({"attached": true}));
    for _ in 0..2 {
        cluster.fail("patch", "v1/Node/status", refusal(500, "InternalError"));
        assert_eq!(
            pass(&cluster, "a"),
            Outcome::RequeueAfter(Duration::from_millis(100))
        );
        assert!(cluster.events().is_empty());
    }
    pass(&cluster, "a");
    assert_eq!(cluster.events(), [SUCCESS]);
    assert_eq!(reported(&cluster, "a"), [unique("disk")]);
}

#[test]
fn an_overwritten_status_is_left_alone_until_the_next_change() {
    let cluster = attached();
    cluster.edit(NODE, "", "a", |node| {
        node["status"]["volumesAttached"] = json!([]);
    });
    assert_eq!(pass(&cluster, "a"), Outcome::Done);
    assert!(written(&cluster).is_empty() && cluster.events().is_empty());
    cluster.put(volume("more", &["ReadWriteOnce"]));
    cluster.put(claim("more"));
    cluster.put(pod("other", "a", &["more"]));
    pass(&cluster, "a");
    answer(&cluster, "more", "a", json!({"attached": true}));
    pass(&cluster, "a");
    assert_eq!(reported(&cluster, "a"), [unique("disk"), unique("more")]);
}

#[test]
fn a_node_that_is_created_again_gets_its_volumes_into_its_status() {
    let cluster = attached();
    delete_node(&cluster, "a");
    pass(&cluster, "a");
    cluster.put(node("a"));
    pass(&cluster, "a");
    assert_eq!(reported(&cluster, "a"), [unique("disk")]);
    assert_eq!(written(&cluster), ["patch v1/Node/status a"]);
    assert!(cluster.events().is_empty());
}

#[test]
fn claims_and_volumes_wake_the_nodes_of_active_pods() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    let mut ended = pod("ended", "b", &["disk"]);
    ended["status"]["phase"] = "Failed".into();
    cluster.put(ended);
    assert_eq!(woken_by_claim(&cluster, "team/disk"), ["a"]);
    cluster.edit(PVC, "team", "disk", |claim| {
        claim["status"]["phase"] = "Lost".into()
    });
    assert!(woken_by_claim(&cluster, "team/disk").is_empty());
    assert!(woken_by_claim(&cluster, "team/missing").is_empty());

    let claim = claim("disk");
    let volume = volume("disk", &["ReadWriteOnce"]);
    let mut available = volume.clone();
    available["spec"]["claimRef"] = Value::Null;
    let mut initial = delta(PVC, None, Some(&claim));
    initial.initial = true;
    let deltas = [
        delta(PVC, Some(&claim), Some(&claim)),
        delta(PV, None, Some(&volume)),
        delta(PV, Some(&volume), Some(&available)),
    ];
    assert!(
        cluster
            .route::<AttachDetach>(&[initial])
            .unwrap()
            .is_empty()
    );
    let routed = cluster.route::<AttachDetach>(&deltas).unwrap();
    assert_eq!(routed.len(), 1);
    assert_eq!(
        (&*routed[0].queue, routed[0].key.to_string()),
        ("pvcs", "team/disk".into())
    );
}
