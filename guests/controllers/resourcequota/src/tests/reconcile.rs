//! Whole reconciles, with and without writes.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::views::Quota;
use crate::{ALL, PRIMARY, RECOUNT_DELAY, ResourceQuotaController};

const PUT: &str = "update v1/ResourceQuota/status team/quota";

#[test]
fn a_new_quota_gets_its_limits_and_what_is_used_of_them() {
    let resources = json!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "200m", "memory": "2Gi"}});
    let hard = json!({"cpu": "3", "memory": "100Gi", "pods": "5"});
    let cluster = cluster([
        quota(hard.clone()),
        pod_of("a", resources.clone()),
        pod_of("b", resources.clone()),
        with(
            pod_of("ended", resources.clone()),
            "/status/phase",
            "Failed",
        ),
        with(
            pod_of("elsewhere", resources),
            "/metadata/namespace",
            "other",
        ),
    ]);
    assert_eq!(
        reconcile(&cluster).unwrap(),
        Outcome::RequeueAfter(RECOUNT_DELAY)
    );
    let object = cluster.object(Quota::KIND, TEAM, "quota").unwrap();
    assert_eq!(
        object["status"],
        json!({"hard": hard, "used": {"cpu": "200m", "memory": "2Gi", "pods": "2"}})
    );
    assert_eq!(cluster.written(), [PUT]);
}

#[test]
fn a_pod_that_admission_counted_before_it_existed_is_counted_again() {
    let hard = json!({"pods": "2"});
    let cluster = cluster([settled(hard, json!({"pods": "1"}))]);
    let outcome = reconcile(&cluster).unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(RECOUNT_DELAY));
    assert_eq!(listed(&cluster, "used")["pods"], "0");
    cluster.put(pod_of("late", json!({})));
    reconcile(&cluster).unwrap();
    assert_eq!(listed(&cluster, "used")["pods"], "1");
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
}

