//! Clouds with the older interfaces.

use flyball_cloud::CloudError;
use flyball_cloud::testing::FakeCloud;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

const EXISTS: &str = "InstanceExistsByProviderID";
const SHUTDOWN: &str = "InstanceShutdownByProviderID";

/// A cluster with this node, and a cloud with the older interfaces.
fn older(node: Value) -> (Cluster, FakeCloud) {
    let (cluster, cloud) = world(node);
    cloud.set_capabilities(|capabilities| {
        capabilities.instances_v2 = false;
        capabilities.instances = true;
    });
    (cluster, cloud)
}

/// A node without a provider ID.
fn nameless() -> Value {
    with(node("a", "False"), "/spec/providerID", "")
}

#[test]
fn instances_are_asked_for_by_provider_id() {
    let (cluster, cloud) = older(node("a", "False"));
    pass(&cluster);
    assert_eq!(
        cloud.called(),
        [format!("{EXISTS} fake://a"), format!("{SHUTDOWN} fake://a")]
    );
    always(&cloud, SHUTDOWN, true);
    pass(&cluster);
    assert_eq!(taints(&cluster), Some(json!([shutdown_taint()])));
    always(&cloud, EXISTS, false);
    pass(&cluster);
    assert!(cluster.object(NODE, "", "a").is_none());
}

#[test]
fn a_missing_provider_id_is_looked_up_by_the_name() {
    let (cluster, cloud) = older(nameless());
    cloud.on("InstanceID", |_| Ok(json!({"string": "i-1"})));
    pass(&cluster);
    assert_eq!(
        cloud.called(),
        [
            "InstanceID a".to_owned(),
            format!("{EXISTS} fake://i-1"),
            format!("{SHUTDOWN} fake://i-1")
        ]
    );
    assert_eq!(
        counted(&cluster),
        [
            "instance_metadata success",
            "instance_exists success",
            "instance_shutdown success"
        ]
    );
}

#[test]
fn a_node_whose_instance_has_no_id_is_deleted() {
    let found = CloudError::instance_not_found();
    for error in [found.clone(), found.wrap("looking up")] {
        let (cluster, cloud) = older(nameless());
        cloud.fail("InstanceID", error);
        pass(&cluster);
        assert_eq!(cluster.written(), ["delete v1/Node a"]);
        assert_eq!(counted(&cluster), ["instance_metadata instance_not_found"]);
    }
}

#[test]
fn any_other_error_leaves_the_node_alone() {
    let (cluster, cloud) = older(nameless());
    cloud.fail("InstanceID", CloudError::not_implemented());
    pass(&cluster);
    let (cluster, cloud) = (cluster, cloud);
    cloud.fail("InstanceID", CloudError::other("throttled"));
    pass(&cluster);
    cloud.fail(EXISTS, CloudError::instance_not_found());
    pass(&cluster);
    assert!(cluster.written().is_empty() && cluster.events().is_empty());
}

#[test]
fn a_cloud_that_does_not_know_of_shutdowns_taints_no_node() {
    let (cluster, cloud) = older(node("a", "False"));
    cloud.fail(SHUTDOWN, CloudError::not_implemented().wrap("asking"));
    pass(&cluster);
    assert!(cluster.written().is_empty());
    assert_eq!(counted(&cluster)[1], "instance_shutdown not_implemented");
}
