//! The volumes that are compared.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

/// Whether two pods with different labels conflict, given these objects.
fn conflict(objects: impl IntoIterator<Item = Value>) -> bool {
    let cluster = Cluster::with(objects);
    let keys: Vec<String> = cluster
        .objects(POD)
        .iter()
        .map(|pod| {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
            format!("{}/{}", text("namespace"), text("name"))
        })
        .collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    !sync(&cluster, &keys).is_empty()
}

fn two_pods() -> [Value; 2] {
    [pod("a", "s0:c1"), pod("b", "s0:c2")]
}

/// Two pods with a volume of this source in their specs.
fn inline(field: &str, source: Value) -> [Value; 2] {
    let volumes = json!([{"name": "data", field: source}]);
    two_pods().map(|pod| with(pod, "/spec/volumes", volumes.clone()))
}

#[test]
fn a_csi_volume_is_compared_if_its_driver_supports_labels() {
    let disk = || [claim("pv-1"), csi("pv-1")].into_iter().chain(two_pods());
    assert!(conflict(disk().chain([driver(true)])));
    assert!(!conflict(disk().chain([driver(false)])));
    assert!(!conflict(disk()));
    let undecided = with(driver(true), "/spec", json!({}));
    assert!(!conflict(disk().chain([undecided])));
}

#[test]
fn volumes_of_iscsi_and_fibre_channel_are_compared_and_others_are_not() {
    let iscsi =
        json!({"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2026-01.com.example:a", "lun": 0});
    let fc = json!({"targetWWNs": ["500a"], "lun": 1});
    for (field, source, expected) in [
        ("iscsi", iscsi, true),
        ("fc", fc, true),
        ("nfs", json!({"server": "nfs", "path": "/"}), false),
        ("hostPath", json!({"path": "/data"}), false),
        ("flexVolume", json!({"driver": "example.com/flex"}), false),
    ] {
        let persistent = [claim("pv-1"), volume("pv-1", field, source.clone())];
        let pods = persistent.into_iter().chain(two_pods());
        assert_eq!(conflict(pods), expected, "{field}");
        assert_eq!(conflict(inline(field, source)), expected, "inline {field}");
    }
}

#[test]
fn volumes_of_a_migrated_kind_are_those_of_the_driver() {
    let ebs = json!({"volumeID": "aws://us-east-1a/vol-1"});
    let driver = || with(driver(true), "/metadata/name", "ebs.csi.aws.com");
    let persistent = [
        claim("pv-1"),
        volume("pv-1", "awsElasticBlockStore", ebs.clone()),
        driver(),
    ];
    assert!(conflict(persistent.into_iter().chain(two_pods())));
    let inline = inline("awsElasticBlockStore", ebs);
    assert!(conflict(inline.into_iter().chain([driver()])));
    // One that can't be translated.
    let shared = json!({"diskName": "a", "diskURI": "b", "kind": "Shared"});
    let odd = [claim("pv-1"), volume("pv-1", "azureDisk", shared)];
    assert!(!conflict(odd.into_iter().chain(two_pods())));
}

#[test]
fn two_volumes_with_one_disk_are_one_volume() {
    let second = [
        in_namespace("other", with(claim("pv-2"), "/metadata/uid", "uid-2")),
        with(csi("pv-2"), "/spec/claimRef/uid", "uid-2"),
        in_namespace("other", pod("b", "s0:c2")),
    ];
    let cluster = cluster([pod("a", "s0:c1")]);
    second.into_iter().for_each(|object| cluster.put(object));
    assert_eq!(
        sync(&cluster, &["team/a", "other/b"]),
        label_conflict("b", "a")
    );
    // The drivers' names are part of the disk's.
    let elsewhere = json!({"driver": "other.example.com", "volumeHandle": "disk-1"});
    cluster.put(with(
        volume("pv-2", "csi", elsewhere),
        "/spec/claimRef/uid",
        "uid-2",
    ));
    cluster.put(in_namespace("other", pod("c", "s0:c3")));
    assert!(sync(&cluster, &["other/c"]).is_empty());
}

#[test]
fn an_ephemeral_volume_is_compared_if_its_claim_belongs_to_the_pod() {
    let ephemeral = |pod: Value| {
        let template = json!({"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem"}}});
        let volumes = json!([{"name": "data", "ephemeral": template}]);
        with(pod, "/spec/volumes", volumes)
    };
    let owner = |uid: &str| json!([{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": uid, "controller": true}]);
    for (uid, expected) in [("uid-a", true), ("another", false)] {
        let claim = with(claim("pv-1"), "/metadata/name", "a-data");
        let claim = with(claim, "/metadata/ownerReferences", owner(uid));
        let named = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "a-data"}}]);
        let objects = [
            ephemeral(pod("a", "s0:c1")),
            with(pod("b", "s0:c2"), "/spec/volumes", named),
            claim,
            csi("pv-1"),
            driver(true),
        ];
        assert_eq!(conflict(objects), expected, "{uid}");
    }
}

#[test]
fn a_volume_that_is_not_bound_completely_is_left_out() {
    let unbound = with(claim("pv-1"), "/status/phase", "Pending");
    let mut free = csi("pv-1");
    free["spec"]["claimRef"] = Value::Null;
    for (claim, volume) in [
        (unbound, csi("pv-1")),
        (claim(""), csi("pv-1")),
        (claim("pv-2"), csi("pv-1")),
        (claim("pv-1"), free),
        (
            claim("pv-1"),
            with(csi("pv-1"), "/spec/claimRef/uid", "another"),
        ),
    ] {
        let objects = [claim, volume, driver(true)];
        assert!(!conflict(objects.into_iter().chain(two_pods())));
    }
    assert!(!conflict(two_pods()));
}

#[test]
fn a_recursive_policy_stands_for_no_label() {
    // Both relabel the files: whichever is the last wins, but no pod is stuck.
    let cluster = cluster([
        recursive(pod("a", "s0:c1")),
        recursive(pod("b", "s0:c2")),
        pod("c", "s0:c3"),
        pod("d", ""),
    ]);
    assert!(sync(&cluster, &["team/a", "team/b", "team/d"]).is_empty());
    let events = sync(&cluster, &["team/c"]);
    // The policies and the labels of `c` and each of the others, in both directions.
    assert_eq!(events.len(), 12);
    assert_eq!(events[0], "c SELinuxChangePolicyConflict");
}
