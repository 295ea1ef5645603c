//! The strategy Recreate: creates no new pod before the last old one is deleted.
//!
//! Upstream: pkg/controller/deployment/recreate.go: scaleDownOldReplicaSetsForRecreate, oldPodsRunning,
//! scaleUpNewReplicaSetForRecreate.

use flyball_pods::has_ended;

use crate::sets::{Resize, Sets};
use crate::views::{Deployment, Pod, ReplicaSet};

/// Scales the old ReplicaSets to 0.
pub fn shut_down(sets: &Sets) -> Vec<Resize> {
    sets.active_old().map(|set| Resize::new(set, 0)).collect()
}

/// Scales the new ReplicaSet to the desired number.
pub fn fill(deployment: &Deployment, sets: &Sets) -> Vec<Resize> {
    let wanted = deployment.replicas();
    sets.new
        .iter()
        .filter(|new| new.replicas() != wanted)
        .map(|new| Resize::new(new, wanted))
        .collect()
}

/// Whether an old ReplicaSet reports pods.
pub fn counts_pods(old: &[ReplicaSet]) -> bool {
    old.iter().any(|set| set.status.replicas > 0)
}

/// Whether a pod may still run. Pods being deleted and pods of unknown phase may.
pub fn may_run(pod: &Pod) -> bool {
    !has_ended(&pod.phase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::SetStatus;

    fn set(name: &str, desired: i64, there: i64) -> ReplicaSet {
        let status = SetStatus {
            replicas: there,
            ..SetStatus::default()
        };
        let mut set = ReplicaSet {
            desired: Some(desired),
            status,
            ..ReplicaSet::default()
        };
        set.meta.name = name.into();
        set
    }

    #[test]
    fn old_sets_are_scaled_to_zero_and_the_new_one_is_scaled_up() {
        let deployment = Deployment {
            replicas: Some(3),
            strategy: "Recreate".into(),
            ..Deployment::default()
        };
        let sets = Sets {
            new: Some(set("new", 1, 1)),
            old: vec![set("a", 2, 2), set("b", 0, 0)],
        };
        assert_eq!(
            shut_down(&sets),
            [Resize {
                name: "a".into(),
                to: 0
            }]
        );
        assert_eq!(
            fill(&deployment, &sets),
            [Resize {
                name: "new".into(),
                to: 3
            }]
        );
        let full = Sets {
            new: Some(set("new", 3, 1)),
            old: Vec::new(),
        };
        assert!(fill(&deployment, &full).is_empty() && shut_down(&full).is_empty());
    }

    #[test]
    fn every_pod_that_has_not_ended_may_run() {
        for (phase, expected) in [
            ("Failed", false),
            ("Succeeded", false),
            ("Unknown", true),
            ("Pending", true),
            ("Running", true),
            ("", true),
        ] {
            assert_eq!(
                may_run(&Pod {
                    phase: phase.into()
                }),
                expected,
                "{phase}"
            );
        }
        assert!(counts_pods(&[set("a", 0, 0), set("b", 0, 1)]));
        assert!(!counts_pods(&[set("a", 0, 0)]) && !counts_pods(&[]));
    }
}
