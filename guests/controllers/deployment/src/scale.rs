//! Proportional scaling: when a Deployment is resized, every ReplicaSet gets its share, so that a
//! rollout in progress is neither sped up nor slowed down.
//!
//! For example, a rollout of 10 pods with a surge of 3 has 8 old pods and 5 new ones when the Deployment is resized to
//! 15. Now 18 pods may exist, 5 more than before. The old ReplicaSet is scaled to 8 · 18 / 13 ≈ 11, the new one to
//! 5 · 18 / 13 ≈ 7.
//!
//! Upstream: pkg/controller/deployment/sync.go: scale, isScalingEvent.
//! Upstream: pkg/controller/deployment/util/deployment_util.go: FindActiveOrLatest, GetReplicaSetProportion,
//! getReplicaSetFraction, IsSaturated.

use std::cmp::Reverse;

use crate::bounds::max_surge;
use crate::revision::{DESIRED, MAX, remembered};
use crate::sets::{Resize, Sets, by_age};
use crate::views::{Deployment, ReplicaSet};

/// Whether the Deployment was resized: the annotation of a ReplicaSet with pods has another size.
pub fn was_resized(deployment: &Deployment, sets: &Sets) -> bool {
    sets.active()
        .filter_map(|set| remembered(set, DESIRED))
        .any(|desired| desired != deployment.replicas())
}

/// Returns the sizes of the ReplicaSets. ReplicaSets that keep their size are included so that
/// their annotations are updated, except the only one of a paused Deployment.
pub fn shares(deployment: &Deployment, sets: &Sets) -> Vec<Resize> {
    let active: Vec<&ReplicaSet> = sets.active().collect();
    match active[..] {
        // No ReplicaSet has pods: the newest gets all of them.
        [] => whole(deployment, sets.new.iter().chain(sets.old.last()).next()),
        [only] => whole(deployment, Some(only)),
        _ if is_saturated(deployment, sets.new.as_ref()) => {
            sets.active_old().map(|set| Resize::new(set, 0)).collect()
        }
        _ if deployment.is_rolling() => proportional(deployment, active),
        _ => Vec::new(),
    }
}

/// Gives a ReplicaSet the Deployment's size. While the Deployment is paused, a ReplicaSet that has the size stays as it
/// is: a changed surge is noted once the Deployment is resumed. Otherwise its annotation has another size, and the
/// Deployment would never roll out again.
fn whole(deployment: &Deployment, set: Option<&ReplicaSet>) -> Vec<Resize> {
    let wanted = deployment.replicas();
    set.filter(|set| !(deployment.paused && set.replicas() == wanted))
        .map(|set| Resize::new(set, wanted))
        .into_iter()
        .collect()
}

/// Whether the new ReplicaSet has all desired pods, all of them available, and its annotation has
/// the Deployment's size.
fn is_saturated(deployment: &Deployment, new: Option<&ReplicaSet>) -> bool {
    let wanted = deployment.replicas();
    new.is_some_and(|new| {
        new.replicas() == wanted
            && remembered(new, DESIRED) == Some(wanted)
            && new.status.available_replicas == wanted
    })
}

/// Distributes the pods to add or remove in proportion to the sizes; the largest ReplicaSet takes
/// the rounding remainder. Among equal sizes, newer ones are scaled up first and older ones are
/// scaled down first.
fn proportional(deployment: &Deployment, mut sets: Vec<&ReplicaSet>) -> Vec<Resize> {
    let wanted = deployment.replicas();
    let allowed = if wanted > 0 {
        wanted + max_surge(deployment)
    } else {
        0
    };
    let to_add = allowed - sets.iter().map(|set| set.replicas()).sum::<i64>();
    sets.sort_by(|one, other| {
        let age = by_age(one, other);
        Reverse(one.replicas())
            .cmp(&Reverse(other.replicas()))
            .then(if to_add > 0 { age.reverse() } else { age })
    });

    let mut left = to_add;
    let mut resized: Vec<Resize> = sets
        .iter()
        .map(|set| {
            let share = fraction(deployment, set);
            let share = if to_add > 0 {
                share.min(left)
            } else {
                share.max(left)
            };
            let share = if left == 0 { 0 } else { share };
            left -= share;
            Resize::new(set, set.replicas() + share)
        })
        .collect();
    if let Some(largest) = resized.first_mut() {
        largest.to = (largest.to + left).max(0);
    }
    resized
}

