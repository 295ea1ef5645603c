//! The pods that are created.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::pods::{FINALIZER, INDEX};

/// The first pod that a job creates, as sent to the API server.
fn sent(job: Object) -> Value {
    let world = World::of([job]);
    world.try_sync().unwrap();
    world
        .cluster
        .writes()
        .into_iter()
        .find(|write| write.verb == "create")
        .expect("no pod was created")
        .body
}

#[test]
fn a_pod_is_created_from_the_template_with_owner_and_finalizer() {
    let job = job(1, 1)
        .with("/spec/template/metadata/annotations/note", "hi")
        .with(
            "/spec/template/metadata/finalizers",
            json!(["example.com/stay"]),
        );
    let template = job.0["spec"]["template"]["spec"].clone();
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "uid-work", "controller": true,
                       "blockOwnerDeletion": true});
    assert_eq!(
        sent(job),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "generateName": "work-", "labels": {"job": "work"}, "annotations": {"note": "hi"},
                "finalizers": ["example.com/stay", FINALIZER], "ownerReferences": [owner],
            },
            "spec": template,
        })
    );
}

#[test]
fn a_finalizer_that_the_template_has_is_not_added_again() {
    let pod = sent(job(1, 1).with("/spec/template/metadata/finalizers", json!([FINALIZER])));
    assert_eq!(pod["metadata"]["finalizers"], json!([FINALIZER]));
}

#[test]
fn the_index_is_in_the_annotation_label_name_hostname_and_variable() {
    let containers = json!([{"name": "c", "env": [{"name": "A", "value": "1"}]}, {"name": "d"}]);
    let pod = sent(
        indexed(1, 1)
            .with("/spec/template/spec/containers", containers)
            .with("/spec/template/spec/initContainers", json!([{"name": "i"}])),
    );
    let metadata = &pod["metadata"];
    assert_eq!(
        metadata["annotations"],
        json!({"batch.kubernetes.io/job-completion-index": "0"})
    );
    assert_eq!(
        metadata["labels"],
        json!({"job": "work", "batch.kubernetes.io/job-completion-index": "0"})
    );
    assert_eq!(
        (&metadata["generateName"], &pod["spec"]["hostname"]),
        (&json!("work-0-"), &json!("work-0"))
    );
    let path = "metadata.labels['batch.kubernetes.io/job-completion-index']";
    let variable =
        json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    assert_eq!(
        pod["spec"]["containers"][0]["env"],
        json!([{"name": "A", "value": "1"}, variable])
    );
    assert_eq!(pod["spec"]["containers"][1]["env"], json!([variable]));
    assert_eq!(pod["spec"]["initContainers"][0]["env"], json!([variable]));
}

#[test]
fn an_existing_index_variable_and_absent_container_lists_are_left_alone() {
    let own = json!([{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]);
    let pod = sent(indexed(1, 1).with("/spec/template/spec/containers/0/env", own.clone()));
    assert_eq!(pod["spec"]["containers"][0]["env"], own);
    assert!(pod["spec"].get("initContainers").is_none());
}

#[test]
fn each_index_has_its_own_label_and_annotations() {
    let world = World::of([limited(2, 2, 3)]);
    world.try_sync().unwrap();
    let made = |prefix: &str| {
        let name = world
            .names()
            .into_iter()
            .find(|name| name.starts_with(prefix))
            .unwrap();
        let pod = world.pod(&name);
        (
            pod["metadata"]["labels"][INDEX].clone(),
            pod["spec"]["hostname"].clone(),
        )
    };
    assert_eq!(
        (made("work-0-"), made("work-1-")),
        ((json!("0"), json!("work-0")), (json!("1"), json!("work-1")))
    );
}

#[test]
fn a_long_name_leaves_room_for_the_index() {
    let long = "x".repeat(63);
    let world = World::of([indexed(1, 1).with("/metadata/name", long.as_str())]);
    world
        .cluster
        .reconcile::<crate::JobController>(&format!("default/{long}"))
        .unwrap();
    let pod = world
        .cluster
        .writes()
        .into_iter()
        .find(|write| write.verb == "create")
        .unwrap()
        .body;
    assert_eq!(
        pod["metadata"]["generateName"],
        format!("{}-0-", "x".repeat(55))
    );
}

#[test]
fn a_template_without_labels_creates_no_pod() {
    let world = World::of([job(1, 1).with("/spec/template/metadata/labels", json!({}))]);
    assert_eq!(
        world.try_sync(),
        Err("unable to create pods, no labels".into())
    );
    assert_eq!(count(&world.cluster.written(), "create"), 0);
}

#[test]
fn the_template_is_passed_on_verbatim() {
    let quantities = json!({"limits": {"cpu": "1.50"}});
    let pod = sent(job(1, 1).with(
        "/spec/template/spec/containers/0/resources",
        quantities.clone(),
    ));
    assert_eq!(pod["spec"]["containers"][0]["resources"], quantities);
}
