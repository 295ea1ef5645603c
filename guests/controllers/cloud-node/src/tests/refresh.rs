//! The pass over the addresses of all nodes, at a cloud with `instancesV2`.

use std::time::Duration;

use flyball_cloud::CloudError;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

const PERIOD: Duration = Duration::from_secs(300);

/// Makes the cloud know this address of each node.
fn at(cloud: &flyball_cloud::testing::FakeCloud, address: &str) {
    knows(
        cloud,
        json!({"nodeAddresses": [{"type": "InternalIP", "address": address}]}),
    );
}

#[test]
fn changed_addresses_are_written() {
    let (cluster, cloud) = world(node());
    at(&cloud, "10.0.0.9");
    assert_eq!(pass(&cluster).unwrap(), Outcome::RequeueAfter(PERIOD));
    assert_eq!(cluster.written(), [STATUS_PATCH]);
    assert_eq!(
        stored(&cluster)["status"]["addresses"],
        json!([{"type": "InternalIP", "address": "10.0.0.9"}, {"type": "Hostname", "address": "a"}])
    );
    assert!(cluster.events().is_empty());
}

#[test]
fn a_pass_begins_a_period_after_the_end_of_the_one_before() {
    let (cluster, cloud) = world(node());
    pass(&cluster).unwrap();
    cluster.advance(PERIOD / 2);
    assert_eq!(pass(&cluster).unwrap(), Outcome::RequeueAfter(PERIOD / 2));
    assert_eq!(cloud.called().len(), 1);
    cluster.advance(PERIOD / 2);
    pass(&cluster).unwrap();
    assert_eq!(cloud.called().len(), 1);
}

#[test]
fn new_nodes_are_left_to_their_initialisation() {
    let (cluster, cloud) = world(new_node());
    pass(&cluster).unwrap();
    assert!(cloud.called().is_empty() && cluster.written().is_empty());
}

#[test]
fn a_node_that_fails_does_not_keep_the_others() {
    let (cluster, cloud) = world(node());
    let names = ["b", "c", "d"];
    for name in names {
        cluster.put(with(node(), "/metadata/name", name));
    }
    at(&cloud, "10.0.0.9");
    cloud.fail("InstanceMetadata", CloudError::other("throttled"));
    cluster.edit(NODE, "", "b", |node| {
        *node = provided(node.clone(), "10.9.9.9")
    });
    cluster.fail("patch", "v1/Node/status", refusal(500, "InternalError"));
    pass(&cluster).unwrap();
    let written = cluster.written();
    assert!(
        written[0].starts_with("patch v1/Node/status c: "),
        "{written:?}"
    );
    assert_eq!(written[1], "patch v1/Node/status d");
}

#[test]
fn a_cloud_that_leaves_a_node_alone_or_has_no_addresses_changes_nothing() {
    for metadata in [Value::Null, json!({"providerID": "fake://a"})] {
        let (cluster, cloud) = world(node());
        knows(&cloud, metadata);
        pass(&cluster).unwrap();
        assert!(cluster.written().is_empty());
    }
}

#[test]
fn all_nodes_are_asked_for_however_many_at_once() {
    for concurrency in ["0", "1", "7", "1000"] {
        let (cluster, cloud) = world(node());
        for number in 0..230 {
            cluster.put(with(node(), "/metadata/name", format!("node-{number}")));
        }
        cluster.set_config("concurrent-node-status-updates", concurrency);
        pass(&cluster).unwrap();
        assert_eq!(cloud.called().len(), 231);
    }
}
