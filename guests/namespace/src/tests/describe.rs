//! What the controller declares.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::permissions;

use crate::NamespaceController;

#[test]
fn it_asks_for_what_it_uses() {
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
fn it_works_as_the_controller_managers() {
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
fn of_namespaces_the_cache_keeps_only_whether_they_are_deleted() {
    let watches = &NamespaceController::describe().watches;
    assert_eq!(watches.len(), 1);
    assert_eq!(watches[0].fields, ["metadata.deletionTimestamp"]);
    let map = serde_json::to_value(&watches[0].map).unwrap();
    assert_eq!(map, json!([{"to": "route", "on": ["added", "modified"]}]));
}
