//! Nodes whose instances exist, or exist no longer.

use std::time::Duration;

use flyball_cloud::CloudError;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;
use crate::CloudNodeLifecycle;

#[test]
fn a_node_that_is_not_ready_and_whose_instance_is_gone_is_deleted() {
    for ready in ["False", "Unknown", ""] {
        let (cluster, cloud) = world(node("a", ready));
        always(&cloud, "InstanceExists", false);
        pass(&cluster);
        assert_eq!(cloud.called(), ["InstanceExists a"]);
        assert_eq!(cluster.written(), ["delete v1/Node a"]);
        let events = cluster.recorded_events();
        assert_eq!(
            events[0].to_string(),
            "Normal DeletingNode Deleting node a because it does not exist in the cloud provider"
        );
        assert_eq!((events.len(), events[0].about.uid.as_str()), (1, "uid-a"));
        assert_eq!(events[0].options.resource_version, "");
    }
}

#[test]
fn a_node_without_the_condition_is_not_ready() {
    let (cluster, cloud) = world(with(node("a", ""), "/status", json!({})));
    always(&cloud, "InstanceExists", false);
    pass(&cluster);
    assert!(cluster.object(NODE, "", "a").is_none());
}

#[test]
fn the_cloud_is_not_asked_about_a_node_that_is_ready() {
    let (cluster, cloud) = world(node("a", "True"));
    always(&cloud, "InstanceExists", false);
    pass(&cluster);
    assert!(cloud.called().is_empty() && cluster.written().is_empty());
}

#[test]
fn a_node_whose_instance_runs_stays() {
    let (cluster, cloud) = world(node("a", "False"));
    pass(&cluster);
    assert_eq!(cloud.called(), ["InstanceExists a", "InstanceShutdown a"]);
    assert!(cluster.written().is_empty() && cluster.events().is_empty());
    assert_eq!(
        counted(&cluster),
        ["instance_exists success", "instance_shutdown success"]
    );
}

#[test]
fn nothing_is_done_if_the_cloud_fails() {
    for error in [
        CloudError::other("throttled"),
        CloudError::instance_not_found(),
        CloudError::not_implemented(),
    ] {
        for method in ["InstanceExists", "InstanceShutdown"] {
            let (cluster, cloud) = world(node("a", "False"));
            cloud.fail(method, error.clone());
            pass(&cluster);
            assert!(cluster.written().is_empty() && cluster.events().is_empty());
        }
    }
}

#[test]
fn calls_are_counted_by_their_results() {
    let (cluster, cloud) = world(node("a", "False"));
    for (error, result) in [
        (CloudError::other("throttled"), "error"),
        (
            CloudError::instance_not_found().wrap("asking"),
            "instance_not_found",
        ),
        (CloudError::not_implemented(), "not_implemented"),
    ] {
        cloud.fail("InstanceExists", error.clone());
        pass(&cluster);
        assert_eq!(counted(&cluster), [format!("instance_exists {result}")]);
        cloud.fail("InstanceShutdown", error);
        pass(&cluster);
        let expected = [
            "instance_exists success".to_owned(),
            format!("instance_shutdown {result}"),
        ];
        assert_eq!(counted(&cluster), expected);
    }
    always(&cloud, "InstanceExists", false);
    pass(&cluster);
    assert_eq!(counted(&cluster), ["instance_exists instance_not_found"]);
}

#[test]
fn a_failed_deletion_is_reported_and_repeated_by_the_next_pass() {
    let (cluster, cloud) = world(node("a", "False"));
    always(&cloud, "InstanceExists", false);
    cluster.fail("delete", NODE, refusal(403, "Forbidden"));
    pass(&cluster);
    let events = cluster.events();
    assert_eq!(
        events[1],
        "Warning DeletingNodeFailed Failed deleting node a: the test refuses this: Forbidden"
    );
    pass(&cluster);
    assert!(cluster.object(NODE, "", "a").is_none());
}

#[test]
fn a_node_that_fails_does_not_keep_the_others() {
    let (cluster, cloud) = world(node("a", "False"));
    cluster.put(node("b", "False"));
    cloud.fail("InstanceExists", CloudError::other("throttled"));
    always(&cloud, "InstanceExists", false);
    pass(&cluster);
    assert_eq!(cluster.written(), ["delete v1/Node b"]);
}

#[test]
fn many_nodes_that_leave_at_once_are_all_deleted() {
    for concurrency in ["1", "16", "500"] {
        let cluster = Cluster::with((0..200).map(|number| node(&format!("n{number}"), "Unknown")));
        let cloud = flyball_cloud::testing::FakeCloud::of(&cluster);
        always(&cloud, "InstanceExists", false);
        cluster.set_config("concurrent-node-lifecycle-syncs", concurrency);
        pass(&cluster);
        assert_eq!(cluster.written().len(), 200);
        assert_eq!(cloud.called().len(), 200);
        assert!(cluster.objects(NODE).is_empty());
    }
}

#[test]
fn a_pass_begins_a_period_after_the_end_of_the_one_before() {
    let (cluster, cloud) = world(node("a", "False"));
    pass(&cluster);
    let second = Duration::from_secs(1);
    cluster.advance(second);
    let outcome = cluster.reconcile::<CloudNodeLifecycle>("all").unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(4 * second));
    assert_eq!(cloud.called().len(), 2);
}

#[test]
fn without_a_provider_the_pass_waits() {
    let cluster = Cluster::with([node("a", "False")]);
    let outcome = cluster.reconcile::<CloudNodeLifecycle>("all").unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(crate::WAIT));
    assert!(cluster.written().is_empty());
}

#[test]
fn a_cloud_without_instances_is_not_asked() {
    let (cluster, cloud) = world(node("a", "False"));
    cloud.set_capabilities(|capabilities| capabilities.instances_v2 = false);
    let outcome = cluster.reconcile::<CloudNodeLifecycle>("all").unwrap();
    assert_eq!(outcome, Outcome::Done);
    assert!(cloud.called().is_empty());
}
