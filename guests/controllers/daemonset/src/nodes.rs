//! The queue of changed nodes: finds the DaemonSets that have to create or delete a pod on a node.
//!
//! Upstream: pkg/controller/daemon/daemon_controller.go: syncNodeUpdate.

use std::collections::HashSet;

use flyball_sdk::prelude::*;

use crate::describe::{BY_NODE, QUEUE};
use crate::placement::{COMPARISON_OPERATORS, Fit, Requirements};
use crate::views::{Candidate, DaemonSet, Neighbour, Node};

/// Enqueues the DaemonSets that a change of this node concerns.
///
/// # Errors
/// A read failed, or the queue is full.
pub fn reconcile(host: &Host, name: &str) -> Result<Outcome, Error> {
    let Some(node) = host.get::<Node>("", name)? else {
        // The node was deleted. The pod garbage collector deletes its pods.
        return Ok(Outcome::Done);
    };
    let present = present(host, name)?;
    let compares = host.feature_enabled(COMPARISON_OPERATORS);
    host.list::<Candidate>().each(|set| {
        let fit = Requirements::of(&set.pod_spec(), compares).judge(&node);
        let key = Key::new(&set.namespace, &set.name);
        if concerns(fit, present.contains(&key), set.number_misscheduled > 0) {
            host.queue().add(QUEUE, &key)?;
        }
        Ok(())
    })?;
    Ok(Outcome::Done)
}

/// Whether a DaemonSet has to be reconciled, given whether it has a pod on the node and whether it has pods where they
/// should not be. In the latter case this pod may be, or may have been, such a pod.
fn concerns(fit: Fit, has_pod: bool, has_misscheduled: bool) -> bool {
    match has_pod {
        false => fit.should_run(),
        true => !fit.may_stay() || has_misscheduled,
    }
}

/// Returns the DaemonSets that have a pod on a node.
fn present(host: &Host, node: &str) -> Result<HashSet<Key>, Error> {
    let mut present = HashSet::new();
    host.list::<Neighbour>().index(BY_NODE, node).each(|pod| {
        let owner = pod.meta.controller();
        if let Some(owner) = owner.filter(|owner| owner.is_of(DaemonSet::KIND)) {
            present.insert(Key::new(&pod.meta.namespace, &owner.name));
        }
        Ok(())
    })?;
    Ok(present)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_concerns_sets_whose_pod_is_missing_misplaced_or_may_be_counted_as_misscheduled() {
        for (fit, has_pod, has_misscheduled, expected) in [
            (Fit::Fits, false, false, true),
            (Fit::MayStay, false, true, false),
            (Fit::Unfit, false, true, false),
            (Fit::Fits, true, false, false),
            (Fit::MayStay, true, false, false),
            (Fit::Unfit, true, false, true),
            (Fit::Fits, true, true, true),
            (Fit::MayStay, true, true, true),
        ] {
            assert_eq!(
                concerns(fit, has_pod, has_misscheduled),
                expected,
                "{fit:?}"
            );
        }
    }
}
