//! The description.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::permissions;

use crate::Binder;

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = Binder::describe();
    description.check().unwrap();
    assert_eq!(description.name, "persistentvolume-binder-controller");
    assert_eq!(description.event_source, "persistentvolume-controller");
    let queues: Vec<_> = description
        .queues
        .iter()
        .map(|queue| queue.name.as_str())
        .collect();
    assert_eq!(
        (queues, description.concurrency),
        (vec!["claims", "volumes"], 1)
    );
    assert_eq!(description.tickers[0].period_ms, 15_000);
    assert_eq!(
        permissions(&description),
        [
            "v1/PersistentVolume  create,delete,get,update",
            "v1/PersistentVolume status update",
            "v1/PersistentVolumeClaim  get,update",
            "v1/PersistentVolumeClaim status update",
            "v1/Pod  create,delete,get",
        ]
    );
}
