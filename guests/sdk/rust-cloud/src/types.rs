//! The values that cross between controllers and providers, except objects of the API.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// What a cloud supports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// The scheme of provider IDs, such as `aws`.
    pub provider_name: String,
    /// Whether the cloud's resources carry an ID of the cluster.
    #[serde(rename = "hasClusterID")]
    pub has_cluster_id: bool,
    pub load_balancer: bool,
    /// The methods of older providers.
    pub instances: bool,
    #[serde(rename = "instancesV2")]
    pub instances_v2: bool,
    pub zones: bool,
    pub routes: bool,
}

/// What the cloud knows of an instance. Empty texts are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceMetadata {
    #[serde(rename = "providerID", deserialize_with = "or_default")]
    pub provider_id: String,
    #[serde(deserialize_with = "or_default")]
    pub instance_type: String,
    #[serde(deserialize_with = "or_default")]
    pub node_addresses: Vec<NodeAddress>,
    #[serde(deserialize_with = "or_default")]
    pub zone: String,
    #[serde(deserialize_with = "or_default")]
    pub region: String,
    #[serde(deserialize_with = "or_default")]
    pub additional_labels: BTreeMap<String, String>,
}

/// An address of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeAddress {
    /// For example `InternalIP`.
    #[serde(rename = "type")]
    pub kind: String,
    pub address: String,
}

impl NodeAddress {
    pub fn new(kind: &str, address: &str) -> Self {
        Self {
            kind: kind.into(),
            address: address.into(),
        }
    }
}

/// Where an instance is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Zone {
    #[serde(deserialize_with = "or_default")]
    pub failure_domain: String,
    #[serde(deserialize_with = "or_default")]
    pub region: String,
}

/// A route of the cloud's network to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Route {
    /// The cloud's name of the route.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The node's name.
    #[serde(deserialize_with = "or_default")]
    pub target_node: String,
    /// Whether the cloud compares `target_node_addresses`.
    #[serde(deserialize_with = "or_default")]
    pub enable_node_addresses: bool,
    #[serde(deserialize_with = "or_default")]
    pub target_node_addresses: Vec<NodeAddress>,
    #[serde(rename = "destinationCIDR", deserialize_with = "or_default")]
    pub destination_cidr: String,
    /// Whether the route has no target.
    #[serde(deserialize_with = "or_default")]
    pub blackhole: bool,
}

/// Reads `null`, which is Go's nil, as the default.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
