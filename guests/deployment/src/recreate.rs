//! The strategy Recreate: no new pod before the last old one is gone.

use flyball_sdk::pod::has_ended;

use crate::sets::{Resize, Sets};
use crate::views::{Deployment, Pod, ReplicaSet};

/// Empties the old ReplicaSets.
pub fn shut_down(sets: &Sets) -> Vec<Resize> {
    sets.active_old().map(|set| Resize::new(set, 0)).collect()
}

/// Fills the new ReplicaSet.
pub fn fill(deployment: &Deployment, sets: &Sets) -> Vec<Resize> {
    let wanted = deployment.replicas();
    sets.new
        .iter()
        .filter(|new| new.replicas() != wanted)
        .map(|new| Resize::new(new, wanted))
        .collect()
}

/// Whether an old ReplicaSet still counts pods.
pub fn counts_pods(old: &[ReplicaSet]) -> bool {
    old.iter().any(|set| set.status.replicas > 0)
}

/// Whether a pod may still run. One that is being deleted may; one of unknown phase as well.
pub fn may_run(pod: &Pod) -> bool {
    !has_ended(&pod.phase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::SetStatus;

    fn set(name: &str, asked: i64, there: i64) -> ReplicaSet {
        let status = SetStatus {
            replicas: there,
            ..SetStatus::default()
        };
        let mut set = ReplicaSet {
            asked: Some(asked),
            status,
            ..ReplicaSet::default()
        };
        set.meta.name = name.into();
        set
    }

    #[test]
    fn old_sets_are_emptied_and_the_new_one_is_filled() {
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
    fn only_pods_that_have_ended_do_not_count() {
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
