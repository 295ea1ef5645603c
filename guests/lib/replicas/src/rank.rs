//! Chooses the pods to delete when there are too many.
//!
//! The criteria; each one only breaks ties of the previous ones:
//!
//! 1. a pod without a node before one with a node;
//! 2. a pending pod before one of unknown phase, and one of unknown phase before a running one;
//! 3. a pod that isn't ready before one that is;
//! 4. the lower [`DELETION_COST`] first;
//! 5. the pod that shares its node with more pods of its owner's sets first (see [`RelatedPods`]);
//! 6. the pod that became ready later first;
//! 7. the pod with more restarts first: of its containers, then of its sidecars;
//! 8. the younger pod first.
//!
//! For 6 and 8, ages are only compared by their binary logarithm (KEP-2185). Among equal ones the
//! UID decides, which spreads deletions pseudo-randomly but deterministically.
//!
//! Upstream: pkg/controller/controller_utils.go: ActivePodsWithRanks.Less, afterOrZero, logarithmicRankDiff,
//! podReadyTime, maxContainerRestarts, compareMaxContainerRestarts.
//! Upstream: pkg/controller/replicaset/replica_set.go: getPodsRankedByRelatedPodsOnSameNode,
//! reportSortingDeletionAgeRatioMetric.

use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, HashSet};

use flyball_pods::is_sidecar;
use flyball_sdk::Time;

use crate::views::{Candidate, RelatedPod};

/// The annotation with the relative cost of deleting a pod, compared to others of its set
/// (KEP-2255).
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Number of active pods of all sets of one owner, by node. While a Deployment rolls out, pods that
/// share a node with others, old or new, are deleted first.
#[derive(Debug, Default)]
pub struct RelatedPods {
    by_node: HashMap<String, u32>,
    seen: HashSet<String>,
}

impl RelatedPods {
    /// Counts a pod, only once even if several sets select it.
    pub fn add(&mut self, pod: RelatedPod) {
        if pod.is_active() && self.seen.insert(pod.uid) {
            *self.by_node.entry(pod.node).or_default() += 1;
        }
    }

    fn on_node_of(&self, pod: &Candidate) -> u32 {
        self.by_node.get(&pod.node).copied().unwrap_or(0)
    }
}

/// Returns the pods without their deletion costs, which then don't count.
pub fn without_costs(mut pods: Vec<Candidate>) -> Vec<Candidate> {
    for pod in &mut pods {
        pod.meta.annotations.remove(DELETION_COST);
    }
    pods
}

/// Returns the `surplus` pods to delete first. If all pods are to be deleted, their order is kept.
pub fn least_useful<'p>(
    pods: &'p [Candidate],
    surplus: usize,
    related: &RelatedPods,
    now: Time,
) -> Vec<&'p Candidate> {
    if surplus >= pods.len() {
        return pods.iter().collect();
    }
    // Each pod is compared many times, so its criteria are computed only once.
    let mut ranked: Vec<Ranked<'_>> = pods
        .iter()
        .map(|pod| Ranked::of(pod, related, now))
        .collect();
    merge_sort(&mut ranked, &compare);
    ranked.iter().take(surplus).map(|one| one.pod).collect()
}

/// A pod with the criteria.
#[derive(Clone, Copy)]
struct Ranked<'p> {
    pod: &'p Candidate,
    /// The criteria 1 to 5.
    by_use: (bool, u8, bool, i32, Reverse<u32>),
    is_ready: bool,
    ready: Age,
    restarts: Reverse<(i32, i32)>,
    created: Age,
}

/// A time, and the binary logarithm of its age.
#[derive(Clone, Copy)]
struct Age {
    since: Option<Time>,
    power: Option<u32>,
}

impl Age {
    fn of(since: Option<Time>, now: Time) -> Self {
        let power = since.and_then(|since| now.since(since).as_nanos().checked_ilog2());
        Self { since, power }
    }
}

impl<'p> Ranked<'p> {
    fn of(pod: &'p Candidate, related: &RelatedPods, now: Time) -> Self {
        let by_use = (
            is_assigned(pod),
            phase_rank(pod),
            pod.is_ready(),
            deletion_cost(pod),
            Reverse(related.on_node_of(pod)),
        );
        Self {
            pod,
            by_use,
            is_ready: pod.is_ready(),
            ready: Age::of(pod.ready_since, now),
            restarts: Reverse(restarts(pod)),
            created: Age::of(pod.meta.creation_timestamp, now),
        }
    }
}

