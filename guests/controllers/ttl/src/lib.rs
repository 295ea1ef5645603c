//! ttl-controller: annotates each node with the time for which its kubelet may cache Secrets and ConfigMaps.
//!
//! The time depends on the number of nodes: see [`steps`]. When it changes, a node gets the new value at its next
//! change, such as the next report of its kubelet, so that the nodes of a large cluster are not patched all at once.
//!
//! Upstream: pkg/controller/ttl/ttl_controller.go: NewTTLController, addNode, updateNode, deleteNode,
//! updateNodeIfNeeded, getIntFromAnnotation, patchNodeWithAnnotation.

pub mod steps;

use std::time::Duration;

use flyball_sdk::info;
use flyball_sdk::prelude::*;

/// The annotation, in seconds.
const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";
/// The queue of nodes.
const NODES: &str = "ttlcontroller";
/// The queue of the key that counts the nodes.
const COUNTS: &str = "ttlcontroller_node_count";
/// The memo's key of the current step.
const STEP: &str = "step";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
struct Node {
    #[view(
        path = "metadata",
        fields("annotations['node.alpha.kubernetes.io/ttl']")
    )]
    meta: Meta,
}

/// The controller. Keys name nodes, except for the key that counts the nodes.
pub struct Ttl;

export!(Ttl);

impl Controller for Ttl {
    fn describe() -> Description {
        // All changes of nodes count, not only changes of the annotation: see above.
        let nodes = watch::<Node>()
            .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified]))
            .enqueue(
                Mapping::key("all")
                    .on([DeltaType::Added, DeltaType::Deleted])
                    .queue(COUNTS),
            );
        describe("ttl-controller", env!("CARGO_PKG_VERSION"))
            .watch(nodes)
            .queue(NODES)
            .queue(COUNTS)
            .permission(Node::KIND, ["patch"])
            .memo_schema(1)
            .concurrency(5)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        if request.queue == COUNTS {
            return count(host).map(|_| Outcome::Done);
        }
        let Some(node) = host.get_by_key::<Node>(&request.key)? else {
            return Ok(Outcome::Done);
        };
        // The stored step may be stale, because the key that counts nodes may still be queued, and no other change may
        // wake this node for a long time.
        let seconds = steps::seconds(count(host)?);
        if annotated(host, &node) != Some(seconds) {
            let patch = json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}});
            host.patch(
                Node::KIND,
                "",
                &node.meta.name,
                PatchType::Strategic,
                &patch,
            )?;
        }
        Ok(Outcome::Done)
    }
}

/// Counts the nodes, stores the step that follows from the last one, and returns it.
fn count(host: &Host) -> Result<usize, Error> {
    let nodes = host.list::<Node>().count()?;
    let known: Option<usize> = host.memo().get(STEP);
    let step = steps::next(known.unwrap_or_default(), nodes);
    if known != Some(step) {
        let stored = host.memo().put(STEP, &step, "", Duration::ZERO);
        // Another call may have counted at the same time.
        if let Err(error) = stored
            && !error.is_conflict()
        {
            return Err(error.into());
        }
    }
    Ok(step)
}

/// The seconds that a node is annotated with; none if they are not a number.
fn annotated(host: &Host, node: &Node) -> Option<i64> {
    let text = node.meta.annotation(ANNOTATION)?;
    let seconds = text.parse().ok();
    if seconds.is_none() {
        info!(
            host,
            "the annotation {ANNOTATION} of node {} is not a number: {text:?}", node.meta.name
        );
    }
    seconds
}
