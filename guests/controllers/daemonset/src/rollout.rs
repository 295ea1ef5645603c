//! Replaces pods of old revisions during a rolling update, within the limits of the strategy. With a surge (KEP-1591),
//! the new pod of a node starts beside the old one.
//!
//! Upstream: pkg/controller/daemon/update.go: rollingUpdate, findUpdatedPodsOnNode, updatedDesiredNodeCounts.

use flyball_sdk::prelude::*;

use crate::observed::{ByNode, Observed};
use crate::plan::Plan;
use crate::views::Pod;

/// The limits of an update, in nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of nodes on which a second pod may run.
    pub surge: usize,
    /// The number of nodes on which no pod may be available.
    pub unavailable: usize,
}

/// The pods of a node that are not being deleted.
#[derive(Clone, Copy, Debug, Default)]
struct Pair<'a> {
    /// The pod of the current revision.
    new: Option<&'a Pod>,
    /// The pod of another revision.
    old: Option<&'a Pod>,
}

/// Returns the pods of old revisions to delete, and the nodes that get a second pod.
///
/// # Errors
/// A limit is invalid; or a node with a pod of an old revision does not exist, and a surge can't be
/// planned until that pod is deleted.
pub fn plan<'a>(observed: &Observed<'a>, by_node: &ByNode<'a>) -> Result<Plan<'a>, Error> {
    let limits = limits(observed)?;
    match limits.surge {
        0 => Ok(in_place(observed, by_node, limits.unavailable)),
        surge => surging(observed, by_node, surge),
    }
}

/// Returns the limits for the number of nodes that should run a pod.
///
/// # Errors
/// A limit is neither a number nor a percentage.
pub fn limits(observed: &Observed) -> Result<Limits, Error> {
    let desired = i32::try_from(observed.desired()).unwrap_or(i32::MAX);
    let unavailable = observed
        .set
        .unavailable(desired)
        .doing(|| "couldn't get unavailable numbers: invalid value for MaxUnavailable".into())?;
    let surge = observed
        .set
        .surge(desired)
        .doing(|| "couldn't get unavailable numbers: invalid value for MaxSurge".into())?;
    let nodes = |number: i32| usize::try_from(number).unwrap_or(0);
    Ok(match (nodes(surge), nodes(unavailable)) {
        // No update could ever proceed.
        (0, 0) if desired > 0 => Limits {
            surge: 0,
            unavailable: 1,
        },
        (surge, unavailable) => Limits { surge, unavailable },
    })
}

/// Deletes old pods that are not available, and available ones while the limit allows it. A pod that is
/// missing, or that is new and not available, counts against the limit.
fn in_place<'a>(observed: &Observed<'a>, by_node: &ByNode<'a>, limit: usize) -> Plan<'a> {
    let empty_nodes = observed
        .fits
        .iter()
        .filter(|(node, fit)| fit.should_run() && !by_node.contains_key(node.as_str()));
    let mut unavailable = empty_nodes.count();
    let (mut delete, mut candidates) = (Vec::new(), Vec::new());
    for pods in by_node.values() {
        match Pair::of(observed, pods) {
            Some(Pair {
                new: None,
                old: Some(old),
            }) => {
                if observed.is_available(old) {
                    candidates.push(old);
                } else {
                    delete.push(old);
                    unavailable += 1;
                }
            }
            Some(Pair {
                new: Some(new),
                old: None,
            }) if observed.is_available(new) => {}
            // The new pod is not available, or pods still have to be created or deleted.
            _ => unavailable += 1,
        }
    }
    candidates.truncate(limit.saturating_sub(unavailable));
    delete.extend(candidates);
    Plan {
        delete,
        ..Plan::default()
    }
}

/// Creates new pods beside old ones: on nodes whose old pod is not available, and on others while the
/// limit allows it. Deletes an old pod when its new one is available.
fn surging<'a>(
    observed: &Observed<'a>,
    by_node: &ByNode<'a>,
    limit: usize,
) -> Result<Plan<'a>, Error> {
    let mut plan = Plan::default();
    // Available nodes that may get a second pod, and available pods on nodes that should not have one.
    let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
    let (mut surged, mut available) = (0, 0);
    for (&node, pods) in by_node {
        let Some(pair) = Pair::of(observed, pods) else {
            // Surplus pods are deleted first.
            surged += 1;
            continue;
        };
        let counted = pair.old.or(pair.new);
        available += usize::from(counted.is_some_and(|pod| observed.is_available(pod)));
        match (pair.new, pair.old) {
            (_, None) => {}
            (Some(new), Some(old)) => match observed.is_available(new) {
                true => plan.delete.push(old),
                false => surged += 1,
            },
            (None, Some(old)) => {
                let fit = observed.fit(node).ok_or_else(|| {
                    Error::failed(format!(
                        "couldn't get node for nodeName {node:?}: it does not exist"
                    ))
                })?;
                match (observed.is_available(old), fit.should_run()) {
                    (false, false) => plan.delete.push(old),
                    (false, true) => plan.create.push(node),
                    (true, false) => misplaced.push(old),
                    (true, true) => candidates.push(node),
                }
            }
        }
    }
    // A misplaced pod is needed until enough others are available.
    misplaced.truncate(available.saturating_sub(observed.desired()));
    plan.delete.extend(misplaced);
    candidates.truncate(limit.saturating_sub(surged));
    plan.create.extend(candidates);
    Ok(plan)
}

impl<'a> Pair<'a> {
    /// Returns the new and the old pod of a node; `None` if it has more than one of either.
    fn of(observed: &Observed, pods: &[&'a Pod]) -> Option<Self> {
        let mut pair = Self::default();
        for &pod in pods.iter().filter(|pod| !pod.is_deleting()) {
            let place = match observed.is_updated(pod) {
                true => &mut pair.new,
                false => &mut pair.old,
            };
            if place.replace(pod).is_some() {
                return None;
            }
        }
        Some(pair)
    }
}
