//! Initialises a node: writes what the cloud knows of it, and removes the taint that keeps pods away until then.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/node/node_controller.go: syncNode,
//! getNodeModifiersFromCloudProvider, excludeCloudTaint.

use flyball_cloud::{Capabilities, InstanceMetadata};
use flyball_sdk::meta::StringMap;
use flyball_sdk::prelude::*;
use flyball_sdk::{ApiError, warning};

use crate::labels::{INSTANCE_TYPE, REGION, ZONE};
use crate::views::{Node, is_uninitialized};
use crate::{INITIAL_SYNC_DELAY, TAINT_REMOVAL_DELAY, addresses, metadata};

/// Attempts to write a node that others write at the same time, before the cloud is asked again.
const ATTEMPTS: usize = 5;

/// Initialises a node.
///
/// # Errors
/// The cloud fails, it lacks an address that the kubelet was started with, or the API server refuses the write.
pub(crate) fn initialise(
    host: &Host,
    capabilities: &Capabilities,
    node: &Node,
) -> Result<(), Error> {
    let name = &node.meta.name;
    let metadata = metadata::of(host, capabilities, node)
        .doing(|| format!("failed to get instance metadata for node {name}"))?;
    let Some(metadata) = metadata else {
        return Ok(());
    };
    addresses::provided_first(node.provided_ip(), &metadata.node_addresses)
        .map_err(|error| Error::failed(format!("node {name}: {error}")))?;
    for label in refused_labels(&metadata.additional_labels) {
        warning!(
            host,
            "label {label} of node {name} is left out: clouds may not set labels of Kubernetes"
        );
    }
    let Some(written) = write(host, node, &metadata)? else {
        return Ok(());
    };
    observe_age(host, TAINT_REMOVAL_DELAY, &written);
    update_addresses(host, &written, &metadata);
    let about = node.meta.reference(Node::KIND);
    host.emit(Event::normal(&about, "Synced", "Node synced successfully"));
    observe_age(host, INITIAL_SYNC_DELAY, &written);
    Ok(())
}

/// Writes the changes of a node. Returns the node that they were made to; `None` if it was deleted.
fn write(host: &Host, node: &Node, metadata: &InstanceMetadata) -> Result<Option<Node>, Error> {
    let name = &node.meta.name;
    let mut latest = node.clone();
    for _ in 1..ATTEMPTS {
        match patch(host, &latest, metadata) {
            Ok(()) => return Ok(Some(latest)),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error).doing(|| format!("initialising node {name}")),
        }
        let Some(now) = host.live().get::<Node>("", name)? else {
            return Ok(None);
        };
        if now.meta.uid != node.meta.uid {
            return Ok(None);
        }
        latest = now;
    }
    patch(host, &latest, metadata).doing(|| format!("initialising node {name}"))?;
    Ok(Some(latest))
}

/// Writes the changes of a node in one version.
fn patch(host: &Host, node: &Node, metadata: &InstanceMetadata) -> Result<(), ApiError> {
    let mut patch = changes(node, metadata);
    patch["metadata"]["resourceVersion"] = node.meta.resource_version.as_str().into();
    host.patch(Node::KIND, "", &node.meta.name, PatchType::Merge, &patch)
        .map(drop)
}

/// The changes that initialise a node: a merge patch.
pub(crate) fn changes(node: &Node, metadata: &InstanceMetadata) -> Value {
    let taints: Vec<&Value> = node
        .taints
        .iter()
        .filter(|taint| !is_uninitialized(taint))
        .collect();
    let mut spec = json!({"taints": if taints.is_empty() { Value::Null } else { json!(taints) }});
    if node.provider_id.is_empty() && !metadata.provider_id.is_empty() {
        spec["providerID"] = metadata.provider_id.as_str().into();
    }
    json!({"metadata": {"labels": labels(node, metadata)}, "spec": spec})
}

/// The labels that a node gets.
fn labels(node: &Node, metadata: &InstanceMetadata) -> StringMap {
    let mut labels = StringMap::new();
    for (keys, value) in [
        (INSTANCE_TYPE, &metadata.instance_type),
        (ZONE, &metadata.zone),
        (REGION, &metadata.region),
    ] {
        if !value.is_empty() {
            labels.extend(keys.map(|key| (key.to_owned(), value.clone())));
        }
    }
    for (key, value) in &metadata.additional_labels {
        if !is_of_kubernetes(key) && !node.meta.labels.contains_key(key) {
            labels.insert(key.clone(), value.clone());
        }
    }
    labels
}

fn refused_labels(labels: &StringMap) -> impl Iterator<Item = &str> {
    let keys = labels.keys().map(String::as_str);
    keys.filter(|key| is_of_kubernetes(key))
}

/// Whether a label is in a namespace of Kubernetes, such as `x.k8s.io/y`.
fn is_of_kubernetes(key: &str) -> bool {
    ["kubernetes.io/", "k8s.io/"].iter().any(|domain| {
        let mut found = key.match_indices(domain);
        found.any(|(at, _)| at == 0 || key.as_bytes()[at - 1] == b'.')
    })
}

/// Writes the addresses of an initialised node. A failure is only logged: the next pass repeats it.
fn update_addresses(host: &Host, node: &Node, metadata: &InstanceMetadata) {
    let name = &node.meta.name;
    let failed = match addresses::patch(node, &metadata.node_addresses) {
        Ok(None) => return,
        Ok(Some(patch)) => {
            let write = Write::patch(Node::KIND, "", name, PatchType::Strategic, &patch);
            host.write(write.on("status"))
                .err()
                .map(|error| error.message)
        }
        Err(error) => Some(error),
    };
    if let Some(error) = failed {
        warning!(host, "can't update the addresses of node {name}: {error}");
    }
}

/// Observes the time since the creation of a node.
fn observe_age(host: &Host, metric: &str, node: &Node) {
    let created = node.meta.creation_timestamp.unwrap_or_default();
    let age = host.now().since(created).as_secs_f64();
    host.metrics().observe(metric, &[], age);
}
