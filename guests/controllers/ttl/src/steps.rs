//! The steps of a cluster's size.
//!
//! The ranges of neighbouring steps overlap, so that a cluster whose size varies around a limit stays in its step.
//!
//! Upstream: pkg/controller/ttl/ttl_controller.go: addNode, deleteNode, getDesiredTTLSeconds.

/// A range of the number of nodes.
struct Step {
    /// The least number of nodes in this step. With fewer nodes, the cluster is in the previous step.
    least: u32,
    /// The greatest number of nodes in this step. With more nodes, the cluster is in the next step.
    most: u32,
    /// How long kubelets may cache objects.
    seconds: i64,
}

const STEPS: [Step; 5] = [
    step(0, 100, 0),
    step(90, 500, 15),
    step(450, 1_000, 30),
    step(900, 2_000, 60),
    step(1_800, u32::MAX, 300),
];

const fn step(least: u32, most: u32, seconds: i64) -> Step {
    Step {
        least,
        most,
        seconds,
    }
}

/// Returns the step of a cluster of this size that was in the step `last`.
pub fn next(last: usize, nodes: u32) -> usize {
    let mut step = last.min(STEPS.len() - 1);
    while nodes > STEPS[step].most {
        step += 1;
    }
    while nodes < STEPS[step].least {
        step -= 1;
    }
    step
}

/// The time of a step.
pub fn seconds(step: usize) -> i64 {
    STEPS[step.min(STEPS.len() - 1)].seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_cluster_is_in_the_first_step_that_has_room() {
        for (nodes, expected) in [
            (0, 0),
            (100, 0),
            (101, 15),
            (500, 15),
            (501, 30),
            (1_000, 30),
            (1_001, 60),
            (2_000, 60),
            (2_001, 300),
            (u32::MAX, 300),
        ] {
            assert_eq!(seconds(next(0, nodes)), expected, "{nodes} nodes");
        }
    }

    #[test]
    fn a_cluster_that_shrinks_stays_in_its_step_for_a_while() {
        for (step, nodes, expected) in [
            (1, 90, 1),
            (1, 89, 0),
            (2, 450, 2),
            (2, 449, 1),
            (3, 900, 3),
            (3, 899, 2),
            (4, 1_800, 4),
            (4, 1_799, 3),
            (4, 0, 0),
            (0, 0, 0),
        ] {
            assert_eq!(next(step, nodes), expected, "{nodes} nodes");
        }
    }

    #[test]
    fn a_step_that_does_not_exist_is_the_last_one() {
        assert_eq!((next(9, 5_000), seconds(9)), (4, 300));
    }
}