/// Returns by how much a ReplicaSet is scaled up or (negative) down, in proportion to the
/// Deployment's size including the surge.
fn fraction(deployment: &Deployment, set: &ReplicaSet) -> i64 {
    let (wanted, size) = (deployment.replicas(), set.replicas());
    if wanted == 0 {
        return -size;
    }
    // Without the annotation, the Deployment's current size is used.
    let before = remembered(set, MAX)
        .filter(|&max| max > 0)
        .unwrap_or(deployment.status.replicas);
    if before == 0 {
        return 0;
    }
    let share = (size * (wanted + max_surge(deployment))) as f64 / before as f64;
    share.round() as i64 - size
}

#[cfg(test)]
mod tests {
    use flyball_sdk::prelude::*;

    use super::*;
    use crate::revision::sizes;

    fn deployment(replicas: i64, surge: i32) -> Deployment {
        Deployment {
            replicas: Some(replicas),
            strategy: "RollingUpdate".into(),
            max_surge: surge.into(),
            max_unavailable: 1.into(),
            ..Deployment::default()
        }
    }

    /// A ReplicaSet of this size with size annotations from a Deployment.
    fn set(name: &str, created: i64, desired: i64, remembers: &Deployment) -> ReplicaSet {
        let annotations = sizes(remembers)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        let creation_timestamp = Some(Time::of_seconds(created));
        let meta = Meta {
            name: name.into(),
            creation_timestamp,
            annotations,
            ..Meta::default()
        };
        ReplicaSet {
            meta,
            desired: Some(desired),
            ..ReplicaSet::default()
        }
    }

    /// ReplicaSets `v1`, `v2`, … of these sizes, oldest first; the last is the new one.
    fn sets(remembers: &Deployment, desired: &[i64]) -> Sets {
        let named = |(at, &desired): (usize, &i64)| {
            set(&format!("v{}", at + 1), at as i64, desired, remembers)
        };
        let mut old: Vec<ReplicaSet> = desired.iter().enumerate().map(named).collect();
        Sets {
            new: old.pop(),
            old,
        }
    }

    /// The sizes after scaling, oldest first.
    fn after(deployment: &Deployment, mut sets: Sets) -> Vec<i64> {
        for resize in shares(deployment, &sets) {
            sets.named_mut(&resize.name).unwrap().desired = Some(resize.to);
        }
        sets.all().map(ReplicaSet::replicas).collect()
    }

    #[test]
    fn sets_are_scaled_in_proportion_and_the_largest_takes_the_remainder() {
        for (from, to, before, expected) in [
            (10, 12, &[10][..], &[12][..]),
            (10, 5, &[10], &[5]),
            (5, 10, &[3, 2], &[6, 4]),
            (5, 3, &[3, 2], &[2, 1]),
            (9, 4, &[1, 8], &[0, 4]),
            (7, 10, &[2, 3, 2], &[3, 4, 3]),
            (13, 8, &[3, 8, 2], &[2, 5, 1]),
            // The remainder is added to the newest when scaling up and taken from the oldest when
            // scaling down.
            (3, 4, &[1, 1, 1], &[1, 1, 2]),
            (3, 2, &[1, 1, 1], &[0, 1, 1]),
            (6, 0, &[1, 2, 3], &[0, 0, 0]),
            (6, 6, &[0, 0, 0], &[0, 0, 6]),
        ] {
            let sets = sets(&deployment(from, 0), before);
            assert_eq!(after(&deployment(to, 0), sets), expected, "{from} to {to}");
        }
    }

    #[test]
    fn the_surge_is_included() {
        assert_eq!(
            after(&deployment(20, 2), sets(&deployment(10, 2), &[6, 6])),
            [11, 11]
        );
        assert_eq!(
            after(&deployment(50, 6), sets(&deployment(10, 3), &[8, 5])),
            [34, 22]
        );
    }

