//! A Deployment that was resized: every ReplicaSet gets its share, so that a rollout under way goes
//! neither faster nor slower for it.

use std::cmp::Reverse;

use crate::bounds::max_surge;
use crate::revision::{DESIRED, MAX, remembered};
use crate::sets::{Resize, Sets, by_age};
use crate::views::{Deployment, ReplicaSet};

/// Whether the Deployment was resized: a ReplicaSet with pods remembers another size.
pub fn was_resized(deployment: &Deployment, sets: &Sets) -> bool {
    sets.active()
        .filter_map(|set| remembered(set, DESIRED))
        .any(|desired| desired != deployment.replicas())
}

/// The sizes that the ReplicaSets shall have. One that keeps its size is named as well, to remember
/// the Deployment's new one.
pub fn shares(deployment: &Deployment, sets: &Sets) -> Vec<Resize> {
    let active: Vec<&ReplicaSet> = sets.active().collect();
    match active[..] {
        // None has pods: the newest gets all of them.
        [] => sets
            .new
            .iter()
            .chain(sets.old.last())
            .take(1)
            .map(|set| Resize::new(set, deployment.replicas()))
            .collect(),
        [only] => vec![Resize::new(only, deployment.replicas())],
        _ if is_saturated(deployment, sets.new.as_ref()) => {
            sets.active_old().map(|set| Resize::new(set, 0)).collect()
        }
        _ if deployment.is_rolling() => proportional(deployment, active),
        _ => Vec::new(),
    }
}

/// Whether the new ReplicaSet has all pods, available, and remembers that this is what the
/// Deployment wants.
fn is_saturated(deployment: &Deployment, new: Option<&ReplicaSet>) -> bool {
    let wanted = deployment.replicas();
    new.is_some_and(|new| {
        new.replicas() == wanted
            && remembered(new, DESIRED) == Some(wanted)
            && new.status.available_replicas == wanted
    })
}

/// Shares out what is to be added or removed, in proportion to the sizes; the largest takes what
/// rounding leaves over. Of the same size the newer grow first, and the older shrink first.
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

/// By how much a ReplicaSet grows (or, negative, shrinks) in proportion to the Deployment, surge
/// included.
fn fraction(deployment: &Deployment, set: &ReplicaSet) -> i64 {
    let (wanted, size) = (deployment.replicas(), set.replicas());
    if wanted == 0 {
        return -size;
    }
    // Where someone removed what the ReplicaSet remembers, the Deployment's present size must do.
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

    /// A set of this size that remembers a size of the Deployment.
    fn set(name: &str, created: i64, asked: i64, remembers: &Deployment) -> ReplicaSet {
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
            asked: Some(asked),
            ..ReplicaSet::default()
        }
    }

    /// Sets `v1`, `v2`, … of these sizes, the first being the oldest and the last the new one.
    fn sets(remembers: &Deployment, asked: &[i64]) -> Sets {
        let named =
            |(at, &asked): (usize, &i64)| set(&format!("v{}", at + 1), at as i64, asked, remembers);
        let mut old: Vec<ReplicaSet> = asked.iter().enumerate().map(named).collect();
        Sets {
            new: old.pop(),
            old,
        }
    }

    /// The sizes afterwards, in the order of age.
    fn after(deployment: &Deployment, mut sets: Sets) -> Vec<i64> {
        for resize in shares(deployment, &sets) {
            sets.named_mut(&resize.name).unwrap().asked = Some(resize.to);
        }
        sets.all().map(ReplicaSet::replicas).collect()
    }

    #[test]
    fn sets_grow_and_shrink_in_proportion_and_the_largest_takes_what_is_left_over() {
        for (from, to, before, expected) in [
            (10, 12, &[10][..], &[12][..]),
            (10, 5, &[10], &[5]),
            (5, 10, &[3, 2], &[6, 4]),
            (5, 3, &[3, 2], &[2, 1]),
            (9, 4, &[1, 8], &[0, 4]),
            (7, 10, &[2, 3, 2], &[3, 4, 3]),
            (13, 8, &[3, 8, 2], &[2, 5, 1]),
            // What is left over goes to the newer when growing and is taken from the older when
            // shrinking.
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
    fn the_surge_takes_part() {
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
    fn where_an_update_failed_the_rest_is_made_up_for() {
        // Resized from 3 to 5; the new set grew and remembers 5, the next one could not be written.
        let mut sets = sets(&deployment(5, 0), &[1, 1, 2]);
        sets.old[1] = set("v2", 1, 1, &deployment(3, 0));
        assert_eq!(after(&deployment(5, 0), sets), [1, 2, 2]);
    }

    #[test]
    fn a_saturated_new_set_empties_the_old_ones_but_not_if_it_is_broken() {
        let (two, mut sets) = (deployment(2, 1), sets(&deployment(2, 1), &[1, 2]));
        assert_eq!(after(&two, sets.clone()), [1, 2]);
        sets.new.as_mut().unwrap().status.available_replicas = 2;
        assert_eq!(after(&two, sets), [0, 2]);
    }

    #[test]
    fn one_that_keeps_its_size_is_named_to_remember_the_new_one() {
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
    fn only_a_set_with_pods_tells_of_a_new_size() {
        assert!(!was_resized(
            &deployment(5, 0),
            &sets(&deployment(3, 0), &[0, 0])
        ));
        let mut forgetful = sets(&deployment(3, 0), &[3]);
        forgetful.new.as_mut().unwrap().meta.annotations.clear();
        assert!(!was_resized(&deployment(5, 0), &forgetful));
    }

    #[test]
    fn recreating_shares_nothing_out() {
        let recreate = Deployment {
            strategy: "Recreate".into(),
            ..deployment(5, 0)
        };
        assert_eq!(after(&recreate, sets(&deployment(4, 0), &[2, 2])), [2, 2]);
    }

    #[test]
    fn the_fraction_comes_from_the_size_before() {
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
                asked: Some(size),
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
