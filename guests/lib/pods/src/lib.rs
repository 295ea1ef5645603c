//! Pods and pod templates, for workload controllers.
//!
//! Upstream: pkg/controller/controller_utils.go: createPods, GetPodFromTemplate.

use std::collections::BTreeMap;

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::{DeltaType, Mapping, View, Watch, watch};
use flyball_sdk::{Answer, Error, Meta, OwnerReference, Raw, StringMap, Write};
use serde::{Deserialize, Serialize};

pub mod containers;
mod delete;
pub mod disruption;
pub mod refusal;

pub use delete::patch_and_delete;

/// A pod template. Its spec is copied into pods verbatim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: PodTemplateMeta,
    pub spec: Raw,
}

/// The metadata that pods inherit from a template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodTemplateMeta {
    #[serde(deserialize_with = "null_is_default")]
    pub labels: StringMap,
    #[serde(deserialize_with = "null_is_default")]
    pub annotations: StringMap,
    #[serde(deserialize_with = "null_is_default")]
    pub finalizers: Vec<String>,
}

impl PodTemplate {
    /// The write that creates a pod with a generated name. It returns the name; see
    /// [`created_name`].
    pub fn creation(
        &self,
        namespace: &str,
        generate_name: &str,
        controller: &OwnerReference,
    ) -> Write {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Pod<'a> {
            api_version: &'a str,
            kind: &'a str,
            metadata: Metadata<'a>,
            spec: &'a Raw,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            generate_name: &'a str,
            labels: &'a StringMap,
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            annotations: &'a StringMap,
            #[serde(skip_serializing_if = "<[String]>::is_empty")]
            finalizers: &'a [String],
            owner_references: [&'a OwnerReference; 1],
        }
        let pod = Pod {
            api_version: "v1",
            kind: "Pod",
            metadata: Metadata {
                generate_name,
                labels: &self.metadata.labels,
                annotations: &self.metadata.annotations,
                finalizers: &self.metadata.finalizers,
                owner_references: [controller],
            },
            spec: &self.spec,
        };
        Write::create("v1/Pod", namespace, &pod).returning(&["metadata.name"])
    }
}

/// The name that the API server generated for a pod.
///
/// # Errors
/// The response has no name.
pub fn created_name(answer: &Answer) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Pod {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
    }
    Ok(answer.parse::<Pod>()?.metadata.name)
}

/// An init container of a pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InitContainer {
    pub name: String,
    /// `Always` for a sidecar.
    pub restart_policy: Option<String>,
}

/// Whether the init container with this name is a sidecar.
pub fn is_sidecar(init_containers: &[InitContainer], name: &str) -> bool {
    init_containers
        .iter()
        .any(|spec| spec.name == name && spec.restart_policy.as_deref() == Some("Always"))
}

/// Whether a pod in this phase has ended.
pub fn has_ended(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// The watch of pods, as a view of them, whose changes are routed if by them a pod [`may_be_over`], while the namespace has
/// an object of the kind `waiting`.
pub fn watch_until_over<Pod: View>(waiting: &str) -> Watch {
    watch::<Pod>()
        .when_at(&["metadata.deletionTimestamp", "status.phase"])
        .enqueue(
            Mapping::route()
                .on([DeltaType::Modified, DeltaType::Deleted])
                .while_any(&[waiting]),
        )
}

/// Whether a pod may be over after a change: it is gone, another one has its name, it is being deleted, or it has ended.
/// The pod is given by its metadata and phase before and after.
pub fn may_be_over(before: Option<(&Meta, &str)>, after: Option<(&Meta, &str)>) -> bool {
    let (Some((old, was)), Some((new, is))) = (before, after) else {
        return true;
    };
    old.uid != new.uid
        || old.deletion_timestamp != new.deletion_timestamp
        || was != is && has_ended(is)
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::Cluster;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_inherits_the_metadata_of_its_template() {
        let owner = OwnerReference {
            kind: "Job".into(),
            controller: true,
            ..OwnerReference::default()
        };
        let cluster = Cluster::new();
        for (template, metadata) in [
            (json!({"spec": {"a": 1}}), json!({"labels": {}})),
            (
                json!({"metadata": {"labels": {"app": "web"}, "annotations": {"b": "c"},
                                    "finalizers": ["x.io/y"], "name": "unused"},
                       "spec": {"a": 1}}),
                json!({"labels": {"app": "web"}, "annotations": {"b": "c"}, "finalizers": ["x.io/y"]}),
            ),
        ] {
            let template: PodTemplate = serde_json::from_value(template).unwrap();
            let answer = cluster
                .host()
                .write(template.creation("default", "web-", &owner))
                .unwrap();
            assert!(created_name(&answer).unwrap().starts_with("web-"));
            let mut sent: Value = cluster.writes().remove(0).body;
            let owners = sent["metadata"]["ownerReferences"].take();
            assert_eq!(owners, json!([owner]));
            let fields = sent["metadata"].as_object_mut().unwrap();
            fields.remove("ownerReferences");
            fields.remove("generateName");
            assert_eq!(
                (&sent["metadata"], &sent["spec"]),
                (&metadata, &json!({"a": 1}))
            );
        }
    }
}
