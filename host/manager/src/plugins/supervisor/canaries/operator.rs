//! What operators ask about canaries: start, promote, abort and show them.

use std::path::PathBuf;

use flyball_policy::Rollout;

use super::{Asked, Phase, Run};
use crate::plugins::canary::{
    CanaryState, CanaryStatus, CandidateOrigin, Did, NamedVersion, Position,
};
use crate::plugins::requests::RequestError;
use crate::plugins::start::RunningVersion;
use crate::plugins::supervisor::{Reply, Supervisor};

impl Supervisor {
    /// Starts a canary at the request of an operator. The answer comes once its first step is decided, or why it can't
    /// begin.
    pub(in crate::plugins::supervisor) fn start_canary(
        &mut self,
        name: &str,
        file: PathBuf,
        rollout: Rollout,
        reply: Reply,
    ) {
        if let Err(error) = self.may_start_canary(name, &rollout) {
            return drop(reply.send(Err(error)));
        }
        let asked = Asked {
            origin: CandidateOrigin::File(file),
            by_policy: false,
            rollout: Some(rollout),
        };
        self.load_candidate(name, asked, Some(reply));
    }

    fn may_start_canary(&self, name: &str, rollout: &Rollout) -> Result<(), RequestError> {
        let running = self.known_running(name)?;
        let refuse = |reason: String| Err(RequestError::Refused(reason));
        if running.version.grant.is_builtin {
            return refuse(format!(
                "`{name}` is a built-in controller: its version is the program's. `flyball shadow` compares another one with it"
            ));
        }
        self.check_leads()?;
        if self.divided(name).is_some() {
            return refuse(format!(
                "`{name}` has a canary already: `flyball canary {name} --abort` ends it"
            ));
        }
        if self.canary_policy(name).is_some() {
            return refuse(format!(
                "the policy names a candidate of `{name}`: change or remove `[plugins.{name}.canary]` there"
            ));
        }
        rollout.check().map_err(RequestError::Refused)
    }

    fn check_leads(&self) -> Result<(), RequestError> {
        if self.leads_canaries() {
            return Ok(());
        }
        let holder = self.cluster.main.waits.borrow().clone();
        Err(RequestError::Refused(format!(
            "this host is a standby, and only the leader decides on canaries: run the command there ({})",
            holder.unwrap_or_else(|| "no leader is known yet".to_owned())
        )))
    }

    /// Gives all keys to the candidate of a plugin that has a canary at a step; none if it has no such canary.
    pub(in crate::plugins::supervisor) fn promote_canary(
        &mut self,
        name: &str,
    ) -> Option<Result<String, RequestError>> {
        let canary = self.divided(name)?;
        canary.step()?;
        let by_policy = canary.by_policy;
        if let Err(error) = self.check_leads() {
            return Some(Err(error));
        }
        self.move_canary(name, Position::Promoted);
        let then = match by_policy {
            true => {
                "change the plugin's file or `source`, and then remove the canary from the policy"
            }
            false => "its file takes the place of the plugin's",
        };
        Some(Ok(format!(
            "the candidate of `{name}` gets all keys; {then}"
        )))
    }

    /// Gives all keys back to the version that runs.
    pub(in crate::plugins::supervisor) fn abort_canary(
        &mut self,
        name: &str,
    ) -> Result<String, RequestError> {
        self.known(name)?;
        if self.divided(name).is_none() {
            return Err(no_canary(name));
        }
        self.check_leads()?;
        self.go_back(name, "an operator ended it".to_owned());
        Ok(format!(
            "all keys of `{name}` are the running version's again"
        ))
    }

    /// Returns how far the canary of a plugin has come.
    pub(in crate::plugins::supervisor) fn canary(
        &self,
        name: &str,
    ) -> Result<CanaryStatus, RequestError> {
        self.known(name)?;
        let leads = self.leads_canaries();
        let run = self.canaries.runs.get(name);
        let phase = run.and_then(|run| match &run.phase {
            Phase::Loading => {
                let loading = || "the candidate is being loaded on this host".to_owned();
                Some(run.last_failure.get().unwrap_or_else(loading))
            }
            Phase::Ready(_) if !leads => Some("this host is a standby".to_owned()),
            Phase::Ready(_) => Some("its first step is being stored".to_owned()),
            Phase::Attached => run.problem.clone(),
            Phase::Refused(problem) => Some(problem.clone()),
        });
        // A candidate that the policy names anew is of more interest than one that has ended.
        let canary = self.canaries.wanted.of(name).cloned();
        let is_of_run = canary.as_ref().is_some_and(|canary| {
            run.is_none_or(|run| run.asked.origin == canary.origin || canary.is_active())
        });
        if let Some(canary) = canary.filter(|_| is_of_run) {
            let split = self.canaries.in_force.split(name);
            // The others have not counted what the leader's versions did.
            let judge = &self.canaries.judge;
            let evidence = leads.then(|| judge.evidence(name, &canary, &split));
            let evidence = evidence.flatten();
            let waits_for = phase.filter(|_| canary.is_active());
            return Ok(CanaryStatus::new(&canary, evidence, waits_for));
        }
        let (run, running) = (run.ok_or_else(|| no_canary(name))?, self.running.get(name));
        let rollout = run.asked.rollout.clone();
        let rollout = rollout.or_else(|| Some(self.canary_policy(name)?.rollout()));
        Ok(pending(run, running, rollout.unwrap_or_default(), phase))
    }

    /// A canary in one sentence, for the status of its plugin; none if it has none at a step.
    pub(in crate::plugins::supervisor) fn canary_in_short(&self, name: &str) -> Option<String> {
        let canary = self.divided(name)?;
        let digest = &canary.candidate.digest;
        let digest = &digest[..digest.floor_char_boundary(12)];
        let keys = match canary.step() {
            Some(step) => canary.rollout.steps.0[step].to_string(),
            None => "all keys".to_owned(),
        };
        Some(format!(
            "canary: {} (sha256:{digest}) reconciles {keys}; `flyball canary {name}` has more",
            canary.candidate.version
        ))
    }
}

/// A candidate that has no keys yet.
fn pending(
    run: &Run,
    running: Option<&RunningVersion>,
    rollout: Rollout,
    phase: Option<String>,
) -> CanaryStatus {
    let version = running.map(|running| NamedVersion::of(&running.version.plugin));
    let is_refused = matches!(run.phase, Phase::Refused(_));
    let (reason, waits_for) = match is_refused {
        true => (phase, None),
        false => (None, phase),
    };
    CanaryStatus {
        running: version.unwrap_or_default(),
        candidate: NamedVersion::default(),
        origin: run.asked.origin.to_string(),
        by_policy: run.asked.by_policy,
        state: match is_refused {
            true => CanaryState::Refused,
            false => CanaryState::Loading,
        },
        step: 0,
        steps: rollout.steps.0.iter().map(ToString::to_string).collect(),
        since: String::new(),
        elapsed_ms: 0,
        interval_ms: u64::try_from(rollout.interval.0.as_millis()).unwrap_or(u64::MAX),
        waits_for,
        reason,
        thresholds: rollout.thresholds,
        running_did: Did::default(),
        candidate_did: Did::default(),
    }
}

fn no_canary(name: &str) -> RequestError {
    RequestError::Refused(format!(
        "`{name}` has no canary: start one with `flyball canary {name} FILE`"
    ))
}
