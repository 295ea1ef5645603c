//! Native tests of the whole controller.

use flyball_sdk::imports::MetricOperation;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};
use root_ca_certificate_publisher_controller::{ROOT_CA, RootCa};

const PEM: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const CREATE: &str = "create v1/ConfigMap team/kube-root-ca.crt";
const UPDATE: &str = "update v1/ConfigMap team/kube-root-ca.crt";

fn namespace(phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "status": {"phase": phase}})
}

/// The ConfigMap with this data and this description annotation.
fn config_map(data: Value, description: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
           "metadata": {"name": "kube-root-ca.crt", "namespace": "team", "labels": {"theirs": "stays"},
                        "annotations": {"kubernetes.io/description": description}}})
}

fn cluster(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.set_config(ROOT_CA, PEM);
    cluster
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<RootCa>("team")
}

/// The stored ConfigMap.
fn found(cluster: &Cluster) -> Value {
    cluster
        .object("v1/ConfigMap", "team", "kube-root-ca.crt")
        .unwrap()
}

/// The codes that were counted; each must have been observed as well.
fn codes(cluster: &Cluster) -> Vec<String> {
    let mut metrics = cluster.metrics().into_iter();
    let mut codes = Vec::new();
    while let (Some((operation, name, labels, value)), Some(observed)) =
        (metrics.next(), metrics.next())
    {
        assert_eq!(
            (operation, name.as_str(), value),
            (
                MetricOperation::Add,
                "root_ca_cert_publisher_sync_total",
                1.0
            )
        );
        assert_eq!(observed.1, "root_ca_cert_publisher_sync_duration_seconds");
        assert_eq!(observed.2, labels);
        codes.extend(labels);
    }
    codes
}

#[test]
fn a_namespace_gets_the_bundle_and_its_description() {
    let cluster = cluster([namespace("Active")]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), [CREATE]);
    assert_eq!(found(&cluster)["data"], json!({"ca.crt": PEM}));
    let description =
        found(&cluster)["metadata"]["annotations"]["kubernetes.io/description"].take();
    assert_eq!(
        description,
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
         internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
         clusters."
    );
    assert_eq!(codes(&cluster), ["200", "200"]);
}

#[test]
fn a_correct_config_map_is_left_alone_whatever_its_description() {
    let cluster = cluster([
        namespace("Active"),
        config_map(json!({"ca.crt": PEM}), "theirs"),
    ]);
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_deleted_config_map_is_recreated() {
    let cluster = cluster([namespace("Active"), config_map(json!({"ca.crt": PEM}), "x")]);
    cluster.remove("v1/ConfigMap", "team", "kube-root-ca.crt");
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [CREATE]);
}

#[test]
fn changed_data_is_restored_and_other_metadata_is_kept() {
    for (data, description) in [
        (json!({"ca.crt": "old"}), "x"),
        (json!({}), "x"),
        (Value::Null, "x"),
        (json!({"ca.crt": PEM, "more": "data"}), "x"),
        (json!({"other": PEM}), "x"),
        (json!({"ca.crt": PEM}), ""),
    ] {
        let mut changed = config_map(data, description);
        changed["binaryData"] = json!({"theirs": "AA=="});
        let cluster = cluster([namespace("Active"), changed]);
        reconcile(&cluster).unwrap();
        reconcile(&cluster).unwrap();
        assert_eq!(cluster.written(), [UPDATE]);
        let found = found(&cluster);
        assert_eq!(found["data"], json!({"ca.crt": PEM}));
        assert_eq!(
            (
                &found["metadata"]["labels"]["theirs"],
                &found["binaryData"]["theirs"]
            ),
            (&"stays".into(), &"AA==".into())
        );
        assert!(
            found["metadata"]["annotations"]["kubernetes.io/description"]
                .as_str()
                .unwrap()
                .starts_with("Contains")
        );
    }
}

#[test]
fn a_missing_description_is_added() {
    let mut bare = config_map(json!({"ca.crt": PEM}), "x");
    bare["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations");
    let cluster = cluster([namespace("Active"), bare]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [UPDATE]);
}

#[test]
fn a_terminating_or_deleted_namespace_gets_no_new_one_but_an_existing_one_is_restored() {
    for objects in [vec![namespace("Terminating")], vec![]] {
        let cluster = cluster(objects);
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        assert!(cluster.written().is_empty());
    }
    let cluster = cluster([namespace("Terminating"), config_map(json!({}), "x")]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [UPDATE]);
}

#[test]
fn a_server_error_about_a_terminating_or_deleted_namespace_is_ignored() {
    let mut going = namespace("Active");
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let gone = cluster([namespace("Active")]);
    gone.fail("create", "v1/ConfigMap", refusal(404, "NotFound"));
    for cluster in [cluster([going]), gone] {
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        assert_eq!(cluster.written().len(), 1);
        assert_eq!(codes(&cluster), ["200"]);
    }
}

#[test]
fn an_error_is_retried_and_counted_by_its_status() {
    let cluster = cluster([namespace("Active")]);
    for (status, reason, code) in [
        (403, "Forbidden", "403"),
        (409, "AlreadyExists", "409"),
        (0, "Timeout", "500"),
    ] {
        cluster.fail("create", "v1/ConfigMap", refusal(status, reason));
        assert!(!reconcile(&cluster).unwrap_err().is_terminal());
        assert_eq!(codes(&cluster), [code]);
    }
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
}

#[test]
fn an_update_conflict_is_retried() {
    let cluster = cluster([namespace("Active"), config_map(json!({}), "x")]);
    cluster.fail("update", "v1/ConfigMap", refusal(409, "Conflict"));
    reconcile(&cluster).unwrap_err();
    assert_eq!(codes(&cluster), ["409"]);
    reconcile(&cluster).unwrap();
    assert_eq!(found(&cluster)["data"], json!({"ca.crt": PEM}));
}

#[test]
fn without_a_bundle_nothing_is_written_or_retried() {
    let cluster = Cluster::with([namespace("Active"), config_map(json!({"ca.crt": PEM}), "x")]);
    let error = reconcile(&cluster).unwrap_err();
    assert!(
        error.is_terminal() && error.to_string().contains("`root-ca`"),
        "{error}"
    );
    assert!(cluster.written().is_empty());
}

#[test]
fn an_empty_bundle_is_published() {
    let cluster = Cluster::with([namespace("Active")]);
    cluster.set_config(ROOT_CA, "");
    reconcile(&cluster).unwrap();
    assert_eq!(found(&cluster)["data"], json!({"ca.crt": ""}));
}

#[test]
fn other_config_maps_are_ignored() {
    let mut other = config_map(json!({}), "");
    other["metadata"]["name"] = "other".into();
    let cluster = cluster([namespace("Active"), other]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [CREATE]);
    let config_maps = &RootCa::describe().watches[1];
    assert_eq!(config_maps.field_selector, "metadata.name=kube-root-ca.crt");
}
