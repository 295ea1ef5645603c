//! Marks the pods of a node that is not ready as not ready, so that Services send them no requests.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: processPod.
//! Upstream: pkg/controller/util/node/controller_utils.go: MarkPodsNotReady.

use flyball_sdk::ObjectReference;
use flyball_sdk::prelude::*;

use crate::views::{BY_NODE, Node, Pod};

/// The most pods in one batch of writes.
const BATCH: usize = 500;

/// Marks the pods of a node, unless the node is ready or has never reported.
///
/// # Errors
/// A read or a write failed. All other pods were marked.
pub fn mark(host: &Host, node: &str) -> Result<Outcome, Error> {
    let Some(found) = host.get::<Node>("", node)? else {
        return Ok(Outcome::Done);
    };
    if found.status_of("Ready").is_none_or(|ready| ready == "True") {
        return Ok(Outcome::Done);
    }
    let mut pods = host.list::<Pod>().index(BY_NODE, node).all()?;
    pods.retain(must_be_marked);
    let mut errors = Vec::new();
    for pods in pods.chunks(BATCH) {
        let now = host.now();
        let writes = pods.iter().map(|pod| (pod, patch(pod, now)));
        for (pod, result) in host.tagged_batch().extend(writes).run() {
            let result = result
                .found()
                .doing(|| format!("marking pod {}/{} as not ready", pod.namespace, pod.name));
            // The event says that the node isn't ready, so it doesn't need the pod's new status.
            if !matches!(result, Ok(None)) {
                let about = reference(pod);
                host.emit(Event::warning(&about, "NodeNotReady", "Node is not ready"));
            }
            errors.extend(result.err());
        }
    }
    Error::join(errors).map_or(Ok(Outcome::Done), Err)
}

fn must_be_marked(pod: &Pod) -> bool {
    pod.ready.as_deref().is_some_and(|ready| ready != "False")
}

/// It fails if the pod has changed: its kubelet may have reported. Reason and message stay.
fn patch(pod: &Pod, now: Time) -> Write {
    let patch = json!({
        "metadata": {"uid": pod.uid, "resourceVersion": pod.resource_version},
        "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}]},
    });
    Write::patch(
        Pod::KIND,
        &pod.namespace,
        &pod.name,
        PatchType::Strategic,
        &patch,
    )
    .on("status")
}

fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Pod::KIND.into(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        resource_version: pod.resource_version.clone(),
    }
}
