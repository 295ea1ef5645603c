//! Pods whose eviction the API server has allowed. They count as unhealthy until they are being deleted, or until the
//! deletion is overdue, in which case it will not happen.
//!
//! Upstream: pkg/controller/disruption/disruption.go: countHealthyPods, buildDisruptedPodMap.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::views::{Budget, Pod};

/// The entries of `disruptedPods`.
#[derive(Debug, Default)]
pub struct Disrupted<'a> {
    /// The entries that remain: their pods are not yet being deleted.
    pub awaited: BTreeMap<String, Time>,
    /// Pods whose deletion is overdue.
    pub expired: Vec<&'a Pod>,
    /// When the next deletion is due.
    pub next_due: Option<Time>,
}

impl<'a> Disrupted<'a> {
    /// Sorts the entries of a status. Entries of pods that don't exist or are being deleted are dropped.
    pub fn of(
        pods: &'a [Pod],
        entries: &BTreeMap<String, Time>,
        timeout: Duration,
        now: Time,
    ) -> Self {
        let mut found = Self::default();
        for pod in pods.iter().filter(|pod| pod.deleted.is_none()) {
            let Some(&time) = entries.get(&pod.name) else {
                continue;
            };
            let due = time + timeout;
            if due < now {
                found.expired.push(pod);
            } else {
                found.next_due = Some(found.next_due.map_or(due, |next| next.min(due)));
                found.awaited.insert(pod.name.clone(), time);
            }
        }
        found
    }
}

/// Counts the pods that are ready and stay.
pub fn healthy(
    pods: &[Pod],
    awaited: &BTreeMap<String, Time>,
    timeout: Duration,
    now: Time,
) -> i32 {
    let is_awaited = |pod: &Pod| {
        awaited
            .get(&pod.name)
            .is_some_and(|&time| time + timeout > now)
    };
    let is_healthy = |pod: &&Pod| pod.deleted.is_none() && !is_awaited(pod) && pod.is_ready();
    pods.iter().filter(is_healthy).count() as i32
}

/// Emits an event about each pod whose deletion is overdue.
pub fn warn(host: &Host, budget: &Budget, expired: &[&Pod]) {
    // kube-controller-manager writes the namespace instead of the budget's name.
    let namespace = &budget.meta.namespace;
    let message =
        format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
    for pod in expired {
        let about = pod.reference(namespace);
        host.emit(Event::warning(&about, "NotDeleted", &message));
    }
}
