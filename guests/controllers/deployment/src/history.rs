//! Old ReplicaSets beyond the revision history limit, which are deleted once they are empty.
//!
//! Upstream: pkg/controller/deployment/sync.go: cleanupDeployment.

use crate::revision::revision;
use crate::sets::by_age;
use crate::views::{Deployment, ReplicaSet};

/// Returns the old ReplicaSets to delete: the oldest revisions beyond the limit, except ReplicaSets that want or have
/// pods, or whose latest generation was not observed by their controller.
pub fn surplus<'a>(deployment: &Deployment, old: &'a [ReplicaSet]) -> Vec<&'a ReplicaSet> {
    let Some(limit) = deployment.history_limit() else {
        return Vec::new();
    };
    let mut kept: Vec<&ReplicaSet> = Vec::new();
    // Insertion sort, because the order is not always transitive.
    for set in old.iter().filter(|set| !set.meta.is_deleting()) {
        let older = kept.iter().rposition(|other| !is_before(set, other));
        kept.insert(older.map_or(0, |at| at + 1), set);
    }
    kept.truncate(kept.len().saturating_sub(limit));
    kept.retain(|set| is_empty(set));
    kept
}

/// Whether a ReplicaSet is deleted before another: its revision is smaller or, if a revision is not a number or they are
/// equal, it is older.
fn is_before(set: &ReplicaSet, other: &ReplicaSet) -> bool {
    match (revision(set), revision(other)) {
        (Some(one), Some(two)) if one != two => one < two,
        _ => by_age(set, other).is_lt(),
    }
}

fn is_empty(set: &ReplicaSet) -> bool {
    set.replicas() == 0
        && set.status.replicas == 0
        && set.meta.generation <= set.status.observed_generation
}

#[cfg(test)]
mod tests {
    use flyball_sdk::Time;

    use super::*;
    use crate::revision::REVISION;
    use crate::views::SetStatus;

    fn deployment(limit: Option<i64>) -> Deployment {
        Deployment {
            revision_history_limit: limit,
            ..Deployment::default()
        }
    }

    /// A ReplicaSet that wants `desired` pods and has `there`.
    fn set(name: &str, created: i64, revision: &str, desired: i64, there: i64) -> ReplicaSet {
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
        set.meta.creation_timestamp = Some(Time::of_seconds(created));
        if !revision.is_empty() {
            set.meta
                .annotations
                .insert(REVISION.into(), revision.into());
        }
        set
    }

    fn names(limit: i64, old: &[ReplicaSet]) -> Vec<&str> {
        surplus(&deployment(Some(limit)), old)
            .into_iter()
            .map(|set| set.meta.name.as_str())
            .collect()
    }

    #[test]
    fn the_oldest_revisions_are_deleted() {
        for (limit, revisions, expected) in [
            (1, &["1", "2"][..], &["foo-1"][..]),
            (1, &["2", "1"], &["foo-2"]),
            (1, &["1", ""], &["foo-2"]),
            (1, &["", "2"], &["foo-1"]),
            (2, &["3", "1", "4", "2"], &["foo-2", "foo-4"]),
            (0, &["", ""], &["foo-1", "foo-2"]),
            (3, &["1", "2"], &[]),
            // Next to a revision that is not a number, the age decides.
            (1, &["1", "x"], &["foo-1"]),
            (1, &["x", "1"], &["foo-1"]),
            (2, &["2", "x", "1"], &["foo-1"]),
        ] {
            let set = |(at, revision): (usize, &&str)| {
                set(&format!("foo-{}", at + 1), at as i64, revision, 0, 0)
            };
            let old: Vec<_> = revisions.iter().enumerate().map(set).collect();
            assert_eq!(names(limit, &old), expected, "{revisions:?}");
        }
    }

    #[test]
    fn a_set_with_pods_is_kept_and_no_newer_one_is_deleted_instead() {
        let old = [
            set("a", 1, "1", 0, 0),
            set("b", 2, "2", 0, 1),
            set("c", 3, "3", 1, 0),
            set("d", 4, "4", 1, 1),
        ];
        assert_eq!(names(0, &old), ["a"]);
        let old = [
            set("a", 1, "1", 1, 1),
            set("b", 2, "2", 0, 0),
            set("c", 3, "3", 0, 0),
        ];
        assert_eq!(names(2, &old), [""; 0]);
        assert_eq!(names(1, &old), ["b"]);
    }

    #[test]
    fn an_unobserved_set_or_one_being_deleted_is_kept() {
        let mut unobserved = set("a", 1, "1", 0, 0);
        unobserved.meta.generation = 2;
        unobserved.status.observed_generation = 1;
        let mut deleting = set("b", 2, "2", 0, 0);
        deleting.meta.deletion_timestamp = Some(Time::of_seconds(9));
        assert_eq!(names(0, &[unobserved, deleting]), [""; 0]);
    }

    #[test]
    fn without_a_limit_all_are_kept() {
        let old = [set("a", 1, "1", 0, 0)];
        assert!(surplus(&deployment(None), &old).is_empty());
        assert!(surplus(&deployment(Some(i64::from(i32::MAX))), &old).is_empty());
    }
}
