//! Writes the taints and the deprecated labels of a node: the `NoSchedule` taints follow from its conditions, the
//! `NoExecute` taints from the decision about the node ([`crate::wanted`]), and the labels from other labels.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: doNoScheduleTaintingPass,
//! doNoExecuteTaintingPass, reconcileNodeLabels.
//! Upstream: pkg/controller/util/node/controller_utils.go: SwapNodeControllerTaint, AddOrUpdateLabelsOnNode.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_sdk::info;
use flyball_sdk::prelude::*;

use crate::monitor::EVICTIONS;
use crate::taints::{no_schedule, with_taints};
use crate::views::Node;
use crate::wanted::Wanted;

/// The labels of nodes and their deprecated names, which must have the same value.
const LABELS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// How long a node is left alone after a conflict, until the cache has the version that was in the way. A retry at once
/// would often be another conflict. kube-controller-manager waits as long.
const CAUGHT_UP: Duration = Duration::from_millis(100);

/// Writes the taints and labels of a node if they are wrong.
///
/// # Errors
/// A read or the write failed.
pub fn reconcile(host: &Host, name: &str) -> Result<Outcome, Error> {
    let Some(node) = host.get::<Node>("", name)? else {
        return Ok(Outcome::Done);
    };
    let (wanted, now) = (Wanted::of(host, name), host.now());
    let no_execute = wanted.as_ref().and_then(|wanted| wanted.taints(&node, now));
    if let Some(patch) = patch(&node, no_execute.as_deref(), now) {
        let write = Write::patch(Node::KIND, "", name, PatchType::Strategic, &patch);
        match host.write(write).found() {
            Err(error) if error.is_conflict() => return Ok(Outcome::RequeueAfter(CAUGHT_UP)),
            written => {
                written.doing(|| format!("updating the taints and labels of node {name}"))?
            }
        };
    }
    if let Some(wanted) = wanted {
        Wanted::end(host, name);
        if let (Wanted::Turn(zone), true) = (wanted, no_execute.is_some()) {
            info!(host, "node {name} is not ready: added a NoExecute taint");
            host.metrics().add(EVICTIONS, &[&zone.label()], 1.0);
        }
    }
    Ok(Outcome::Done)
}

/// Returns one patch for all changes of a node, or `None` if nothing changes. `no_execute` has the taints after a
/// change of the `NoExecute` taints; `None` if these don't change.
fn patch(node: &Node, no_execute: Option<&[Value]>, now: Time) -> Option<Value> {
    let labels = missing_labels(node);
    let taints = no_execute.unwrap_or(&node.taints);
    let taints = no_schedule(node, taints, now).or(no_execute.map(<[Value]>::to_vec));
    let patch = match labels.is_empty() {
        true => json!({}),
        false => json!({"metadata": {"labels": labels}}),
    };
    match taints {
        Some(taints) => Some(with_taints(patch, node, &taints)),
        None => (!labels.is_empty()).then_some(patch),
    }
}

/// The deprecated labels that are missing or have another value.
fn missing_labels(node: &Node) -> BTreeMap<&'static str, &str> {
    let wanted = LABELS.iter().filter_map(|(name, deprecated)| {
        let value = node.meta.label(name)?;
        (node.meta.label(deprecated) != Some(value)).then_some((*deprecated, value))
    });
    wanted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: Value, unschedulable: bool) -> Node {
        flyball_sdk::testing::view(json!({
            "metadata": {"name": "n", "resourceVersion": "7", "labels": labels},
            "spec": {"unschedulable": unschedulable},
        }))
    }

    fn patch_of(labels: Value, unschedulable: bool) -> Option<Value> {
        patch(&node(labels, unschedulable), None, Time::of_seconds(0))
    }

    #[test]
    fn deprecated_labels_follow_the_others() {
        let both = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "beta.kubernetes.io/os": "dos"});
        assert_eq!(
            patch_of(both, false),
            Some(json!({"metadata": {"labels":
                {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64"}}}))
        );
        for right in [
            Value::Null,
            json!({"beta.kubernetes.io/os": "dos"}),
            json!({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}),
        ] {
            assert_eq!(patch_of(right, false), None);
        }
    }

    #[test]
    fn labels_and_taints_are_written_at_once() {
        let patch = patch_of(json!({"kubernetes.io/os": "linux"}), true).unwrap();
        assert_eq!(
            patch["metadata"],
            json!({"labels": {"beta.kubernetes.io/os": "linux"}, "resourceVersion": "7"})
        );
        assert_eq!(
            patch["spec"]["taints"][0]["key"],
            "node.kubernetes.io/unschedulable"
        );
    }
}
