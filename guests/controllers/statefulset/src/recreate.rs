//! The update strategy Recreate (KEP-3541): all pods of other revisions are deleted before new ones are created.
//!
//! The condition `Progressing` tells how far it is. It is false once all pods are ready and have the update revision.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_control.go: recreateDeleteAndWait, updateStatefulSet.
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: completeUpdate, isCreated, setProgressingCondition,
//! setStatefulSetCondition.

use flyball_sdk::condition;
use flyball_sdk::prelude::*;

use crate::members::Members;
use crate::views::{Pod, StatefulSet, Status};

/// The feature gate of the strategy.
pub const RECREATE: &str = "StatefulSetRecreateStrategy";
const PROGRESSING: &str = "Progressing";

/// Returns the pods of other revisions, replicas first, among them those that are being deleted.
pub fn outdated<'a>(members: &Members<'a>, update: &str) -> Vec<&'a Pod> {
    let is_outdated = |pod: &&Pod| !pod.phase.is_empty() && pod.revision() != update;
    members.pods().filter(is_outdated).collect()
}

/// Notes that pods are being deleted or are yet to be created.
pub fn progress(status: &mut Status, message: &str, now: Time) {
    let condition = Condition::new(PROGRESSING, "True", "RecreateInProgress", message);
    condition::set(&mut status.conditions, condition, now);
}

/// Notes that all pods were created again, if any had to be.
pub fn complete(status: &mut Status, now: Time) {
    if condition::get(&status.conditions, PROGRESSING).is_some() {
        let message = "All pods recreated successfully";
        let condition = Condition::new(PROGRESSING, "False", "RecreateCompleted", message);
        condition::set(&mut status.conditions, condition, now);
    }
}

/// Emits an event if the set has the strategy although its feature gate is off.
///
/// # Errors
/// The gate is off. The set can't be reconciled.
pub fn check(host: &Host, set: &StatefulSet) -> Result<(), Error> {
    if !set.is_recreated() || host.feature_enabled(RECREATE) {
        return Ok(());
    }
    let message = format!(
        "statefulset {} uses Recreate strategy but feature gate {RECREATE} is disabled",
        set.meta.key()
    );
    let about = set.meta.reference(StatefulSet::KIND);
    host.emit(Event::warning(&about, "UnknownStrategy", &message));
    Err(Error::failed(message))
}
