//! Native tests of the whole controller.

use flyball_sdk::log::Level;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal};
use ttl_controller::Ttl;

const NODE: &str = "v1/Node";

fn node(name: &str, seconds: Option<&str>) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {"example.com/kept": "yes"}}});
    if let Some(seconds) = seconds {
        node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"] = seconds.into();
    }
    node
}

fn nodes(count: usize, seconds: Option<&str>) -> Cluster {
    Cluster::with((0..count).map(|n| node(&format!("n{n:04}"), seconds)))
}

/// Reconciles a node and returns its annotation.
fn reconcile(cluster: &Cluster, name: &str) -> Value {
    let outcome = cluster.reconcile::<Ttl>(name).unwrap();
    assert_eq!(outcome, Outcome::Done);
    let node = cluster.object(NODE, "", name).unwrap();
    node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"].clone()
}

/// Handles a change of the number of nodes.
fn count(cluster: &Cluster) {
    let request = Request::new("ttlcontroller_node_count", "all");
    cluster.reconcile_request::<Ttl>(&request).unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_node_of_a_small_cluster_is_not_to_cache() {
    let cluster = nodes(100, None);
    assert_eq!(reconcile(&cluster, "n0000"), "0");
    let writes = cluster.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].to_string(), "patch v1/Node n0000");
    assert_eq!(
        writes[0].body,
        json!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "0"}}})
    );
    let node = cluster.object(NODE, "", "n0000").unwrap();
    assert_eq!(node["metadata"]["annotations"]["example.com/kept"], "yes");
}

#[test]
fn a_node_with_the_right_annotation_is_left_alone() {
    for seconds in ["0", "+0", "00", "-0"] {
        let cluster = nodes(1, Some(seconds));
        for _ in 0..2 {
            assert_eq!(reconcile(&cluster, "n0000"), seconds);
            assert!(cluster.written().is_empty());
        }
    }
}

#[test]
fn a_wrong_annotation_is_replaced() {
    for seconds in ["15", "", "0s", " 0", "0.0", "99999999999999999999"] {
        let cluster = nodes(1, Some(seconds));
        assert_eq!(reconcile(&cluster, "n0000"), "0", "{seconds:?}");
        assert_eq!(cluster.written().len(), 1);
        let logged = cluster.logged();
        assert_eq!(logged.len(), usize::from(seconds != "15"), "{logged:?}");
        assert!(logged.iter().all(|(level, _)| *level == Level::Info));
    }
}

#[test]
fn a_growing_cluster_moves_a_step_up_at_a_nodes_next_change() {
    let cluster = nodes(100, Some("0"));
    reconcile(&cluster, "n0000");
    cluster.put(node("new", None));
    assert_eq!(reconcile(&cluster, "new"), "15");
    assert_eq!(reconcile(&cluster, "n0000"), "15");
    assert_eq!(cluster.written().len(), 2);
}

#[test]
fn an_added_node_that_has_the_annotation_of_the_last_step_counts() {
    let cluster = nodes(100, Some("0"));
    reconcile(&cluster, "n0000");
    cluster.put(node("new", Some("0")));
    count(&cluster);
    assert_eq!(reconcile(&cluster, "new"), "15");
}

#[test]
fn a_shrinking_cluster_stays_in_its_step_until_it_is_much_smaller() {
    let cluster = nodes(101, None);
    assert_eq!(reconcile(&cluster, "n0000"), "15");
    let shrink = |from: usize, to: usize| {
        (to..from).for_each(|n| cluster.remove(NODE, "", &format!("n{n:04}")));
        cluster.written();
        count(&cluster);
    };
    shrink(101, 90);
    assert_eq!(reconcile(&cluster, "n0001"), "15");
    shrink(90, 89);
    assert_eq!(reconcile(&cluster, "n0000"), "0");
    assert_eq!(reconcile(&cluster, "n0002"), "0");
}

#[test]
fn a_node_that_changes_before_the_deletions_are_counted_has_the_new_step() {
    let cluster = nodes(101, None);
    assert_eq!(reconcile(&cluster, "n0000"), "15");
    (80..101).for_each(|n| cluster.remove(NODE, "", &format!("n{n:04}")));
    assert_eq!(reconcile(&cluster, "n0000"), "0");
}

#[test]
fn a_host_that_starts_counts_anew() {
    let cluster = nodes(95, Some("15"));
    assert_eq!(reconcile(&cluster, "n0000"), "0");
}

#[test]
fn a_deleted_node_is_done_and_a_failure_is_retried() {
    let cluster = nodes(1, None);
    assert_eq!(cluster.reconcile::<Ttl>("gone").unwrap(), Outcome::Done);
    for (status, reason) in [(404, "NotFound"), (409, "Conflict"), (500, "InternalError")] {
        cluster.fail("patch", NODE, refusal(status, reason));
        let error = cluster.reconcile::<Ttl>("n0000").unwrap_err();
        assert!(!error.is_terminal());
    }
    assert_eq!(reconcile(&cluster, "n0000"), "0");
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = Ttl::describe();
    description.check().unwrap();
    assert_eq!(description.queues[0].name, "ttlcontroller");
    assert_eq!(description.concurrency, 5);
    assert_eq!(permissions(&description), ["v1/Node  patch"]);
}
