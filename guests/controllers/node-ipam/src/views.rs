//! The fields that the controller reads.

use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub struct Node {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
    #[view(path = "spec.podCIDRs")]
    pub pod_cidrs: Vec<String>,
}

/// A node in the list of all nodes, which are listed as rows.
#[derive(View, Clone, Debug, Default, PartialEq)]
#[view(kind = "v1/Node")]
pub struct Row {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "metadata.uid")]
    pub uid: String,
    #[view(path = "spec.podCIDRs")]
    pub pod_cidrs: Vec<String>,
}

/// The ranges of a node, in the memo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranges {
    pub uid: String,
    pub pod_cidrs: Vec<String>,
}
