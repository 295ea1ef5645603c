//! Native tests of the whole controller.

use ephemeral_volume_controller::EphemeralVolumes;
use flyball_sdk::imports::MetricOperation;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta, permissions, refusal, set_at};

const CLAIM: &str = "v1/PersistentVolumeClaim";
const POD: &str = "v1/Pod";
const CREATE: &str = "create v1/PersistentVolumeClaim team/web-cache";
const CREATED: &str = "ephemeral_volume_controller_create_total";
const FAILED: &str = "ephemeral_volume_controller_create_failures_total";

fn ephemeral(name: &str) -> Value {
    json!({"name": name, "ephemeral": {"volumeClaimTemplate": {
        "metadata": {"labels": {"app": "web"}, "annotations": {"x.io/note": "hi"}, "creationTimestamp": null},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                 "resources": {"requests": {"storage": "1Gi"}}}}}})
}

/// The pod `web` with these volumes.
fn pod(volumes: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": "web", "namespace": "team", "uid": "uid-web"}, "spec": {"volumes": volumes}})
}

/// A claim that the pod with this UID controls.
fn claim(name: &str, owner: &str) -> Value {
    let owner =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner, "controller": true});
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
           "metadata": {"name": name, "namespace": "team", "ownerReferences": [owner]}})
}

fn deleted(mut pod: Value) -> Value {
    set_at(
        &mut pod,
        "/metadata/deletionTimestamp",
        "2026-01-01T00:00:00Z",
    );
    pod
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<EphemeralVolumes>("team/web")
}

/// The values of the two counters since the last call.
fn counts(cluster: &Cluster) -> [f64; 2] {
    let metrics = cluster.metrics();
    [CREATED, FAILED].map(|counter| {
        let of_counter = metrics
            .iter()
            .filter(|(operation, name, ..)| *operation == MetricOperation::Add && name == counter);
        of_counter.map(|(.., value)| value).sum()
    })
}

