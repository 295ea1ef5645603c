//! The order in which surplus pods are deleted: pods that have made the least progress come first.
//!
//! Upstream: pkg/controller/controller_utils.go: ActivePods.Less.

use std::cmp::Reverse;

use flyball_sdk::Time;

use crate::views::{Container, Pod};

/// Sorts pods in the order of deletion. Each criterion only breaks ties of the previous ones; first
/// comes:
///
/// 1. a pod without a node;
/// 2. a pending pod, then one of unknown phase, then a running one;
/// 3. a pod that isn't ready;
/// 4. the pod that became ready later;
/// 5. the pod with more restarts: of its containers, then of its sidecars;
/// 6. the younger pod.
pub fn sort(pods: &mut [&Pod]) {
    pods.sort_by_cached_key(|pod| {
        let phase = match pod.phase.as_str() {
            "Unknown" => 1,
            "Running" => 2,
            _ => 0,
        };
        let restarts = (
            most_restarts(&mut pod.containers.iter()),
            most_restarts(&mut pod.sidecars()),
        );
        let by_time = |time: Option<Time>| Reverse((time.is_none(), time));
        let created = by_time(pod.meta.creation_timestamp);
        (
            !pod.node.is_empty(),
            phase,
            pod.is_ready(),
            by_time(pod.ready_since()),
            Reverse(restarts),
            created,
        )
    });
}

fn most_restarts(containers: &mut dyn Iterator<Item = &Container>) -> i32 {
    containers
        .map(|container| container.restart_count)
        .max()
        .unwrap_or(0)
        .max(0)
}
