//! The number of pods, the writes and the events.

use flyball_sdk::serde_json;
use flyball_sdk::write::Action;

use super::*;
use crate::scale::{
    Failure, Note, Report, Step, creation, deletion, report_creations, report_deletions, step,
};

#[test]
fn a_step_approaches_the_desired_number_in_bursts() {
    assert_eq!(step(3, 3), Step::Stay);
    assert_eq!(step(1, 3), Step::Create(2));
    assert_eq!(step(3, 0), Step::Delete(3));
    assert_eq!(step(0, 5000), Step::Create(500));
    assert_eq!(step(5000, 1), Step::Delete(500));
}

#[test]
fn the_default_is_one_pod() {
    assert_eq!(web(1).with("/spec/replicas", Value::Null).set().wanted(), 1);
    assert_eq!(web(0).set().wanted(), 0);
}

fn new_pod(set: &Object) -> (Value, String) {
    let set = set.set();
    let write = creation(&set, &set.meta.controller_reference("apps/v1/ReplicaSet")).unwrap();
    assert_eq!(
        (write.target.namespace.as_str(), write.target.name.as_str()),
        ("default", "")
    );
    match write.action {
        Action::Create(body) => (
            serde_json::from_slice(&body).unwrap(),
            String::from_utf8(body).unwrap(),
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_pod_has_the_template_an_owner_and_a_generated_name() {
    let template = web(1).with(
        "/spec/template/metadata/finalizers",
        json!(["example.com/f"]),
    );
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web",
                       "controller": true, "blockOwnerDeletion": true});
    let (pod, _) = new_pod(&template);
    assert_eq!(
        pod,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "generateName": "web-", "labels": {"app": "web", "tier": "front"}, "annotations": {"note": "hi"},
                "finalizers": ["example.com/f"], "ownerReferences": [owner],
            },
            "spec": {"containers": [{"name": "c", "image": "web:1", "resources": {"limits": {"cpu": "1.50"}}}]},
        })
    );
}

#[test]
fn fields_absent_from_the_template_are_absent_from_the_pod() {
    let template = web(1).with(
        "/spec/template/metadata",
        json!({"name": "x", "labels": {"app": "web"}}),
    );
    let (pod, _) = new_pod(&template);
    let keys: Vec<_> = pod["metadata"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["generateName", "labels", "ownerReferences"]);
}

#[test]
fn the_spec_of_the_template_is_passed_on_verbatim() {
    let spec = r#"{"unknownToUs":[1.0,1e3],  "containers":null}"#;
    let text = web(1)
        .with("/spec/template/spec", "SPEC")
        .0
        .to_string()
        .replace("\"SPEC\"", spec);
    let set: Set = serde_json::from_str(&text).unwrap();
    let write = creation(&set, &set.meta.controller_reference("apps/v1/ReplicaSet")).unwrap();
    let Action::Create(body) = write.action else {
        panic!()
    };
    assert!(
        String::from_utf8(body)
            .unwrap()
            .ends_with(&format!("\"spec\":{spec}}}"))
    );
}

#[test]
fn a_template_without_labels_creates_no_pod() {
    let set = web(1).with("/spec/template/metadata", Value::Null).set();
    let failure = creation(&set, &set.meta.controller_reference("apps/v1/ReplicaSet")).unwrap_err();
    assert_eq!(failure.message, "unable to create pods, no labels");
}

fn note(is_warning: bool, reason: &'static str, message: &str) -> Note {
    Note {
        is_warning,
        reason,
        message: message.into(),
    }
}

#[test]
fn each_creation_has_an_event_except_skipped_ones() {
    let quota = "pods \"web-\" is forbidden: exceeded quota";
    let answers = [
        Ok("web-1".to_owned()),
        Err(refusal(403, "Forbidden", quota)),
        Err(ApiError::skipped()),
    ];
    assert_eq!(
        report_creations(answers),
        Report {
            notes: vec![
                note(false, "SuccessfulCreate", "Created pod: web-1"),
                note(
                    true,
                    "FailedCreate",
                    "Error creating: pods \"web-\" is forbidden: exceeded quota"
                ),
            ],
            failure: Some(Failure {
                reason: "FailedCreate",
                message: quota.into()
            }),
        }
    );
}

#[test]
fn the_first_failure_is_reported() {
    let answers = ["one", "two"].map(|message| Err(refusal(500, "InternalError", message)));
    let report = report_creations(answers);
    assert_eq!(
        (report.notes.len(), report.failure.unwrap().message.as_str()),
        (2, "one")
    );
}

#[test]
fn a_terminating_namespace_is_no_failure() {
    let message = "pods \"web-\" is forbidden: unable to create new content in namespace default because it is being terminated";
    let answers = [
        Err(refusal(403, "NamespaceTerminating", message)),
        Err(ApiError::skipped()),
    ];
    assert_eq!(report_creations(answers), Report::default());
}

#[test]
fn a_deletion_has_the_uid_as_a_precondition() {
    let write = deletion(&candidates(&[pod("a")])[0]);
    assert_eq!(
        (write.target.name.as_str(), write.action),
        ("a", Action::Delete)
    );
    assert_eq!(
        Value::Object(write.options),
        json!({"preconditions": {"uid": "uid-a"}})
    );
}

#[test]
fn each_deletion_has_an_event_and_a_deleted_pod_is_no_failure() {
    let to_delete = candidates(&[pod("a"), pod("b"), pod("c")]);
    let answers = [
        Ok(()),
        Err(refusal(404, "NotFound", "gone")),
        Err(refusal(500, "InternalError", "the disk is full")),
    ];
    assert_eq!(
        report_deletions(to_delete.iter().zip(answers)),
        Report {
            notes: vec![
                note(false, "SuccessfulDelete", "Deleted pod: a"),
                note(true, "FailedDelete", "Error deleting: the disk is full"),
            ],
            failure: Some(Failure {
                reason: "FailedDelete",
                message: "unable to delete pods: the disk is full".into()
            }),
        }
    );
}
