//! The ways from a pod to its volumes.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

fn passes_without_writes(cluster: &Cluster) {
    pass(cluster, "a");
    assert!(written(cluster).is_empty());
}

#[test]
fn a_claim_counts_once_it_is_bound_and_the_volume_agrees() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    cluster.edit(PVC, "team", "disk", |claim| {
        claim["status"]["phase"] = "Pending".into()
    });
    passes_without_writes(&cluster);
    cluster.edit(PVC, "team", "disk", |claim| {
        claim["status"]["phase"] = "Bound".into()
    });
    cluster.edit(PV, "", "disk", |volume| {
        volume["spec"]["claimRef"]["uid"] = "another".into();
    });
    passes_without_writes(&cluster);
    cluster.edit(PV, "", "disk", |volume| {
        volume["spec"]["claimRef"] = Value::Null
    });
    passes_without_writes(&cluster);
    cluster.put(volume("disk", &["ReadWriteOnce"]));
    pass(&cluster, "a");
    assert_eq!(attachments(&cluster), ["a disk"]);
}

#[test]
fn an_ephemeral_claim_counts_if_the_pod_owns_it() {
    let cluster = Cluster::with([node("a"), volume("web-cache", &["ReadWriteOnce"])]);
    let mut claim = claim("web-cache");
    cluster.put(claim.clone());
    let mut owner = pod("web", "a", &[]);
    owner["metadata"]["uid"] = "uid-of-web".into();
    owner["spec"]["volumes"] = json!([{"name": "cache", "ephemeral": {
        "volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem"}}}}]);
    cluster.put(owner);
    passes_without_writes(&cluster);
    claim["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-of-web", "controller": true}]);
    cluster.put(claim);
    assert_eq!(woken_by_claim(&cluster, "team/web-cache"), ["a"]);
    pass(&cluster, "a");
    assert_eq!(attachments(&cluster), ["a web-cache"]);
}

#[test]
fn a_volume_stays_while_its_pod_is_there_even_if_the_claim_has_lost_it() {
    let losses: [fn(&Cluster); 4] = [
        |cluster| cluster.remove(PVC, "team", "disk"),
        |cluster| {
            cluster.edit(PVC, "team", "disk", |claim| {
                claim["status"]["phase"] = "Lost".into();
            });
        },
        |cluster| cluster.remove(PV, "", "disk"),
        |cluster| {
            cluster.edit(PV, "", "disk", |volume| {
                volume["spec"]["claimRef"] = Value::Null;
            });
        },
    ];
    for lose in losses {
        let cluster = attached();
        lose(&cluster);
        passes_without_writes(&cluster);
        restart(&cluster, &["a"], &["disk"]);
        passes_without_writes(&cluster);
        cluster.remove(POD, "team", "web");
        pass(&cluster, "a");
        assert!(attachments(&cluster).is_empty());
    }
}

#[test]
fn a_node_that_is_not_managed_any_more_keeps_the_volumes_of_its_pods() {
    let cluster = attached();
    cluster.edit(NODE, "", "a", |node| {
        node["metadata"]["annotations"] = json!({})
    });
    passes_without_writes(&cluster);
    cluster.remove(POD, "team", "web");
    pass(&cluster, "a");
    assert!(attachments(&cluster).is_empty());
}
