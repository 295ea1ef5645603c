//! Rolls back to an older revision on request of the annotation
//! `deprecated.deployment.rollback.to`, which replaces a field that earlier API versions had.
//!
//! Upstream: pkg/controller/deployment/rollback.go: rollback, rollbackToTemplate, getRollbackTo, setRollbackTo.
//! Upstream: pkg/controller/deployment/util/deployment_util.go: SetFromReplicaSetTemplate, SetDeploymentAnnotationsTo,
//! getSkippedAnnotations.

use flyball_sdk::StringMap;
use flyball_sdk::prelude::*;
use serde_json::Map;

use crate::revision::{ROLLBACK_TO, before_last, is_own, revision};
use crate::sets::Sets;
use crate::template::{HASH_LABEL, Template};
use crate::views::{Deployment, ReplicaSet};

/// How a requested rollback is carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollback {
    /// The merge patch for the Deployment. It always removes the request.
    pub change: Value,
    /// Whether the event is a warning; if so, nothing is rolled back.
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// Returns the revision to roll back to: 0 for the previous one. Returns `None` if there is no request or its value
/// isn't a number.
pub fn requested(deployment: &Deployment) -> Option<i64> {
    deployment.meta.annotation(ROLLBACK_TO)?.parse().ok()
}

/// Decides how a request is carried out.
pub fn plan(deployment: &Deployment, sets: &Sets, requested: i64) -> Rollback {
    let not_found = |message: &str| refusal("DeploymentRollbackRevisionNotFound", message.into());
    let wanted = if requested == 0 {
        before_last(sets.all())
    } else {
        requested
    };
    if wanted == 0 {
        return not_found("Unable to find last revision.");
    }
    let Some(target) = sets.all().find(|set| revision(set) == Some(wanted)) else {
        return not_found("Unable to find the revision to rollback to.");
    };
    let name = &deployment.meta.name;
    if Template::of(&target.template) == Template::of(&deployment.template) {
        let message = format!(
            "The rollback revision contains the same template as current deployment \"{name}\""
        );
        return refusal("DeploymentRollbackTemplateUnchanged", message);
    }
    Rollback {
        change: change_to(deployment, target),
        warning: false,
        reason: "DeploymentRollback",
        message: format!("Rolled back deployment \"{name}\" to revision {wanted}"),
    }
}

fn refusal(reason: &'static str, message: String) -> Rollback {
    let change = json!({"metadata": {"annotations": {ROLLBACK_TO: null}}});
    Rollback {
        change,
        warning: true,
        reason,
        message,
    }
}

/// The change that gives the Deployment the template of a ReplicaSet and the annotations from which
/// it was created: a change cause belongs to its revision.
fn change_to(deployment: &Deployment, target: &ReplicaSet) -> Value {
    let mut template = target.template.value();
    if let Some(labels) = template
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(HASH_LABEL);
    }
    let present = &deployment.meta.annotations;
    let own = present
        .iter()
        .filter(|(key, _)| is_own(key) && *key != ROLLBACK_TO);
    let copied = target
        .meta
        .annotations
        .iter()
        .filter(|(key, _)| !is_own(key));
    let annotations: StringMap = own
        .chain(copied)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    json!({
        "metadata": {"annotations": difference(&json!(present), &json!(annotations))},
        "spec": {"template": difference(&deployment.template.value(), &template)},
    })
}

/// Returns the JSON merge patch that turns `from` into `to`.
fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let mut patch = Map::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in to {
        match from.get(name) {
            Some(same) if same == value => {}
            other => drop(patch.insert(
                name.clone(),
                difference(other.unwrap_or(&Value::Null), value),
            )),
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::REVISION;

    fn annotations(pairs: &[(&str, &str)]) -> Meta {
        let annotations = pairs
            .iter()
            .map(|&(key, value)| (key.into(), value.into()))
            .collect();
        Meta {
            name: "web".into(),
            annotations,
            ..Meta::default()
        }
    }

    fn deployment(requested: &str) -> Deployment {
        Deployment {
            meta: annotations(&[
                ("cause", "edit"),
                ("gone", "1"),
                (REVISION, "3"),
                (ROLLBACK_TO, requested),
            ]),
            template: Raw::from(
                json!({"metadata": {"labels": {"a": "b"}}, "spec": {"image": "v3", "extra": 1}}),
            ),
            ..Deployment::default()
        }
    }

    fn set(revision: &str, image: &str) -> ReplicaSet {
        ReplicaSet {
            meta: annotations(&[(REVISION, revision), ("cause", image)]),
            template: Raw::from(
                json!({"metadata": {"labels": {"a": "b", HASH_LABEL: "x"}}, "spec": {"image": image}}),
            ),
            ..ReplicaSet::default()
        }
    }

    fn sets() -> Sets {
        let mut new = set("3", "v3");
        new.template = deployment("").template;
        Sets {
            new: Some(new),
            old: vec![set("1", "v1"), set("2", "v2")],
        }
    }

    #[test]
    fn only_a_number_is_a_request() {
        for (text, expected) in [("2", Some(2)), ("0", Some(0)), ("", None), ("two", None)] {
            assert_eq!(requested(&deployment(text)), expected);
        }
        assert_eq!(requested(&Deployment::default()), None);
    }

    #[test]
    fn a_rollback_restores_the_template_and_annotations_of_the_revision() {
        let rollback = plan(&deployment("1"), &sets(), 1);
        let expected = json!({
            "metadata": {"annotations": {"cause": "v1", "gone": null, ROLLBACK_TO: null}},
            "spec": {"template": {"spec": {"image": "v1", "extra": null}}},
        });
        assert_eq!(rollback.change, expected);
        assert_eq!(
            (rollback.warning, rollback.reason),
            (false, "DeploymentRollback")
        );
        assert_eq!(
            rollback.message,
            "Rolled back deployment \"web\" to revision 1"
        );
    }

    #[test]
    fn zero_means_the_previous_revision() {
        assert_eq!(
            plan(&deployment("0"), &sets(), 0).message,
            "Rolled back deployment \"web\" to revision 2"
        );
    }

    #[test]
    fn an_impossible_request_is_removed_with_a_warning() {
        let only = Sets {
            new: Some(set("1", "v1")),
            old: Vec::new(),
        };
        for (sets, requested, reason, message) in [
            (
                sets(),
                7,
                "DeploymentRollbackRevisionNotFound",
                "Unable to find the revision to rollback to.",
            ),
            (
                only,
                0,
                "DeploymentRollbackRevisionNotFound",
                "Unable to find last revision.",
            ),
            (
                sets(),
                3,
                "DeploymentRollbackTemplateUnchanged",
                "The rollback revision contains the same template as current deployment \"web\"",
            ),
        ] {
            let rollback = plan(&deployment(""), &sets, requested);
            assert_eq!(
                (rollback.warning, rollback.reason, rollback.message.as_str()),
                (true, reason, message)
            );
            assert_eq!(
                rollback.change,
                json!({"metadata": {"annotations": {ROLLBACK_TO: null}}})
            );
        }
    }
}
