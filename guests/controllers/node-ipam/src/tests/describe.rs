//! The description.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::permissions;

use crate::NodeIpam;

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = NodeIpam::describe();
    description.check().unwrap();
    assert_eq!(description.name, "node-ipam-controller");
    assert_eq!(description.event_source, "cidrAllocator");
    assert_eq!(description.concurrency, 30);
    assert_eq!(description.queues[0].name, "cidrallocator_node");
    assert_eq!(permissions(&description), ["v1/Node  list,patch"]);
    let mut names: Vec<&str> = description
        .metrics
        .iter()
        .map(|metric| metric.name.as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "node_ipam_controller_cidrset_allocation_tries_per_request",
            "node_ipam_controller_cidrset_cidrs_allocations_total",
            "node_ipam_controller_cidrset_cidrs_releases_total",
            "node_ipam_controller_cidrset_usage_cidrs",
            "node_ipam_controller_cirdset_max_cidrs",
        ]
    );
    assert!(
        description
            .metrics
            .iter()
            .all(|metric| metric.labels == ["clusterCIDR"])
    );
}
