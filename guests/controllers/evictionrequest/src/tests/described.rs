//! The description.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::permissions;

use crate::EvictionRequests;

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = EvictionRequests::describe();
    description.check().unwrap();
    assert_eq!(description.name, "evictionrequest-controller");
    assert_eq!(description.concurrency, 5);
    let queues: Vec<&str> = { description.queues.iter() }
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(
        queues,
        [
            "evictionrequest-controller_eviction",
            "evictionrequest-controller_eviction_request",
            "evictionrequest-controller_eviction_metadata_refresh",
        ]
    );
    assert_eq!(
        permissions(&description),
        [
            "lifecycle.k8s.io/v1alpha1/Eviction  create,patch",
            "lifecycle.k8s.io/v1alpha1/Eviction status patch",
            "lifecycle.k8s.io/v1alpha1/EvictionRequest status patch",
        ]
    );
}
