//! Which pods go when there are too many: those first that have come less far.

use std::cmp::Reverse;

use flyball_sdk::Time;

use crate::indexes;
use crate::views::{Container, Job, Pod};

/// The active pods that must go: of an Indexed Job those without an index, with one that it does
/// not have, and all but the best of each index; then as many more as are needed for `at_least`.
pub fn doomed<'p>(job: &Job, active: &[&'p Pod], at_least: usize) -> Vec<&'p Pod> {
    let (mut doomed, mut left) = match job.is_indexed() {
        true => indexes::misplaced(job, active),
        false => (Vec::new(), active.to_vec()),
    };
    if doomed.len() < at_least {
        sort(&mut left);
        let more = at_least - doomed.len();
        doomed.extend(left.into_iter().take(more));
    }
    doomed
}

/// Sorts pods so that those come first that go first. Each criterion decides only between pods that
/// all earlier ones hold equal:
///
/// 1. a pod without a node;
/// 2. a pending pod, then one of unknown phase, then a running one;
/// 3. a pod that isn't ready;
/// 4. the pod that became ready later;
/// 5. the pod with more restarts: of its containers, then of its sidecars;
/// 6. the younger pod.
pub fn sort(pods: &mut [&Pod]) {
    pods.sort_by_key(|pod| {
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
        let made = by_time(pod.meta.creation_timestamp);
        (
            !pod.node.is_empty(),
            phase,
            pod.is_ready(),
            by_time(pod.ready_since()),
            Reverse(restarts),
            made,
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
