//! A monitor that was suspended, and an API server that was unreachable.

use std::time::Duration;

use flyball_sdk::ApiError;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;
use crate::last_pass::LastPass;

fn cluster() -> Cluster {
    let cluster = Cluster::with([node("a", "True"), node("b", "True")]);
    pass(&cluster);
    pass_for(&cluster, 30);
    forget(&cluster);
    cluster
}

fn assert_idle(cluster: &Cluster) {
    assert_eq!(cluster.written(), Vec::<String>::new());
    assert_eq!(cluster.events(), Vec::<String>::new());
}

#[test]
fn a_process_that_was_suspended_takes_nobody_for_silent() {
    let cluster = cluster();
    cluster.advance(seconds(600));
    pass(&cluster);
    pass_for(&cluster, 50);
    assert_idle(&cluster);
    pass_for(&cluster, 5);
    assert_eq!(cluster.written().len(), 2);
}

#[test]
fn a_clock_that_is_set_takes_nobody_for_silent() {
    for step in ["2027-01-01T00:00:00Z", "2025-01-01T00:00:00Z"] {
        let cluster = cluster();
        cluster.set_now(step.parse().unwrap());
        pass(&cluster);
        pass_for(&cluster, 50);
        assert_idle(&cluster);
        pass_for(&cluster, 5);
        assert_eq!(cluster.written().len(), 2);
    }
}

#[test]
fn a_memo_that_was_emptied_takes_nobody_for_silent() {
    let cluster = cluster();
    cluster.host().memo().remove("monitor");
    pass_for(&cluster, 50);
    assert_eq!(cluster.written(), Vec::<String>::new());
}

#[test]
fn a_pass_that_is_a_little_late_is_no_interruption() {
    let cluster = cluster();
    cluster.advance(seconds(19));
    pass(&cluster);
    cluster.advance(seconds(5));
    pass(&cluster);
    assert_eq!(cluster.written().len(), 2);
}

#[test]
fn after_slow_writes_nobody_is_taken_for_silent_for_a_short_time() {
    let cluster = cluster();
    let memo = cluster.host().memo();
    let mut kept = LastPass::recall(&cluster.host());
    kept.was_slow = true;
    kept.nodes[0].heard -= 100_000;
    memo.put("monitor", &kept, "", Duration::ZERO).unwrap();
    pass_for(&cluster, 25);
    assert_idle(&cluster);
    pass_for(&cluster, 5);
    assert_eq!(cluster.written().len(), 2);
}

fn unreachable() -> ApiError {
    refusal(503, "Unreachable")
}

#[test]
fn an_api_server_that_was_unreachable_takes_nobody_for_silent() {
    let cluster = cluster();
    // Both marks and the read that follows fail, and so does the read of each later pass.
    for _ in 0..2 {
        cluster.fail("patch", NODE_STATUS, unreachable());
    }
    for _ in 0..100 {
        cluster.fail("get", NODE, unreachable());
    }
    pass_for(&cluster, 500);
    let writes = cluster.writes();
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert!(cluster.events().is_empty());
    // The other failures are used up.
    let back = cluster.live_reads().len();
    assert!(back > 90, "{back}");
    pass_for(&cluster, 50);
    assert_idle(&cluster);
}

#[test]
fn nodes_that_stay_silent_after_an_outage_are_marked() {
    let cluster = cluster();
    for _ in 0..2 {
        cluster.fail("patch", NODE_STATUS, unreachable());
    }
    cluster.fail("get", NODE, unreachable());
    pass_for(&cluster, 25);
    assert_eq!(cluster.writes().len(), 2);
    pass_for(&cluster, 50);
    assert_idle(&cluster);
    pass_for(&cluster, 10);
    assert_eq!(cluster.written().len(), 2);
}

#[test]
fn a_server_that_refuses_one_write_is_no_outage() {
    let cluster = cluster();
    cluster.fail("patch", NODE_STATUS, refusal(500, "InternalError"));
    pass_for(&cluster, 25);
    assert_eq!(cluster.writes().len(), 2);
    pass_for(&cluster, 5);
    assert_eq!(cluster.written(), ["patch v1/Node/status a"]);
}
