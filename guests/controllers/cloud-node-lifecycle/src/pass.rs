//! A pass over all nodes.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go: MonitorNodes.
//! Upstream: staging/src/k8s.io/cloud-provider/node/helpers/taints.go: AddOrUpdateTaintOnNode, RemoveTaintOffNode,
//! PatchNodeTaints.

use flyball_cloud::Capabilities;
use flyball_cloud_nodes::AT_ONCE;
use flyball_sdk::prelude::*;
use flyball_sdk::{ApiError, warning};

use crate::instances::{State, states};
use crate::views::{Node, Row, with_shutdown, without_shutdown};

/// Attempts to write the taints of a node that others write at the same time.
const ATTEMPTS: usize = 5;

/// The change of a node's taints; `None` if they are right.
type Change = fn(&[Value]) -> Option<Vec<Value>>;

/// Looks at all nodes. Asks the cloud about those that are not ready, `concurrency` of them at once. What fails for one
/// node is only logged: the next pass repeats it.
///
/// # Errors
/// The nodes can't be read.
pub(crate) fn all(host: &Host, capabilities: &Capabilities, concurrency: u32) -> Result<(), Error> {
    let mut silent = Vec::new();
    for row in host.list::<Row>().all()? {
        if !row.needs_work() {
            continue;
        }
        match row.is_ready() {
            true => change_taints(host, &row.name, without_shutdown),
            false => silent.extend(host.get::<Node>("", &row.name)?),
        }
    }
    for some in silent.chunks((concurrency as usize).clamp(1, AT_ONCE)) {
        for (node, state) in some.iter().zip(states(host, capabilities, some)) {
            let name = &node.meta.name;
            match state {
                Ok(State::Gone) => delete(host, node),
                Ok(State::ShutDown) => change_taints(host, name, with_shutdown),
                Ok(State::Running) => {}
                Err(error) => {
                    warning!(
                        host,
                        "can't ask the cloud for the instance of node {name}: {error}"
                    );
                }
            }
        }
    }
    Ok(())
}

/// Deletes a node that the cloud does not have.
fn delete(host: &Host, node: &Node) {
    let (name, about) = (&node.meta.name, node.reference());
    let deleting = format!("Deleting node {name} because it does not exist in the cloud provider");
    host.emit(Event::normal(&about, "DeletingNode", &deleting));
    if let Err(error) = host.delete(Node::KIND, &node.meta) {
        let failed = format!("Failed deleting node {name}: {}", error.message);
        host.emit(Event::warning(&about, "DeletingNodeFailed", &failed));
    }
}

/// Changes the taints of a node.
fn change_taints(host: &Host, name: &str, change: Change) {
    if let Err(error) = try_to_change_taints(host, name, change) {
        warning!(host, "can't write the taints of node {name}: {error}");
    }
}

/// Changes the taints of a node that others may have written while the cloud was asked, and may write now.
fn try_to_change_taints(host: &Host, name: &str, change: Change) -> Result<(), Error> {
    let mut latest = host.get::<Node>("", name)?;
    for attempt in 1.. {
        let Some(node) = latest else {
            break;
        };
        match patch_taints(host, &node, change) {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
            result => return Ok(result?),
        }
        latest = host.live().get::<Node>("", name)?;
    }
    Ok(())
}

/// Changes the taints of a node in one version. The API server replaces the list as a whole.
fn patch_taints(host: &Host, node: &Node, change: Change) -> Result<(), ApiError> {
    let Some(taints) = change(&node.taints) else {
        return Ok(());
    };
    let taints = if taints.is_empty() {
        Value::Null
    } else {
        json!(taints)
    };
    let version = node.meta.resource_version.as_str();
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
    host.patch(
        Node::KIND,
        "",
        &node.meta.name,
        PatchType::Strategic,
        &patch,
    )
    .map(drop)
}
