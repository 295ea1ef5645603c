//! The controller's description.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::permissions;

use crate::NamespaceController;

#[test]
fn it_asks_only_for_permissions_in_use() {
    let description = NamespaceController::describe();
    description.check().unwrap();
    assert_eq!(
        permissions(&description),
        [
            "*  delete,deletecollection,list",
            "v1/Namespace  get",
            "v1/Namespace finalize update",
            "v1/Namespace status update",
        ]
    );
    assert_eq!(
        description.imports.iter().collect::<Vec<_>>(),
        ["discovery"]
    );
}

#[test]
fn concurrency_and_queue_match_kube_controller_manager() {
    let description = NamespaceController::describe();
    assert_eq!(
        (description.name.as_str(), description.concurrency),
        ("namespace-controller", 10)
    );
    let queue = &description.queues[0];
    assert_eq!(
        (queue.name.as_str(), queue.base_delay_ms, queue.max_delay_ms),
        ("namespace", 5, 60_000)
    );
    assert_eq!(
        (queue.qps, queue.burst, queue.max_retries),
        (10.0, 100, None)
    );
}

#[test]
fn only_the_deletion_timestamp_of_namespaces_is_cached() {
    let watches = &NamespaceController::describe().watches;
    assert_eq!(watches.len(), 1);
    assert_eq!(watches[0].fields, ["metadata.deletionTimestamp"]);
    let map = serde_json::to_value(&watches[0].map).unwrap();
    assert_eq!(map, json!([{"to": "route", "on": ["added", "modified"]}]));
}
