//! Which pods go when there are too many: those first that serve least.
//!
//! The criteria, each deciding only between pods that all earlier ones hold equal:
//!
//! 1. a pod without a node goes before one that has one;
//! 2. a pending pod before one of unknown phase, and that before a running one;
//! 3. a pod that isn't ready before one that is;
//! 4. the lower [`DELETION_COST`] first;
//! 5. the pod that shares its node with more pods of its owner's sets first (see [`Crowds`]);
//! 6. the pod that became ready later first;
//! 7. the pod with more restarts first: of its containers, then of its sidecars;
//! 8. the younger pod first.
//!
//! In 6 and 8, ages differ only by their power of two (KEP-2185); within one power the UID decides,
//! which spreads the deletions as if by chance, yet the same whenever it is asked.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use flyball_sdk::Time;
use flyball_sdk::pod::is_sidecar;

use crate::views::{Bystander, Candidate};

/// The annotation with which users say what deleting a pod costs them, compared to others of its
/// set (KEP-2255).
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// How many active pods of all sets of one owner each node runs. While a Deployment rolls, pods
/// that share a node with others, old or new, go before those that don't.
#[derive(Debug, Default)]
pub struct Crowds {
    by_node: HashMap<String, u32>,
    seen: HashSet<String>,
}

impl Crowds {
    /// Counts a pod; once, even if several sets select it.
    pub fn add(&mut self, pod: Bystander) {
        if pod.is_active() && self.seen.insert(pod.uid) {
            *self.by_node.entry(pod.node).or_default() += 1;
        }
    }

    fn around(&self, pod: &Candidate) -> u32 {
        self.by_node.get(&pod.node).copied().unwrap_or(0)
    }
}

/// The `surplus` pods that go first. If that is all, they keep the order that they came in.
pub fn least_useful<'p>(
    pods: &'p [Candidate],
    surplus: usize,
    crowds: &Crowds,
    now: Time,
) -> Vec<&'p Candidate> {
    let mut pods: Vec<&Candidate> = pods.iter().collect();
    if surplus < pods.len() {
        merge_sort(&mut pods, &|a, b| compare(a, b, crowds, now));
    }
    pods.truncate(surplus);
    pods
}

/// How many times as old as the youngest ready pod each doomed ready pod is, in whole numbers, as
/// `replicaset_controller_sorting_deletion_age_ratio` has always counted.
pub fn age_ratios(pods: &[Candidate], doomed: &[&Candidate], now: Time) -> Vec<f64> {
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
    doomed
        .iter()
        .filter(|pod| pod.is_ready())
        .filter_map(|pod| Some((age(pod)? / youngest) as f64))
        .collect()
}

/// Which of two pods goes first: `Less` if the first one does.
fn compare(a: &Candidate, b: &Candidate, crowds: &Crowds, now: Time) -> Ordering {
    let by_use = is_assigned(a)
        .cmp(&is_assigned(b))
        .then_with(|| phase_rank(a).cmp(&phase_rank(b)))
        .then_with(|| a.is_ready().cmp(&b.is_ready()))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| crowds.around(b).cmp(&crowds.around(a)));
    let by_readiness = || match a.is_ready() && b.is_ready() {
        true => by_age(a, b, a.ready_since, b.ready_since, now),
        false => Ordering::Equal,
    };
    by_use
        .then_with(by_readiness)
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| {
            by_age(
                a,
                b,
                a.meta.creation_timestamp,
                b.meta.creation_timestamp,
                now,
            )
        })
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

/// 0 if it is not said, or not in the way that the API accepts: no plus sign, no leading zero.
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

/// The most restarts of any container, then of any sidecar.
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

/// The later time first; one that is not known is the latest of all.
fn by_age(
    a: &Candidate,
    b: &Candidate,
    time_of_a: Option<Time>,
    time_of_b: Option<Time>,
    now: Time,
) -> Ordering {
    let power = |time: Time| now.since(time).as_nanos().checked_ilog2();
    match (time_of_a, time_of_b) {
        (a, b) if a == b => Ordering::Equal,
        (None, _) => Ordering::Less,
        (_, None) => Ordering::Greater,
        (Some(since_a), Some(since_b)) => power(since_a)
            .cmp(&power(since_b))
            .then_with(|| a.meta.uid.cmp(&b.meta.uid)),
    }
}

/// Sorts by a comparison that need not be transitive, which [`slice::sort_by`] answers with a
/// panic. Ours isn't: of three pods in one power of age, two that became ready at once are compared
/// by restarts, and each with the third by UID.
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
