//! What the controller does, natively.

use flyball_rootca::{ROOT_CA, RootCa};
use flyball_sdk::imports::MetricOperation;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

const PEM: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const CREATE: &str = "create v1/ConfigMap team/kube-root-ca.crt";
const UPDATE: &str = "update v1/ConfigMap team/kube-root-ca.crt";

fn namespace(phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "status": {"phase": phase}})
}

/// The ConfigMap with this data and this description.
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

/// The ConfigMap as it is in the end.
fn found(cluster: &Cluster) -> Value {
    cluster
        .object("v1/ConfigMap", "team", "kube-root-ca.crt")
        .unwrap()
}

/// The codes that were counted, each observed as well.
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
fn a_namespace_gets_the_bundle_and_what_it_is_for() {
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
fn one_that_is_right_is_left_alone_whatever_its_description_says() {
    let cluster = cluster([
        namespace("Active"),
        config_map(json!({"ca.crt": PEM}), "theirs"),
    ]);
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_deleted_one_is_made_again() {
    let cluster = cluster([namespace("Active"), config_map(json!({"ca.crt": PEM}), "x")]);
    cluster.remove("v1/ConfigMap", "team", "kube-root-ca.crt");
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [CREATE]);
}

#[test]
fn a_changed_one_is_put_right_and_what_is_not_ours_stays() {
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
fn one_without_any_annotation_is_described() {
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
fn none_is_made_in_a_namespace_that_goes_or_is_gone_but_one_that_is_there_is_put_right() {
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
fn a_namespace_that_goes_or_is_gone_by_the_servers_word_is_no_failure() {
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
fn a_refusal_is_retried_and_counted_by_its_status() {
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
fn an_update_of_what_has_changed_meanwhile_is_retried() {
    let cluster = cluster([namespace("Active"), config_map(json!({}), "x")]);
    cluster.fail("update", "v1/ConfigMap", refusal(409, "Conflict"));
    reconcile(&cluster).unwrap_err();
    assert_eq!(codes(&cluster), ["409"]);
    reconcile(&cluster).unwrap();
    assert_eq!(found(&cluster)["data"], json!({"ca.crt": PEM}));
}

#[test]
fn without_a_bundle_nothing_is_written_and_no_retry_is_made() {
    let cluster = Cluster::with([namespace("Active"), config_map(json!({"ca.crt": PEM}), "x")]);
    let error = reconcile(&cluster).unwrap_err();
    assert!(
        error.is_terminal() && error.to_string().contains("`root-ca`"),
        "{error}"
    );
    assert!(cluster.written().is_empty());
}

#[test]
fn an_empty_bundle_is_published_as_well() {
    let cluster = Cluster::with([namespace("Active")]);
    cluster.set_config(ROOT_CA, "");
    reconcile(&cluster).unwrap();
    assert_eq!(found(&cluster)["data"], json!({"ca.crt": ""}));
}

#[test]
fn other_config_maps_are_not_seen() {
    let mut other = config_map(json!({}), "");
    other["metadata"]["name"] = "other".into();
    let cluster = cluster([namespace("Active"), other]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [CREATE]);
    let config_maps = &RootCa::describe().watches[1];
    assert_eq!(config_maps.field_selector, "metadata.name=kube-root-ca.crt");
}
