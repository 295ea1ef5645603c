use flyball_sdk::testing::{Cluster, view};

use super::*;

fn set(spec: Value) -> StatefulSet {
    let mut set =
        json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec});
    set["spec"]["replicas"] = 3.into();
    view(set)
}

fn body(set: &StatefulSet, template: Value, ordinal: i64) -> Value {
    let revision = Revision {
        name: "web-rev".into(),
        template: Raw::from(template).parse().unwrap().unwrap(),
    };
    let cluster = Cluster::new();
    cluster
        .host()
        .write(creation(set, &revision, ordinal))
        .unwrap();
    cluster.writes().remove(0).body
}

#[test]
fn a_pod_has_its_template_and_its_identity() {
    let set = set(json!({"serviceName": "web-service"}));
    let template = json!({
        "metadata": {"labels": {"app": "web", "statefulset.kubernetes.io/pod-name": "x"},
                     "annotations": {"a": "b"}, "finalizers": ["example.com/f"], "name": "ignored"},
        "spec": {"containers": [{"name": "c"}], "hostname": "x", "subdomain": "x"},
    });
    assert_eq!(
        body(&set, template, 2),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-2", "generateName": "web-", "namespace": "shop",
                "labels": {"app": "web", "statefulset.kubernetes.io/pod-name": "web-2",
                           "apps.kubernetes.io/pod-index": "2", "controller-revision-hash": "web-rev"},
                "annotations": {"a": "b"}, "finalizers": ["example.com/f"],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u1",
                                     "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {"containers": [{"name": "c"}], "hostname": "web-2", "subdomain": "web-service"},
        })
    );
}

#[test]
fn without_a_service_a_pod_has_no_subdomain() {
    let pod = body(&set(json!({})), json!({"spec": {"subdomain": "x"}}), 0);
    assert_eq!(pod["spec"], json!({"hostname": "web-0"}));
}

#[test]
fn volumes_of_claims_replace_those_of_the_same_name() {
    let set = set(
        json!({"volumeClaimTemplates": [{"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}]}),
    );
    let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-web-1")}});
    let other = json!({"name": "c", "configMap": {"name": "c", "items": []}});
    let template = json!({"spec": {"volumes": [other, {"name": "a", "emptyDir": {}}]}});
    let pod = body(&set, template, 1);
    assert_eq!(
        pod["spec"]["volumes"],
        json!([claim("b"), claim("a"), other])
    );
}

#[test]
fn the_revision_of_a_new_pod_depends_on_the_strategy() {
    let currents = |strategy: Value, start: i32| -> Vec<i64> {
        let mut set = set(json!({"updateStrategy": strategy, "ordinals": {"start": start}}));
        set.status.current_replicas = 2;
        (0..6)
            .filter(|&ordinal| is_current(&set, ordinal))
            .collect()
    };
    let partition = |at: i32| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": at}});
    assert_eq!(currents(partition(1), 0), [0]);
    assert_eq!(currents(partition(1), 2), [0, 1, 2]);
    assert_eq!(currents(partition(0), 0), [0; 0]);
    assert_eq!(
        currents(json!({"type": "RollingUpdate", "rollingUpdate": {}}), 0),
        [0; 0]
    );
    assert_eq!(currents(json!({"type": "RollingUpdate"}), 0), [0, 1]);
    assert_eq!(currents(json!({"type": "RollingUpdate"}), 1), [0, 1, 2]);
    assert_eq!(currents(json!({"type": "OnDelete"}), 0), [0; 0]);
}
