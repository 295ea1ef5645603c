//! Native tests of the whole controller.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal};
use kube_apiserver_serving_clustertrustbundle_publisher_controller::{Publisher, ROOT_CA};

const KIND: &str = "certificates.k8s.io/v1/ClusterTrustBundle";
const PEM: &str = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n";
/// The output of `sha256sum` of the text above, shortened to 24 digits.
const NAME: &str = "kubernetes.io:kube-apiserver-serving:9b60e66901349e181a877af0";

fn bundle(name: &str, pem: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "ClusterTrustBundle",
        "metadata": {"name": name},
        "spec": {"signerName": "kubernetes.io/kube-apiserver-serving", "trustBundle": pem},
    })
}

fn cluster(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.set_config(ROOT_CA, PEM);
    cluster
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<Publisher>("bundle")
}

/// The status codes that the metrics have counted.
fn codes(cluster: &Cluster) -> Vec<String> {
    let counted = cluster.metrics().into_iter();
    let counted = counted.filter(|(_, name, ..)| name.ends_with("sync_total"));
    counted.map(|(_, _, labels, _)| labels[0].clone()).collect()
}

#[test]
fn a_missing_bundle_is_created_once() {
    let cluster = cluster([]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [format!("create {KIND} {NAME}")]);
    let created = cluster.object(KIND, "", NAME).unwrap();
    assert_eq!(created["spec"], bundle(NAME, PEM)["spec"]);
    assert_eq!(codes(&cluster), ["200"]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn a_changed_bundle_is_corrected_and_keeps_its_labels() {
    let mut changed = bundle(NAME, "other");
    changed["metadata"]["labels"] = json!({"a": "b"});
    let cluster = cluster([changed]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [format!("update {KIND} {NAME}")]);
    let corrected = cluster.object(KIND, "", NAME).unwrap();
    assert_eq!(corrected["spec"]["trustBundle"], PEM);
    assert_eq!(corrected["metadata"]["labels"], json!({"a": "b"}));
}

#[test]
fn other_bundles_of_the_signer_are_deleted_after_the_new_one_was_created() {
    let mut foreign = bundle("example.com:a:1", PEM);
    foreign["spec"]["signerName"] = "example.com/a".into();
    let cluster = cluster([
        bundle("kubernetes.io:kube-apiserver-serving:1", "old"),
        bundle("kubernetes.io:kube-apiserver-serving:2", PEM),
        foreign,
    ]);
    reconcile(&cluster).unwrap();
    assert_eq!(
        cluster.written(),
        [
            format!("create {KIND} {NAME}"),
            format!("delete {KIND} kubernetes.io:kube-apiserver-serving:1"),
            format!("delete {KIND} kubernetes.io:kube-apiserver-serving:2"),
        ]
    );
    assert!(cluster.object(KIND, "", "example.com:a:1").is_some());
}

#[test]
fn nothing_is_deleted_while_the_new_bundle_can_not_be_created() {
    let cluster = cluster([bundle("kubernetes.io:kube-apiserver-serving:1", "old")]);
    cluster.fail("create", KIND, refusal(403, "Forbidden"));
    assert!(!reconcile(&cluster).unwrap_err().is_terminal());
    assert_eq!(cluster.written().len(), 1);
    assert_eq!(codes(&cluster), ["403"]);
}

#[test]
fn one_failed_deletion_does_not_stop_the_others_and_is_retried() {
    let names = ["1", "2", "3"].map(|end| format!("kubernetes.io:kube-apiserver-serving:{end}"));
    let cluster = cluster([
        bundle(NAME, PEM),
        bundle(&names[0], "a"),
        bundle(&names[1], "b"),
        bundle(&names[2], "c"),
    ]);
    cluster.fail("delete", KIND, refusal(500, "InternalError"));
    cluster.fail_nth("delete", KIND, 2, refusal(404, "NotFound"));
    assert!(reconcile(&cluster).is_err());
    assert_eq!(cluster.written().len(), 3);
    assert_eq!(codes(&cluster), ["500"]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.objects(KIND).len(), 1);
}

#[test]
fn an_empty_bundle_is_not_published_and_a_missing_one_is_an_error() {
    let cluster = Cluster::with([bundle(NAME, PEM)]);
    assert!(reconcile(&cluster).unwrap_err().is_terminal());
    cluster.set_config(ROOT_CA, "");
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
    assert_eq!(codes(&cluster), [""; 0]);
}

#[test]
fn it_asks_for_no_more_than_it_needs() {
    let description = Publisher::describe();
    let asked = permissions(&description);
    assert_eq!(asked, [format!("{KIND}  create,delete,update")]);
    let watch = &description.watches[0];
    assert_eq!(
        watch.field_selector.to_string(),
        "spec.signerName=kubernetes.io/kube-apiserver-serving"
    );
}