    #[test]
    fn without_a_new_set_the_old_ones_share() {
        let mut sets = sets(&deployment(4, 0), &[2, 2, 0]);
        sets.new = None;
        assert_eq!(after(&deployment(5, 0), sets), [2, 3]);
    }

    #[test]
    fn scaling_is_completed_after_a_failed_update() {
        // Resized from 3 to 5; the new set was scaled and annotated with 5, the write of the next
        // one failed.
        let mut sets = sets(&deployment(5, 0), &[1, 1, 2]);
        sets.old[1] = set("v2", 1, 1, &deployment(3, 0));
        assert_eq!(after(&deployment(5, 0), sets), [1, 2, 2]);
    }

    #[test]
    fn old_sets_are_scaled_to_zero_only_if_the_new_one_is_fully_available() {
        let (two, mut sets) = (deployment(2, 1), sets(&deployment(2, 1), &[1, 2]));
        assert_eq!(after(&two, sets.clone()), [1, 2]);
        sets.new.as_mut().unwrap().status.available_replicas = 2;
        assert_eq!(after(&two, sets), [0, 2]);
    }

    #[test]
    fn a_set_that_keeps_its_size_is_included_to_update_its_annotations() {
        let sets = sets(&deployment(10, 0), &[5]);
        assert_eq!(
            shares(&deployment(5, 0), &sets),
            [Resize {
                name: "v1".into(),
                to: 5
            }]
        );
        assert!(was_resized(&deployment(5, 0), &sets) && !was_resized(&deployment(10, 0), &sets));
    }

    #[test]
    fn while_paused_a_set_that_keeps_its_size_is_not_written() {
        let paused = |replicas| Deployment {
            paused: true,
            ..deployment(replicas, 2)
        };
        for size in [0, 5] {
            let sets = sets(&deployment(5, 0), &[size]);
            assert_eq!(shares(&paused(size), &sets), []);
        }
        assert_eq!(after(&paused(6), sets(&deployment(5, 0), &[5])), [6]);
    }

    #[test]
    fn only_annotations_of_sets_with_pods_indicate_a_resize() {
        assert!(!was_resized(
            &deployment(5, 0),
            &sets(&deployment(3, 0), &[0, 0])
        ));
        let mut forgetful = sets(&deployment(3, 0), &[3]);
        forgetful.new.as_mut().unwrap().meta.annotations.clear();
        assert!(!was_resized(&deployment(5, 0), &forgetful));
    }

    #[test]
    fn recreate_does_not_scale_proportionally() {
        let recreate = Deployment {
            strategy: "Recreate".into(),
            ..deployment(5, 0)
        };
        assert_eq!(after(&recreate, sets(&deployment(4, 0), &[2, 2])), [2, 2]);
    }

    #[test]
    fn the_fraction_is_computed_from_the_previous_size() {
        for (wanted, present, surge, size, max, expected) in [
            (0, 0, 0, 10, None, -10),
            (10, 0, 0, 5, None, 0),
            (10, 0, 0, 5, Some("0"), 0),
            (120, 100, 0, 50, None, 10),
            (120, 100, 0, 50, Some("0"), 10),
            (120, 0, 0, 50, Some("100"), 10),
            (120, 0, 10, 50, Some("110"), 9),
            (10, 0, 0, 6, Some("12"), -1),
            (100, 0, 10, 50, Some("130"), -8),
        ] {
            let mut deployment = deployment(wanted, surge);
            deployment.status.replicas = present;
            let annotations = max
                .map(|max| (MAX.to_owned(), max.to_owned()))
                .into_iter()
                .collect();
            let meta = Meta {
                annotations,
                ..Meta::default()
            };
            let set = ReplicaSet {
                meta,
                desired: Some(size),
                ..ReplicaSet::default()
            };
            assert_eq!(
                fraction(&deployment, &set),
                expected,
                "{wanted} {size} {max:?}"
            );
        }
    }
}
