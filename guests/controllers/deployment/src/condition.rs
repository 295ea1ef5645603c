//! Conditions of a Deployment's status. They have a `lastUpdateTime`, which other workloads'
//! conditions lack.
//!
//! Upstream: pkg/controller/deployment/util/deployment_util.go: NewDeploymentCondition, GetDeploymentCondition,
//! SetDeploymentCondition, RemoveDeploymentCondition.

use flyball_sdk::Time;
use flyball_sdk::condition::{self, Condition};

use crate::views::Status;

/// The rollout makes progress or is complete.
pub const PROGRESSING: &str = "Progressing";
/// Enough pods are available.
pub const AVAILABLE: &str = "Available";
/// A ReplicaSet can't create or delete pods.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Returns a condition with both of its times set to `now`.
pub fn as_of(
    now: Time,
    condition_type: &str,
    status: &str,
    reason: &str,
    message: &str,
) -> Condition {
    // The API stores whole seconds. The time must equal the one that is read back.
    let now = Some(now.to_second());
    let condition = Condition::new(condition_type, status, reason, message);
    Condition {
        last_update_time: now,
        last_transition_time: now,
        ..condition
    }
}

impl Status {
    pub fn condition(&self, condition_type: &str) -> Option<&Condition> {
        condition::get(&self.conditions, condition_type)
    }

    /// The reason of the condition of this type; empty if the condition does not exist.
    pub fn reason(&self, condition_type: &str) -> &str {
        self.condition(condition_type)
            .map_or("", |condition| condition.reason.as_str())
    }

    /// Sets a condition, whose times must be set. If status and reason are unchanged, the present
    /// condition is kept, including its message.
    pub fn set(&mut self, condition: Condition) {
        condition::set_at_end(&mut self.conditions, condition, Time::default());
    }

    /// Sets a condition even if status and reason are unchanged. The transition time is kept if the
    /// status is.
    pub fn replace(&mut self, mut condition: Condition) {
        if let Some(present) = self.condition(&condition.condition_type)
            && present.status == condition.status
        {
            condition.last_transition_time = present.last_transition_time;
        }
        self.remove(&condition.condition_type);
        self.conditions.push(condition);
    }

    pub fn remove(&mut self, condition_type: &str) {
        condition::remove(&mut self.conditions, condition_type);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: &str, reason: &str, at: i64) -> Condition {
        as_of(Time::of_seconds(at), PROGRESSING, status, reason, "")
    }

    fn status(condition: Condition) -> Status {
        let other = as_of(Time::of_seconds(0), "Other", "True", "Reason", "");
        Status {
            conditions: vec![condition, other],
            ..Status::default()
        }
    }

    #[test]
    fn the_same_status_and_reason_change_nothing() {
        let mut present = status(condition("True", "A", 1));
        present.set(condition("True", "A", 2));
        assert_eq!(present, status(condition("True", "A", 1)));
    }

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        for (next, transition) in [
            (condition("True", "B", 2), 1),
            (condition("False", "A", 2), 2),
        ] {
            let mut present = status(condition("True", "A", 1));
            present.set(next.clone());
            let set = present.condition(PROGRESSING).unwrap();
            assert_eq!((&set.status, &set.reason), (&next.status, &next.reason));
            assert_eq!(set.last_update_time, Some(Time::of_seconds(2)));
            assert_eq!(set.last_transition_time, Some(Time::of_seconds(transition)));
        }
    }

    #[test]
    fn replace_updates_the_time_for_the_same_reason() {
        let mut present = status(condition("True", "A", 1));
        present.replace(condition("True", "A", 5));
        let set = present.condition(PROGRESSING).unwrap();
        assert_eq!(set.last_update_time, Some(Time::of_seconds(5)));
        assert_eq!(set.last_transition_time, Some(Time::of_seconds(1)));
    }

    #[test]
    fn conditions_of_other_controllers_are_kept() {
        let mut present = status(condition("True", "A", 1));
        present.remove(PROGRESSING);
        assert_eq!(
            (
                present.conditions.len(),
                present.reason("Other"),
                present.reason(PROGRESSING)
            ),
            (1, "Reason", "")
        );
    }
}
