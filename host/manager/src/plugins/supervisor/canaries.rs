//! Carries out canaries: loads candidates for the versions that run, lets them take keys once their step is stored, and
//! moves them on as `canary/decide.rs` decides. What is wanted is compared with what is after each event, as plans are.

mod candidate;
mod operator;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use flyball_api::lease::LeaseNote;
use flyball_policy::{CanaryPolicy, Rollout};
use flyball_runtime::context::PluginContext;
use flyball_runtime::history::rfc3339;
use tokio::time::Instant;

use super::tasks::Tasks;
use super::{Reply, Supervisor};
use crate::plugins::canary::{
    Canaries, Canary, CanaryReports, CandidateOrigin, Decision, InForce, Judge, LastFailure,
    LoadedCandidate, Position,
};
use crate::plugins::requests::RequestError;
use crate::plugins::rollback::VersionStore;

/// How often canaries are judged.
pub(super) const JUDGE: Duration = Duration::from_secs(1);
/// How often what was counted is stored.
const STORE: Duration = Duration::from_secs(5);
/// How long the keys of a candidate may wait until it is loaded. Then they go back.
const LOAD: Duration = Duration::from_secs(60);

/// Where canaries are stored.
pub(crate) enum CanaryStore {
    /// In the lease: there are other processes.
    Lease(Arc<LeaseNote>),
    /// In the folder of versions, if there is one.
    Folder,
}

/// The canaries, and the candidates of this process.
pub(super) struct CanaryRuns {
    pub(super) in_force: Arc<InForce>,
    store: CanaryStore,
    /// What should be stored. A standby follows what is in force.
    wanted: Canaries,
    /// What was reported last.
    reported: Canaries,
    runs: BTreeMap<String, Run>,
    tasks: Tasks<String>,
    judge: Judge,
    reports: CanaryReports,
    /// When this process began to lead; none if it doesn't.
    leads_since: Option<Instant>,
    judged: Instant,
    stored: Instant,
}

/// The candidate of a plugin in this process.
struct Run {
    asked: Asked,
    /// The version that runs. The candidate fits no other one.
    base: Weak<PluginContext>,
    began: Instant,
    phase: Phase,
    last_failure: LastFailure,
    /// The operator who asked for it and has no answer yet.
    reply: Option<Reply>,
    /// Whether its file was put into the place of the plugin's, or that was tried.
    is_placed: bool,
    /// Why that failed.
    problem: Option<String>,
}

/// A candidate that is asked for.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    origin: CandidateOrigin,
    by_policy: bool,
    /// How an operator wants it to take over; none if that is in the policy.
    rollout: Option<Rollout>,
}

enum Phase {
    Loading,
    Ready(Box<LoadedCandidate>),
    /// It may take keys.
    Attached,
    /// It can't be used. The reason is a sentence.
    Refused(String),
}

impl CanaryRuns {
    pub(super) fn new(in_force: Arc<InForce>, store: CanaryStore, reports: CanaryReports) -> Self {
        let now = Instant::now();
        Self {
            in_force,
            store,
            wanted: Canaries::default(),
            reported: Canaries::default(),
            runs: BTreeMap::new(),
            tasks: Tasks::default(),
            judge: Judge::default(),
            reports,
            leads_since: None,
            judged: now,
            stored: now,
        }
    }

    /// The digests of the candidates whose files must be kept.
    pub(super) fn digests(&self) -> impl Iterator<Item = String> {
        let active = self.wanted.iter().filter(|(_, canary)| canary.is_active());
        active.map(|(_, canary)| canary.candidate.digest.clone())
    }

    /// Follows what is in force, unless this process leads and decides on it.
    fn follow(&mut self, leads: bool) {
        if leads && self.leads_since.is_none() {
            // The elector has read the lease before this process leads.
            self.wanted = self.in_force.canaries();
            self.reported = self.wanted.clone();
            self.leads_since = Some(Instant::now());
            self.judge = Judge::default();
            for (plugin, canary) in self.wanted.iter() {
                self.reports.show(plugin, canary);
            }
        } else if !leads {
            self.wanted = self.in_force.canaries();
            self.leads_since = None;
        }
    }

    fn active(&self, plugin: &str) -> Option<&Canary> {
        self.wanted.of(plugin).filter(|canary| canary.is_active())
    }

    /// Stores what is wanted. It is in force afterwards.
    fn write(&mut self, versions: &VersionStore, is_urgent: bool) {
        self.stored = Instant::now();
        let text = self.wanted.text();
        match &self.store {
            CanaryStore::Lease(note) => note.write(text, is_urgent),
            CanaryStore::Folder => {
                let in_force = self.in_force.clone();
                versions.write_canaries(text, move |text| in_force.apply(text));
            }
        }
    }

