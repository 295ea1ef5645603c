//! The description: queue, permissions and delay.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use crate::EndpointsController;

#[test]
fn the_queue_is_that_of_kube_controller_manager() {
    let description = EndpointsController::describe();
    description.check().unwrap();
    let queue = &description.queues[0];
    assert_eq!(
        (queue.name.as_str(), queue.base_delay_ms, queue.max_retries),
        ("endpoint", 5, Some(15))
    );
    assert_eq!(description.concurrency, 5);
    assert_eq!(description.event_source, "endpoint-controller");
    assert_eq!(
        permissions(&description),
        ["v1/Endpoints  create,delete,update"]
    );
}

#[test]
fn changes_of_pods_wait_for_the_batch_period() {
    let cluster = Cluster::new();
    cluster.set_config("updates-batch-period", "500ms");
    let description = EndpointsController::describe_configured(&cluster.host());
    assert_eq!(description.watches[1].map[0].delay_ms, 500);
    assert_eq!(description.watches[0].map[0].delay_ms, 0);
}

#[test]
fn an_invalid_period_is_not_tried_again() {
    let cluster = Cluster::new();
    cluster.set_config("updates-batch-period", "soon");
    let error = cluster
        .reconcile::<EndpointsController>("a/web")
        .unwrap_err();
    assert!(error.is_terminal());
}

#[test]
fn a_pod_that_ends_wakes_its_services_if_it_terminates() {
    let description = EndpointsController::describe();
    let watch = &description.watches[3];
    assert_eq!(watch.changes, [Change::Path("status.phase".into())]);
    assert!(watch.map[0].deleting);
    let of_all = &description.watches[1].changes;
    assert!(!of_all.contains(&Change::Path("status.phase".into())));
}
