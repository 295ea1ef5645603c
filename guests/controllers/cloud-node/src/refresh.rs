//! The pass over all initialised nodes, which brings their addresses up to date.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/node/node_controller.go: UpdateNodeStatus.

use flyball_cloud::Capabilities;
use flyball_cloud_nodes::AT_ONCE;
use flyball_sdk::prelude::*;
use flyball_sdk::warning;

use crate::views::Node;
use crate::{addresses, metadata};

/// Brings the addresses of all initialised nodes up to date. What fails for one node is only logged: the next pass
/// repeats it.
///
/// # Errors
/// The nodes can't be listed.
pub(crate) fn all(host: &Host, capabilities: &Capabilities, concurrency: u32) -> Result<(), Error> {
    let mut nodes = host.list::<Node>().all()?;
    nodes.retain(|node| !node.is_uninitialized());
    for some in nodes.chunks((concurrency as usize).clamp(1, AT_ONCE)) {
        let mut batch = host.tagged_batch();
        let found = metadata::addresses(host, capabilities, some);
        for (node, found) in some.iter().zip(found) {
            let name = node.meta.name.as_str();
            let patch = match found {
                Ok(Some(of_cloud)) => addresses::patch(node, &of_cloud),
                Ok(None) => Ok(None),
                Err(error) => Err(error.message),
            };
            match patch {
                Ok(Some(patch)) => {
                    let write = Write::patch(Node::KIND, "", name, PatchType::Strategic, &patch);
                    batch = batch.with(name, write.on("status"));
                }
                Ok(None) => {}
                Err(error) => failed(host, name, &error),
            }
        }
        for (name, result) in batch.run() {
            if let Err(error) = result {
                failed(host, name, &error.message);
            }
        }
    }
    Ok(())
}

fn failed(host: &Host, node: &str, error: &str) {
    warning!(host, "can't refresh the addresses of node {node}: {error}");
}
