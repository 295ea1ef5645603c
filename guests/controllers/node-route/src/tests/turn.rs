//! Runs that follow the nodes.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta};

use super::world::*;
use crate::NodeRoute;
use crate::turn::next;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_run_is_at_once_or_ten_seconds_after_the_one_before() {
    let now = Time::of_seconds(1_000);
    for (last, expected) in [
        (None, 0),
        (Some(now - 30 * SECOND), 0),
        (Some(now - 10 * SECOND), 0),
        (Some(now - 4 * SECOND), 6),
        (Some(now), 10),
        // A run that has yet to begin covers this change.
        (Some(now + 7 * SECOND), 7),
        // The clock was set back.
        (Some(now + 60 * SECOND), 0),
    ] {
        assert_eq!(next(last, now), now + expected * SECOND, "{last:?}");
    }
}

/// The delay of the run that a change of a node asks for now.
fn routed(cluster: &Cluster) -> Duration {
    let deltas = [delta(NODE, None, Some(&node("a", &[])))];
    let routed = cluster.route::<NodeRoute>(&deltas).unwrap();
    assert_eq!(
        (routed.len(), routed[0].key.to_string().as_str()),
        (1, "node_change")
    );
    routed[0].delay
}

#[test]
fn a_burst_of_changes_costs_two_runs() {
    let (cluster, _) = world([], []);
    assert_eq!(routed(&cluster), Duration::ZERO);
    cluster.advance(2 * SECOND);
    assert_eq!(routed(&cluster), 8 * SECOND);
    cluster.advance(3 * SECOND);
    assert_eq!(routed(&cluster), 5 * SECOND);
    cluster.advance(30 * SECOND);
    assert_eq!(routed(&cluster), Duration::ZERO);
}

#[test]
fn a_run_is_counted_by_what_asked_for_it() {
    let (cluster, _) = world([], []);
    for trigger in ["node_change", "periodic"] {
        cluster.reconcile::<NodeRoute>(trigger).unwrap();
        assert_eq!(counted(&cluster), [format!("noop {trigger}")]);
    }
}

#[test]
fn the_first_tick_leaves_the_run_to_the_initial_nodes() {
    let (cluster, cloud) = world([node("a", &[])], []);
    cluster.reconcile::<NodeRoute>("tick").unwrap();
    assert!(cluster.enqueued().is_empty());
    cluster.reconcile::<NodeRoute>("tick").unwrap();
    let enqueued = cluster.enqueued();
    assert_eq!((enqueued.len(), enqueued[0].key.as_str()), (1, "periodic"));
    assert!(cloud.called().is_empty());
}
