//! Whole reconciles against an in-memory API server.

use std::time::Duration;

use flyball_sdk::MicroTime;
use flyball_sdk::testing::{Cluster, refusal};

use super::*;
use crate::heartbeat::ALL;

fn pod(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations, "generation": 1},
        "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "nginx"}]},
        "status": {"phase": "Pending", "qosClass": "BestEffort", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-12-31T23:59:59Z"},
        ]},
    })
}

fn status(cluster: &Cluster, name: &str) -> Value {
    cluster.object("v1/Pod", "default", name).unwrap()["status"].clone()
}

fn heartbeat(cluster: &Cluster, key: &str) -> Result<Outcome, Error> {
    cluster.reconcile_request::<FakeKubelet>(&Request::new(NODES, key))
}

fn reconcile(cluster: &Cluster, key: &str) -> Outcome {
    cluster.reconcile::<FakeKubelet>(key).unwrap()
}

#[test]
fn the_description_is_valid() {
    let description = FakeKubelet::describe();
    description.check().unwrap();
    assert_eq!(description.queues[0].name, PODS);
    assert_eq!(description.config["nodes"].default.as_deref(), Some("3"));
}

#[test]
fn a_pod_becomes_ready_in_one_write() {
    let cluster = Cluster::with([pod("a", json!({}))]);
    assert_eq!(reconcile(&cluster, "default/a"), Outcome::Done);
    assert_eq!(cluster.written(), ["patch v1/Pod/status default/a"]);
    let status = status(&cluster, "a");
    assert_eq!(
        (&status["phase"], &status["qosClass"]),
        (&json!("Running"), &json!("BestEffort"))
    );
    let types: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["type"].as_str().unwrap())
        .collect();
    let expected = [
        "PodScheduled",
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
    ];
    assert_eq!(types, expected);
    assert_eq!(
        (&status["hostIP"], &status["hostIPs"]),
        (&json!("172.16.0.2"), &json!([{"ip": "172.16.0.2"}]))
    );
    assert_eq!(status["podIPs"], json!([{"ip": status["podIP"]}]));
    assert!(status["podIP"].as_str().unwrap().starts_with("10."));
}

#[test]
fn an_unchanged_status_is_not_written() {
    let cluster = Cluster::with([pod("a", json!({}))]);
    reconcile(&cluster, "default/a");
    cluster.writes();
    cluster.advance(Duration::from_secs(60));
    assert_eq!(reconcile(&cluster, "default/a"), Outcome::Done);
    assert!(cluster.written().is_empty());
}

#[test]
fn pods_get_different_addresses_even_if_their_hashes_collide() {
    let cluster = Cluster::with([pod("a", json!({})), pod("b", json!({}))]);
    for name in ["a", "b"] {
        cluster.edit("v1/Pod", "default", name, |pod| {
            pod["metadata"]["uid"] = "same".into()
        });
        reconcile(&cluster, &format!("default/{name}"));
    }
    assert_ne!(
        status(&cluster, "a")["podIP"],
        status(&cluster, "b")["podIP"]
    );
}

#[test]
fn a_host_network_pod_has_the_nodes_address() {
    let mut pod = pod("a", json!({}));
    pod["spec"]["hostNetwork"] = true.into();
    let cluster = Cluster::with([pod]);
    reconcile(&cluster, "default/a");
    assert_eq!(status(&cluster, "a")["podIP"], "172.16.0.2");
}

