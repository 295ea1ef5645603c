//! Claims that are created from templates.

use flyball_sdk::imports::MetricOperation;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;
use crate::generate::name_prefix;

/// The labels and the values of the counter of creations since the last call.
fn creations(cluster: &Cluster) -> Vec<(Vec<String>, f64)> {
    let of_counter = |name: &str| name == "dynamic_resource_allocation_resourceclaim_creates_total";
    let metrics = cluster.metrics().into_iter();
    metrics
        .filter(|(operation, name, ..)| *operation == MetricOperation::Add && of_counter(name))
        .map(|(.., labels, value)| (labels, value))
        .collect()
}

fn created() -> Cluster {
    Cluster::with([plain("gpu"), pod("web", &[from_template("gpu")])])
}

/// Reconciles the pod `web`, which fails, and returns the error and the events.
fn failure(cluster: &Cluster) -> (String, Vec<String>) {
    let error = reconcile(cluster, "pod:team/web").unwrap_err();
    assert!(!error.is_terminal());
    (error.to_string(), cluster.events())
}

#[test]
fn a_claim_is_created_from_the_template_and_recorded_in_the_status() {
    let cluster = created();
    reconcile(&cluster, "pod:team/web").unwrap();
    let [create, record] = cluster.writes().try_into().unwrap();
    assert_eq!(
        create.body,
        json!({
            "metadata": {
                "generateName": "web-gpu-",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web", "controller": true}],
                "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu", "x.io/note": "hi"},
                "labels": {"app": "web"},
            },
            "spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}},
        })
    );
    assert_eq!(record.subresource, "status");
    assert_eq!(
        record.options,
        json!({"fieldManager": "ResourceClaimController", "force": true})
    );
    // Another pod of this name must not get the claim.
    assert_eq!(record.body["metadata"]["uid"], "uid-web");
    assert_eq!(
        statuses(&cluster, POD, "web"),
        [("gpu".to_owned(), Some(create.name))]
    );
    assert_eq!(
        creations(&cluster),
        [(
            ["success", "false", "", "Pod"].map(str::to_owned).to_vec(),
            1.0
        )]
    );
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
}

#[test]
fn an_annotation_of_the_template_does_not_replace_the_name_of_the_reference() {
    let cluster = created();
    cluster.edit(TEMPLATE, "team", "gpu", |template| {
        template["spec"]["metadata"]["annotations"] =
            json!({"resource.kubernetes.io/pod-claim-name": "another"});
    });
    sync_web(&cluster);
    let claim = cluster.objects(CLAIM).remove(0);
    assert_eq!(
        claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"],
        "gpu"
    );
}

#[test]
fn a_template_without_metadata_gives_a_claim_without_labels() {
    let cluster = created();
    cluster.edit(TEMPLATE, "team", "gpu", |template| {
        template["spec"]["metadata"] = Value::Null;
    });
    sync_web(&cluster);
    assert_eq!(cluster.objects(CLAIM)[0]["metadata"]["labels"], json!({}));
}