/// Returns the ages of the ready pods to delete as multiples of the age of the youngest ready pod,
/// rounded down like in `replicaset_controller_sorting_deletion_age_ratio`.
pub fn age_ratios(pods: &[Candidate], to_delete: &[&Candidate], now: Time) -> Vec<f64> {
    let age = |pod: &Candidate| {
        pod.meta
            .creation_timestamp
            .map(|created| now.since(created).as_millis())
    };
    let youngest = pods
        .iter()
        .filter(|pod| pod.is_ready())
        .filter_map(age)
        .min();
    let Some(youngest) = youngest.filter(|&age| age > 0) else {
        return Vec::new();
    };
    to_delete
        .iter()
        .filter(|pod| pod.is_ready())
        .filter_map(|pod| Some((age(pod)? / youngest) as f64))
        .collect()
}

/// Orders two pods by deletion: `Less` if `a` is deleted first.
fn compare(a: Ranked<'_>, b: Ranked<'_>) -> Ordering {
    // `by_use` is equal, so either both pods are ready or neither is.
    let by_readiness = || match a.is_ready {
        true => by_age(a, b, |pod| pod.ready),
        false => Ordering::Equal,
    };
    a.by_use
        .cmp(&b.by_use)
        .then_with(by_readiness)
        .then_with(|| a.restarts.cmp(&b.restarts))
        .then_with(|| by_age(a, b, |pod| pod.created))
}

fn is_assigned(pod: &Candidate) -> bool {
    !pod.node.is_empty()
}

fn phase_rank(pod: &Candidate) -> u8 {
    match pod.phase.as_str() {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    }
}

/// 0 if the annotation is absent or not in the API's format: no plus sign, no leading zero.
fn deletion_cost(pod: &Candidate) -> i32 {
    let Some(cost) = pod.meta.annotation(DELETION_COST) else {
        return 0;
    };
    if cost == "0" || cost.starts_with(|c| matches!(c, '-' | '1'..='9')) {
        cost.parse().unwrap_or(0)
    } else {
        0
    }
}

/// The maximum restart counts of the containers and of the sidecars.
fn restarts(pod: &Candidate) -> (i32, i32) {
    let sidecars = pod
        .init_containers
        .iter()
        .filter(|container| is_sidecar(&pod.init_specs, &container.name));
    let most = |counts: &mut dyn Iterator<Item = i32>| counts.max().unwrap_or(0).max(0);
    (
        most(&mut pod.containers.iter().map(|c| c.restart_count)),
        most(&mut sidecars.map(|c| c.restart_count)),
    )
}

/// Orders later times first; an unknown time is the latest.
fn by_age<'p>(a: Ranked<'p>, b: Ranked<'p>, age: impl Fn(Ranked<'p>) -> Age) -> Ordering {
    let (age_of_a, age_of_b) = (age(a), age(b));
    match (age_of_a.since, age_of_b.since) {
        (a, b) if a == b => Ordering::Equal,
        (None, _) => Ordering::Less,
        (_, None) => Ordering::Greater,
        (Some(_), Some(_)) => age_of_a
            .power
            .cmp(&age_of_b.power)
            .then_with(|| a.pod.meta.uid.cmp(&b.pod.meta.uid)),
    }
}

/// Sorts with a comparison that may be intransitive, for which [`slice::sort_by`] may panic. The comparison of pods is
/// intransitive: among three pods of the same age class, two that became ready at the same time are compared by
/// restarts, and each of them with the third by UID.
fn merge_sort<T: Copy>(items: &mut [T], compare: &impl Fn(T, T) -> Ordering) {
    if items.len() < 2 {
        return;
    }
    let (left, right) = items.split_at_mut(items.len() / 2);
    merge_sort(left, compare);
    merge_sort(right, compare);
    let (mut l, mut r) = (
        left.iter().copied().peekable(),
        right.iter().copied().peekable(),
    );
    let mut merged = Vec::with_capacity(left.len() + right.len());
    while let (Some(&a), Some(&b)) = (l.peek(), r.peek()) {
        merged.extend(if compare(b, a).is_lt() {
            r.next()
        } else {
            l.next()
        });
    }
    merged.extend(l.chain(r));
    items.copy_from_slice(&merged);
}
