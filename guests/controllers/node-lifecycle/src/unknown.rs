//! The conditions of a node that is silent: a pure function.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: tryUpdateNodeHealth.

use flyball_sdk::prelude::*;

use crate::views::{Node, UNKNOWN};

/// The conditions that kubelets report. `NetworkUnavailable` is left out, because the control plane reports it.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Returns the conditions of a node after it has been silent for too long. `None` if it is marked already.
pub fn unknown(node: &Node, now: Time) -> Option<Vec<Value>> {
    if node.status_of("Ready") == Some(UNKNOWN) {
        return None;
    }
    let mut conditions = node.conditions.clone();
    for name in REPORTED {
        let mut of_type = conditions.iter_mut().filter(|one| one["type"] == name);
        match of_type.next() {
            Some(condition) if condition["status"] == UNKNOWN => {}
            Some(condition) => {
                condition["status"] = UNKNOWN.into();
                condition["reason"] = "NodeStatusUnknown".into();
                condition["message"] = "Kubelet stopped posting node status.".into();
                condition["lastTransitionTime"] = json!(now);
            }
            None => conditions.push(json!({
                "type": name,
                "status": UNKNOWN,
                "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": node.meta.creation_timestamp,
                "lastTransitionTime": now,
            })),
        }
    }
    Some(conditions)
}

/// The patch that sets the conditions. It fails if the node has changed: its kubelet may have reported.
pub fn patch(node: &Node, conditions: &[Value]) -> Write {
    let patch = json!({
        "metadata": {"resourceVersion": node.meta.resource_version},
        "status": {"conditions": conditions},
    });
    Write::patch(Node::KIND, "", &node.meta.name, PatchType::Merge, &patch).on("status")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(conditions: Value) -> Node {
        flyball_sdk::testing::view(json!({
            "metadata": {"name": "n", "creationTimestamp": "2025-01-01T00:00:00Z"},
            "status": {"conditions": conditions},
        }))
    }

    /// The conditions after an hour, as lines.
    fn lines(conditions: Value) -> Option<Vec<String>> {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let conditions = unknown(&node(conditions), now)?;
        let line = |one: &Value| {
            let text = |field: &str| one[field].as_str().unwrap_or("-").to_owned();
            let fields = [
                "type",
                "status",
                "reason",
                "lastHeartbeatTime",
                "lastTransitionTime",
            ];
            fields.map(text).join(" ")
        };
        Some(conditions.iter().map(line).collect())
    }

    #[test]
    fn a_node_that_never_reported_gets_all_conditions() {
        let expected = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].map(|name| {
            format!(
                "{name} Unknown NodeStatusNeverUpdated 2025-01-01T00:00:00Z 2026-01-01T01:00:00Z"
            )
        });
        assert_eq!(lines(json!([])).unwrap(), expected);
        assert_eq!(lines(Value::Null).unwrap(), expected);
    }

    #[test]
    fn reported_conditions_become_unknown_in_their_places() {
        let conditions = json!([
            {"type": "NetworkUnavailable", "status": "False", "reason": "Routes"},
            {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
            {"type": "DiskPressure", "status": "Unknown", "reason": "Before"},
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
            {"type": "Custom", "status": "True"},
        ]);
        assert_eq!(
            lines(conditions).unwrap(),
            [
                "NetworkUnavailable False Routes - -",
                "MemoryPressure Unknown NodeStatusUnknown 2026-01-01T00:00:00Z 2026-01-01T01:00:00Z",
                "DiskPressure Unknown Before - -",
                "Ready Unknown NodeStatusUnknown 2026-01-01T00:00:00Z 2026-01-01T01:00:00Z",
                "Custom True - - -",
                "PIDPressure Unknown NodeStatusNeverUpdated 2025-01-01T00:00:00Z 2026-01-01T01:00:00Z",
            ]
        );
    }

    #[test]
    fn a_node_that_is_marked_is_left_alone() {
        let conditions = json!([{"type": "Ready", "status": "Unknown"}, {"type": "DiskPressure", "status": "False"}]);
        assert_eq!(lines(conditions), None);
    }

    #[test]
    fn the_patch_replaces_the_list_of_the_version_that_was_read() {
        let node = node(json!([]));
        let write = patch(&node, &[json!({"type": "Ready", "extra": 1})]);
        assert_eq!(write.target.subresource, "status");
        let flyball_sdk::write::Action::Patch(kind, body) = write.action else {
            panic!("no patch")
        };
        let body: Value = flyball_sdk::serde_json::from_slice(&body).unwrap();
        assert_eq!(kind, PatchType::Merge);
        assert_eq!(body["status"]["conditions"][0]["extra"], 1);
        assert_eq!(body["metadata"], json!({"resourceVersion": ""}));
    }
}
