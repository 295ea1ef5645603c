//! The strategy RollingUpdate: the new ReplicaSet is scaled up as far as the surge allows, the old
//! ones are scaled down as far as enough pods stay available.
//!
//! Upstream: pkg/controller/deployment/rolling.go: reconcileNewReplicaSet, reconcileOldReplicaSets,
//! cleanupUnhealthyReplicas, scaleDownOldReplicaSetsForRollingUpdate.
//! Upstream: pkg/controller/deployment/util/deployment_util.go: NewRSNewReplicas.

use crate::bounds::{max_surge, min_available};
use crate::sets::{Resize, Sets};
use crate::views::{Deployment, ReplicaSet};

/// Returns the size of the new ReplicaSet, which has `present` pods, when all ReplicaSets together
/// want `desired` pods.
pub fn size_of_new(deployment: &Deployment, desired: i64, present: i64) -> i64 {
    let wanted = deployment.replicas();
    if !deployment.is_rolling() {
        return wanted;
    }
    let room = wanted + max_surge(deployment) - desired;
    if room <= 0 {
        present
    } else {
        present + room.min(wanted - present)
    }
}

/// Scales the new ReplicaSet up, or down if it is larger than the Deployment.
pub fn resize_new(deployment: &Deployment, sets: &Sets) -> Vec<Resize> {
    let Some(new) = &sets.new else {
        return Vec::new();
    };
    let (wanted, present) = (deployment.replicas(), new.replicas());
    let size = if present > wanted {
        wanted
    } else {
        size_of_new(deployment, sets.desired(), present)
    };
    if size == present {
        Vec::new()
    } else {
        vec![Resize::new(new, size)]
    }
}

/// Number of pods that the old ReplicaSets may lose. Unavailable pods of the new ReplicaSet count
/// as missing, so the old ones are kept until these are available.
///
/// An example, from the comments of `reconcileOldReplicaSets`: a Deployment of 10 pods has a surge of 3, and 2 may be
/// unavailable. A rollout has scaled its old ReplicaSet down to 8, and the new one up to 5, whose pods crash.
///
/// - A node fails, and with it a pod of the old ReplicaSet. 13 - 8 - 5 = 0, so the old ReplicaSet keeps its pods.
/// - The user rolls back. The old ReplicaSet is the new one now, and lacks one pod: 13 - 8 - 1 = 4 of the crashing pods
///   are deleted. The sum is 9 then, so that the new ReplicaSet may be scaled up to 10.
/// - The user rolls on to a third template instead. Its ReplicaSet starts with 0 pods, as there are 13 already, and
///   none of them is missing: the old ones may lose 13 - 8 - 0 = 5.
pub fn max_scaled_down(deployment: &Deployment, sets: &Sets) -> i64 {
    let missing = sets.new.as_ref().map_or(0, |new| new.unavailable().max(0));
    sets.desired() - min_available(deployment) - missing
}

/// Scales down old ReplicaSets by their unavailable pods, which can't reduce availability;
/// otherwise broken pods would block the rollout until its deadline (kubernetes/kubernetes#16737). A ReplicaSet deletes
/// pods that are not ready first.
pub fn scale_down_unavailable(sets: &Sets, at_most: i64) -> Vec<Resize> {
    shrink(sets, at_most, |set| set.unavailable().max(0))
}

/// Scales down old ReplicaSets by the pods that are available beyond the minimum.
pub fn scale_down_available(deployment: &Deployment, sets: &Sets) -> Vec<Resize> {
    // A ReplicaSet that is being scaled down still counts pods that will be deleted.
    let available: i64 = sets
        .all()
        .map(|set| set.status.available_replicas.min(set.replicas()))
        .sum();
    shrink(
        sets,
        available - min_available(deployment),
        ReplicaSet::replicas,
    )
}

/// Takes up to `at_most` pods from the old ReplicaSets, oldest first, and from each at most `part`
/// of them.
fn shrink(sets: &Sets, at_most: i64, part: impl Fn(&ReplicaSet) -> i64) -> Vec<Resize> {
    let mut left = at_most.max(0);
    let resized = sets.active_old().filter_map(|set| {
        let taken = part(set).min(left);
        left -= taken;
        (taken > 0).then(|| Resize::new(set, set.replicas() - taken))
    });
    resized.collect()
}

#[cfg(test)]
mod tests {
    use flyball_sdk::prelude::*;

    use super::*;
    use crate::views::SetStatus;

    fn deployment(replicas: i64, surge: i32, unavailable: i32) -> Deployment {
        Deployment {
            replicas: Some(replicas),
            strategy: "RollingUpdate".into(),
            max_surge: surge.into(),
            max_unavailable: unavailable.into(),
            ..Deployment::default()
        }
    }

    fn set(name: &str, desired: i64, available: i64) -> ReplicaSet {
        ReplicaSet {
            meta: Meta {
                name: name.into(),
                ..Meta::default()
            },
            desired: Some(desired),
            status: SetStatus {
                available_replicas: available,
                ..SetStatus::default()
            },
            ..ReplicaSet::default()
        }
    }

