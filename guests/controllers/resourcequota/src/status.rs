//! The status of a quota.
//!
//! Upstream: pkg/controller/resourcequota/resource_quota_controller.go: syncResourceQuota.

use crate::amounts::Amount;
use crate::measure::Measured;
use crate::views::{Quota, Status};

/// Returns the new status, if it differs from the current one. Amounts that could not be measured stay as they are, and
/// amounts without a limit are dropped.
pub fn next(quota: &Quota, measured: &Measured) -> Option<Status> {
    let mut used = quota.status.used.clone();
    for (name, quantity) in &measured.used {
        used.insert(name.clone(), Amount::from(*quantity));
    }
    used.retain(|name, _| quota.hard.contains_key(name));
    let hard = quota.hard.clone();
    Some(Status { hard, used }).filter(|next| *next != quota.status)
}
