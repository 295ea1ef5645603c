//! Native tests of the protection.

use crate::{ClaimProtection, FINALIZER, UNUSED_SINCE};
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal};

use super::world::{
    CLAIM, LIST, POD, claim, claim_named, deleted, ephemeral_claim, is_held, naming, pod,
    reconcile, with, with_ephemeral,
};

const UPDATE: &str = "update v1/PersistentVolumeClaim team/data";

/// Whether the claim `data`, which is being deleted, is kept for these pods; reconciled with the pods in the cache, and
/// with pods that only the API server has.
fn is_kept_for(pod: &Value) -> bool {
    let cached = Cluster::with([deleted(claim()), pod.clone()]);
    let live = Cluster::with([deleted(claim())]);
    live.put_live(pod.clone());
    let results = [cached, live].map(|cluster| {
        reconcile(&cluster, "data").unwrap();
        is_held(&cluster, "data")
    });
    assert_eq!(results[0], results[1]);
    results[0]
}

/// A cluster in which it is not reported whether claims are used.
fn silent(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.set_config(&format!("feature-gates.{UNUSED_SINCE}"), "false");
    cluster
}

#[test]
fn a_claim_without_the_finalizer_gets_it_and_keeps_others() {
    let cluster = silent([with(claim(), "/metadata/finalizers", json!(["x.io/other"]))]);
    reconcile(&cluster, "data").unwrap();
    reconcile(&cluster, "data").unwrap();
    assert_eq!(cluster.written(), [UPDATE]);
    let stored = cluster.object(CLAIM, "team", "data").unwrap();
    assert_eq!(
        (
            &stored["metadata"]["finalizers"],
            &stored["spec"]["volumeName"]
        ),
        (&json!(["x.io/other", FINALIZER]), &json!("pv-1"))
    );
}

#[test]
fn a_claim_with_the_finalizer_and_a_missing_one_are_left_alone() {
    let cluster = silent([claim()]);
    assert_eq!(reconcile(&cluster, "data").unwrap(), Outcome::Done);
    assert_eq!(reconcile(&cluster, "none").unwrap(), Outcome::Done);
    assert!(cluster.written().is_empty() && cluster.live_reads().is_empty());
}

#[test]
fn a_claim_that_is_being_deleted_does_not_get_the_finalizer() {
    let cluster = Cluster::with([deleted(with(
        claim(),
        "/metadata/finalizers",
        json!(["x.io/other"]),
    ))]);
    reconcile(&cluster, "data").unwrap();
    assert!(cluster.written().is_empty() && cluster.live_reads().is_empty());
}

#[test]
fn a_deleted_claim_is_released_after_a_live_list() {
    let cluster = Cluster::with([deleted(claim())]);
    reconcile(&cluster, "data").unwrap();
    reconcile(&cluster, "data").unwrap();
    assert_eq!(
        (cluster.live_reads(), cluster.written()),
        (vec![LIST.into()], vec![UPDATE.into()])
    );
    assert_eq!(cluster.object(CLAIM, "team", "data"), None);
}

#[test]
fn other_finalizers_of_a_deleted_claim_are_kept() {
    let both = json!(["x.io/a", FINALIZER, "x.io/b"]);
    let cluster = Cluster::with([deleted(with(claim(), "/metadata/finalizers", both))]);
    reconcile(&cluster, "data").unwrap();
    let stored = cluster.object(CLAIM, "team", "data").unwrap();
    assert_eq!(
        stored["metadata"]["finalizers"],
        json!(["x.io/a", "x.io/b"])
    );
}

#[test]
fn a_cached_pod_that_uses_the_claim_saves_the_live_list() {
    let cluster = Cluster::with([deleted(claim()), naming("data")]);
    reconcile(&cluster, "data").unwrap();
    assert!(is_held(&cluster, "data"));
    assert!(cluster.live_reads().is_empty());
}

#[test]
fn a_claim_is_kept_for_any_pod_on_a_node_that_names_it() {
    assert!(is_kept_for(&naming("data")));
    for phase in ["Pending", "Failed", "Succeeded"] {
        assert!(
            is_kept_for(&with(naming("data"), "/status/phase", phase)),
            "{phase}"
        );
    }
    assert!(is_kept_for(&deleted(naming("data"))));
    assert!(is_kept_for(&with(
        deleted(naming("data")),
        "/metadata/deletionGracePeriodSeconds",
        0
    )));
}

#[test]
fn a_claim_is_not_kept_for_other_pods() {
    for other in [
        naming("unrelated"),
        pod(json!([{"name": "data", "emptyDir": {}}])),
        pod(Value::Null),
        with(naming("data"), "/spec/nodeName", ""),
        with(naming("data"), "/metadata/namespace", "another"),
    ] {
        assert!(!is_kept_for(&other), "{other}");
    }
}

#[test]
fn a_claim_is_kept_for_the_pod_whose_ephemeral_volume_it_is() {
    let released = |pods: Vec<Value>, claim: Value| {
        let cluster = Cluster::with(pods.into_iter().chain([deleted(claim)]));
        reconcile(&cluster, "web-cache").unwrap();
        !is_held(&cluster, "web-cache")
    };
    assert!(!released(vec![with_ephemeral("cache")], ephemeral_claim()));
    assert!(!released(
        vec![deleted(with_ephemeral("cache"))],
        ephemeral_claim()
    ));
    // The pod has no such volume, does not run yet, or is another one.
    assert!(released(vec![with_ephemeral("other")], ephemeral_claim()));
    assert!(released(
        vec![pod(json!([{"name": "cache", "emptyDir": {}}]))],
        ephemeral_claim()
    ));
    assert!(released(
        vec![with(with_ephemeral("cache"), "/spec/nodeName", "")],
        ephemeral_claim()
    ));
    assert!(released(
        vec![with(with_ephemeral("cache"), "/metadata/uid", "new")],
        ephemeral_claim()
    ));
    assert!(released(
        vec![with_ephemeral("cache")],
        claim_named("web-cache")
    ));
    // The kubelet is done with the pod, and only finalizers keep it.
    let shut_down = |grace: i64| {
        with(
            deleted(with_ephemeral("cache")),
            "/metadata/deletionGracePeriodSeconds",
            grace,
        )
    };
    assert!(!released(vec![shut_down(30)], ephemeral_claim()));
    assert!(released(vec![shut_down(0)], ephemeral_claim()));
}

