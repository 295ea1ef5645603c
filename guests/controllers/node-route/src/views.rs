//! The fields that the controller reads.

use flyball_cloud::NodeAddress;
use flyball_sdk::prelude::*;

#[derive(View, Clone, Debug, Default, PartialEq)]
#[view(kind = "v1/Node")]
pub(crate) struct Node {
    #[view(path = "metadata", fields())]
    pub(crate) meta: Meta,
    /// The ranges of the addresses of the node's pods.
    #[view(path = "spec.podCIDRs")]
    pub(crate) pod_cidrs: Vec<String>,
    #[view(path = "status.addresses")]
    pub(crate) addresses: Vec<NodeAddress>,
    #[view(path = "status.conditions[type=NetworkUnavailable].status")]
    pub(crate) unavailable: String,
    #[view(path = "status.conditions[type=NetworkUnavailable].reason")]
    pub(crate) reason: String,
}
