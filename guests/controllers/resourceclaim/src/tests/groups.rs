//! Claims of PodGroups, behind the feature gate.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::routed::route;
use super::world::*;

fn gated(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.set_config("feature-gates.DRAWorkloadResourceClaims", "true");
    cluster
}

fn group(claims: &[Value]) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
           "metadata": {"name": "train", "namespace": "team", "uid": "uid-train"},
           "spec": {"resourceClaims": claims}})
}

/// The pod `web` of the PodGroup.
fn member(claims: &[Value]) -> Value {
    with(
        pod("web", claims),
        "/spec/schedulingGroup/podGroupName",
        "train",
    )
}

/// A claim that the PodGroup controls.
fn claim_of_group(name: &str) -> Value {
    let mut claim = claim_of(name, "train", "gpu");
    let owner = &mut claim["metadata"]["ownerReferences"][0];
    owner["apiVersion"] = json!("scheduling.k8s.io/v1alpha1");
    owner["kind"] = json!("PodGroup");
    claim
}

fn consumer_group() -> Value {
    json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train", "uid": "uid-train"})
}

fn sync_group(cluster: &Cluster) -> Vec<String> {
    reconcile(cluster, "podgroup:team/train").unwrap();
    cluster.written()
}

#[test]
fn a_group_gets_a_claim_and_its_pods_record_the_same_one() {
    let claims = [from_template("gpu")];
    let cluster = gated([plain("gpu"), group(&claims), member(&claims)]);
    // The pod waits for the group.
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
    let written = sync_group(&cluster);
    assert_eq!(
        written[1..],
        ["patch scheduling.k8s.io/v1beta1/PodGroup/status team/train"]
    );
    let claim = cluster.objects(CLAIM).remove(0);
    assert_eq!(
        claim["metadata"]["ownerReferences"],
        json!([{"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "train",
                "uid": "uid-train", "controller": true}])
    );
    assert_eq!(sync_group(&cluster), Vec::<String>::new());
    assert_eq!(sync_web(&cluster), ["patch v1/Pod/status team/web"]);
    assert_eq!(
        statuses(&cluster, POD, "web"),
        statuses(&cluster, GROUP, "train")
    );
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
}

#[test]
fn a_reference_that_the_group_does_not_have_is_the_pods_own() {
    let other = json!({"name": "gpu", "resourceClaimTemplateName": "other"});
    let cluster = gated([
        plain("gpu"),
        group(&[other]),
        member(&[from_template("gpu")]),
    ]);
    assert_eq!(sync_web(&cluster).len(), 2);
}

#[test]
fn a_pod_waits_for_its_group() {
    let cluster = gated([plain("gpu"), member(&[from_template("gpu")])]);
    let error = reconcile(&cluster, "pod:team/web").unwrap_err();
    assert_eq!(
        error.to_string(),
        "get PodGroup for Pod team/web: podgroup.scheduling.k8s.io \"train\" not found"
    );
}

#[test]
fn in_kubernetes_1_36_the_group_of_a_pod_does_not_matter_without_the_gate() {
    let cluster = Cluster::with([plain("gpu"), member(&[from_template("gpu")])]);
    cluster.set_config("emulated-version", "1.36");
    assert_eq!(sync_web(&cluster).len(), 2);
}

#[test]
fn a_pod_of_a_group_gets_nothing_where_there_are_no_groups() {
    let cluster = Cluster::with([plain("gpu"), member(&[from_template("gpu")])]);
    let error = reconcile(&cluster, "pod:team/web").unwrap_err();
    assert!(error.is_terminal());
    assert_eq!(
        error.to_string(),
        "get PodGroup for Pod team/web: Pod is a member of PodGroup train but GenericWorkload feature is disabled"
    );
    assert_eq!(cluster.written(), Vec::<String>::new());
}

#[test]
fn a_claim_of_the_group_is_refused_where_groups_have_no_claims() {
    let claims = [from_template("gpu")];
    let names = [("gpu", "gpu")];
    let world = |objects: Vec<Value>| {
        let cluster = Cluster::with(objects);
        cluster.set_config("feature-gates.GenericWorkload", "true");
        cluster
    };
    let cluster = world(vec![plain("gpu"), group(&claims), member(&claims)]);
    reconcile(&cluster, "pod:team/web").unwrap_err();
    assert_eq!(
        cluster.events(),
        [
            "Warning FailedResourceClaimCreation PodResourceClaim gpu: claim gpu is a PodGroup claim but the \
             DRAWorkloadResourceClaims feature is disabled"
        ]
    );
    // The claim is not reserved either.
    let cluster = world(vec![
        plain("gpu"),
        group(&claims),
        recorded(on_node(member(&claims)), &names),
        allocated(claim_of("gpu", "web", "gpu")),
    ]);
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
    // The pod's own claims are.
    let cluster = world(vec![
        plain("gpu"),
        group(&[]),
        recorded(on_node(member(&claims)), &names),
        allocated(claim_of("gpu", "web", "gpu")),
    ]);
    assert_eq!(sync_web(&cluster).len(), 1);
}

