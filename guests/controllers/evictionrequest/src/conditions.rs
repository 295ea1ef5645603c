//! The two conditions of EvictionRequests and Evictions, as they are applied.
//!
//! Upstream: pkg/controller/evictionrequest/evictionrequest_utils.go: setCondition.

use flyball_sdk::condition;
use flyball_sdk::prelude::*;
use serde::Serialize;

use crate::views::{EVICTED, FAILED};

/// The eviction goes on.
pub const AWAITING: &str = "AwaitingEviction";
/// The eviction can't begin. No other Eviction follows.
pub const INVALID: &str = "EvictionInvalid";
const UNSUCCESSFUL: &str = "EvictionFailed";

/// A condition to apply. All fields are sent, because the manager then owns them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    #[serde(rename = "type")]
    condition_type: &'static str,
    pub status: String,
    pub reason: String,
    pub message: String,
    last_transition_time: Time,
    /// Whether it differs from the present one in more than the time.
    #[serde(skip)]
    has_changed: bool,
}

/// The conditions of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    pub failed: Applied,
    pub evicted: Applied,
}

/// The present conditions, and the time of a change.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    pub conditions: &'a [Condition],
    pub now: Time,
}

impl Present<'_> {
    /// The condition of this type, which keeps its transition time if its status is unchanged.
    pub fn with(
        &self,
        condition_type: &'static str,
        status: &str,
        reason: &str,
        message: &str,
    ) -> Applied {
        let present = condition::get(self.conditions, condition_type);
        let kept = { present.filter(|present| present.status == status) }
            .and_then(|present| present.last_transition_time);
        Applied {
            condition_type,
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: kept.unwrap_or(self.now),
            has_changed: present.is_none_or(|present| {
                (&*present.status, &*present.reason, &*present.message) != (status, reason, message)
            }),
        }
    }

    /// The conditions of an eviction that goes on.
    pub fn awaiting(&self, failed_message: &str, evicted_message: &str) -> Conditions {
        Conditions {
            failed: self.with(FAILED, "False", AWAITING, failed_message),
            evicted: self.with(EVICTED, "False", AWAITING, evicted_message),
        }
    }

    /// The conditions of an eviction that has failed.
    pub fn failed(&self, reason: &str, message: &str) -> Conditions {
        Conditions {
            failed: self.with(FAILED, "True", reason, message),
            evicted: self.with(EVICTED, "False", UNSUCCESSFUL, ""),
        }
    }

    /// The conditions of an eviction that has succeeded.
    pub fn evicted(&self, reason: &str, message: &str) -> Conditions {
        Conditions {
            failed: self.with(FAILED, "False", "Succeeded", ""),
            evicted: self.with(EVICTED, "True", reason, message),
        }
    }
}

impl Conditions {
    pub fn have_changed(&self) -> bool {
        self.failed.has_changed || self.evicted.has_changed
    }

    /// Whether the eviction has ended.
    pub fn are_final(&self) -> bool {
        [&self.failed, &self.evicted]
            .iter()
            .any(|condition| condition.status == "True")
    }

    /// The conditions as a list.
    pub fn into_list(self) -> [Applied; 2] {
        [self.failed, self.evicted]
    }
}
