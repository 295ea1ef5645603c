//! The pods that changes of claims, slices and rules enqueue.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::{ALL_POOLS, CLAIMS, POOLS};

#[test]
fn a_claim_with_a_tainted_device_enqueues_its_pods() {
    let cluster = cluster([
        slice("s", 1, &["t"]),
        claim("c", "a", &["x", "y"], json!([])),
        claim("d", "b", &["z"], json!([])),
        pod("x", &["c"]),
        pod("y", &["c"]),
        pod("z", &["d"]),
    ]);
    reconcile_in(&cluster, CLAIMS, "team/c");
    assert_eq!(enqueued(&cluster, ""), ["team/x", "team/y"]);
    reconcile_in(&cluster, CLAIMS, "team/d");
    assert!(enqueued(&cluster, "").is_empty());
    for key in ["p", ALL_POOLS] {
        reconcile_in(&cluster, POOLS, key);
        assert_eq!(enqueued(&cluster, ""), ["team/x", "team/y"]);
    }
    reconcile_in(&cluster, POOLS, "other/pool");
    assert!(enqueued(&cluster, "").is_empty());
}

#[test]
fn a_pod_whose_eviction_is_pending_is_enqueued_when_its_causes_vanish() {
    for (kind, name) in [(SLICE, "s"), (CLAIM, "c")] {
        let tolerations = json!([tolerates("t", Some(60))]);
        let cluster = cluster([
            slice("s", 1, &["t"]),
            claim("c", "a", &["x"], tolerations),
            pod("x", &["c"]),
        ]);
        assert_eq!(reconcile(&cluster, "x").unwrap(), after(60));
        let namespace = if kind == SLICE { "" } else { "team" };
        cluster.remove(kind, namespace, name);
        match kind {
            SLICE => reconcile_in(&cluster, POOLS, "p"),
            _ => reconcile_in(&cluster, CLAIMS, "team/c"),
        };
        assert_eq!(enqueued(&cluster, ""), ["team/x"]);
        assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
        assert_eq!(cluster.events(), [CANCELLING]);
    }
}

#[test]
fn a_deleted_rule_enqueues_all_pools() {
    let cluster = cluster([]);
    assert_eq!(
        cluster
            .reconcile::<crate::DeviceTaintEviction>("r")
            .unwrap(),
        Outcome::Done
    );
    assert_eq!(enqueued(&cluster, POOLS), [ALL_POOLS]);
}
