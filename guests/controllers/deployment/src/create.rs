//! The ReplicaSet that a Deployment creates for a new template.
//!
//! Upstream: pkg/controller/deployment/sync.go: getNewReplicaSet.
//! Upstream: pkg/util/labels/labels.go: CloneAndAddLabel, CloneSelectorAndAddLabel.

use flyball_sdk::prelude::*;
use flyball_template_hash::{name, template_hash};
use serde_json::Map;

use crate::revision::{of_new_set, sizes};
use crate::rolling::size_of_new;
use crate::sets::Sets;
use crate::template::{HASH_LABEL, Template};
use crate::views::{Deployment, ReplicaSet};

/// Returns the ReplicaSet to create.
pub fn new_set(deployment: &Deployment, sets: &Sets, revision: i64) -> Value {
    // A retry computes the same hash, and so uses the same name.
    let hash = template_hash(&deployment.template, deployment.status.collision_count);
    let mut template = deployment.template.value();
    let labels = label(&mut template, &["metadata", "labels"], &hash);
    let mut selector = deployment.selector.value();
    label(&mut selector, &["matchLabels"], &hash);

    let mut annotations = of_new_set(deployment, &Default::default(), revision);
    annotations.extend(sizes(deployment).map(|(key, value)| (key.to_owned(), value)));
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name(&deployment.meta.name, &hash),
            "namespace": deployment.meta.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [deployment.meta.controller_reference(Deployment::KIND)],
        },
        "spec": {
            "replicas": size_of_new(deployment, sets.desired(), 0),
            "minReadySeconds": deployment.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    })
}

/// Whether an existing ReplicaSet with the name is the same as the one to create.
pub fn is_own(deployment: &Deployment, set: &ReplicaSet) -> bool {
    set.meta.is_controlled_by(&deployment.meta.uid)
        && Template::of(&set.template) == Template::of(&deployment.template)
}

/// Adds the hash label to the map at this path and returns the map.
fn label(object: &mut Value, path: &[&str], hash: &str) -> Map<String, Value> {
    let mut here = object;
    for &step in path {
        if !here[step].is_object() {
            here[step] = json!({});
        }
        here = &mut here[step];
    }
    here[HASH_LABEL] = hash.into();
    here.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use flyball_sdk::IntOrPercent;

    use super::*;
    use crate::revision::{DESIRED, MAX, REVISION};

    fn deployment() -> Deployment {
        Deployment {
            meta: Meta {
                name: "web".into(),
                namespace: "shop".into(),
                uid: "u1".into(),
                annotations: [("team".to_owned(), "a".to_owned())].into(),
                ..Meta::default()
            },
            selector: Raw::from(
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}),
            ),
            template: Raw::from(
                json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a"}]}}),
            ),
            replicas: Some(10),
            strategy: "RollingUpdate".into(),
            max_surge: IntOrPercent::Percent("25%".into()),
            min_ready_seconds: 7,
            ..Deployment::default()
        }
    }

    #[test]
    fn a_new_set_has_the_hash_label_the_owner_and_the_annotations() {
        let deployment = deployment();
        let hash = template_hash(&deployment.template, None);
        let labels = json!({"app": "web", HASH_LABEL: hash});
        let old = ReplicaSet {
            desired: Some(10),
            ..ReplicaSet::default()
        };
        let expected = json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": format!("web-{hash}"),
                "namespace": "shop",
                "labels": labels,
                "annotations": {"team": "a", REVISION: "4", DESIRED: "10", MAX: "13"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u1",
                                     "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {
                "replicas": 3,
                "minReadySeconds": 7,
                "selector": {"matchLabels": {"app": "web", HASH_LABEL: hash},
                             "matchExpressions": [{"key": "x", "operator": "Exists"}]},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a"}]}},
            },
        });
        assert_eq!(
            new_set(
                &deployment,
                &Sets {
                    new: None,
                    old: vec![old]
                },
                4
            ),
            expected
        );
    }

    #[test]
    fn a_new_set_has_the_name_that_stock_gives_it() {
        // The golden of the scenario has the name in a message. This is the scenario's template with the API server's defaults.
        let golden = include_str!("../goldens/sets-refused.json");
        let container = json!({
            "name": "app", "image": "app:1", "resources": {}, "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
        });
        let template = json!({
            "metadata": {"creationTimestamp": null, "labels": {"app": "web"}},
            "spec": {
                "containers": [container], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler",
            },
        });
        let deployment = Deployment {
            template: Raw::from(template),
            ..deployment()
        };
        let set = new_set(&deployment, &Sets::default(), 1);
        let name = set["metadata"]["name"].as_str().unwrap();
        let message = format!(r#"Failed to create new replica set \"{name}\""#);
        assert!(golden.contains(&message), "{name}");
    }

    #[test]
    fn a_selector_of_expressions_alone_gets_the_hash_as_well() {
        let selector = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
        let deployment = Deployment {
            selector: Raw::from(selector),
            ..deployment()
        };
        let set = new_set(&deployment, &Sets::default(), 1);
        assert_eq!(
            set["spec"]["selector"]["matchLabels"],
            json!({HASH_LABEL: set["metadata"]["labels"][HASH_LABEL]})
        );
    }

    #[test]
    fn a_collision_changes_the_name() {
        let mut deployment = deployment();
        let before = new_set(&deployment, &Sets::default(), 1);
        deployment.status.collision_count = Some(1);
        assert_ne!(
            new_set(&deployment, &Sets::default(), 1)["metadata"]["name"],
            before["metadata"]["name"]
        );
    }

    #[test]
    fn an_existing_set_is_own_if_it_is_owned_and_has_the_same_template() {
        let deployment = deployment();
        let owner = deployment.meta.controller_reference(Deployment::KIND);
        let set = |owner: Option<OwnerReference>, template: Value| ReplicaSet {
            meta: Meta {
                owner_references: owner.into_iter().collect(),
                ..Meta::default()
            },
            template: Raw::from(template),
            ..ReplicaSet::default()
        };
        let same = deployment.template.value();
        assert!(is_own(&deployment, &set(Some(owner.clone()), same.clone())));
        assert!(!is_own(&deployment, &set(None, same.clone())));
        assert!(!is_own(
            &deployment,
            &set(
                Some(OwnerReference {
                    uid: "u2".into(),
                    ..owner.clone()
                }),
                same
            )
        ));
        assert!(!is_own(&deployment, &set(Some(owner), json!({}))));
    }
}
