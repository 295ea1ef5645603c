//! The pods that a rolling update deletes, so that they are created again with the new revision.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_control.go: updateStatefulSetAfterInvariantEstablished,
//! updateStatefulSet.
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: getStatefulSetMaxUnavailable.

use flyball_sdk::prelude::*;

use crate::members::Replica;
use crate::views::{Pod, StatefulSet};

/// The pods to delete next.
#[derive(Debug, Default)]
pub struct Update<'a> {
    pub to_delete: Vec<&'a Pod>,
    /// The number of unavailable replicas, if it was asked for.
    pub unavailable: Option<usize>,
}

/// How many pods a rolling update may make unavailable.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// As many pods may be unavailable.
    pub max: usize,
    /// Whether unavailable pods are replaced first, however many there are. Otherwise an update that breaks all its pods
    /// would end at the first ones, and a later one would begin with pods that work. Before Kubernetes 1.37, it was never
    /// so; in order, it never is.
    pub is_two_phase: bool,
}

/// Returns the next pods of an update. It begins with the highest ordinal and leaves the pods below
/// the partition alone. Without a budget, it deletes one pod, and waits for each pod above it to become available.
pub fn next<'a>(
    set: &StatefulSet,
    replicas: &[Replica<'a>],
    update: &str,
    budget: Option<Budget>,
    now: Time,
) -> Update<'a> {
    if ["OnDelete", "Recreate"].contains(&set.update_strategy.strategy_type.as_str()) {
        return Update::default();
    }
    let is_unavailable = |replica: &Replica| replica.is_unavailable(set.min_ready(), now);
    let outdated = |replica: &Replica<'a>| {
        let is_outdated = |pod: &&Pod| pod.revision() != update && !pod.is_terminating();
        replica.pod.filter(is_outdated)
    };
    let candidates = replicas.iter().skip(set.partition()).rev();
    let Some(Budget { max, is_two_phase }) = budget else {
        for replica in candidates {
            if let Some(pod) = outdated(replica) {
                let to_delete = vec![pod];
                return Update {
                    to_delete,
                    unavailable: None,
                };
            }
            if is_unavailable(replica) {
                break;
            }
        }
        return Update::default();
    };
    let unavailable = replicas.iter().filter(|one| is_unavailable(one)).count();
    let left = max.saturating_sub(unavailable);
    let to_delete = match is_two_phase {
        false => candidates.filter_map(outdated).take(left).collect(),
        true => {
            let (broken, working): (Vec<&Replica>, Vec<&Replica>) =
                candidates.partition(|replica| is_unavailable(replica));
            let broken = broken.into_iter().filter_map(outdated);
            let working = working.into_iter().filter_map(outdated);
            broken.chain(working.take(left)).collect()
        }
    };
    Update {
        to_delete,
        unavailable: Some(unavailable),
    }
}

/// Returns how many pods may be unavailable during an update (KEP-961): at least one, and one if the field is
/// absent.
///
/// # Errors
/// The field is neither a number nor a percentage.
pub fn max_unavailable(set: &StatefulSet) -> Result<usize, Error> {
    let rolling = set.update_strategy.rolling_update.as_ref();
    let max = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let Some(max) = max else {
        return Ok(1);
    };
    let max = max.of(set.wanted() as i32, false)?;
    Ok(usize::try_from(max).unwrap_or(0).max(1))
}

#[cfg(test)]
mod tests;
