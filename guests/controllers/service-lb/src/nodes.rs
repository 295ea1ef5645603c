//! The nodes that load balancers send traffic to.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/service/controller.go: nodeIncludedPredicate,
//! nodeUnTaintedPredicate, nodeNotDeletedPredicate, listWithPredicates, nodesSufficientlyEqual, loggableNodeNames.

use std::hash::{DefaultHasher, Hash, Hasher};

use flyball_cloud::Nodes;
use flyball_sdk::prelude::*;

/// The taint of a node that the cluster autoscaler is about to delete.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// The names of nodes in an event.
const MOST_NAMES: usize = 20;

/// A node in the list of all nodes, which are listed as rows.
#[derive(View, Clone, Debug, Default, PartialEq)]
#[view(kind = "v1/Node")]
pub(crate) struct Row {
    #[view(path = "metadata.name")]
    pub(crate) name: String,
    #[view(path = "metadata.uid")]
    uid: String,
    #[view(path = "metadata.deletionTimestamp")]
    deleted: Option<String>,
    #[view(path = "metadata.labels['node.kubernetes.io/exclude-from-external-load-balancers']")]
    excluded: Option<String>,
    #[view(path = "spec.providerID")]
    provider_id: String,
    #[view(path = "spec.taints[*].key")]
    taints: Vec<String>,
}

impl Row {
    /// Whether load balancers send traffic to the node. Whether it is ready does not matter: load balancers check that
    /// themselves.
    pub(crate) fn is_available(&self) -> bool {
        // As Go's ParseBool reads the label. Any other value excludes the node.
        let is_false = |label: &str| matches!(label, "0" | "f" | "F" | "false" | "FALSE" | "False");
        self.deleted.is_none()
            && self.excluded.as_deref().is_none_or(is_false)
            && !self.taints.iter().any(|key| key == TO_BE_DELETED)
    }

    fn document(&self) -> Value {
        json!({
            "metadata": {"name": self.name, "uid": self.uid},
            "spec": {"providerID": self.provider_id},
        })
    }
}

/// The [digest](NodeSet::digest) of the nodes that load balancers send traffic to now.
///
/// # Errors
/// The nodes can't be listed.
pub(crate) fn present_digest(host: &Host) -> Result<u64, Error> {
    Ok(digest(&available(host)?))
}

fn available(host: &Host) -> Result<Vec<Row>, Error> {
    let mut rows = host.list::<Row>().all()?;
    rows.retain(Row::is_available);
    Ok(rows)
}

fn digest(rows: &[Row]) -> u64 {
    let mut digest = DefaultHasher::new();
    for row in rows {
        (&row.name, &row.provider_id).hash(&mut digest);
    }
    digest.finish()
}

/// A set of nodes.
#[derive(Clone, Debug)]
pub(crate) struct NodeSet {
    /// In order.
    names: Vec<String>,
    digest: u64,
    /// For calls of the cloud.
    pub(crate) documents: Nodes,
}

impl NodeSet {
    /// Reads the nodes that load balancers send traffic to.
    ///
    /// # Errors
    /// The nodes can't be listed.
    pub(crate) fn read(host: &Host) -> Result<Self, Error> {
        Ok(Self::of(&available(host)?))
    }

    /// The set of these nodes.
    pub(crate) fn of(rows: &[Row]) -> Self {
        let documents: Vec<Value> = rows.iter().map(Row::document).collect();
        Self {
            names: rows.iter().map(|row| row.name.clone()).collect(),
            digest: digest(rows),
            documents: Nodes::of(&documents),
        }
    }

    /// A value that differs for sets with other names or provider IDs.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names for events: the first ones, and the number of the others.
    pub(crate) fn summary(&self) -> String {
        let mut names: Vec<String> = self.names.iter().take(MOST_NAMES).cloned().collect();
        if self.len() > MOST_NAMES {
            names.push(format!("<{} more>", self.len() - MOST_NAMES));
        }
        format!("[{}]", names.join(" "))
    }
}
