use flyball_sdk::prelude::*;
use flyball_sdk::testing::permissions;

use crate::StatefulSetController;

#[test]
fn the_description_is_that_of_kube_controller_manager() {
    let description = StatefulSetController::describe();
    description.check().unwrap();
    assert_eq!(description.name, "statefulset-controller");
    assert_eq!(description.event_source, "statefulset-controller");
    assert_eq!(description.concurrency, 5);
    let [queue] = description.queues.as_slice() else {
        panic!("one queue")
    };
    assert_eq!(
        (queue.name.as_str(), queue.max_retries),
        ("statefulset", None)
    );
    let mut metrics: Vec<&str> = description
        .metrics
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    metrics.sort_unstable();
    assert_eq!(
        metrics,
        [
            "statefulset_controller_statefulset_max_unavailable",
            "statefulset_controller_statefulset_unavailable_replicas"
        ]
    );
}

#[test]
fn the_permissions_are_those_of_the_cluster_role() {
    assert_eq!(
        permissions(&StatefulSetController::describe()),
        [
            "apps/v1/StatefulSet  get",
            "apps/v1/StatefulSet status update",
            "apps/v1/StatefulSet finalizers update",
            "v1/Pod  create,delete,get,patch,update",
            "v1/Pod finalizers update",
            "v1/PersistentVolumeClaim  create,get,update",
            "apps/v1/ControllerRevision  create,delete,get,patch,update",
        ]
    );
}

#[test]
fn the_gates_have_the_defaults_of_the_release() {
    let description = StatefulSetController::describe();
    let default = |gate: &str| {
        description.config[&format!("feature-gates.{gate}")]
            .default
            .clone()
    };
    assert_eq!(
        default("MaxUnavailableStatefulSet").as_deref(),
        Some("true")
    );
    assert_eq!(
        default("StatefulSetRecreateStrategy").as_deref(),
        Some("false")
    );
    assert_eq!(
        default("StatefulSetSemanticRevisionComparison").as_deref(),
        Some("true")
    );
}
