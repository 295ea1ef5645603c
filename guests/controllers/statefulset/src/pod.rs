//! The pods that a StatefulSet creates.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: newStatefulSetPod, newVersionedStatefulSetPod,
//! initIdentity, updateStorage.

use flyball_pods::{PodTemplate, PodTemplateMeta};
use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;

use crate::claims;
use crate::identity::{self, REVISION_LABEL};
use crate::views::{Pod, StatefulSet};

/// A revision whose pods can be created.
#[derive(Clone, Debug)]
pub struct Revision {
    pub name: String,
    pub template: PodTemplate,
}

/// Whether a new pod with this ordinal gets the current revision rather than the update revision: it
/// is below the partition or, without one, an update has not reached it yet.
pub fn is_current(set: &StatefulSet, ordinal: i64) -> bool {
    let strategy = &set.update_strategy;
    let current = match &strategy.rolling_update {
        Some(rolling) => rolling.partition,
        None if set.is_rolling() => set.status.current_replicas,
        None => 0,
    };
    ordinal < set.first_ordinal() + i64::from(current)
}

/// The write that creates the pod with this ordinal.
pub fn creation(set: &StatefulSet, revision: &Revision, ordinal: i64) -> Write {
    let name = identity::pod_name(&set.meta.name, ordinal);
    let PodTemplate { metadata, spec } = &revision.template;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": self::metadata(set, metadata, &revision.name, &name, ordinal),
        "spec": self::spec(set, spec.value(), &name, ordinal),
    });
    Write::create(Pod::KIND, &set.meta.namespace, &pod)
}

fn metadata(
    set: &StatefulSet,
    template: &PodTemplateMeta,
    revision: &str,
    name: &str,
    ordinal: i64,
) -> Value {
    let mut labels = template.labels.clone();
    let own = identity::labels(name, ordinal).map(|(key, value)| (key.to_owned(), value));
    labels.extend(own);
    labels.insert(REVISION_LABEL.into(), revision.into());
    let mut metadata = json!({
        "name": name,
        "generateName": format!("{}-", set.meta.name),
        "namespace": set.meta.namespace,
        "labels": labels,
        "ownerReferences": [set.meta.controller_reference(StatefulSet::KIND)],
    });
    if !template.annotations.is_empty() {
        metadata["annotations"] = json!(template.annotations);
    }
    if !template.finalizers.is_empty() {
        metadata["finalizers"] = json!(template.finalizers);
    }
    metadata
}

fn spec(set: &StatefulSet, template: Value, name: &str, ordinal: i64) -> Value {
    let mut spec = match template {
        Value::Object(spec) => spec,
        _ => Map::new(),
    };
    spec.insert("hostname".into(), name.into());
    spec.remove("subdomain");
    if !set.service_name.is_empty() {
        spec.insert("subdomain".into(), set.service_name.clone().into());
    }
    let volumes = match spec.remove("volumes") {
        Some(Value::Array(volumes)) => volumes,
        _ => Vec::new(),
    };
    let volumes = self::volumes(set, volumes, ordinal);
    if !volumes.is_empty() {
        spec.insert("volumes".into(), volumes.into());
    }
    spec.into()
}

/// Returns the volumes of the pod with this ordinal: one for each claim, which replaces a volume of
/// its name, and then the others.
pub fn volumes(set: &StatefulSet, own: Vec<Value>, ordinal: i64) -> Vec<Value> {
    let names = set.claim_templates.iter().map(|template| template.name());
    let of_claims = names
        .zip(claims::names(set, ordinal))
        .map(|(name, claim)| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}}));
    let is_other = |volume: &Value| {
        let name = volume["name"].as_str();
        !set.claim_templates
            .iter()
            .any(|template| name == Some(template.name()))
    };
    let others = own.into_iter().filter(is_other);
    of_claims.chain(others).collect()
}

#[cfg(test)]
mod tests;
