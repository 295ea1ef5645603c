//! Reservations for pods that are on a node.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

const RESERVE: &str = "update resource.k8s.io/v1/ResourceClaim/status team/gpu";

fn consumers(cluster: &Cluster) -> Value {
    cluster.object(CLAIM, "team", "gpu").unwrap()["status"]["reservedFor"].clone()
}

#[test]
fn an_allocated_claim_is_reserved_for_a_pod_on_a_node() {
    let cluster = Cluster::with([
        allocated(claim("gpu")),
        on_node(pod("web", &[existing("gpu")])),
    ]);
    assert_eq!(sync_web(&cluster), [RESERVE]);
    assert_eq!(consumers(&cluster), json!([consumer("web")]));
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
}

#[test]
fn a_reservation_keeps_the_other_fields_of_the_status() {
    let unknown = with(
        allocated(claim("gpu")),
        "/status/addedLater",
        json!({"a": 1}),
    );
    let shared = reserved(unknown, &[consumer("db")]);
    let cluster = Cluster::with([shared, on_node(pod("web", &[existing("gpu")]))]);
    sync_web(&cluster);
    let status = &cluster.object(CLAIM, "team", "gpu").unwrap()["status"];
    assert_eq!(
        *status,
        json!({"reservedFor": [consumer("db"), consumer("web")], "addedLater": {"a": 1},
               "allocation": {"devices": {"results": []}}})
    );
}

#[test]
fn claims_of_pods_without_a_node_and_claims_without_an_allocation_are_not_reserved() {
    let cluster = Cluster::with([allocated(claim("gpu")), pod("web", &[existing("gpu")])]);
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
    let cluster = Cluster::with([claim("gpu"), on_node(pod("web", &[existing("gpu")]))]);
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
}

/// kubernetes/kubernetes#141274: kube-controller-manager reserves the claim again, and releases it again.
#[test]
fn a_claim_that_others_use_is_not_reserved_for_a_pod_that_has_ended() {
    for phase in ["Succeeded", "Failed"] {
        let ended = with(
            on_node(pod("web", &[existing("gpu")])),
            "/status/phase",
            phase,
        );
        let shared = reserved(allocated(claim("gpu")), &[consumer("db")]);
        let cluster = Cluster::with([shared, ended]);
        assert_eq!(sync_web(&cluster), Vec::<String>::new());
    }
}

#[test]
fn a_generated_claim_is_reserved_if_the_pod_owns_it() {
    let web = on_node(pod("web", &[from_template("gpu")]));
    let cluster = Cluster::with([
        plain("gpu"),
        allocated(claim_of("gpu", "web", "gpu")),
        recorded(web, &[("gpu", "gpu")]),
    ]);
    assert_eq!(sync_web(&cluster), [RESERVE]);
}

#[test]
fn a_claim_that_was_just_found_is_reserved_at_once() {
    let web = on_node(pod("web", &[from_template("gpu")]));
    let cluster = Cluster::with([plain("gpu"), allocated(claim_of("gpu", "web", "gpu")), web]);
    assert_eq!(
        sync_web(&cluster),
        ["patch v1/Pod/status team/web", RESERVE]
    );
}

#[test]
fn a_missing_claim_is_waited_for() {
    let claims = [existing("lost"), existing("gpu")];
    let cluster = Cluster::with([allocated(claim("gpu")), on_node(pod("web", &claims))]);
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
    cluster.put(claim("lost"));
    assert_eq!(sync_web(&cluster), [RESERVE]);
}

#[test]
fn a_changed_claim_is_tried_again() {
    let cluster = Cluster::with([
        allocated(claim("gpu")),
        on_node(pod("web", &[existing("gpu")])),
    ]);
    let conflict = refusal(409, "Conflict");
    cluster.fail("update", &format!("{CLAIM}/status"), conflict);
    let error = reconcile(&cluster, "pod:team/web").unwrap_err();
    assert!(error.to_string().starts_with("reserve claim team/gpu: "));
    cluster.written();
    assert_eq!(sync_web(&cluster), [RESERVE]);
}
