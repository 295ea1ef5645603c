//! Runs.

use flyball_cloud::CloudError;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::NodeRoute;

const A: &str = "10.244.1.0/24";
const B: &str = "10.244.2.0/24";
const CREATED: &str = "False RouteCreated RouteController created a route";
const FAILED: &str = "True NoRouteCreated RouteController failed to create a route";

#[test]
fn missing_routes_are_created_and_reported() {
    let (cluster, cloud) = world([node("a", &[A]), node("b", &[])], []);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(
        cloud.called(),
        ["ListRoutes", &format!("CreateRoute a {A}")]
    );
    assert_eq!(condition(&cluster, "a"), CREATED);
    assert_eq!(condition(&cluster, "b"), "", "it has no range");
    assert_eq!(cluster.written(), ["patch v1/Node/status a"]);
    assert_eq!(counted(&cluster), ["changed periodic"]);
    reconcile(&cluster).unwrap();
    assert_eq!(cloud.called(), ["ListRoutes"]);
    assert!(cluster.written().is_empty());
    assert_eq!(counted(&cluster), ["noop periodic"]);
}

#[test]
fn the_cloud_is_given_the_cluster_and_the_uid_of_the_node() {
    let (cluster, cloud) = world([node("a", &[A])], [route("gone", B)]);
    cluster.set_config("cluster-name", "prod");
    reconcile(&cluster).unwrap();
    let calls = cloud.calls();
    let names: Vec<_> = calls
        .iter()
        .map(|call| call.arguments["clusterName"].clone())
        .collect();
    assert_eq!(names, ["prod", "prod", "prod"]);
    assert_eq!(calls[1].arguments["route"]["name"], format!("gone-{B}"));
    assert_eq!(calls[2].arguments["nameHint"], "uid-a");
}

#[test]
fn deletions_end_before_creations_begin() {
    let (cluster, cloud) = world([node("a", &[A])], [addressed("a", A, &["10.9.9.9"])]);
    reconcile(&cluster).unwrap();
    assert_eq!(
        cloud.called(),
        [
            "ListRoutes",
            &format!("DeleteRoute a {A}"),
            &format!("CreateRoute a {A}")
        ]
    );
    assert_eq!(condition(&cluster, "a"), CREATED);
}

#[test]
fn a_route_that_can_not_be_created_is_reported_on_its_node() {
    let (cluster, cloud) = world([node("a", &[A]), node("b", &[B])], []);
    cloud.fail("CreateRoute", CloudError::other("quota exceeded"));
    reconcile(&cluster).unwrap();
    let events = cluster.recorded_events();
    assert_eq!(
        events[0].to_string(),
        format!(
            "Warning FailedToCreateRoute Could not create route uid-a {A} for node a after 0s: quota exceeded"
        )
    );
    assert_eq!((events.len(), events[0].about.uid.as_str()), (1, "uid-a"));
    assert_eq!(condition(&cluster, "a"), FAILED);
    assert_eq!(condition(&cluster, "b"), CREATED);
    assert_eq!(counted(&cluster), ["changed periodic"]);
    reconcile(&cluster).unwrap();
    assert_eq!(condition(&cluster, "a"), CREATED);
}

#[test]
fn one_of_two_routes_is_not_enough() {
    let (cluster, cloud) = world([node("a", &[A, "fd00:1::/64"])], []);
    cloud.fail("CreateRoute", CloudError::other("quota exceeded"));
    reconcile(&cluster).unwrap();
    assert_eq!(condition(&cluster, "a"), FAILED);
}

#[test]
fn a_failed_deletion_does_not_fail_the_run() {
    let (cluster, cloud) = world([node("a", &[A])], [route("a", A), route("gone", B)]);
    cloud.fail("DeleteRoute", CloudError::other("throttled"));
    reconcile(&cluster).unwrap();
    assert_eq!(counted(&cluster), ["noop periodic"]);
    assert_eq!(condition(&cluster, "a"), CREATED);
    assert!(cluster.events().is_empty());
    reconcile(&cluster).unwrap();
    assert_eq!(cloud.routes().len(), 1);
}

#[test]
fn a_node_that_has_lost_its_range_has_no_network() {
    let (cluster, cloud) = world([node("a", &[])], [route("a", A)]);
    reconcile(&cluster).unwrap();
    assert!(cloud.routes().is_empty());
    assert_eq!(condition(&cluster, "a"), FAILED);
}

#[test]
fn another_condition_of_the_same_status_is_replaced() {
    let other = json!([{"type": "NetworkUnavailable", "status": "False", "reason": "Other", "message": "x"}]);
    let (cluster, _) = world(
        [with(node("a", &[A]), "/status/conditions", other)],
        [route("a", A)],
    );
    reconcile(&cluster).unwrap();
    assert_eq!(condition(&cluster, "a"), CREATED);
}

#[test]
fn a_refused_condition_does_not_fail_the_run() {
    let (cluster, _) = world([node("a", &[A]), node("b", &[B])], []);
    cluster.fail("patch", STATUS, refusal(500, "InternalError"));
    reconcile(&cluster).unwrap();
    assert_eq!(condition(&cluster, "b"), CREATED);
    reconcile(&cluster).unwrap();
    assert_eq!(condition(&cluster, "a"), CREATED);
}

#[test]
fn a_run_fails_if_the_routes_can_not_be_listed() {
    let (cluster, cloud) = world([node("a", &[A])], []);
    cloud.fail("ListRoutes", CloudError::other("throttled"));
    let error = reconcile(&cluster).unwrap_err().to_string();
    assert_eq!(error, "error listing routes: throttled");
    assert_eq!(counted(&cluster), ["error periodic"]);
    assert_eq!(condition(&cluster, "a"), "");
}

#[test]
fn more_routes_than_are_written_at_once_are_all_written() {
    let nodes =
        (0..250).map(|number| node(&format!("n{number}"), &[&format!("10.244.{number}.0/24")]));
    let gone = (0..250).map(|number| route("gone", &format!("fd00:1:0:{number:x}::/64")));
    let (cluster, cloud) = world(nodes, gone);
    reconcile(&cluster).unwrap();
    assert_eq!(cloud.called().len(), 1 + 250 + 250);
    assert_eq!(cloud.routes().len(), 250);
    assert_eq!(cluster.written().len(), 250);
}

#[test]
fn without_a_provider_the_run_waits() {
    let cluster = flyball_sdk::testing::Cluster::with([node("a", &[A])]);
    cluster.set_config("cluster-cidr", CLUSTER);
    assert_eq!(
        reconcile(&cluster).unwrap(),
        Outcome::RequeueAfter(crate::WAIT)
    );
    assert!(cluster.written().is_empty());
}

#[test]
fn a_cloud_without_routes_is_not_asked() {
    let (cluster, cloud) = world([node("a", &[A])], []);
    cloud.set_capabilities(|capabilities| capabilities.routes = false);
    reconcile(&cluster).unwrap();
    cluster.reconcile::<NodeRoute>("tick").unwrap();
    assert!(cloud.called().is_empty() && cluster.written().is_empty());
}
