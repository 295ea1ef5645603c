//! The comparison of attached volumes with their VolumeAttachments.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

#[test]
fn a_volume_whose_attachment_was_deleted_is_attached_again() {
    let cluster = attached();
    release(&cluster, "disk", "a");
    // Only the verification notices.
    pass(&cluster, "a");
    assert!(written(&cluster).is_empty());
    verify(&cluster);
    assert_eq!(cluster.live_reads().len(), 1);
    assert_eq!(enqueued(&cluster), ["a"]);
    pass(&cluster, "a");
    pass(&cluster, "a");
    assert_eq!(
        written(&cluster),
        ["patch v1/Node/status a", "create VolumeAttachment"]
    );
    answer(&cluster, "disk", "a", json!({"attached": true}));
    pass(&cluster, "a");
    assert_eq!(reported(&cluster, "a"), [unique("disk")]);
}

#[test]
fn a_volume_that_an_attacher_has_lost_is_not_reported() {
    let cluster = attached();
    answer(&cluster, "disk", "a", json!({"attached": false}));
    verify(&cluster);
    assert!(cluster.live_reads().is_empty());
    pass_enqueued(&cluster);
    assert!(reported(&cluster, "a").is_empty());
}

#[test]
fn a_volume_that_is_attached_by_the_api_server_or_about_which_it_does_not_answer_stays() {
    let cluster = attached();
    let live = cluster.objects(ATTACHMENT).remove(0);
    release(&cluster, "disk", "a");
    cluster.put_live(live);
    verify(&cluster);
    cluster.fail("get", ATTACHMENT, refusal(500, "InternalError"));
    verify(&cluster);
    assert!(enqueued(&cluster).is_empty());
}

#[test]
fn a_status_that_can_not_be_written_is_corrected_later() {
    let cluster = attached();
    release(&cluster, "disk", "a");
    cluster.remove(POD, "team", "web");
    verify(&cluster);
    cluster.fail("patch", "v1/Node/status", refusal(500, "InternalError"));
    pass(&cluster, "a");
    assert_eq!(reported(&cluster, "a"), [unique("disk")]);
    pass(&cluster, "a");
    assert!(reported(&cluster, "a").is_empty());
    assert_eq!(attachments(&cluster).len(), 0);
}

#[test]
fn nothing_is_verified_if_the_flags_say_so_or_the_driver_needs_no_attachment() {
    let cluster = attached();
    release(&cluster, "disk", "a");
    for (key, value, initial) in [
        ("disable-attach-detach-reconcile-sync", "true", "false"),
        ("attach-detach-reconcile-sync-period", "999ms", "1s"),
    ] {
        cluster.set_config(key, value);
        verify(&cluster);
        assert!(enqueued(&cluster).is_empty());
        cluster.set_config(key, initial);
    }
    cluster.put(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
        "spec": {"attachRequired": false},
    }));
    verify(&cluster);
    assert!(enqueued(&cluster).is_empty());
}