#[test]
fn nothing_is_written_if_nothing_has_changed() {
    // Values count, not notations.
    let cluster = cluster([
        with(
            settled(
                json!({"cpu": "3", "pods": "5"}),
                json!({"cpu": "0.1", "pods": "1000m"}),
            ),
            "/status/hard/cpu",
            "3000m",
        ),
        pod_of("a", json!({"requests": {"cpu": "100m"}})),
    ]);
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_quota_without_limits_is_not_written_again_and_again() {
    let cluster = cluster([quota(json!({}))]);
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn new_limits_are_copied_and_limits_that_are_gone_are_dropped() {
    let cluster = cluster([with(
        settled(
            json!({"cpu": "3", "secrets": "1"}),
            json!({"cpu": "0", "secrets": "0"}),
        ),
        "/spec/hard",
        json!({"cpu": "4"}),
    )]);
    reconcile(&cluster).unwrap();
    assert_eq!(
        listed(&cluster, "hard"),
        [("cpu".to_owned(), "4".to_owned())].into()
    );
    assert_eq!(
        listed(&cluster, "used"),
        [("cpu".to_owned(), "0".to_owned())].into()
    );
}

#[test]
fn limits_keep_their_notation_and_use_is_written_in_canonical_form() {
    let cluster = cluster([
        quota(json!({"memory": "0100Mi", "cpu": "01"})),
        pod_of(
            "a",
            json!({"requests": {"memory": "512Ki", "cpu": "1500m"}}),
        ),
        pod_of("b", json!({"requests": {"memory": "512Ki", "cpu": "0.5"}})),
    ]);
    reconcile(&cluster).unwrap();
    assert_eq!(
        Vec::from_iter(listed(&cluster, "hard").into_values()),
        ["01", "0100Mi"]
    );
    assert_eq!(
        Vec::from_iter(listed(&cluster, "used").into_values()),
        ["2", "1Mi"]
    );
}

#[test]
fn a_sum_keeps_the_suffix_of_its_first_quantity_that_is_not_zero() {
    let memory = |name: &str, amount: &str| pod_of(name, json!({"requests": {"memory": amount}}));
    for (amounts, sum) in [
        (["0", "1Gi"], "1Gi"),
        (["1Gi", "1G"], "2073741824"),
        (["1G", "24M"], "1024M"),
        (["1e3", "2e3"], "3e3"),
        (["1Ki", "100m"], "1024100m"),
    ] {
        let pods = [memory("a", amounts[0]), memory("b", amounts[1])];
        assert_eq!(used_of(pods, ["memory"]), [sum], "{amounts:?}");
    }
}

#[test]
fn a_limit_that_nothing_counts_has_no_use() {
    let cluster = cluster([quota(json!({"bananas": "1", "pods": "1"}))]);
    reconcile(&cluster).unwrap();
    assert_eq!(
        listed(&cluster, "used"),
        [("pods".to_owned(), "0".to_owned())].into()
    );
    assert_eq!(listed(&cluster, "hard").len(), 2);
    cluster.written();
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_kind_that_cannot_be_counted_keeps_its_use_and_the_others_are_counted() {
    let cluster = cluster([
        with(
            quota(json!({"pods": "5", "requests.cpu": "1", "services": "5", "secrets": "5"})),
            "/status",
            json!({"used": {"pods": "3", "secrets": "7"}}),
        ),
        pod_of("broken", json!({"requests": {"cpu": "much"}})),
        object("v1/Service", "a"),
    ]);
    cluster.fail("count", "v1/Secret", refusal(503, "Unreachable"));
    let error = reconcile(&cluster).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("counting pods in team") && text.contains("counting secrets in team"),
        "{text}"
    );
    assert!(!error.is_terminal());
    let used = listed(&cluster, "used");
    assert_eq!(
        (&*used["pods"], &*used["secrets"], &*used["services"]),
        ("3", "7", "1")
    );
    assert!(!used.contains_key("requests.cpu"));
    assert_eq!(listed(&cluster, "hard").len(), 4);
}

#[test]
fn what_two_kinds_count_together_is_not_known_if_one_of_them_fails() {
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
                       "spec": {"extendedResourceName": "example.com/gpu"}});
    let claim = json!([{"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}]);
    let cluster = cluster([
        quota(
            json!({"requests.example.com/gpu": "5", "gpu.deviceclass.resource.k8s.io/devices": "5"}),
        ),
        class,
        with(
            object("resource.k8s.io/v1/ResourceClaim", "a"),
            "/spec/devices/requests",
            claim,
        ),
        pod_of("broken", json!({"requests": {"cpu": "much"}})),
    ]);
    assert!(reconcile(&cluster).is_err());
    assert_eq!(
        listed(&cluster, "used"),
        [(
            "gpu.deviceclass.resource.k8s.io/devices".to_owned(),
            "2".to_owned()
        )]
        .into()
    );
}

#[test]
fn devices_are_not_counted_if_their_classes_cannot_be_read() {
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
                       "spec": {"extendedResourceName": 5}});
    let cluster = cluster([
        quota(json!({"requests.example.com/gpu": "5", "pods": "5"})),
        class,
        pod_of("a", json!({"requests": {"example.com/gpu": "1"}})),
    ]);
    let error = reconcile(&cluster).unwrap_err();
    assert!(
        error.to_string().contains("listing device classes"),
        "{error}"
    );
    assert_eq!(
        listed(&cluster, "used"),
        [("pods".to_owned(), "1".to_owned())].into()
    );
}

#[test]
fn a_conflict_is_retried() {
    let cluster = cluster([quota(json!({"pods": "1"}))]);
    cluster.fail(
        "update",
        "v1/ResourceQuota/status",
        refusal(409, "Conflict"),
    );
    let error = reconcile(&cluster).unwrap_err();
    assert!(error.api().unwrap().is_conflict() && !error.is_terminal());
    assert!(listed(&cluster, "hard").is_empty());
    reconcile(&cluster).unwrap();
    assert_eq!(listed(&cluster, "hard").len(), 1);
}

#[test]
fn a_quota_that_was_deleted_needs_nothing() {
    assert_eq!(reconcile(&cluster([])).unwrap(), Outcome::Done);
}

#[test]
fn the_ticker_enqueues_all_quotas_of_all_namespaces() {
    let cluster = cluster([
        quota(json!({})),
        with(quota(json!({})), "/metadata/namespace", "other"),
    ]);
    cluster
        .reconcile_request::<ResourceQuotaController>(&Request::new(PRIMARY, ALL))
        .unwrap();
    let enqueued = cluster.enqueued();
    let keys: Vec<_> = enqueued
        .iter()
        .map(|one| (&*one.queue, &*one.key))
        .collect();
    assert_eq!(keys, [(PRIMARY, "other/quota"), (PRIMARY, "team/quota")]);
}
