//! The nodes of pods: whether they exist, and their zones.
//!
//! Upstream: staging/src/k8s.io/endpointslice/utils.go: podToEndpoint.

use std::collections::{BTreeSet, HashMap};

use flyball_sdk::prelude::*;
use flyball_service_endpoints::pod::Pod;

use crate::views::NodeZone;

/// Up to this number, nodes are read one by one. More are cheaper to list.
const FEW: usize = 32;

/// The nodes that exist, with their zones; the zone is empty if a node has none.
#[derive(Clone, Debug, Default)]
pub struct Nodes(HashMap<String, String>);

impl Nodes {
    /// Reads the nodes of these pods.
    ///
    /// # Errors
    /// A node is malformed.
    pub fn read(host: &Host, pods: &[Pod]) -> Result<Self, Error> {
        let names: BTreeSet<&str> = pods.iter().map(|pod| pod.node.as_str()).collect();
        let mut nodes = HashMap::new();
        if names.len() > FEW {
            host.list::<NodeZone>().each(|node| {
                nodes.insert(node.name, node.zone);
                Ok(())
            })?;
            return Ok(Self(nodes));
        }
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            if let Some(node) = host.get::<NodeZone>("", name)? {
                nodes.insert(node.name, node.zone);
            }
        }
        Ok(Self(nodes))
    }

    /// The zone of a node; `None` if the node does not exist.
    pub fn zone(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Nodes with these zones.
    #[cfg(test)]
    pub fn of(zones: &[(&str, &str)]) -> Self {
        let own = |&(name, zone): &(&str, &str)| (name.to_owned(), zone.to_owned());
        Self(zones.iter().map(own).collect())
    }
}
