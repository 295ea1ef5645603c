//! A StatefulSet's pods by their role: replicas, which it wants, and condemned pods.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_control.go: updateStatefulSet.
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: podInOrdinalRange, getStartOrdinal, getEndOrdinal,
//! isUnavailable.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::identity::{ordinal, pod_name};
use crate::views::{Pod, StatefulSet};

/// The pods of a set.
#[derive(Debug)]
pub struct Members<'a> {
    /// One replica for each ordinal that the set wants, in order.
    pub replicas: Vec<Replica<'a>>,
    /// The pods with other ordinals, highest first.
    pub condemned: Vec<Replica<'a>>,
}

/// A place in the set, and its pod.
#[derive(Clone, Copy, Debug)]
pub struct Replica<'a> {
    pub ordinal: i64,
    /// `None` if it has to be created.
    pub pod: Option<&'a Pod>,
}

impl<'a> Members<'a> {
    /// Sorts the pods. Pods without a valid ordinal are left out.
    pub fn of(set: &StatefulSet, pods: &'a [Pod]) -> Self {
        let first = set.first_ordinal();
        let mut replicas: Vec<Replica> = (0..set.wanted())
            .map(|at| Replica {
                ordinal: first + at as i64,
                pod: None,
            })
            .collect();
        let mut condemned = Vec::new();
        for pod in pods {
            let Some(ordinal) = ordinal(&pod.meta.name) else {
                continue;
            };
            let member = Replica {
                ordinal,
                pod: Some(pod),
            };
            if !set.wants(ordinal) {
                condemned.push(member);
                continue;
            }
            // `web-01` has the ordinal of `web-1`, which takes precedence.
            let place = &mut replicas[(ordinal - first) as usize];
            let is_exact = pod.meta.name == pod_name(&set.meta.name, ordinal);
            if is_exact || place.pod.is_none() {
                *place = member;
            }
        }
        condemned.sort_by_key(|member| std::cmp::Reverse(member.ordinal));
        Self {
            replicas,
            condemned,
        }
    }

    /// The pods that exist.
    pub fn pods(&self) -> impl Iterator<Item = &'a Pod> {
        let all = self.replicas.iter().chain(&self.condemned);
        all.filter_map(|member| member.pod)
    }

    /// The ordinal of the first pod that is unavailable, replicas first.
    pub fn first_unavailable(&self, min_ready: Duration, now: Time) -> Option<i64> {
        let all = self.replicas.iter().chain(self.condemned.iter().rev());
        let found = all
            .into_iter()
            .find(|member| member.is_unavailable(min_ready, now));
        found.map(|member| member.ordinal)
    }
}

impl Replica<'_> {
    /// Whether the replica's pod is missing, not available or being deleted.
    pub fn is_unavailable(&self, min_ready: Duration, now: Time) -> bool {
        self.pod
            .is_none_or(|pod| pod.is_terminating() || !pod.is_available(min_ready, now))
    }

    /// The UID of the pod; empty if it does not exist.
    pub fn uid(&self) -> &str {
        self.pod.map_or("", |pod| &pod.meta.uid)
    }
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::view;

    use super::*;

    fn set(start: i32, replicas: i32) -> StatefulSet {
        view(json!({"metadata": {"name": "web"},
                    "spec": {"replicas": replicas, "ordinals": {"start": start}}}))
    }

    fn pod(name: &str) -> Pod {
        view(json!({"metadata": {"name": name}}))
    }

    fn names<'a>(members: &[Replica<'a>]) -> Vec<Option<&'a str>> {
        let name = |member: &Replica<'a>| member.pod.map(|pod| pod.meta.name.as_str());
        members.iter().map(name).collect()
    }

    #[test]
    fn pods_are_sorted_by_their_ordinals() {
        let pods = ["web-0", "web-3", "web-10", "web-2", "web-99999999999"].map(pod);
        let set = set(1, 3);
        let members = Members::of(&set, &pods);
        assert_eq!(
            names(&members.replicas),
            [None, Some("web-2"), Some("web-3")]
        );
        assert_eq!(names(&members.condemned), [Some("web-10"), Some("web-0")]);
        assert_eq!(members.pods().count(), 4);
    }

    #[test]
    fn a_name_with_leading_zeros_takes_only_a_free_place() {
        let pods = ["web-01", "web-1", "web-00"].map(pod);
        let set = set(0, 2);
        assert_eq!(
            names(&Members::of(&set, &pods).replicas),
            [Some("web-00"), Some("web-1")]
        );
    }

    #[test]
    fn a_set_without_pods_wants_none() {
        let set = set(0, 0);
        let pods = [pod("web-0")];
        let members = Members::of(&set, &pods);
        assert_eq!(
            (members.replicas.len(), names(&members.condemned)),
            (0, vec![Some("web-0")])
        );
    }

    #[test]
    fn the_first_unavailable_pod_is_a_replica_or_the_lowest_condemned_one() {
        let ready = |name: &str| -> Pod {
            view(
                json!({"metadata": {"name": name}, "status": {"phase": "Running",
                        "conditions": [{"type": "Ready", "status": "True"}]}}),
            )
        };
        let first = |set: &StatefulSet, pods: &[Pod]| {
            Members::of(set, pods).first_unavailable(Duration::ZERO, Time::default())
        };
        assert_eq!(
            first(&set(0, 1), &[ready("web-0"), pod("web-3"), pod("web-2")]),
            Some(2)
        );
        assert_eq!(first(&set(0, 2), &[ready("web-0"), pod("web-3")]), Some(1));
        assert_eq!(first(&set(0, 1), &[ready("web-0"), ready("web-1")]), None);
    }
}