#[test]
fn all_claims_are_recorded_with_one_write() {
    let claims = ["a", "b"].map(from_template);
    let cluster = Cluster::with([
        plain("a"),
        plain("b"),
        pod(
            "web",
            &[claims[0].clone(), existing("c"), claims[1].clone()],
        ),
    ]);
    assert_eq!(sync_web(&cluster).len(), 3);
    let names: Vec<String> = statuses(&cluster, POD, "web")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_claim_that_was_not_recorded_is_found_by_its_owner_and_its_annotation() {
    let cluster = created();
    cluster.put(claim_of("other-reference", "web", "nic"));
    cluster.put(claim_of("other-pod", "db", "gpu"));
    cluster.put(claim_of("found", "web", "gpu"));
    assert_eq!(sync_web(&cluster), ["patch v1/Pod/status team/web"]);
    assert_eq!(
        statuses(&cluster, POD, "web"),
        [("gpu".to_owned(), Some("found".to_owned()))]
    );
}

#[test]
fn a_lost_claim_is_created_again_and_the_others_stay_recorded() {
    let web = pod("web", &[from_template("a"), from_template("b")]);
    let cluster = Cluster::with([
        plain("a"),
        plain("b"),
        claim_of("kept", "web", "a"),
        recorded(web, &[("a", "kept"), ("b", "lost")]),
    ]);
    assert_eq!(sync_web(&cluster).len(), 2);
    let recorded = statuses(&cluster, POD, "web");
    assert_eq!(recorded[0], ("a".to_owned(), Some("kept".to_owned())));
    assert_eq!(recorded[1].0, "b");
    assert_ne!(recorded[1].1.as_deref(), Some("lost"));
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
}

#[test]
fn a_recorded_claim_that_only_the_cache_lacks_is_not_created_again() {
    for (release, writes) in [("1.37", 0), ("1.36", 2)] {
        let web = recorded(pod("web", &[from_template("gpu")]), &[("gpu", "new")]);
        let cluster = Cluster::with([plain("gpu"), web]);
        cluster.set_config("emulated-version", release);
        cluster.put_live(claim_of("new", "web", "gpu"));
        assert_eq!(sync_web(&cluster).len(), writes, "{release}");
    }
}

#[test]
fn a_claim_of_another_owner_with_the_recorded_name_is_left_alone() {
    let web = recorded(pod("web", &[from_template("gpu")]), &[("gpu", "ours")]);
    let cluster = Cluster::with([plain("gpu"), web, claim("ours")]);
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
    cluster.remove(CLAIM, "team", "ours");
    assert_eq!(sync_web(&cluster).len(), 2);
}

#[test]
fn a_reference_that_needs_no_claim_gets_none() {
    let web = with(
        pod("web", &[from_template("gpu")]),
        "/status/resourceClaimStatuses",
        json!([{"name": "gpu"}]),
    );
    let cluster = Cluster::with([plain("gpu"), web]);
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
}

#[test]
fn an_entry_that_needs_no_claim_stays_when_another_is_recorded() {
    let web = with(
        pod("web", &[from_template("a"), from_template("b")]),
        "/status/resourceClaimStatuses",
        json!([{"name": "a"}]),
    );
    let cluster = Cluster::with([plain("b"), web]);
    assert_eq!(sync_web(&cluster).len(), 2);
    let recorded = statuses(&cluster, POD, "web");
    assert_eq!(recorded[0], ("a".to_owned(), None));
    assert!(recorded[1].1.is_some());
}

#[test]
fn a_pod_that_is_being_deleted_gets_no_claim() {
    let cluster = Cluster::with([plain("gpu"), deleting(pod("web", &[from_template("gpu")]))]);
    assert_eq!(sync_web(&cluster), Vec::<String>::new());
}

#[test]
fn the_claim_of_a_pod_that_has_ended_is_not_created_again() {
    for phase in ["Succeeded", "Failed"] {
        let web = recorded(pod("web", &[from_template("gpu")]), &[("gpu", "deleted")]);
        let cluster = Cluster::with([plain("gpu"), with(web, "/status/phase", phase)]);
        assert_eq!(sync_web(&cluster), Vec::<String>::new());
        cluster.remove(TEMPLATE, "team", "gpu");
        assert_eq!(sync_web(&cluster), Vec::<String>::new());
        assert!(cluster.events().is_empty());
    }
}

#[test]
fn a_missing_template_is_reported_and_tried_again() {
    let cluster = Cluster::with([pod("web", &[from_template("gpu")])]);
    let problem = r#"PodResourceClaim gpu: resource claim template "gpu": resourceclaimtemplate.resource.k8s.io "gpu" not found"#;
    assert_eq!(
        failure(&cluster),
        (
            format!("pod team/web, {problem}"),
            vec![format!("Warning FailedResourceClaimCreation {problem}")]
        )
    );
    cluster.put(plain("gpu"));
    assert_eq!(sync_web(&cluster).len(), 2);
}

#[test]
fn claims_before_a_problem_are_created_but_not_recorded_yet() {
    let cluster = Cluster::with([
        plain("a"),
        pod("web", &[from_template("a"), from_template("b")]),
    ]);
    failure(&cluster);
    assert_eq!(cluster.written().len(), 1);
    failure(&cluster);
    assert_eq!(cluster.written(), Vec::<String>::new());
    cluster.put(plain("b"));
    assert_eq!(sync_web(&cluster).len(), 2);
    assert_eq!(statuses(&cluster, POD, "web").len(), 2);
}

#[test]
fn a_refused_creation_is_counted_and_reported() {
    let cluster = created();
    cluster.fail("create", CLAIM, refusal(403, "Forbidden"));
    let (error, events) = failure(&cluster);
    let problem = "PodResourceClaim gpu: create ResourceClaim : the test refuses this: Forbidden";
    assert_eq!(error, format!("pod team/web, {problem}"));
    assert_eq!(
        events,
        [format!("Warning FailedResourceClaimCreation {problem}")]
    );
    assert_eq!(
        creations(&cluster),
        [(
            ["failure", "false", "", "Pod"].map(str::to_owned).to_vec(),
            1.0
        )]
    );
}

#[test]
fn a_claim_is_not_created_twice_if_the_status_can_not_be_written() {
    let cluster = created();
    cluster.fail("patch", "v1/Pod/status", refusal(500, "InternalError"));
    let error = reconcile(&cluster, "pod:team/web").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("update pod team/web ResourceClaimStatuses: ")
    );
    cluster.written();
    assert_eq!(sync_web(&cluster), ["patch v1/Pod/status team/web"]);
    assert_eq!(cluster.objects(CLAIM).len(), 1);
}

