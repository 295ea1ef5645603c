//! Status conditions, and the two rules by which Kubernetes's controllers set them.

use serde::{Deserialize, Serialize};

use crate::meta::null_is_default;
use crate::time::Time;

/// A condition of an object's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub reason: String,
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub message: String,
}

impl Condition {
    /// `status` is `True`, `False` or `Unknown`.
    pub fn new(condition_type: &str, status: &str, reason: &str, message: &str) -> Self {
        Self {
            condition_type: condition_type.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            ..Self::default()
        }
    }

    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// Returns the condition of this type.
pub fn get<'a>(conditions: &'a [Condition], condition_type: &str) -> Option<&'a Condition> {
    conditions
        .iter()
        .find(|condition| condition.condition_type == condition_type)
}

/// Removes the condition of this type. Returns whether it existed.
pub fn remove(conditions: &mut Vec<Condition>, condition_type: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.condition_type != condition_type);
    conditions.len() != before
}

/// Sets a condition in place, like apimachinery's `SetStatusCondition`: the transition time changes
/// only if the status does. Returns whether anything changed.
pub fn set(conditions: &mut Vec<Condition>, new: Condition, now: Time) -> bool {
    let given = new.last_transition_time.unwrap_or(now.to_second());
    match conditions
        .iter_mut()
        .find(|condition| condition.condition_type == new.condition_type)
    {
        None => {
            conditions.push(Condition {
                last_transition_time: Some(given),
                ..new
            });
            true
        }
        Some(old) => {
            let kept = if old.status == new.status {
                old.last_transition_time
            } else {
                Some(given)
            };
            let new = Condition {
                last_transition_time: kept,
                ..new
            };
            let changed = *old != new;
            *old = new;
            changed
        }
    }
}

/// Sets a condition like the workload controllers: nothing happens if status and reason are
/// unchanged. Otherwise the condition moves to the end of the list, and keeps its transition time
/// if its status is unchanged. Returns whether anything changed.
pub fn set_at_end(conditions: &mut Vec<Condition>, mut new: Condition, now: Time) -> bool {
    let old = get(conditions, &new.condition_type);
    if old.is_some_and(|old| old.status == new.status && old.reason == new.reason) {
        return false;
    }
    let kept = old
        .filter(|old| old.status == new.status)
        .and_then(|old| old.last_transition_time);
    new.last_transition_time = kept.or(new.last_transition_time).or(Some(now.to_second()));
    remove(conditions, &new.condition_type);
    conditions.push(new);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: &str, reason: &str, at: i64) -> Condition {
        let last_transition_time = Some(Time::of_seconds(at));
        Condition {
            last_transition_time,
            ..Condition::new("Ready", status, reason, "")
        }
    }

    fn other() -> Condition {
        Condition::new("Other", "True", "", "")
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut all = vec![condition("False", "Starting", 1), other()];
        assert!(set(
            &mut all,
            Condition::new("Ready", "False", "StillStarting", ""),
            Time::of_seconds(2)
        ));
        assert_eq!(all, [condition("False", "StillStarting", 1), other()]);
        assert!(!set(
            &mut all,
            Condition::new("Ready", "False", "StillStarting", ""),
            Time::of_seconds(3)
        ));
        assert!(set(
            &mut all,
            Condition::new("Ready", "True", "Up", ""),
            Time::of_seconds(4)
        ));
        assert_eq!(all, [condition("True", "Up", 4), other()]);
    }

    #[test]
    fn the_workloads_rule_does_nothing_for_the_same_status_and_reason() {
        let mut all = vec![condition("False", "Starting", 1), other()];
        assert!(!set_at_end(
            &mut all,
            Condition::new("Ready", "False", "Starting", "new text"),
            Time::of_seconds(2)
        ));
        assert!(set_at_end(
            &mut all,
            Condition::new("Ready", "False", "Stuck", ""),
            Time::of_seconds(2)
        ));
        assert_eq!(all, [other(), condition("False", "Stuck", 1)]);
        assert!(set_at_end(
            &mut all,
            Condition::new("Ready", "True", "Up", ""),
            Time::of_seconds(3)
        ));
        assert_eq!(all, [other(), condition("True", "Up", 3)]);
    }

    #[test]
    fn a_condition_is_found_and_removed_by_its_type() {
        let mut all = vec![condition("True", "", 1), other()];
        assert!(get(&all, "Ready").unwrap().is_true());
        assert!(remove(&mut all, "Ready") && !remove(&mut all, "Ready"));
        assert_eq!(all, [other()]);
    }
}