#[test]
fn an_ephemeral_claim_of_a_cached_pod_needs_no_live_list() {
    let cluster = Cluster::with([deleted(ephemeral_claim()), with_ephemeral("cache")]);
    reconcile(&cluster, "web-cache").unwrap();
    assert!(is_held(&cluster, "web-cache") && cluster.live_reads().is_empty());
}

/// A cluster where claims have no condition `Unused`.
fn without_gate(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.set_config(&format!("feature-gates.{UNUSED_SINCE}"), "false");
    cluster
}

#[test]
fn one_live_list_serves_all_deleted_claims_of_a_namespace() {
    let names = ["data", "more", "used", "not-deleted"];
    let cluster = without_gate(names.map(|name| match name {
        "not-deleted" => claim_named(name),
        _ => deleted(claim_named(name)),
    }));
    let elsewhere = with(
        deleted(claim_named("data")),
        "/metadata/namespace",
        "another",
    );
    cluster.put(with(elsewhere, "/metadata/uid", "uid-elsewhere"));
    cluster.put_live(naming("used"));
    for name in names {
        reconcile(&cluster, name).unwrap();
    }
    assert_eq!(
        cluster.written(),
        [UPDATE, "update v1/PersistentVolumeClaim team/more"]
    );
    assert!(is_held(&cluster, "used") && is_held(&cluster, "not-deleted"));
    // The second list checks `used`, which only the API server's pod uses.
    assert_eq!(cluster.live_reads(), [LIST, LIST]);
    assert!(cluster.object(CLAIM, "another", "data").is_some());
}

#[test]
fn a_failed_list_releases_nothing_and_is_retried() {
    let cluster = Cluster::with([deleted(claim()), deleted(claim_named("more"))]);
    cluster.fail("list", POD, refusal(500, "InternalError"));
    let error = reconcile(&cluster, "data").unwrap_err().to_string();
    assert!(
        error.starts_with("listing the pods of namespace team: "),
        "{error}"
    );
    assert!(cluster.written().is_empty());
    reconcile(&cluster, "data").unwrap();
    assert_eq!(cluster.written().len(), 2);
}

#[test]
fn a_failed_update_is_retried() {
    for object in [
        deleted(claim()),
        with(claim(), "/metadata/finalizers", json!([])),
    ] {
        let cluster = silent([object]);
        cluster.fail("update", CLAIM, refusal(409, "Conflict"));
        assert!(!reconcile(&cluster, "data").unwrap_err().is_terminal());
        reconcile(&cluster, "data").unwrap();
        assert_eq!(cluster.written().len(), 2);
    }
}

#[test]
fn a_failed_update_of_another_claim_enqueues_that_claim() {
    let cluster = Cluster::with([deleted(claim()), deleted(claim_named("more"))]);
    cluster.fail_nth("update", CLAIM, 2, refusal(409, "Conflict"));
    reconcile(&cluster, "data").unwrap();
    assert_eq!(cluster.enqueued()[0].key, "team/more");
    assert!(is_held(&cluster, "more") && !is_held(&cluster, "data"));
}

#[test]
fn a_claim_that_was_deleted_meanwhile_is_done() {
    let cluster = Cluster::with([deleted(claim())]);
    cluster.fail("update", CLAIM, refusal(404, "NotFound"));
    assert_eq!(reconcile(&cluster, "data").unwrap(), Outcome::Done);
}

#[test]
fn a_key_can_be_a_reference() {
    let cluster = Cluster::with([deleted(claim())]);
    cluster
        .reconcile::<ClaimProtection>("v1/PersistentVolumeClaim/team/data/uid-data")
        .unwrap();
    assert_eq!(cluster.written(), [UPDATE]);
}

#[test]
fn claims_are_enqueued_when_a_pod_stops_using_them() {
    let cluster = without_gate([]);
    let description = ClaimProtection::describe_configured(&cluster.host());
    description.check().unwrap();
    let ends = [DeltaType::Modified, DeltaType::Deleted];
    let expected = watch_kind(POD)
        .enqueue(Mapping::named("spec.volumes[*].persistentVolumeClaim.claimName").on(ends))
        .enqueue(
            Mapping::dependents()
                .having_any(&["spec.volumes[*].ephemeral.volumeClaimTemplate.spec.accessModes"])
                .on(ends),
        );
    let expected = describe("x", "1").watch(expected);
    assert_eq!(description.watches[1].map, expected.watches[0].map);
    let fields = &description.watches[1].fields;
    assert!(
        !fields.iter().any(|field| field.starts_with("status")),
        "{fields:?}"
    );
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = ClaimProtection::describe();
    assert_eq!(
        description.name,
        "persistentvolumeclaim-protection-controller"
    );
    assert_eq!(
        (description.queues[0].name.as_str(), description.concurrency),
        ("pvcprotection", 1)
    );
    assert_eq!(
        permissions(&description),
        [
            "v1/PersistentVolumeClaim  get,update",
            "v1/PersistentVolumeClaim status update",
            "v1/Pod  list"
        ]
    );
}
