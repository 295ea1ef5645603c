//! Claims whose consumers are done.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

const STATUS: &str = "update resource.k8s.io/v1/ResourceClaim/status team/gpu";
const FINALIZED: &str = "update resource.k8s.io/v1/ResourceClaim team/gpu";
const DELETED: &str = "delete resource.k8s.io/v1/ResourceClaim team/gpu";

fn gpu(cluster: &Cluster) -> Value {
    cluster.object(CLAIM, "team", "gpu").unwrap()
}

fn ended(name: &str) -> Value {
    with(pod(name, &[existing("gpu")]), "/status/phase", "Succeeded")
}

/// The claim `gpu`, allocated, with these consumers.
fn used_by(pods: &[&str]) -> Value {
    let consumers: Vec<Value> = pods.iter().map(|pod| consumer(pod)).collect();
    reserved(allocated(claim("gpu")), &consumers)
}

#[test]
fn the_last_consumer_takes_the_allocation_and_the_finalizer_with_it() {
    let cluster = Cluster::with([used_by(&["web"]), ended("web")]);
    assert_eq!(sync_gpu(&cluster), [STATUS, FINALIZED]);
    let claim = gpu(&cluster);
    assert_eq!(claim["status"], json!({}));
    assert_eq!(claim["metadata"]["finalizers"], json!([]));
    assert_eq!(sync_gpu(&cluster), Vec::<String>::new());
}

#[test]
fn a_claim_with_other_consumers_stays_allocated() {
    let cluster = Cluster::with([
        used_by(&["web", "db"]),
        ended("web"),
        pod("db", &[existing("gpu")]),
    ]);
    assert_eq!(sync_gpu(&cluster), [STATUS]);
    let claim = gpu(&cluster);
    assert_eq!(claim["status"]["reservedFor"], json!([consumer("db")]));
    assert!(claim["status"]["allocation"].is_object());
    assert_eq!(claim["metadata"]["finalizers"], json!([FINALIZER]));
}

#[test]
fn pods_use_their_claims_until_they_have_ended_or_can_not_start_any_more() {
    let gated = pod("web", &[existing("gpu")]);
    let running = with(on_node(gated.clone()), "/status/phase", "Running");
    for (web, is_used) in [
        (gated.clone(), true),
        (running.clone(), true),
        (deleting(running.clone()), true),
        (deleting(gated), false),
        (with(running, "/status/phase", "Failed"), false),
        (ended("web"), false),
    ] {
        let cluster = Cluster::with([used_by(&["web"]), web.clone()]);
        assert_eq!(sync_gpu(&cluster).is_empty(), is_used, "{web}");
    }
}

#[test]
fn a_pod_that_has_the_name_of_a_deleted_one_does_not_use_its_claim() {
    let stranger = with(pod("web", &[existing("gpu")]), "/metadata/uid", "another");
    let cluster = Cluster::with([used_by(&["web"]), stranger]);
    assert_eq!(sync_gpu(&cluster), [STATUS, FINALIZED]);
    assert_eq!(cluster.live_reads(), Vec::<String>::new());
}

#[test]
fn a_pod_that_the_cache_does_not_have_is_looked_up() {
    let web = pod("web", &[existing("gpu")]);
    let cluster = Cluster::with([used_by(&["web"])]);
    cluster.put_live(web.clone());
    assert_eq!(sync_gpu(&cluster), Vec::<String>::new());
    assert_eq!(cluster.live_reads(), ["get v1/Pod team/web"]);
    cluster.put_live(with(web, "/metadata/uid", "another"));
    assert_eq!(sync_gpu(&cluster), [STATUS, FINALIZED]);
}

#[test]
fn each_result_of_a_look_up_is_for_its_own_pod() {
    let cluster = Cluster::with([
        used_by(&["lost", "known", "late"]),
        pod("known", &[existing("gpu")]),
    ]);
    cluster.put_live(pod("late", &[existing("gpu")]));
    assert_eq!(sync_gpu(&cluster), [STATUS]);
    assert_eq!(
        gpu(&cluster)["status"]["reservedFor"],
        json!([consumer("known"), consumer("late")])
    );
}

#[test]
fn a_failed_look_up_releases_nothing() {
    let cluster = Cluster::with([used_by(&["web"])]);
    cluster.fail("get", POD, refusal(500, "InternalError"));
    reconcile(&cluster, "claim:team/gpu").unwrap_err();
    assert_eq!(cluster.written(), Vec::<String>::new());
}

