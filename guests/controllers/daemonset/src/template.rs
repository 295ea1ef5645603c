//! The pods that a DaemonSet creates.
//!
//! Upstream: pkg/controller/daemon/util/daemonset_util.go: CreatePodTemplate, ReplaceDaemonSetPodNodeNameNodeAffinity.
//! Upstream: pkg/controller/controller_utils.go: GetPodFromTemplate, getPodsPrefix.

use flyball_pods::PodTemplate;
use flyball_sdk::prelude::*;

use crate::affinity::NAME_FIELD;
use crate::observed::{GENERATION_LABEL, HASH_LABEL};
use crate::taints::add_tolerations;
use crate::views::DaemonSet;

/// Returns the writes that create a pod for each of these nodes. `hash` is the hash of the current revision.
///
/// # Errors
/// The template is malformed.
pub fn creations(set: &DaemonSet, hash: &str, nodes: &[&str]) -> Result<Vec<Write>, Error> {
    let mut template: PodTemplate = set.template.parse()?.unwrap_or_default();
    let labels = &mut template.metadata.labels;
    if let Some(generation) = set.template_generation() {
        labels.insert(GENERATION_LABEL.into(), generation.to_string());
    }
    if !hash.is_empty() {
        labels.insert(HASH_LABEL.into(), hash.into());
    }
    let mut spec = template.spec.value();
    add_tolerations(&mut spec);

    let (namespace, prefix) = (&set.meta.namespace, format!("{}-", set.meta.name));
    let owner = set.meta.controller_reference(DaemonSet::KIND);
    let creation = |node: &&str| {
        bind(&mut spec, node);
        template.spec = Raw::of(&spec);
        template.creation(namespace, &prefix, &owner)
    };
    Ok(nodes.iter().map(creation).collect())
}

/// Makes the scheduler choose this node, by the required node affinity. It replaces the template's own
/// terms, which the node matches.
fn bind(spec: &mut Value, node: &str) {
    let name = json!({"key": NAME_FIELD, "operator": "In", "values": [node]});
    let required =
        &mut spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"] = json!([{"matchFields": [name]}]);
}
