//! The fields that the controller reads, and its part of an Eviction's status.
//!
//! Upstream: pkg/controller/imperativeevictionresponder/utils.go: shouldHandleEviction, findTargetResponderStatus,
//! findResponderStatus, toResponderStatusApplyConfiguration.

use flyball_pods::has_ended;
use flyball_sdk::condition;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The name of this responder.
pub const EVICTOR: &str = "imperative-eviction.k8s.io/evictor";
/// The index of Evictions by the UID of their pod.
pub const BY_POD: &str = "pod";
/// The roles of a responder, in the label that has its name.
const ROLES: [&str; 2] = ["requester-responder", "responder"];
/// The conditions of an Eviction that has ended.
const ENDS: [&str; 2] = ["Failed", "TargetEvicted"];

#[derive(View, Clone, Debug, Default)]
#[view(kind = "lifecycle.k8s.io/v1alpha1/Eviction")]
pub struct Eviction {
    #[view(path = "metadata", fields("labels"))]
    pub meta: Meta,
    #[view(path = "spec.target.pod")]
    pub pod: Option<PodReference>,
    /// Set once the evictionrequest-controller has seen the Eviction.
    #[view(path = "status.observedGeneration")]
    pub observed_generation: Option<i64>,
    #[view(path = "status.conditions", fields("[*].type", "[*].status"))]
    pub conditions: Vec<Condition>,
    #[view(path = "status.targetResponders", fields("[*].name", "[*].state"))]
    pub responders: Vec<Responder>,
    #[view(path = "status.responders")]
    pub reports: Vec<Report>,
}

impl Eviction {
    /// The pod to evict and the present report, if it is this responder's turn.
    pub fn turn(&self) -> Option<(&PodReference, &Report)> {
        let has_ended = { ENDS.iter() }
            .any(|one| condition::get(&self.conditions, one).is_some_and(Condition::is_true));
        let has_role = { self.meta.label(EVICTOR) }.is_some_and(|role| ROLES.contains(&role));
        if has_ended || !has_role || self.observed_generation.is_none() {
            return None;
        }
        let own = self.responders.iter().find(|one| one.name == EVICTOR)?;
        let report = self.reports.iter().find(|one| one.name == EVICTOR)?;
        let is_due = own.state == "Active" && report.completion_time.is_none();
        Some((self.pod.as_ref()?, report)).filter(|_| is_due)
    }
}

#[derive(View, Clone, Debug, Default, PartialEq)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
    #[view(path = "status.phase")]
    pub phase: String,
}

impl Pod {
    /// The parts by which [`flyball_pods::may_be_over`] judges it.
    pub fn life(&self) -> (&Meta, &str) {
        (&self.meta, &self.phase)
    }

    pub fn is_terminal(&self) -> bool {
        has_ended(&self.phase)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodReference {
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Responder {
    pub name: String,
    pub state: String,
}

/// What a responder reports in an Eviction's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    pub name: String,
    /// When the responder's turn began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_completion_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
