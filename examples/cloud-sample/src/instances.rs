//! Instances: the machines of nodes.

use std::collections::BTreeMap;

use flyball_cloud::provider::Context;
use flyball_cloud::{CloudError, InstanceMetadata, NodeAddress};
use flyball_sdk::Raw;
use serde::Deserialize;

use crate::{NAME, api};

/// An instance, as the API shows it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Instance {
    pub(crate) id: String,
    #[serde(rename = "type")]
    kind: String,
    zone: String,
    region: String,
    state: String,
    addresses: Vec<NodeAddress>,
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Instances {
    instances: Vec<Instance>,
}

/// Returns the instance of a node; `None` if it is gone.
pub(crate) fn of_node(cloud: &Context, node: &Raw) -> Result<Option<Instance>, CloudError> {
    let node = node.value();
    match id(node["spec"]["providerID"].as_str().unwrap_or_default()) {
        Some(id) => api::send(cloud, "GET", &format!("instances/{id}")),
        None => named(cloud, node["metadata"]["name"].as_str().unwrap_or_default()),
    }
}

/// Returns the instance with this name; `None` if there is none.
pub(crate) fn named(cloud: &Context, name: &str) -> Result<Option<Instance>, CloudError> {
    let found: Option<Instances> = api::send(cloud, "GET", &format!("instances?name={name}"))?;
    Ok(found.and_then(|found| found.instances.into_iter().next()))
}

pub(crate) fn is_stopped(cloud: &Context, node: &Raw) -> Result<bool, CloudError> {
    let instance = of_node(cloud, node)?;
    Ok(instance.is_some_and(|instance| instance.state == "stopped"))
}

pub(crate) fn metadata(cloud: &Context, node: &Raw) -> Result<InstanceMetadata, CloudError> {
    let instance = of_node(cloud, node)?.ok_or_else(CloudError::instance_not_found)?;
    Ok(InstanceMetadata {
        provider_id: format!("{NAME}://{}", instance.id),
        instance_type: instance.kind,
        node_addresses: instance.addresses,
        zone: instance.zone,
        region: instance.region,
        additional_labels: instance.labels,
    })
}

/// The ID of an instance in a provider ID, such as `sample://i-1`.
pub(crate) fn id(provider_id: &str) -> Option<&str> {
    provider_id.strip_prefix(NAME)?.strip_prefix("://")
}