#[test]
fn a_claim_is_created_from_the_template_with_the_pod_as_its_controller() {
    let cluster = Cluster::with([pod(&[ephemeral("cache")])]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    let writes = cluster.writes();
    assert_eq!((writes.len(), writes[0].to_string()), (1, CREATE.into()));
    assert_eq!(
        writes[0].body,
        json!({
            "metadata": {
                "name": "web-cache", "labels": {"app": "web"}, "annotations": {"x.io/note": "hi"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web",
                                     "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                     "resources": {"requests": {"storage": "1Gi"}}}})
    );
    assert_eq!(counts(&cluster), [1.0, 0.0]);
    assert!(cluster.events().is_empty());
}

#[test]
fn a_template_without_metadata_is_enough() {
    let mut volume = ephemeral("cache");
    volume["ephemeral"]["volumeClaimTemplate"]["metadata"] = Value::Null;
    for volume in [volume.clone(), {
        set_at(
            &mut volume,
            "/ephemeral/volumeClaimTemplate/metadata",
            json!({"labels": null}),
        );
        volume
    }] {
        let cluster = Cluster::with([pod(&[volume])]);
        reconcile(&cluster).unwrap();
        let metadata = &cluster.writes()[0].body["metadata"];
        assert!(metadata.get("labels").is_none() && metadata.get("annotations").is_none());
    }
}

#[test]
fn each_ephemeral_volume_gets_a_claim_and_others_get_none() {
    let others = [
        json!({"name": "tmp", "emptyDir": {}}),
        json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}}),
    ];
    let cluster = Cluster::with([pod(&[
        ephemeral("cache"),
        others[0].clone(),
        others[1].clone(),
        ephemeral("more"),
    ])]);
    reconcile(&cluster).unwrap();
    assert_eq!(
        cluster.written(),
        [CREATE, "create v1/PersistentVolumeClaim team/web-more"]
    );
    let without = Cluster::with([pod(&others)]);
    reconcile(&without).unwrap();
    assert!(without.written().is_empty());
}

#[test]
fn a_pod_that_is_being_deleted_or_does_not_exist_gets_no_claim() {
    for cluster in [
        Cluster::with([deleted(pod(&[ephemeral("cache")]))]),
        Cluster::new(),
    ] {
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        assert!(cluster.written().is_empty());
    }
}

#[test]
fn a_claim_of_that_name_in_another_namespace_is_not_in_the_way() {
    let mut other = claim("web-cache", "uid-other");
    other["metadata"]["namespace"] = "another".into();
    let cluster = Cluster::with([pod(&[ephemeral("cache")]), other]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [CREATE]);
}

#[test]
fn a_claim_that_the_pod_does_not_control_is_reported_and_retried() {
    let mut bare = claim("web-cache", "uid-web");
    bare["metadata"]["ownerReferences"][0]["controller"] = Value::Null;
    for foreign in [claim("web-cache", "uid-before"), bare] {
        let cluster = Cluster::with([pod(&[ephemeral("cache")]), foreign]);
        let error = reconcile(&cluster).unwrap_err();
        let problem = "ephemeral volume cache: PVC team/web-cache was not created for pod team/web (pod is not owner)";
        assert!(!error.is_terminal());
        assert_eq!(error.to_string(), format!("pod team/web, {problem}"));
        assert_eq!(
            cluster.events(),
            [format!("Warning FailedBinding {problem}")]
        );
        assert!(cluster.written().is_empty());
        assert_eq!(counts(&cluster), [0.0, 0.0]);
        cluster.remove(CLAIM, "team", "web-cache");
        reconcile(&cluster).unwrap();
        assert_eq!(cluster.written(), [CREATE]);
    }
}

#[test]
fn a_refused_creation_is_counted_reported_with_the_servers_message_and_retried() {
    let cluster = Cluster::with([pod(&[ephemeral("cache")])]);
    cluster.fail("create", CLAIM, refusal(403, "Forbidden"));
    reconcile(&cluster).unwrap_err();
    assert_eq!(
        cluster.events(),
        [
            "Warning FailedBinding ephemeral volume cache: create PVC web-cache: the test refuses this: Forbidden"
        ]
    );
    assert_eq!(counts(&cluster), [1.0, 1.0]);
    reconcile(&cluster).unwrap();
    assert_eq!(counts(&cluster), [1.0, 0.0]);
}

#[test]
fn the_first_problem_ends_the_reconcile_after_the_volumes_before_it() {
    let cluster = Cluster::with([
        pod(&[ephemeral("a"), ephemeral("cache"), ephemeral("z")]),
        claim("web-cache", "uid-before"),
    ]);
    reconcile(&cluster).unwrap_err();
    assert_eq!(
        cluster.written(),
        ["create v1/PersistentVolumeClaim team/web-a"]
    );
}

/// The keys for which the deletion of a claim is routed.
fn routed(objects: &[Value], name: &str) -> Vec<String> {
    let cluster = Cluster::with(objects.iter().cloned());
    let deltas = [delta(CLAIM, Some(&claim(name, "uid-other")), None)];
    let routed = EphemeralVolumes::route(&cluster.host(), &deltas).unwrap();
    routed.iter().map(|routed| routed.key.to_string()).collect()
}

#[test]
fn the_deletion_of_a_claim_enqueues_the_pods_that_need_one_of_that_name() {
    let web = pod(&[ephemeral("cache"), ephemeral("cache-2")]);
    let mut web_cache = pod(&[ephemeral("2")]);
    web_cache["metadata"]["name"] = "web-cache".into();
    let both = [web.clone(), web_cache];
    assert_eq!(routed(&both, "web-cache"), ["team/web"]);
    assert_eq!(routed(&both, "web-cache-2"), ["team/web", "team/web-cache"]);
    for name in ["web", "web-", "web-other", "other-cache", "-cache"] {
        assert!(routed(&both, name).is_empty(), "{name}");
    }
    assert!(routed(&[deleted(web)], "web-cache").is_empty());
    assert!(
        routed(
            &[pod(&[json!({"name": "cache", "emptyDir": {}})])],
            "web-cache"
        )
        .is_empty()
    );
}

#[test]
fn new_pods_with_an_ephemeral_volume_are_enqueued() {
    let description = EphemeralVolumes::describe();
    description.check().unwrap();
    let mode = "spec.volumes[*].ephemeral.volumeClaimTemplate.spec.volumeMode";
    let mapping = |value| {
        Mapping::itself()
            .on([DeltaType::Added, DeltaType::Modified])
            .having(mode, value)
    };
    let expected = describe("x", "1").watch(
        watch_kind(POD)
            .enqueue(mapping("Filesystem"))
            .enqueue(mapping("Block")),
    );
    assert_eq!(description.watches[0].map, expected.watches[0].map);
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = EphemeralVolumes::describe();
    assert_eq!(description.name, "ephemeral-volume-controller");
    assert_eq!(description.event_source, "ephemeral_volume");
    assert_eq!(
        (description.queues[0].name.as_str(), description.concurrency),
        ("ephemeral_volume", 5)
    );
    assert_eq!(
        permissions(&description),
        [
            "v1/PersistentVolumeClaim  create",
            "v1/Pod finalizers update"
        ]
    );
}
