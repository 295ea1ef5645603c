//! Carries out canaries: loads candidates for the versions that run, lets them take keys once their step is stored, and
//! moves them on as `canary/decide.rs` decides. What is wanted is compared with what is after each event, as plans are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use flyball_api::lease::LeaseNote;
use flyball_policy::grant::PluginFile;
use flyball_policy::{CanaryPolicy, Rollout};
use flyball_runtime::context::PluginContext;
use flyball_runtime::history::rfc3339;
use flyball_runtime::split::Candidate;
use flyball_types::printable;
use tokio::time::Instant;

use super::tasks::{Tasks, Ticket};
use super::{Event, Reply, Supervisor};
use crate::plugins::canary::{
    Canaries, Canary, CanaryReports, CanaryState, CanaryStatus, CandidateLoader, CandidateOrigin,
    Decision, Did, InForce, Judge, LoadedCandidate, NamedVersion, Position,
};
use crate::plugins::load::Origin;
use crate::plugins::requests::RequestError;
use crate::plugins::rollback::VersionStore;
use crate::plugins::shadows::replace_file;
use crate::plugins::start::RunningVersion;

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

    /// Begins to load a candidate for the version that runs, unless it is loaded or refused already.
    fn load_candidate(&mut self, name: &str, asked: Asked, reply: Option<Reply>) {
        let Some(running) = self.running.get(name) else {
            return;
        };
        let base = Arc::downgrade(running.tasks.context());
        let is_same = |run: &Run| {
            let (known, now) = (&run.asked, &asked);
            run.base.ptr_eq(&base) && known.origin == now.origin && known.by_policy == now.by_policy
        };
        if reply.is_none() && self.canaries.runs.get(name).is_some_and(is_same) {
            return;
        }
        self.canaries.drop_run(name);
        let divided = self.divided(name);
        let kept = divided.filter(|canary| !canary.by_policy);
        let kept = kept.map(|canary| self.versions.version(&canary.candidate.digest));
        let Some(running) = self.running.get(name) else {
            return;
        };
        let loader = self.candidate_loader(name, running);
        let description = running.version.plugin.description.clone();
        let limits = running.tasks.plugin().limits().clone();
        let (events, plugin, origin) = (
            self.inbox.sender.clone(),
            name.to_owned(),
            asked.origin.clone(),
        );
        self.canaries
            .tasks
            .start(name.to_owned(), |ticket| async move {
                let loaded = loader.load_fitting(&origin, kept, &description, limits);
                let loaded = loaded.await.map(Box::new);
                // Fails only if the supervisor has ended.
                let _ = events.send(Event::CandidateLoaded {
                    plugin,
                    ticket,
                    loaded,
                });
            });
        let run = Run {
            asked,
            base,
            began: Instant::now(),
            phase: Phase::Loading,
            reply,
            is_placed: false,
            problem: None,
        };
        self.canaries.runs.insert(name.to_owned(), run);
    }

    /// Returns a loader of candidates for the version that runs.
    pub(super) fn candidate_loader(&self, name: &str, running: &RunningVersion) -> CandidateLoader {
        let policy = self.feeds.grants().plugins.plugins.get(name);
        let signed_by = policy.and_then(|policy| policy.signed_by.clone());
        let config = running.version.grant.config.clone();
        self.loader
            .of_candidates(name.to_owned(), config, signed_by)
    }

    /// Stores the result of loading a candidate.
    pub(super) fn candidate_loaded(
        &mut self,
        name: &str,
        ticket: Ticket,
        loaded: Result<Box<LoadedCandidate>, String>,
    ) {
        if !self.canaries.tasks.is_current(name, ticket) {
            return;
        }
        match (loaded, self.canaries.runs.get_mut(name)) {
            (Ok(loaded), Some(run)) => run.phase = Phase::Ready(loaded),
            (Err(problem), _) => self.canaries.refuse(name, problem),
            (Ok(_), None) => {}
        }
    }

    /// Begins a canary with the candidate that was loaded, or says why not.
    fn begin_canary(&mut self, name: &str) {
        match self.new_canary(name) {
            Ok(canary) => {
                let sentence = format!(
                    "{} reconciles {} of `{name}` from now on; `flyball canary {name}` shows how it does",
                    printable(&canary.origin.to_string()),
                    canary.rollout.steps.0[0]
                );
                if let CandidateOrigin::File(path) = &canary.origin {
                    self.versions.keep(&canary.candidate.digest, path.clone());
                }
                if let Err(problem) = self.canaries.wanted.add(name, canary) {
                    return self.canaries.refuse(name, problem);
                }
                self.canaries.write(&self.versions, true);
                let run = self.canaries.runs.get_mut(name);
                if let Some(reply) = run.and_then(|run| run.reply.take()) {
                    let _ = reply.send(Ok(sentence));
                }
            }
            Err(problem) => self.canaries.refuse(name, problem),
        }
    }

    /// The canary of the candidate that was loaded. Fails with a sentence if it may have no keys.
    fn new_canary(&self, name: &str) -> Result<Canary, String> {
        let none = || "the plugin does not run any more".to_owned();
        let run = self.canaries.runs.get(name).ok_or_else(none)?;
        let running = self.running.get(name).ok_or_else(none)?;
        let Phase::Ready(loaded) = &run.phase else {
            return Err(none());
        };
        let (runs, candidate) = (&running.version.plugin, &loaded.plugin);
        if runs.digest == candidate.digest {
            return Err("the candidate is the version that runs already".to_owned());
        }
        self.check_grant(name, run, running, &candidate.digest)?;
        if let Some(ended) = self.canaries.wanted.of(name)
            && let Position::WentBack(reason) = &ended.position
            && run.asked.by_policy
            && (&ended.running.digest, &ended.candidate.digest) == (&runs.digest, &candidate.digest)
        {
            return Err(format!(
                "it went back, at {}: {reason}. Name another candidate in the policy, or start this one once more with \
                 `flyball canary {name} FILE`, after its table is removed",
                ended.since
            ));
        }
        let rollout = match (&run.asked.rollout, self.canary_policy(name)) {
            (Some(rollout), _) => rollout.clone(),
            (None, Some(policy)) => policy.rollout(),
            (None, None) => Rollout::default(),
        };
        let version = |plugin: &crate::plugins::load::LoadedPlugin| NamedVersion {
            digest: plugin.digest.clone(),
            version: printable(&plugin.description.version),
        };
        Ok(Canary {
            running: version(runs),
            candidate: version(candidate),
            origin: run.asked.origin.clone(),
            by_policy: run.asked.by_policy,
            rollout,
            position: Position::Step(0),
            since: rfc3339(SystemTime::now()),
            elapsed_ms: 0,
            running_did: Default::default(),
            candidate_did: Default::default(),
        })
    }

    /// Fails with a sentence if the policy does not give the grants of the version that runs to this candidate.
    fn check_grant(
        &self,
        name: &str,
        run: &Run,
        running: &RunningVersion,
        digest: &str,
    ) -> Result<(), String> {
        let grants = self.feeds.grants();
        let policy = &running.version.grant.policy;
        let is_file = matches!(run.asked.origin, CandidateOrigin::File(_));
        if run.asked.by_policy {
            let signs = !policy.signer_keys.is_empty() || !policy.certificates.is_empty();
            return match signs && is_file {
                true => Err(format!(
                    "the policy gives `{name}` keys to sign with, and must say which candidate gets them: name it by `source`"
                )),
                false => Ok(()),
            };
        }
        let file = PluginFile {
            digest,
            package: None,
            // It takes the place of the plugin's file.
            name: running.version.plugin.file().name,
        };
        if grants.is_for(name, file) {
            return Ok(());
        }
        Err(format!(
            "the policy of `{name}` applies only to {}: write the candidate into `[plugins.{name}.canary]` of the policy",
            grants.only_file(name)
        ))
    }

    /// Lets the candidate take its keys, once its canary is in force.
    fn attach(&mut self, name: &str) {
        match self.attachable(name) {
            Ok(Some(candidate)) => {
                self.canaries.in_force.split(name).attach(candidate);
                if let Some(run) = self.canaries.runs.get_mut(name) {
                    run.phase = Phase::Attached;
                }
            }
            Ok(None) => {}
            Err(problem) => self.canaries.refuse(name, problem),
        }
    }

    /// Prepares the candidate that was loaded; none if its canary is not in force yet. Fails with a sentence if it is not
    /// the one of the canary, or may have no grants.
    fn attachable(&self, name: &str) -> Result<Option<Arc<Candidate>>, String> {
        let run = self.canaries.runs.get(name);
        let (Some(run), Some(running)) = (run, self.running.get(name)) else {
            return Ok(None);
        };
        let Phase::Ready(loaded) = &run.phase else {
            return Ok(None);
        };
        let digest = &loaded.plugin.digest;
        let is_loaded = |canary: &Canary| canary.candidate.digest == *digest;
        if !self.canaries.wanted.of(name).is_some_and(is_loaded) {
            return Err(format!(
                "{} has changed since the canary began: it is sha256:{digest} now",
                run.asked.origin
            ));
        }
        let in_force = self.canaries.in_force.canaries();
        if !in_force.of(name).is_some_and(is_loaded) {
            return Ok(None);
        }
        self.check_grant(name, run, running, digest)?;
        let candidate = self.running.candidate(running, loaded);
        candidate
            .map(Some)
            .map_err(|error| flyball_types::error_chain(&error))
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

    /// Puts the file of a candidate that an operator has started, and that has all keys, into the place of the plugin's
    /// file. The supervisor loads it from there, as any file that changes.
    fn place(&mut self, name: &str) {
        let Some(canary) = self.canaries.active(name) else {
            return;
        };
        if canary.position != Position::Promoted || canary.by_policy {
            return;
        }
        let (digest, origin) = (canary.candidate.digest.clone(), canary.origin.clone());
        let running = self.running.get(name);
        let target = running.map(|running| running.version.plugin.origin.clone());
        let (Some(run), Some(Origin::File(target))) = (self.canaries.runs.get_mut(name), target)
        else {
            return;
        };
        if std::mem::replace(&mut run.is_placed, true) {
            return;
        }
        let kept = self.versions.version(&digest);
        let (events, plugin) = (self.inbox.sender.clone(), name.to_owned());
        tokio::spawn(async move {
            let wasm = match (kept.read().await, origin) {
                (Ok(wasm), _) => Ok(wasm.to_vec()),
                (Err(_), CandidateOrigin::File(path)) => tokio::fs::read(path)
                    .await
                    .map_err(|error| error.to_string()),
                (Err(error), CandidateOrigin::Package(_)) => Err(error.to_string()),
            };
            let placed = match wasm {
                Ok(wasm) if flyball_plugin::digest(&wasm) != digest => {
                    Err("its file has changed since the canary began".to_owned())
                }
                Ok(wasm) => {
                    let replace = move || replace_file(&wasm, &target);
                    let replaced = tokio::task::spawn_blocking(replace).await;
                    replaced.unwrap_or_else(|error| Err(error.to_string()))
                }
                Err(error) => Err(error),
            };
            if let Err(problem) = placed {
                let _ = events.send(Event::CandidateNotPlaced { plugin, problem });
            }
        });
    }

    pub(super) fn candidate_not_placed(&mut self, plugin: &str, problem: String) {
        tracing::warn!(
            plugin,
            "can't put the candidate into the place of the plugin's file, so that it goes on beside it: {problem}"
        );
        if let Some(run) = self.canaries.runs.get_mut(plugin) {
            run.problem = Some(problem);
        }
    }

    /// Starts a canary at the request of an operator. The answer comes once its first step is decided, or why it can't
    /// begin.
    pub(super) fn start_canary(
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
    pub(super) fn promote_canary(&mut self, name: &str) -> Option<Result<String, RequestError>> {
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
    pub(super) fn abort_canary(&mut self, name: &str) -> Result<String, RequestError> {
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
    pub(super) fn canary(&self, name: &str) -> Result<CanaryStatus, RequestError> {
        self.known(name)?;
        let leads = self.leads_canaries();
        let run = self.canaries.runs.get(name);
        let phase = run.and_then(|run| match &run.phase {
            Phase::Loading => Some("the candidate is being loaded on this host".to_owned()),
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
    pub(super) fn canary_in_short(&self, name: &str) -> Option<String> {
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
    let version = running.map(|running| {
        let plugin = &running.version.plugin;
        NamedVersion {
            digest: plugin.digest.clone(),
            version: printable(&plugin.description.version),
        }
    });
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

/// Where the policy's candidate comes from.
fn origin(policy: &CanaryPolicy) -> Option<CandidateOrigin> {
    let file = policy.file.clone().map(CandidateOrigin::File);
    file.or_else(|| policy.source.clone().map(CandidateOrigin::Package))
}
