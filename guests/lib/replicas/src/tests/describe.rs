//! The description of the controller.

use flyball_sdk::testing::permissions;

use super::*;
use crate::{ReplicaSets, ReplicationControllers};

#[test]
fn the_description_is_valid_and_asks_only_for_permissions_in_use() {
    let description = ReplicaSets::describe();
    description.check().unwrap();
    assert_eq!(
        permissions(&description),
        [
            "v1/Pod  create,delete,patch",
            "apps/v1/ReplicaSet  get",
            "apps/v1/ReplicaSet status update",
            "apps/v1/ReplicaSet finalizers update",
        ]
    );
}

#[test]
fn only_replicasets_count_terminating_pods() {
    let gate = |description: &Description| {
        let key = "feature-gates.DeploymentReplicaSetTerminatingReplicas";
        description.config.contains_key(key)
    };
    assert!(gate(&ReplicaSets::describe()));
    assert!(!gate(&ReplicationControllers::describe()));
}

#[test]
fn pods_enqueue_their_controller_and_orphans_the_sets_that_select_them() {
    let pods = flyball_sdk::serde_json::to_value(&ReplicaSets::describe().watches[1]).unwrap();
    assert_eq!(
        pods["map"],
        json!([
            {"to": "controller", "kind": "apps/v1/ReplicaSet"},
            {"to": "selecting", "kind": "apps/v1/ReplicaSet", "path": "spec.selector", "orphans": true,
             "on": ["added", "modified"]},
        ])
    );
}