#[test]
fn a_pod_is_requeued_when_something_is_due() {
    let cluster = Cluster::with([pod(
        "a",
        json!({"fake-kubelet.flyball.dev/ready-after": "5s"}),
    )]);
    let due = Duration::from_secs(5);
    assert_eq!(reconcile(&cluster, "default/a"), Outcome::RequeueAfter(due));
    let address = status(&cluster, "a")["podIP"].clone();
    cluster.writes();
    cluster.advance(due);
    assert_eq!(reconcile(&cluster, "default/a"), Outcome::Done);
    let writes = cluster.writes();
    assert_eq!(writes.len(), 1);
    let changed: Vec<_> = writes[0].body["status"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(changed, ["conditions", "containerStatuses"]);
    assert_eq!(
        writes[0].body["status"]["conditions"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(status(&cluster, "a")["podIP"], address);
}

#[test]
fn pods_of_other_nodes_are_left_alone() {
    let mut other = pod("a", json!({}));
    other["spec"]["nodeName"] = "node-3".into();
    let mut unbound = pod("b", json!({}));
    unbound["spec"]["nodeName"] = Value::Null;
    let cluster = Cluster::with([other, unbound]);
    for key in ["default/a", "default/b", "default/gone"] {
        assert_eq!(reconcile(&cluster, key), Outcome::Done);
    }
    assert!(cluster.written().is_empty());
}

#[test]
fn a_pod_being_deleted_is_ended_and_then_deleted() {
    let cluster = Cluster::with([pod("a", json!({}))]);
    reconcile(&cluster, "default/a");
    cluster
        .host()
        .write(Write::delete("v1/Pod", "default", "a"))
        .unwrap();
    cluster.writes();
    reconcile(&cluster, "default/a");
    let writes = cluster.writes();
    let lines: Vec<_> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        ["patch v1/Pod/status default/a", "delete v1/Pod default/a"]
    );
    assert_eq!(writes[0].body["status"]["phase"], "Failed");
    assert_eq!(writes[1].options["gracePeriodSeconds"], 0);
    assert!(
        !writes[1].options["preconditions"]["uid"]
            .as_str()
            .unwrap()
            .is_empty()
    );
    assert_eq!(cluster.object("v1/Pod", "default", "a"), None);
}

#[test]
fn a_deletion_that_the_api_server_did_not_finish_is_requested_again() {
    let mut left = pod("a", json!({}));
    left["status"]["phase"] = "Succeeded".into();
    let cluster = Cluster::with([left]);
    let deleted = json!(cluster.host().now());
    cluster.edit("v1/Pod", "default", "a", |pod| {
        pod["metadata"]["deletionTimestamp"] = deleted;
        pod["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    });
    let Outcome::RequeueAfter(due) = reconcile(&cluster, "default/a") else {
        panic!("the API server may still delete it");
    };
    assert!(cluster.written().is_empty());
    cluster.advance(due);
    reconcile(&cluster, "default/a");
    assert_eq!(cluster.object("v1/Pod", "default", "a"), None);
}

#[test]
fn a_pod_with_finalizers_ends_but_is_not_removed() {
    let mut held = pod("a", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let cluster = Cluster::with([held]);
    cluster
        .host()
        .write(Write::delete("v1/Pod", "default", "a"))
        .unwrap();
    reconcile(&cluster, "default/a");
    assert_eq!(status(&cluster, "a")["phase"], "Failed");
    cluster.edit("v1/Pod", "default", "a", |pod| {
        pod["metadata"]["deletionGracePeriodSeconds"] = 0.into()
    });
    cluster.writes();
    assert_eq!(reconcile(&cluster, "default/a"), Outcome::Done);
    assert!(cluster.written().is_empty());
}

#[test]
fn a_pod_deleted_before_it_is_written_is_not_an_error() {
    let cluster = Cluster::with([pod("a", json!({}))]);
    cluster.fail("patch", "v1/Pod/status", refusal(404, "NotFound"));
    assert_eq!(reconcile(&cluster, "default/a"), Outcome::Done);
    cluster.fail("patch", "v1/Pod/status", refusal(500, "InternalError"));
    assert!(cluster.reconcile::<FakeKubelet>("default/a").is_err());
}

#[test]
fn an_invalid_annotation_is_reported_but_does_not_block_deletion() {
    let cluster = Cluster::with([pod("a", json!({"fake-kubelet.flyball.dev/ready": "no"}))]);
    let error = cluster.reconcile::<FakeKubelet>("default/a").unwrap_err();
    assert!(
        error.is_terminal() && error.to_string().contains("ready"),
        "{error}"
    );
    cluster
        .host()
        .write(Write::delete("v1/Pod", "default", "a"))
        .unwrap();
    reconcile(&cluster, "default/a");
    assert_eq!(cluster.object("v1/Pod", "default", "a"), None);
}

#[test]
fn nodes_are_registered_and_get_their_leases() {
    let cluster = Cluster::new();
    cluster.set_config("nodes", "2");
    heartbeat(&cluster, ALL).unwrap();
    assert_eq!(
        cluster.written(),
        ["create v1/Node node-0", "create v1/Node node-1"]
    );
    heartbeat(&cluster, "node-1").unwrap();
    let lease = cluster.object(node::LEASE, node::LEASES, "node-1").unwrap();
    let uid = cluster.object("v1/Node", "", "node-1").unwrap()["metadata"]["uid"].clone();
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], uid);
    assert_eq!(lease["spec"]["holderIdentity"], "node-1");
}

#[test]
fn a_heartbeat_renews_leases_and_rarely_writes_the_status() {
    let cluster = Cluster::new();
    cluster.set_config("nodes", "1");
    heartbeat(&cluster, ALL).unwrap();
    heartbeat(&cluster, ALL).unwrap();
    cluster.writes();
    cluster.advance(Duration::from_secs(10));
    heartbeat(&cluster, ALL).unwrap();
    let lease = "patch coordination.k8s.io/v1/Lease kube-node-lease/node-0";
    assert_eq!(cluster.written(), [lease]);
    let renewed =
        cluster.object(node::LEASE, node::LEASES, "node-0").unwrap()["spec"]["renewTime"].clone();
    assert_eq!(renewed, json!(MicroTime(cluster.host().now())));
    cluster.advance(Duration::from_secs(290));
    heartbeat(&cluster, ALL).unwrap();
    assert_eq!(cluster.written(), [lease, "patch v1/Node/status node-0"]);
    let node = cluster.object("v1/Node", "", "node-0").unwrap();
    let ready = node["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "Ready")
        .unwrap();
    assert_eq!(ready["lastHeartbeatTime"], "2026-01-01T00:05:00Z");
    assert_eq!(ready["lastTransitionTime"], "2026-01-01T00:00:00Z");
}

#[test]
fn a_deleted_node_is_registered_again() {
    let cluster = Cluster::new();
    heartbeat(&cluster, "node-2").unwrap();
    cluster.remove("v1/Node", "", "node-2");
    cluster.writes();
    heartbeat(&cluster, "node-2").unwrap();
    assert_eq!(cluster.written(), ["create v1/Node node-2"]);
    heartbeat(&cluster, "node-3").unwrap();
    assert!(cluster.written().is_empty(), "not a fake node");
}

#[test]
fn a_node_registered_in_the_meantime_is_not_an_error() {
    let cluster = Cluster::new();
    cluster.fail("create", "v1/Node", refusal(409, "AlreadyExists"));
    assert_eq!(heartbeat(&cluster, "node-0").unwrap(), Outcome::Done);
}

#[test]
fn the_admission_taint_is_removed_unless_disabled() {
    for (setting, left) in [("true", 1), ("false", 2)] {
        let cluster = Cluster::new();
        cluster.set_config("remove-not-ready-taint", setting);
        heartbeat(&cluster, "node-0").unwrap();
        cluster.edit("v1/Node", "", "node-0", |node| {
            node["spec"]["taints"] = json!([
                {"key": "own", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            ]);
        });
        heartbeat(&cluster, "node-0").unwrap();
        let node = cluster.object("v1/Node", "", "node-0").unwrap();
        assert_eq!(node["spec"]["taints"].as_array().unwrap().len(), left);
    }
}

#[test]
fn a_node_of_an_external_cloud_waits_for_its_initialisation() {
    for (setting, taint) in [("true", json!("true")), ("false", Value::Null)] {
        let cluster = Cluster::new();
        cluster.set_config("external-cloud", setting);
        heartbeat(&cluster, "node-0").unwrap();
        let node = cluster.object("v1/Node", "", "node-0").unwrap();
        assert_eq!(node["spec"]["taints"][0]["value"], taint);
    }
}

#[test]
fn one_failing_node_does_not_affect_the_others() {
    let cluster = Cluster::new();
    cluster.fail("create", "v1/Node", refusal(500, "InternalError"));
    assert!(heartbeat(&cluster, ALL).is_err());
    assert_eq!(cluster.objects("v1/Node").len(), 2);
}

#[test]
fn an_invalid_setting_is_reported() {
    let cluster = Cluster::new();
    cluster.set_config("nodes", "many");
    assert!(heartbeat(&cluster, ALL).unwrap_err().is_terminal());
}