#[test]
fn administrative_access_and_alternatives_need_their_gates() {
    let admin = json!([{"name": "a", "exactly": {"adminAccess": true}}]);
    let alternatives = json!([{"name": "a", "firstAvailable": [{"name": "b"}]}]);
    for (gate, requests, problem, is_admin) in [
        (
            "DRAAdminAccess",
            admin,
            "admin access is requested, but the feature is disabled",
            "true",
        ),
        (
            "DRAPrioritizedList",
            alternatives,
            "template includes a prioritized list of subrequests, but the feature is disabled",
            "false",
        ),
    ] {
        let cluster = Cluster::with([
            template("gpu", requests),
            pod("web", &[from_template("gpu")]),
        ]);
        cluster.set_config(&format!("feature-gates.{gate}"), "false");
        let (error, _) = failure(&cluster);
        assert_eq!(
            error,
            format!("pod team/web, PodResourceClaim gpu: {problem}")
        );
        cluster.set_config(&format!("feature-gates.{gate}"), "true");
        assert_eq!(sync_web(&cluster).len(), 2, "{gate}");
        assert_eq!(creations(&cluster)[0].0[..2], ["success", is_admin]);
    }
}

#[test]
fn a_reference_of_an_unknown_form_is_an_error() {
    let cluster = Cluster::with([pod("web", &[json!({"name": "new"})])]);
    let (error, _) = failure(&cluster);
    assert_eq!(
        error,
        "pod team/web, PodResourceClaim new: checking for claim before creating it: pod \"team/web\", \
         spec.resourceClaim \"new\": none of the supported fields are set"
    );
}

#[test]
fn a_long_prefix_is_cut_in_proportion_to_its_parts() {
    assert_eq!(name_prefix("web", "gpu"), "web-gpu-");
    let fits = name_prefix(&"p".repeat(50), "claim");
    assert_eq!(fits, format!("{}-claim-", "p".repeat(50)));
    // 62 characters, cut to 57 / 62 of each part.
    let cut = name_prefix(&"p".repeat(40), &"c".repeat(20));
    assert_eq!(cut, format!("{}-{}", "p".repeat(36), "c".repeat(18)));
    let long = name_prefix(&"p".repeat(253), &"c".repeat(63));
    assert!(long.len() <= 57 && long.ends_with("-ccccccccccc"), "{long}");
}
