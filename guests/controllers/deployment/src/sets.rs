//! The ReplicaSets of a Deployment: the new one, and the old ones in order of age.
//!
//! Upstream: pkg/controller/deployment/util/deployment_util.go: FindNewReplicaSet, FindOldReplicaSets,
//! GetReplicaCountForReplicaSets, GetActualReplicaCountForReplicaSets, GetReadyReplicaCountForReplicaSets,
//! GetAvailableReplicaCountForReplicaSets, GetTerminatingReplicaCountForReplicaSets.
//! Upstream: pkg/controller/controller_utils.go: FilterActiveReplicaSets.

use std::cmp::Ordering;

use flyball_sdk::Time;

use crate::template::Template;
use crate::views::{ReplicaSet, Status};

/// The ReplicaSets that a Deployment owns.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    /// The ReplicaSet with the Deployment's template.
    pub new: Option<ReplicaSet>,
    /// All others, oldest first.
    pub old: Vec<ReplicaSet>,
}

/// A ReplicaSet and its new size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resize {
    pub name: String,
    /// The new number of pods.
    pub to: i64,
}

impl Resize {
    pub fn new(set: &ReplicaSet, to: i64) -> Self {
        Self {
            name: set.meta.name.clone(),
            to,
        }
    }
}

impl Sets {
    /// Finds the new ReplicaSet. If several have the Deployment's template, as may happen after an upgrade of the
    /// cluster, it is the oldest, so that the choice is stable (kubernetes/kubernetes#40415).
    pub fn split(template: &Template, mut owned: Vec<ReplicaSet>) -> Self {
        owned.sort_by(by_age);
        let new = owned
            .iter()
            .position(|set| Template::of(&set.template) == *template);
        Self {
            new: new.map(|at| owned.remove(at)),
            old: owned,
        }
    }

    /// The old ones, then the new one.
    pub fn all(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().chain(&self.new)
    }

    /// The ReplicaSets that want pods, in the order of [`all`](Self::all).
    pub fn active(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.all().filter(|set| set.is_active())
    }

    /// The old ones that want pods, oldest first.
    pub fn active_old(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().filter(|set| set.is_active())
    }

    pub fn named_mut(&mut self, name: &str) -> Option<&mut ReplicaSet> {
        self.old
            .iter_mut()
            .chain(&mut self.new)
            .find(|set| set.meta.name == name)
    }

    /// Number of pods that all of them want.
    pub fn desired(&self) -> i64 {
        self.all().map(ReplicaSet::replicas).sum()
    }

    /// The counters of a status, summed over all ReplicaSets.
    pub fn counts(&self) -> Status {
        let sum = |count: fn(&ReplicaSet) -> i64| self.all().map(count).sum::<i64>();
        let available = sum(|set| set.status.available_replicas);
        Status {
            replicas: sum(|set| set.status.replicas),
            updated_replicas: self.new.as_ref().map_or(0, |new| new.status.replicas),
            ready_replicas: sum(|set| set.status.ready_replicas),
            available_replicas: available,
            // While scaling down, more pods can be available than are wanted.
            unavailable_replicas: (self.desired() - available).max(0),
            terminating_replicas: self.terminating(),
            ..Status::default()
        }
    }

    /// Number of pods being deleted; `None` if an observed ReplicaSet does not report it.
    fn terminating(&self) -> Option<i64> {
        let mut total = 0;
        for set in self.all() {
            match set.status.terminating_replicas {
                Some(count) => total += count,
                None if set.status.observed_generation == 0 => {}
                None => return None,
            }
        }
        Some(total)
    }
}

/// Orders by age, oldest first, then by name.
pub fn by_age(one: &ReplicaSet, other: &ReplicaSet) -> Ordering {
    fn key(set: &ReplicaSet) -> (Option<Time>, &str) {
        (set.meta.creation_timestamp, &set.meta.name)
    }
    key(one).cmp(&key(other))
}

#[cfg(test)]
mod tests {
    use flyball_sdk::prelude::*;

    use super::*;
    use crate::views::SetStatus;

    fn set(name: &str, created: i64, template: Value) -> ReplicaSet {
        let creation_timestamp = Some(Time::of_seconds(created));
        ReplicaSet {
            meta: Meta {
                name: name.into(),
                creation_timestamp,
                ..Meta::default()
            },
            template: Raw::from(template),
            ..ReplicaSet::default()
        }
    }

    fn names<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> Vec<&'a str> {
        sets.into_iter().map(|set| set.meta.name.as_str()).collect()
    }

    #[test]
    fn the_oldest_with_the_template_is_new_and_all_others_are_old() {
        let template = Template::of(&Raw::from(json!({"spec": {"a": 1}})));
        let owned = vec![
            set("young", 3, json!({"spec": {"a": 1}})),
            set("twin-b", 2, json!({"spec": {"a": 1}})),
            set(
                "twin-a",
                2,
                json!({"spec": {"a": 1}, "metadata": {"labels": {"pod-template-hash": "x"}}}),
            ),
            set("other", 1, json!({"spec": {"a": 2}})),
        ];
        let sets = Sets::split(&template, owned);
        assert_eq!(names(&sets.new), ["twin-a"]);
        assert_eq!(names(&sets.old), ["other", "twin-b", "young"]);
        assert_eq!(names(sets.all()), ["other", "twin-b", "young", "twin-a"]);
    }

    #[test]
    fn without_an_equal_template_all_are_old() {
        let sets = Sets::split(
            &Template::of(&Raw::default()),
            vec![set("a", 1, json!({"spec": {"a": 2}}))],
        );
        assert!(sets.new.is_none());
        assert_eq!(names(&sets.old), ["a"]);
    }

    fn counting(
        desired: i64,
        observed_generation: i64,
        available: i64,
        terminating: Option<i64>,
    ) -> ReplicaSet {
        let status = SetStatus {
            replicas: desired,
            ready_replicas: desired,
            available_replicas: available,
            terminating_replicas: terminating,
            observed_generation,
            conditions: Vec::new(),
        };
        ReplicaSet {
            desired: Some(desired),
            status,
            ..ReplicaSet::default()
        }
    }

    #[test]
    fn counts_are_those_of_all_sets_together() {
        let sets = Sets {
            new: Some(counting(2, 1, 1, Some(0))),
            old: vec![counting(3, 1, 3, Some(2))],
        };
        let expected = Status {
            replicas: 5,
            updated_replicas: 2,
            ready_replicas: 5,
            available_replicas: 4,
            unavailable_replicas: 1,
            terminating_replicas: Some(2),
            ..Status::default()
        };
        assert_eq!(sets.counts(), expected);
    }

    #[test]
    fn more_available_than_asked_for_is_not_a_negative_number() {
        let sets = Sets {
            new: None,
            old: vec![counting(1, 1, 3, None)],
        };
        assert_eq!(sets.counts().unavailable_replicas, 0);
    }

    #[test]
    fn terminating_pods_are_counted_unless_a_set_that_was_observed_does_not_say() {
        for (counted, expected) in [
            (vec![], Some(0)),
            (vec![(0, None)], Some(0)),
            (vec![(1, Some(1)), (0, None), (2, Some(3))], Some(4)),
            (vec![(1, Some(1)), (1, None)], None),
        ] {
            let old = counted
                .into_iter()
                .map(|(generation, count)| counting(0, generation, 0, count))
                .collect();
            assert_eq!(
                Sets { new: None, old }.counts().terminating_replicas,
                expected
            );
        }
    }
}
