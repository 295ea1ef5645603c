//! Labels that exist under two names: the older one decides.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/node/node_controller.go: reconcileNodeLabels.
//! Upstream: staging/src/k8s.io/cloud-provider/node/helpers/labels.go: AddOrUpdateLabelsOnNode.

use flyball_sdk::meta::StringMap;
use flyball_sdk::prelude::*;

use crate::views::Node;

/// The labels with the type of an instance.
pub(crate) const INSTANCE_TYPE: [&str; 2] = [
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
];
/// The labels with the zone of an instance.
pub(crate) const ZONE: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/zone",
];
/// The labels with the region of an instance.
pub(crate) const REGION: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/region",
];

/// Returns the newer labels that are missing or differ from the older ones.
pub(crate) fn outdated(labels: &StringMap) -> StringMap {
    [ZONE, REGION, INSTANCE_TYPE]
        .into_iter()
        .filter_map(|[older, newer]| {
            let value = labels.get(older)?;
            (labels.get(newer) != Some(value)).then(|| (newer.to_owned(), value.clone()))
        })
        .collect()
}

/// Brings the newer labels of a node up to date.
///
/// # Errors
/// The API server refuses the patch.
pub(crate) fn reconcile(host: &Host, node: &Node) -> Result<(), Error> {
    let labels = outdated(&node.meta.labels);
    if labels.is_empty() {
        return Ok(());
    }
    let name = &node.meta.name;
    let patch = json!({"metadata": {"labels": labels}});
    host.patch(Node::KIND, "", name, PatchType::Strategic, &patch)
        .map(drop)
        .doing(|| format!("updating the labels of node {name}"))
}