    /// Moves a canary to a position.
    fn move_to(&mut self, plugin: &str, position: Position, versions: &VersionStore) {
        if let Some(canary) = self.wanted.of_mut(plugin) {
            canary.move_to(position, rfc3339(SystemTime::now()));
            self.write(versions, true);
        }
    }

    /// Ends the candidate of a plugin in this process.
    fn drop_run(&mut self, plugin: &str) {
        if let Some(run) = self.runs.remove(plugin) {
            self.tasks.abort(plugin);
            self.in_force.split(plugin).detach();
            if let Some(reply) = run.reply {
                let reason = "the plugin does not run any more, or has another version now";
                let _ = reply.send(Err(RequestError::Refused(reason.to_owned())));
            }
        }
    }

    /// Says why a candidate can't be used.
    fn refuse(&mut self, plugin: &str, problem: String) {
        let Some(run) = self.runs.get_mut(plugin) else {
            return;
        };
        match run.reply.take() {
            Some(reply) => drop(reply.send(Err(RequestError::Refused(problem.clone())))),
            None => tracing::warn!(plugin, "can't use the candidate of a canary: {problem}"),
        }
        run.phase = Phase::Refused(problem);
    }
}

impl Supervisor {
    /// Brings the candidates of this process to where they should be.
    pub(super) fn sync_canaries(&mut self) {
        let leads = self.leads_canaries();
        self.canaries.follow(leads);
        let named = self.feeds.grants().plugins.plugins.iter();
        let named = named.filter(|(_, policy)| policy.canary.is_some());
        let names: BTreeSet<String> = (named.map(|(name, _)| name))
            .chain(self.canaries.runs.keys())
            .chain(self.canaries.wanted.iter().map(|(name, _)| name))
            .cloned()
            .collect();
        for name in names {
            self.sync_canary(&name, leads);
        }
        self.report_canaries(leads);
    }

    fn leads_canaries(&self) -> bool {
        *self.cluster.main.leading.borrow()
    }

    fn sync_canary(&mut self, name: &str, leads: bool) {
        if leads {
            self.revise_canary(name);
        }
        let Some(asked) = self.asked_candidate(name) else {
            return self.canaries.drop_run(name);
        };
        self.load_candidate(name, asked, None);
        let is_divided = self.divided(name).is_some();
        let Some(run) = self.canaries.runs.get(name) else {
            return;
        };
        match &run.phase {
            Phase::Ready(_) if is_divided => self.attach(name),
            Phase::Ready(_) if leads => self.begin_canary(name),
            Phase::Refused(problem) if leads && is_divided => {
                let reason = problem.clone();
                self.go_back(name, reason);
            }
            Phase::Attached if leads => self.place(name),
            _ => {}
        }
    }

    /// Ends a canary that the present version or the policy contradicts, and follows the policy's steps.
    fn revise_canary(&mut self, name: &str) {
        let running = self.running.get(name);
        let running = running.map(|running| running.version.plugin.digest.clone());
        let policy = self.canary_policy(name).cloned();
        let (Some(canary), Some(running)) = (self.canaries.active(name), running) else {
            return;
        };
        if canary.candidate.digest == running {
            if canary.position != Position::Promoted {
                self.move_canary(name, Position::Promoted);
            }
            return;
        }
        if canary.running.digest != running {
            let reason = format!("the plugin has another version now, sha256:{running}");
            return self.go_back(name, reason);
        }
        if !canary.by_policy {
            return;
        }
        let Some(policy) = policy.filter(|policy| origin(policy).as_ref() == Some(&canary.origin))
        else {
            let reason = "the policy does not name it any more".to_owned();
            return self.go_back(name, reason);
        };
        let rollout = policy.rollout();
        if canary.rollout != rollout {
            if let Some(canary) = self.canaries.wanted.of_mut(name) {
                canary.rollout = rollout;
            }
            self.canaries.write(&self.versions, true);
        }
    }

    /// The canary of a plugin whose keys are divided between the version that runs and a candidate.
    fn divided(&self, name: &str) -> Option<&Canary> {
        let running = &self.running.get(name)?.version.plugin.digest;
        let canary = self.canaries.active(name);
        canary.filter(|canary| canary.running.digest == *running)
    }

    fn canary_policy(&self, name: &str) -> Option<&CanaryPolicy> {
        let policy = self.feeds.grants().plugins.plugins.get(name);
        policy.and_then(|policy| policy.canary.as_ref())
    }