    fn sets(old: &[(i64, i64)], new: (i64, i64)) -> Sets {
        let old = old
            .iter()
            .enumerate()
            .map(|(at, &(desired, available))| set(&format!("old-{at}"), desired, available));
        Sets {
            new: Some(set("new", new.0, new.1)),
            old: old.collect(),
        }
    }

    fn sizes(resized: Vec<Resize>) -> Vec<(String, i64)> {
        resized
            .into_iter()
            .map(|resize| (resize.name, resize.to))
            .collect()
    }

    #[test]
    fn the_new_set_grows_as_far_as_the_surge_allows() {
        for (surge, old, new, expected) in [
            (0, 10, 0, None),
            (2, 10, 0, Some(2)),
            (2, 5, 0, Some(7)),
            (2, 10, 2, None),
            (2, 2, 11, Some(10)),
            (20, 1, 0, Some(10)),
            (2, 0, 10, None),
        ] {
            let resized = resize_new(&deployment(10, surge, 0), &sets(&[(old, old)], (new, new)));
            assert_eq!(
                resized.first().map(|resize| resize.to),
                expected,
                "surge {surge}, {old} old, {new} new"
            );
        }
    }

    #[test]
    fn a_set_to_be_created_gets_the_size_that_the_surge_allows() {
        assert_eq!(size_of_new(&deployment(10, 3, 0), 10, 0), 3);
        assert_eq!(size_of_new(&deployment(10, 3, 0), 13, 0), 0);
        assert_eq!(size_of_new(&deployment(10, 3, 0), 0, 0), 10);
        assert_eq!(size_of_new(&deployment(1, 1, 0), 5, 5), 5);
        let recreate = Deployment {
            strategy: "Recreate".into(),
            ..deployment(3, 1, 1)
        };
        assert_eq!(size_of_new(&recreate, 9, 1), 3);
    }

    /// Returns the sizes of the old ReplicaSets after one pass.
    fn pass(deployment: &Deployment, mut sets: Sets) -> Vec<i64> {
        let max_scaled_down = max_scaled_down(deployment, &sets);
        if max_scaled_down > 0 {
            for resize in scale_down_unavailable(&sets, max_scaled_down) {
                sets.named_mut(&resize.name).unwrap().desired = Some(resize.to);
            }
            for resize in scale_down_available(deployment, &sets) {
                sets.named_mut(&resize.name).unwrap().desired = Some(resize.to);
            }
        }
        sets.old.iter().map(ReplicaSet::replicas).collect()
    }

    #[test]
    fn old_sets_shrink_as_far_as_enough_pods_stay_available() {
        for (unavailable, old, new, expected) in [
            // Both limits are 0, so one pod may be unavailable.
            (0, (10, 10), (0, 0), 9),
            (2, (10, 10), (0, 0), 8),
            // Two unavailable pods are removed; the other eight must stay.
            (2, (10, 8), (0, 0), 8),
            // One unavailable and one available pod are removed.
            (2, (10, 9), (0, 0), 8),
            // The new pods are not available, so the old ones must stay.
            (2, (8, 8), (2, 0), 8),
            (2, (8, 8), (2, 2), 6),
            (2, (10, 1), (0, 0), 8),
        ] {
            let after = pass(&deployment(10, 0, unavailable), sets(&[old], new));
            assert_eq!(after, [expected], "{old:?} {new:?}");
        }
    }

    #[test]
    fn unavailable_pods_are_removed_first_up_to_the_limit() {
        for (available, at_most, expected) in [
            (8, 1, Some(9)),
            (8, 3, Some(8)),
            (8, 0, None),
            (10, 3, None),
        ] {
            let resized = scale_down_unavailable(&sets(&[(10, available)], (0, 0)), at_most);
            assert_eq!(resized.first().map(|resize| resize.to), expected);
        }
        let several = sets(&[(3, 1), (2, 2), (4, 0)], (0, 0));
        assert_eq!(
            sizes(scale_down_unavailable(&several, 5)),
            [("old-0".into(), 1), ("old-2".into(), 1)]
        );
    }

    #[test]
    fn the_oldest_shrink_first() {
        let several = sets(&[(2, 2), (0, 0), (3, 3)], (5, 5));
        assert_eq!(
            sizes(scale_down_available(&deployment(6, 0, 0), &several)),
            [("old-0".into(), 0), ("old-2".into(), 0)]
        );
        assert_eq!(
            sizes(scale_down_available(&deployment(8, 0, 0), &several)),
            [("old-0".into(), 0), ("old-2".into(), 2)]
        );
    }

    #[test]
    fn pods_that_will_be_deleted_do_not_count_as_available() {
        // The old set wants 8 pods and still has 10: with 2 new ones, 2 more may be removed, not 4.
        assert_eq!(pass(&deployment(10, 0, 2), sets(&[(8, 10)], (2, 2))), [6]);
    }

    #[test]
    fn a_rollback_removes_the_broken_revision_at_once() {
        // Surge 3, at most 2 unavailable: 8 pods of the revision rolled back to, one of them
        // unavailable, and 5 that never became available.
        assert_eq!(pass(&deployment(10, 3, 2), sets(&[(5, 0)], (8, 7))), [1]);
    }
}
