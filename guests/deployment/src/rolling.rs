//! The strategy RollingUpdate: the new ReplicaSet grows as far as the surge allows, the old ones
//! shrink as far as enough pods stay available.

use crate::bounds::{max_surge, min_available};
use crate::sets::{Resize, Sets};
use crate::views::{Deployment, ReplicaSet};

/// The size that a new ReplicaSet of `present` pods shall have beside all that the ReplicaSets ask
/// for.
pub fn size_of_new(deployment: &Deployment, asked: i64, present: i64) -> i64 {
    let wanted = deployment.replicas();
    if !deployment.is_rolling() {
        return wanted;
    }
    let room = wanted + max_surge(deployment) - asked;
    if room <= 0 {
        present
    } else {
        present + room.min(wanted - present)
    }
}

/// Grows the new ReplicaSet, or shrinks it if the Deployment asks for less.
pub fn grow(deployment: &Deployment, sets: &Sets) -> Vec<Resize> {
    let Some(new) = &sets.new else {
        return Vec::new();
    };
    let (wanted, present) = (deployment.replicas(), new.replicas());
    let size = if present > wanted {
        wanted
    } else {
        size_of_new(deployment, sets.asked(), present)
    };
    if size == present {
        Vec::new()
    } else {
        vec![Resize::new(new, size)]
    }
}

/// How many pods the old ReplicaSets may lose. Those of the new one that are not available yet
/// count as missing: as long as they are, the old ones must serve.
pub fn spare(deployment: &Deployment, sets: &Sets) -> i64 {
    let missing = sets.new.as_ref().map_or(0, |new| new.unavailable().max(0));
    sets.asked() - min_available(deployment) - missing
}

/// Shrinks old ReplicaSets by pods that are not available, which costs nothing: without it, broken
/// pods would hold the rollout up. A ReplicaSet deletes those first that are not ready.
pub fn drop_broken(sets: &Sets, at_most: i64) -> Vec<Resize> {
    shrink(sets, at_most, |set| set.unavailable().max(0))
}

/// Shrinks old ReplicaSets by as many pods as are available beyond what must be.
pub fn drop_available(deployment: &Deployment, sets: &Sets) -> Vec<Resize> {
    // A ReplicaSet that is shrinking still counts pods that will go.
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

/// Takes `at_most` pods from the old ReplicaSets, the oldest first, and of each as many as `part`
/// says.
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

    fn set(name: &str, asked: i64, available: i64) -> ReplicaSet {
        ReplicaSet {
            meta: Meta {
                name: name.into(),
                ..Meta::default()
            },
            asked: Some(asked),
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
            .map(|(at, &(asked, available))| set(&format!("old-{at}"), asked, available));
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
            let resized = grow(&deployment(10, surge, 0), &sets(&[(old, old)], (new, new)));
            assert_eq!(
                resized.first().map(|resize| resize.to),
                expected,
                "surge {surge}, {old} old, {new} new"
            );
        }
    }

    #[test]
    fn a_set_that_is_to_be_made_gets_what_there_is_room_for() {
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

    /// What becomes of old sets in one pass.
    fn pass(deployment: &Deployment, mut sets: Sets) -> Vec<i64> {
        let spare = spare(deployment, &sets);
        if spare > 0 {
            for resize in drop_broken(&sets, spare) {
                sets.named_mut(&resize.name).unwrap().asked = Some(resize.to);
            }
            for resize in drop_available(deployment, &sets) {
                sets.named_mut(&resize.name).unwrap().asked = Some(resize.to);
            }
        }
        sets.old.iter().map(ReplicaSet::replicas).collect()
    }

    #[test]
    fn old_sets_shrink_as_far_as_enough_pods_stay_available() {
        for (unavailable, old, new, expected) in [
            // Both fenceposts are 0, so that one pod may be missing.
            (0, (10, 10), (0, 0), 9),
            (2, (10, 10), (0, 0), 8),
            // Two broken ones go; the eight others must stay.
            (2, (10, 8), (0, 0), 8),
            // One broken and one available go.
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
    fn broken_pods_go_first_and_no_more_than_may() {
        for (available, at_most, expected) in [
            (8, 1, Some(9)),
            (8, 3, Some(8)),
            (8, 0, None),
            (10, 3, None),
        ] {
            let resized = drop_broken(&sets(&[(10, available)], (0, 0)), at_most);
            assert_eq!(resized.first().map(|resize| resize.to), expected);
        }
        let several = sets(&[(3, 1), (2, 2), (4, 0)], (0, 0));
        assert_eq!(
            sizes(drop_broken(&several, 5)),
            [("old-0".into(), 1), ("old-2".into(), 1)]
        );
    }

    #[test]
    fn the_oldest_shrink_first() {
        let several = sets(&[(2, 2), (0, 0), (3, 3)], (5, 5));
        assert_eq!(
            sizes(drop_available(&deployment(6, 0, 0), &several)),
            [("old-0".into(), 0), ("old-2".into(), 0)]
        );
        assert_eq!(
            sizes(drop_available(&deployment(8, 0, 0), &several)),
            [("old-0".into(), 0), ("old-2".into(), 2)]
        );
    }

    #[test]
    fn a_set_that_is_still_shrinking_is_not_counted_by_pods_that_will_go() {
        // Asked for 8 and not yet down from 10: with 2 new ones, 2 more may go and not 4.
        assert_eq!(pass(&deployment(10, 0, 2), sets(&[(8, 10)], (2, 2))), [6]);
    }

    #[test]
    fn a_rollback_drops_the_broken_revision_at_once() {
        // Surge 3, at most 2 missing: 8 good ones of the revision rolled back to, one of them gone,
        // and 5 that never came up.
        assert_eq!(pass(&deployment(10, 3, 2), sets(&[(5, 0)], (8, 7))), [1]);
    }
}