    /// The candidate that this process needs for a plugin, if it does.
    fn asked_candidate(&self, name: &str) -> Option<Asked> {
        if let Some(canary) = self.divided(name) {
            let named = self.canary_policy(name).and_then(origin);
            // Whoever may write the lease must not choose what runs with the plugin's grants.
            if canary.by_policy && named.as_ref() != Some(&canary.origin) {
                return None;
            }
            return Some(Asked {
                origin: canary.origin.clone(),
                by_policy: canary.by_policy,
                rollout: None,
            });
        }
        let run = self.canaries.runs.get(name);
        let by_operator = run.filter(|run| {
            !run.asked.by_policy && matches!(run.phase, Phase::Loading | Phase::Ready(_))
        });
        by_operator.map(|run| run.asked.clone()).or_else(|| {
            Some(Asked {
                origin: origin(self.canary_policy(name)?)?,
                by_policy: true,
                rollout: None,
            })
        })
    }

    fn move_canary(&mut self, name: &str, position: Position) {
        self.canaries.move_to(name, position, &self.versions);
    }

    fn go_back(&mut self, name: &str, reason: String) {
        self.move_canary(name, Position::WentBack(reason));
    }

    /// Judges the canaries at a step. Called each second or so.
    pub(super) fn judge_canaries(&mut self) {
        let now = Instant::now();
        let passed = now - std::mem::replace(&mut self.canaries.judged, now);
        let Some(leads_since) = self.canaries.leads_since else {
            return;
        };
        let active = self.canaries.wanted.iter();
        let active = active.filter(|(_, canary)| canary.is_active());
        let names: Vec<String> = active.map(|(name, _)| name.clone()).collect();
        if names.is_empty() {
            return;
        }
        for name in &names {
            self.judge_canary(name, passed, leads_since);
        }
        self.canaries
            .judge
            .forget(|plugin| names.iter().any(|name| name == plugin));
        if self.canaries.stored.elapsed() >= STORE {
            self.canaries.write(&self.versions, false);
        }
    }

    fn judge_canary(&mut self, name: &str, passed: Duration, leads_since: Instant) {
        let canaries = &mut self.canaries;
        let Some(run) = canaries.runs.get(name) else {
            return;
        };
        if !matches!(run.phase, Phase::Attached) {
            if run.began.max(leads_since).elapsed() > LOAD {
                let seconds = LOAD.as_secs();
                let reason = format!("it was not loaded on this host within {seconds} s");
                self.go_back(name, reason);
            }
            return;
        }
        let split = canaries.in_force.split(name);
        let Some(canary) = canaries.wanted.of_mut(name) else {
            return;
        };
        let next = canary.next();
        let Some((decision, news)) = canaries.judge.judge(name, canary, &split, passed) else {
            return;
        };
        canaries.reports.did(name, &news);
        match decision {
            Decision::Wait(_) => {}
            Decision::Advance => self.move_canary(name, next),
            Decision::GoBack(reason) => self.go_back(name, reason),
        }
    }

    /// Reports the positions that are in force now, and has the keys reconciled that change hands.
    fn report_canaries(&mut self, leads: bool) {
        let in_force = self.canaries.in_force.canaries();
        if !leads {
            self.canaries.reported = in_force;
            return;
        }
        let before = std::mem::replace(&mut self.canaries.reported, in_force.clone());
        for (name, canary) in in_force.iter() {
            let last = before.of(name);
            let is_known = last.is_some_and(|last| {
                last.position == canary.position && last.candidate == canary.candidate
            });
            if is_known {
                continue;
            }
            let running = self.running.get(name);
            let context = running.map(|running| running.tasks.context().clone());
            let incidents = context.as_ref().map(|context| &context.telemetry.incidents);
            self.canaries.reports.moved(name, canary, incidents);
            let (was, is) = (last.and_then(|last| last.keys(name)), canary.keys(name));
            let is_divided =
                |context: &Arc<PluginContext>| *context.settings.digest == *canary.running.digest;
            if let Some(context) = context.filter(is_divided) {
                // The objects of a large cluster take a while.
                tokio::task::spawn_blocking(move || {
                    context.enqueue_moved(was.as_ref(), is.as_ref());
                });
            }
        }
    }
}

/// Where the policy's candidate comes from.
fn origin(policy: &CanaryPolicy) -> Option<CandidateOrigin> {
    CandidateOrigin::named(policy.file.as_ref(), policy.source.as_ref())
}
