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

/// Returns the next pods of an update. It begins with the highest ordinal and leaves the pods below
/// the partition alone. Without `max_unavailable`, it deletes one pod, and waits for each pod above
/// it to become available.
pub fn next<'a>(
    set: &StatefulSet,
    replicas: &[Replica<'a>],
    update: &str,
    max_unavailable: Option<usize>,
    now: Time,
) -> Update<'a> {
    if set.update_strategy.strategy_type == "OnDelete" {
        return Update::default();
    }
    let is_unavailable = |replica: &Replica| replica.is_unavailable(set.min_ready(), now);
    let outdated = |replica: &Replica<'a>| {
        let is_outdated = |pod: &&Pod| pod.revision() != update && !pod.is_terminating();
        replica.pod.filter(is_outdated)
    };
    let candidates = replicas.iter().skip(set.partition()).rev();
    let Some(max) = max_unavailable else {
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
    let budget = max.saturating_sub(unavailable);
    Update {
        to_delete: candidates.filter_map(outdated).take(budget).collect(),
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
