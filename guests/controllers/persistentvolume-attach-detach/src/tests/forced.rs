//! Volumes that are detached although their nodes may use them, and those that are not.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;
use crate::metrics::FORCED;

/// A cluster whose node `a` uses the volume of a pod that is gone.
fn unused() -> Cluster {
    let cluster = attached();
    mount(&cluster, "a", &["disk"]);
    cluster.remove(POD, "team", "web");
    pass(&cluster, "a");
    forget(&cluster);
    cluster
}

fn set_out_of_service(cluster: &Cluster) {
    cluster.edit(NODE, "", "a", |node| {
        node["spec"]["taints"] =
            json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
    });
}

/// The reasons that were counted.
fn forced(cluster: &Cluster) -> Vec<String> {
    let metrics = cluster.metrics().into_iter();
    metrics
        .filter(|(_, name, ..)| name == FORCED)
        .map(|(_, _, labels, _)| labels.join(","))
        .collect()
}

#[test]
fn a_node_that_is_not_ready_loses_its_volume_after_six_minutes() {
    let cluster = unused();
    set_ready(&cluster, "a", false);
    advance(&cluster, 359);
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_secs(1))
    );
    assert!(written(&cluster).is_empty());
    advance(&cluster, 1);
    pass(&cluster, "a");
    assert_eq!(
        written(&cluster),
        ["patch v1/Node/status a", "delete VolumeAttachment"]
    );
    assert_eq!(forced(&cluster), ["timeout"]);
}

#[test]
fn the_time_counts_from_the_end_of_the_last_pod() {
    let cluster = unused();
    advance(&cluster, 1000);
    pass(&cluster, "a");
    assert!(written(&cluster).is_empty());
    set_ready(&cluster, "a", false);
    pass(&cluster, "a");
    assert_eq!(forced(&cluster), ["timeout"]);
}

#[test]
fn a_pod_that_comes_back_ends_the_time() {
    let cluster = unused();
    set_ready(&cluster, "a", false);
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    advance(&cluster, 1000);
    cluster.remove(POD, "team", "web");
    pass(&cluster, "a");
    advance(&cluster, 359);
    pass(&cluster, "a");
    assert!(written(&cluster).is_empty());
}

#[test]
fn a_step_of_the_wall_clock_does_not_end_the_time() {
    let cluster = unused();
    set_ready(&cluster, "a", false);
    // The host drops the entry of the memo by another clock. The test cluster has one clock, so the entry is put again.
    advance(&cluster, 400);
    let key = format!("unmounting/a/{}", unique("disk"));
    let memo = |cluster: &Cluster| {
        let host = cluster.host();
        host.memo().put(&key, &true, "", Duration::ZERO).unwrap();
    };
    memo(&cluster);
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_secs(1))
    );
    assert!(written(&cluster).is_empty());
}

#[test]
fn the_flag_keeps_volumes_attached_to_nodes_that_are_not_ready() {
    let cluster = unused();
    cluster.set_config("disable-force-detach-on-timeout", "true");
    set_ready(&cluster, "a", false);
    advance(&cluster, 1000);
    pass(&cluster, "a");
    assert!(written(&cluster).is_empty());
    set_out_of_service(&cluster);
    pass(&cluster, "a");
    assert_eq!(forced(&cluster), ["out-of-service"]);
}

#[test]
fn the_taint_of_a_node_that_was_shut_down_detaches_at_once() {
    let cluster = unused();
    set_out_of_service(&cluster);
    pass(&cluster, "a");
    assert_eq!(
        written(&cluster),
        ["patch v1/Node/status a", "delete VolumeAttachment"]
    );
    assert_eq!(forced(&cluster), ["out-of-service"]);
}

#[test]
fn a_node_that_the_api_server_says_is_ready_again_keeps_what_it_uses() {
    let cluster = unused();
    cluster.put_live(cluster.object(NODE, "", "a").unwrap());
    set_ready(&cluster, "a", false);
    advance(&cluster, 360);
    pass(&cluster, "a");
    assert_eq!(written(&cluster), ["patch v1/Node/status a"]);
    assert!(forced(&cluster).is_empty());
    assert_eq!(attachments(&cluster), ["a disk"]);
}

#[test]
fn a_deleted_node_that_did_not_use_a_volume_loses_it_at_once() {
    let cluster = attached();
    delete_node(&cluster, "a");
    pass(&cluster, "a");
    // The pod is there until the garbage collector of pods deletes it.
    assert!(written(&cluster).is_empty());
    cluster.remove(POD, "team", "web");
    pass(&cluster, "a");
    assert_eq!(written(&cluster), ["delete VolumeAttachment"]);
    assert!(forced(&cluster).is_empty());
}

#[test]
fn a_deleted_node_that_used_a_volume_loses_it_after_six_minutes() {
    let cluster = attached();
    mount(&cluster, "a", &["disk"]);
    pass(&cluster, "a");
    delete_node(&cluster, "a");
    cluster.remove(POD, "team", "web");
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_secs(360))
    );
    // Whether a node that is not known used it is not known either.
    restart(&cluster, &["a"], &["disk"]);
    advance(&cluster, 360);
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_secs(360))
    );
    assert!(written(&cluster).is_empty());
    advance(&cluster, 360);
    pass(&cluster, "a");
    assert_eq!(written(&cluster), ["delete VolumeAttachment"]);
    assert_eq!(forced(&cluster), ["timeout"]);
}

#[test]
fn a_configured_time_is_used() {
    let cluster = attached();
    cluster.set_config("max-wait-for-unmount", "6s");
    mount(&cluster, "a", &["disk"]);
    set_ready(&cluster, "a", false);
    cluster.remove(POD, "team", "web");
    assert_eq!(
        pass(&cluster, "a"),
        Outcome::RequeueAfter(Duration::from_secs(6))
    );
    advance(&cluster, 6);
    pass(&cluster, "a");
    assert_eq!(forced(&cluster), ["timeout"]);
}