#[test]
fn the_claim_of_a_group_is_reserved_for_the_group() {
    let claims = [from_template("gpu")];
    let names = [("gpu", "gpu")];
    let cluster = gated([
        plain("gpu"),
        recorded(group(&claims), &names),
        recorded(on_node(member(&claims)), &names),
        allocated(claim_of_group("gpu")),
    ]);
    assert_eq!(sync_web(&cluster).len(), 1);
    let claim = cluster.object(CLAIM, "team", "gpu").unwrap();
    assert_eq!(claim["status"]["reservedFor"], json!([consumer_group()]));
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
}

#[test]
fn a_claim_is_released_when_the_group_no_longer_exists() {
    let used = reserved(allocated(claim_of_group("gpu")), &[consumer_group()]);
    let cluster = gated([used]);
    cluster.put_live(group(&[]));
    assert_eq!(sync_gpu(&cluster), Vec::<String>::new());
    assert_eq!(
        cluster.live_reads(),
        ["get scheduling.k8s.io/v1beta1/PodGroup team/train"]
    );
    cluster.put(with(group(&[]), "/metadata/uid", "another"));
    assert_eq!(sync_gpu(&cluster).len(), 2);
}

#[test]
fn a_group_keeps_its_claim_while_it_exists() {
    let used = reserved(allocated(claim_of_group("gpu")), &[consumer_group()]);
    let cluster = gated([used, group(&[])]);
    assert_eq!(sync_gpu(&cluster), Vec::<String>::new());
    assert_eq!(cluster.live_reads(), Vec::<String>::new());
}

#[test]
fn the_problem_of_a_group_is_reported_on_it() {
    let cluster = gated([group(&[from_template("gpu")])]);
    reconcile(&cluster, "podgroup:team/train").unwrap_err();
    let event = cluster.recorded_events().remove(0);
    assert_eq!(
        (event.about.kind.as_str(), event.about.name.as_str()),
        (GROUP, "train")
    );
    assert_eq!(
        event.message,
        r#"PodGroupResourceClaim gpu: resource claim template "gpu": resourceclaimtemplate.resource.k8s.io "gpu" not found"#
    );
}

#[test]
fn a_reference_of_a_group_that_has_an_unknown_form_is_reported_without_quotes() {
    let cluster = gated([group(&[json!({"name": "new"})])]);
    reconcile(&cluster, "podgroup:team/train").unwrap_err();
    assert_eq!(
        cluster.events(),
        [
            "Warning FailedResourceClaimCreation PodGroupResourceClaim new: checking for claim before creating it: PodGroup \
          team/train, spec.resourceClaim new: none of the supported fields are set"
        ]
    );
}

#[test]
fn a_group_that_is_being_deleted_gets_no_claim() {
    let cluster = gated([plain("gpu"), deleting(group(&[from_template("gpu")]))]);
    assert_eq!(sync_group(&cluster), Vec::<String>::new());
}

#[test]
fn a_group_wakes_itself_its_pods_and_at_its_end_its_claims() {
    let claims = [from_template("gpu")];
    let train = recorded(group(&claims), &[("gpu", "train-gpu-1")]);
    let cluster = gated([member(&claims), pod("other", &claims)]);
    assert_eq!(
        route(&cluster, GROUP, None, Some(&train)),
        ["pod:team/web", "podgroup:team/train"]
    );
    assert_eq!(
        route(&cluster, GROUP, Some(&train), None),
        ["claim:team/train-gpu-1", "pod:team/web"]
    );
    assert_eq!(
        route(&cluster, GROUP, None, Some(&group(&[]))),
        Vec::<String>::new()
    );
}

#[test]
fn claims_and_templates_wake_the_groups_that_use_them() {
    let train = recorded(group(&[from_template("gpu")]), &[("gpu", "train-gpu-1")]);
    let cluster = gated([train]);
    assert_eq!(
        route(&cluster, CLAIM, Some(&claim("train-gpu-1")), None),
        ["podgroup:team/train"]
    );
    assert_eq!(
        route(&cluster, TEMPLATE, None, Some(&plain("gpu"))),
        ["podgroup:team/train"]
    );
}
