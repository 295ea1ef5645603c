//! Bindings that end between two writes, old caches, and the races that they lead to.

use flyball_sdk::imports::Page;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;
use crate::describe::BY_PHASE;

const WRITES: [(&str, &str); 4] = [
    ("update", "v1/PersistentVolume"),
    ("update", "v1/PersistentVolume/status"),
    ("update", "v1/PersistentVolumeClaim"),
    ("update", "v1/PersistentVolumeClaim/status"),
];

/// The objects of a finished binding.
fn finished(cluster: &Cluster) -> [Value; 2] {
    let mut objects = [volume_of(cluster, "disk"), claim_of(cluster, "data")];
    for object in &mut objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|field, _| field == "annotations");
    }
    objects[0]["spec"]["claimRef"]["resourceVersion"] = Value::Null;
    objects
}

#[test]
fn each_interrupted_binding_is_finished_by_the_next_reconcile() {
    let expected = Cluster::with([volume("disk", "2Gi"), claim("data", "1Gi")]);
    sync_claim(&expected, "data");
    for (done, (verb, kind)) in WRITES.into_iter().enumerate() {
        for volume_first in [false, true] {
            let cluster = Cluster::with([volume("disk", "2Gi"), claim("data", "1Gi")]);
            cluster.fail(verb, kind, refusal(500, "InternalError"));
            try_claim(&cluster, "data").unwrap_err();
            assert_eq!(cluster.written().len(), done + 1);
            if volume_first {
                sync_volume(&cluster, "disk");
            }
            sync_claim(&cluster, "data");
            assert_eq!(
                finished(&cluster),
                finished(&expected),
                "after {done} writes"
            );
            assert!(sync_claim(&cluster, "data").is_empty());
            assert!(sync_volume(&cluster, "disk").is_empty());
        }
    }
}

#[test]
fn a_volume_that_changed_since_it_was_read_is_not_taken() {
    let cluster = Cluster::with([volume("disk", "2Gi"), claim("data", "1Gi")]);
    cluster.fail("update", PV, refusal(409, "Conflict"));
    assert!(!try_claim(&cluster, "data").unwrap_err().is_terminal());
    assert_eq!(chosen(&cluster, "data"), "");
}

#[test]
fn a_claim_is_not_written_if_an_old_cache_may_have_hidden_the_loss_of_its_volume() {
    // The cache has a volume with all that belongs to it, so that nothing proves that it is still so.
    let disk = bound_to(volume("disk", "2Gi"), "data");
    let cluster = Cluster::with([disk.clone(), claim("data", "1Gi")]);
    cluster.put_live(bound_to(volume("disk", "2Gi"), "other"));
    try_claim(&cluster, "data").unwrap_err();
    assert!(cluster.written().is_empty());
    assert_eq!(cluster.live_reads(), ["get v1/PersistentVolume disk"]);
    cluster.put_live(disk);
    assert_eq!(sync_claim(&cluster, "data").len(), 2);
}

#[test]
fn a_volume_that_another_claim_got_since_the_search_is_not_taken() {
    let taken = bound_to(volume("disk", "2Gi"), "other");
    let cluster = Cluster::with([taken, claim("data", "1Gi")]);
    // The search still finds the volume as it was before.
    cluster.set_lister(|query, _| {
        let row = json!([
            "disk",
            {},
            null,
            null,
            ["ReadWriteOnce"],
            "2Gi",
            null,
            "",
            "",
            "Filesystem",
            "Available"
        ]);
        let is_by_phase = query.indexes.iter().any(|(index, _)| index == BY_PHASE);
        let rows = if is_by_phase { json!([row]) } else { json!([]) };
        Page {
            items: rows.to_string().into_bytes(),
            rest: None,
        }
    });
    let error = try_claim(&cluster, "data").unwrap_err();
    assert_eq!(error.to_string(), "volume disk is no longer free");
    assert!(cluster.written().is_empty());
}

#[test]
fn two_claims_never_get_one_volume() {
    let cluster = Cluster::with([
        volume("disk", "2Gi"),
        claim("data", "1Gi"),
        claim("other", "1Gi"),
    ]);
    sync_claim(&cluster, "data");
    assert!(sync_claim(&cluster, "other").is_empty());
    assert_eq!(
        (chosen(&cluster, "data"), chosen(&cluster, "other")),
        ("disk".into(), String::new())
    );
}

#[test]
fn the_second_volume_of_a_claim_is_free_again() {
    let surplus = bound_to(volume("surplus", "2Gi"), "data");
    let [disk, data] = pair();
    let cluster = Cluster::with([disk, data, surplus]);
    assert_eq!(sync_volume(&cluster, "surplus").len(), 2);
    let surplus = volume_of(&cluster, "surplus");
    assert!(surplus["spec"]["claimRef"].is_null());
    assert!(surplus["metadata"]["annotations"][BY_CONTROLLER].is_null());
    assert_eq!(surplus["status"]["phase"], "Available");
}

#[test]
fn the_second_volume_of_a_claim_that_the_user_reserved_stays_reserved() {
    let surplus = with(
        volume("surplus", "2Gi"),
        "/spec/claimRef",
        reference("data"),
    );
    let [disk, data] = pair();
    let cluster = Cluster::with([disk, data, with(surplus, "/status/phase", "Bound")]);
    assert_eq!(sync_volume(&cluster, "surplus").len(), 2);
    let surplus = volume_of(&cluster, "surplus");
    assert_eq!(surplus["spec"]["claimRef"]["name"], "data");
    assert!(surplus["spec"]["claimRef"]["uid"].is_null());
    assert_eq!(surplus["status"]["phase"], "Available");
}

#[test]
fn an_interrupted_release_of_the_second_volume_is_finished() {
    let surplus = bound_to(volume("surplus", "2Gi"), "data");
    let [disk, data] = pair();
    let cluster = Cluster::with([disk, data, surplus]);
    cluster.fail(
        "update",
        "v1/PersistentVolume/status",
        refusal(500, "InternalError"),
    );
    try_volume(&cluster, "surplus").unwrap_err();
    sync_volume(&cluster, "surplus");
    assert_eq!(volume_phase(&cluster, "surplus"), "Available");
}