#[test]
fn consumers_of_other_kinds_are_kept() {
    let others = [
        json!({"resource": "services", "name": "web", "uid": "1"}),
        json!({"apiGroup": "example.com", "resource": "pods", "name": "web", "uid": "2"}),
        json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "web", "uid": "3"}),
    ];
    let all = [&others[..], &[consumer("lost")]].concat();
    let cluster = Cluster::with([reserved(allocated(claim("gpu")), &all)]);
    assert_eq!(sync_gpu(&cluster), [STATUS]);
    assert_eq!(gpu(&cluster)["status"]["reservedFor"], json!(others));
}

#[test]
fn a_claim_that_was_never_reserved_stays_allocated_until_it_is_deleted() {
    let cluster = Cluster::with([allocated(claim("gpu"))]);
    assert_eq!(sync_gpu(&cluster), Vec::<String>::new());
    cluster.put(deleting(allocated(claim("gpu"))));
    assert_eq!(sync_gpu(&cluster), [STATUS, FINALIZED]);
    assert_eq!(cluster.object(CLAIM, "team", "gpu"), None);
}

#[test]
fn other_finalizers_are_kept() {
    let finalizers = json!(["x.io/a", FINALIZER, "x.io/b"]);
    let held = deleting(with(claim("gpu"), "/metadata/finalizers", finalizers));
    let cluster = Cluster::with([held]);
    assert_eq!(sync_gpu(&cluster), [FINALIZED]);
    assert_eq!(
        gpu(&cluster)["metadata"]["finalizers"],
        json!(["x.io/a", "x.io/b"])
    );
}

#[test]
fn an_allocation_without_the_finalizer_is_somebody_elses() {
    let cluster = Cluster::with([with(used_by(&["lost"]), "/metadata/finalizers", json!([]))]);
    assert_eq!(sync_gpu(&cluster), [STATUS]);
    assert!(gpu(&cluster)["status"]["allocation"].is_object());
}

#[test]
fn a_deleted_claim_waits_for_its_consumers() {
    let cluster = Cluster::with([deleting(used_by(&["web"])), pod("web", &[existing("gpu")])]);
    assert_eq!(sync_gpu(&cluster), Vec::<String>::new());
}

#[test]
fn the_generated_claim_of_a_pod_that_is_done_is_deleted() {
    let generated = reserved(allocated(claim_of("gpu", "web", "gpu")), &[consumer("web")]);
    let cluster = Cluster::with([generated, ended("web")]);
    assert_eq!(sync_gpu(&cluster), [STATUS, FINALIZED, DELETED]);
    assert_eq!(cluster.object(CLAIM, "team", "gpu"), None);
}

#[test]
fn a_generated_claim_is_deleted_only_if_its_pod_is_known_to_be_done() {
    let generated = claim_of("gpu", "web", "gpu");
    let running = pod("web", &[from_template("gpu")]);
    let stranger = with(running.clone(), "/metadata/uid", "another");
    for (web, is_deleted) in [
        (None, false),
        (Some(running), false),
        (Some(stranger), true),
        (Some(ended("web")), true),
    ] {
        let cluster = Cluster::with(web.clone());
        cluster.put(generated.clone());
        assert_eq!(!sync_gpu(&cluster).is_empty(), is_deleted, "{web:?}");
    }
    let going = Cluster::with([deleting(with(
        generated,
        "/metadata/finalizers",
        json!(["x.io/a"]),
    ))]);
    going.put(ended("web"));
    assert_eq!(sync_gpu(&going), Vec::<String>::new());
}

#[test]
fn a_claim_of_another_kind_of_owner_is_not_deleted() {
    let mut owned = claim_of("gpu", "web", "gpu");
    owned["metadata"]["ownerReferences"][0]["apiVersion"] = json!("example.com/v1");
    let cluster = Cluster::with([owned, ended("web")]);
    assert_eq!(sync_gpu(&cluster), Vec::<String>::new());
}

#[test]
fn a_claim_that_was_allocated_again_keeps_its_finalizer() {
    let cluster = Cluster::with([used_by(&["web"]), ended("web")]);
    cluster.fail("update", CLAIM, refusal(409, "Conflict"));
    let error = reconcile(&cluster, "claim:team/gpu").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("removing the finalizer of team/gpu: ")
    );
    cluster.edit(CLAIM, "team", "gpu", |claim| {
        claim["status"] = json!({"allocation": {}, "reservedFor": [consumer("db")]});
    });
    cluster.put(pod("db", &[existing("gpu")]));
    cluster.written();
    assert_eq!(sync_gpu(&cluster), Vec::<String>::new());
}
