//! Native tests of the whole controller.

use bootstrap_signer_controller::BootstrapSigner;
use flyball_sdk::base64;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal};

const CONFIG_MAP: &str = "v1/ConfigMap";
const UPDATE: &str = "update v1/ConfigMap kube-public/cluster-info";
/// The signature of `payload` with the token `abc123`, from kube-controller-manager's tests.
const SIGNATURE: &str =
    "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958";

fn cluster_info(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
           "metadata": {"name": "cluster-info", "namespace": "kube-public", "labels": {"a": "b"}}, "data": data})
}

fn token(id: &str, changes: &[(&str, &str)]) -> Value {
    let mut data = json!({});
    let own = [
        ("token-id", id),
        ("token-secret", "tokenSecret"),
        ("usage-bootstrap-signing", "true"),
    ];
    for (key, value) in own.iter().chain(changes) {
        data[key] = base64::encode(value.as_bytes()).into();
    }
    json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "data": data,
           "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"}})
}

/// Reconciles twice and returns the ConfigMap's data. The second time, nothing may be written.
fn signed(cluster: &Cluster) -> Value {
    reconcile(cluster).unwrap();
    let written = cluster.written();
    assert!(written.is_empty() || written == [UPDATE], "{written:?}");
    reconcile(cluster).unwrap();
    assert!(cluster.written().is_empty() && cluster.live_reads().is_empty());
    let info = cluster
        .object(CONFIG_MAP, "kube-public", "cluster-info")
        .unwrap();
    assert_eq!(info["metadata"]["labels"]["a"], "b");
    info["data"].clone()
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<BootstrapSigner>("kube-public/cluster-info")
}

#[test]
fn each_token_signs() {
    let cluster = Cluster::with([
        cluster_info(json!({"kubeconfig": "payload", "other": "x"})),
        token("abc123", &[]),
        token("def456", &[]),
        token("no0000", &[("usage-bootstrap-signing", "false")]),
    ]);
    let data = signed(&cluster);
    assert_eq!(data["jws-kubeconfig-abc123"], SIGNATURE);
    assert_eq!(
        (&data["kubeconfig"], &data["other"]),
        (&json!("payload"), &json!("x"))
    );
    assert!(data["jws-kubeconfig-def456"].is_string());
    assert_eq!(data.as_object().unwrap().len(), 4);
}

#[test]
fn a_right_signature_is_left_alone() {
    let data = json!({"kubeconfig": "payload", "jws-kubeconfig-abc123": SIGNATURE});
    let cluster = Cluster::with([cluster_info(data.clone()), token("abc123", &[])]);
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty());
    assert_eq!(signed(&cluster), data);
}

#[test]
fn a_changed_kubeconfig_is_signed_again() {
    let data = json!({"kubeconfig": "new", "jws-kubeconfig-abc123": SIGNATURE});
    let cluster = Cluster::with([cluster_info(data), token("abc123", &[])]);
    let data = signed(&cluster);
    assert_ne!(data["jws-kubeconfig-abc123"], SIGNATURE);
    assert!(
        data["jws-kubeconfig-abc123"]
            .as_str()
            .unwrap()
            .starts_with("eyJ")
    );
}

#[test]
fn signatures_of_deleted_and_expired_tokens_are_removed() {
    let data = json!({"kubeconfig": "payload", "jws-kubeconfig-abc123": SIGNATURE, "jws-kubeconfig-gone00": "x"});
    let expired = token("abc123", &[("expiration", "2020-01-01T00:00:00Z")]);
    let cluster = Cluster::with([cluster_info(data), expired]);
    assert_eq!(signed(&cluster), json!({"kubeconfig": "payload"}));
}

#[test]
fn without_a_kubeconfig_nothing_is_signed() {
    for data in [
        json!({"other": "x", "jws-kubeconfig-gone00": "x"}),
        Value::Null,
    ] {
        let cluster = Cluster::with([cluster_info(data.clone()), token("abc123", &[])]);
        reconcile(&cluster).unwrap();
        assert!(cluster.written().is_empty());
    }
    assert_eq!(reconcile(&Cluster::new()).unwrap(), Outcome::Done);
}

#[test]
fn a_configmap_that_changes_meanwhile_is_done_and_other_failures_are_retried() {
    for (status, reason, is_done) in [
        (409, "Conflict", true),
        (404, "NotFound", true),
        (500, "InternalError", false),
    ] {
        let cluster = Cluster::with([
            cluster_info(json!({"kubeconfig": "payload"})),
            token("abc123", &[]),
        ]);
        cluster.fail("update", CONFIG_MAP, refusal(status, reason));
        assert_eq!(reconcile(&cluster).is_ok(), is_done, "{reason}");
        cluster.written();
        assert_eq!(signed(&cluster)["jws-kubeconfig-abc123"], SIGNATURE);
    }
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = BootstrapSigner::describe();
    description.check().unwrap();
    assert_eq!(description.queues[0].name, "bootstrap_signer_queue");
    assert_eq!(permissions(&description), ["v1/ConfigMap  update"]);
}
