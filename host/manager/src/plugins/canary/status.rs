//! A canary, as operators see it.

use std::time::Duration;

use flyball_policy::Thresholds;
use flyball_runtime::split::{Counts, Measured};
use serde::{Deserialize, Serialize};

use super::decide::{Decision, Evidence, Waiting, decide};
use super::state::{Canary, NamedVersion, Position};

/// How far a canary has come, and what both versions have done in its step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    pub running: NamedVersion,
    pub candidate: NamedVersion,
    /// The candidate's file, or the address of its package.
    pub origin: String,
    /// Whether the policy names it.
    pub by_policy: bool,
    pub state: CanaryState,
    /// The step, from 1; 0 if it is at none.
    pub step: usize,
    /// The steps, in words.
    pub steps: Vec<String>,
    /// When it reached its state, in RFC 3339; empty before it has begun.
    pub since: String,
    /// How long the step has lasted, in milliseconds, without the time in which no candidate could run.
    pub elapsed_ms: u64,
    /// How long a step lasts at least, in milliseconds.
    pub interval_ms: u64,
    /// What it waits for.
    pub waits_for: Option<String>,
    /// Why it went back or can't begin.
    pub reason: Option<String>,
    pub thresholds: Thresholds,
    /// What the versions have done in the step.
    pub running_did: Did,
    pub candidate_did: Did,
}

/// The state of a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryState {
    /// The candidate is being loaded for the first time.
    Loading,
    /// The candidate can't be used.
    Refused,
    /// The candidate has the keys of its step.
    Running,
    /// The candidate has all keys.
    Promoted,
    /// The candidate has no keys any more.
    WentBack,
}

/// What a version has done in a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Did {
    #[serde(flatten)]
    pub counts: Counts,
    /// In 99 of 100 cases, a reconcile took no longer, in milliseconds; none for fewer than 100, counted by this process.
    pub p99_ms: Option<f64>,
    /// The key and the error of the last reconcile that failed or trapped, in this process.
    pub last_failure: Option<String>,
}

impl CanaryStatus {
    /// `evidence` is that of this process; none if its step is not in force here. `waits_for` is why the candidate has no
    /// keys yet.
    pub(crate) fn new(
        canary: &Canary,
        evidence: Option<Evidence>,
        waits_for: Option<String>,
    ) -> Self {
        let decision = evidence
            .as_ref()
            .filter(|_| canary.step().is_some())
            .map(|evidence| decide(&canary.rollout, evidence));
        let stored = |counts: Counts| Measured {
            counts,
            ..Measured::default()
        };
        let (running, candidate) = match evidence {
            Some(evidence) => (evidence.running, evidence.candidate),
            None => (stored(canary.running_did), stored(canary.candidate_did)),
        };
        let steps = canary.rollout.steps.0.iter();
        Self {
            running: canary.running.clone(),
            candidate: canary.candidate.clone(),
            origin: canary.origin.to_string(),
            by_policy: canary.by_policy,
            state: match canary.position {
                Position::Step(_) => CanaryState::Running,
                Position::Promoted => CanaryState::Promoted,
                Position::WentBack(_) => CanaryState::WentBack,
            },
            step: canary.step().map_or(0, |step| step + 1),
            steps: steps.map(ToString::to_string).collect(),
            since: canary.since.clone(),
            elapsed_ms: canary.elapsed_ms,
            interval_ms: u64::try_from(canary.rollout.interval.0.as_millis()).unwrap_or(u64::MAX),
            waits_for: waits_for.or_else(|| decision.as_ref().and_then(waits)),
            reason: match &canary.position {
                Position::WentBack(reason) => Some(reason.clone()),
                Position::Step(_) | Position::Promoted => None,
            },
            thresholds: canary.rollout.thresholds,
            running_did: Did::from(running),
            candidate_did: Did::from(candidate),
        }
    }
}

fn waits(decision: &Decision) -> Option<String> {
    match decision {
        Decision::Wait(Waiting::Time(left)) => Some(format!("{} s more", seconds(*left))),
        Decision::Wait(Waiting::Calls(calls)) => {
            Some(format!("{calls} more reconciles of the candidate"))
        }
        Decision::Advance | Decision::GoBack(_) => None,
    }
}

fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

impl From<Measured> for Did {
    fn from(measured: Measured) -> Self {
        let p99 = measured.p99.map(|p99| p99.as_secs_f64() * 1e3);
        Self {
            counts: measured.counts,
            p99_ms: p99,
            last_failure: measured.last_failure,
        }
    }
}
