//! The labels of mounts.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, view};

use super::world::*;
use crate::SelinuxWarnings;
use crate::views::Pod;

/// The volumes that a pod mounts, with their labels.
fn mounts(pod: Value) -> Vec<String> {
    let mounts = view::<Pod>(pod).mounts().into_iter();
    mounts
        .map(|mount| format!("{} {:?}", mount.volume, mount.labels))
        .collect()
}

fn container(options: Value, mounts: &[&str]) -> Value {
    let mounts: Vec<Value> = mounts.iter().map(|name| json!({"name": name})).collect();
    json!({"securityContext": {"seLinuxOptions": options}, "volumeMounts": mounts})
}

fn with_containers(containers: &[Value]) -> Value {
    with(pod("web", "s0:c1"), "/spec/containers", containers)
}

#[test]
fn a_container_has_the_label_of_its_pod_or_its_own() {
    let full = json!({"user": "u", "role": "r", "type": "t", "level": "s0:c2,c3"});
    let pod = with_containers(&[
        container(Value::Null, &["a"]),
        container(full, &["b"]),
        json!({"volumeMounts": [{"name": "c"}]}),
    ]);
    assert_eq!(
        mounts(pod),
        [
            r#"a {":::s0:c1"}"#,
            r#"b {"u:r:t:s0:c2,c3"}"#,
            r#"c {":::s0:c1"}"#
        ]
    );
}

#[test]
fn own_options_replace_those_of_the_pod_as_a_whole() {
    let pod = with_containers(&[
        container(json!({"type": "spc_t"}), &["a"]),
        container(json!({}), &["b"]),
    ]);
    assert_eq!(mounts(pod), [r#"a {"::spc_t:"}"#, r#"b {""}"#]);
}

#[test]
fn a_container_without_any_options_does_not_count() {
    let mut pod = with_containers(&[
        container(json!({"level": "s0:c1"}), &["a", "b"]),
        container(Value::Null, &["a", "c"]),
        json!({}),
    ]);
    pod["spec"]["securityContext"] = Value::Null;
    assert_eq!(
        mounts(pod),
        [r#"a {":::s0:c1"}"#, r#"b {":::s0:c1"}"#, "c {}"]
    );
}

#[test]
fn init_containers_and_ephemeral_containers_count_too() {
    let mut pod = with_containers(&[]);
    pod["spec"]["initContainers"] = json!([container(json!({"level": "s0:c1"}), &["a"])]);
    pod["spec"]["ephemeralContainers"] = json!([container(json!({"level": "s0:c2"}), &["a"])]);
    assert_eq!(mounts(pod), [r#"a {":::s0:c1", ":::s0:c2"}"#]);
}

#[test]
fn a_volume_of_any_kind_with_two_labels_in_a_pod_is_reported_at_each_attempt() {
    let containers = [
        container(json!({"level": "s0:c1"}), &["cache", "data"]),
        container(json!({"level": "s0:c2"}), &["cache"]),
    ];
    let pod = with(
        with_containers(&containers),
        "/spec/volumes",
        json!([{"name": "cache", "emptyDir": {}},
               {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
    );
    let cluster = cluster([pod, super::world::pod("db", "s0:c9")]);
    sync(&cluster, &["team/db"]);
    let warning = "Warning MultipleSELinuxLabels Volume \"cache\" is mounted twice with different SELinux labels inside \
                   this pod";
    let error = cluster
        .reconcile::<SelinuxWarnings>("team/web")
        .unwrap_err();
    assert!(!error.is_terminal());
    // The other volume is compared all the same.
    let events = cluster.events();
    assert_eq!(events.len(), 3);
    assert_eq!(events[2], warning);
    cluster
        .reconcile::<SelinuxWarnings>("team/web")
        .unwrap_err();
    assert_eq!(cluster.events(), [warning]);
}

#[test]
fn a_pod_that_is_deleted_needs_nothing() {
    assert!(sync(&Cluster::new(), &["team/web"]).is_empty());
}
