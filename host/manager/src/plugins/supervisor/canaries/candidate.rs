//! The candidate of a canary in this process: it is loaded for the version that runs, takes its keys once the canary is in
//! force, and takes the place of the plugin's file in the end.

use std::sync::Arc;
use std::time::SystemTime;

use flyball_policy::Rollout;
use flyball_policy::grant::PluginFile;
use flyball_runtime::history::rfc3339;
use flyball_runtime::split::Candidate;
use flyball_types::printable;
use tokio::time::Instant;

use super::{Asked, Phase, Run};
use crate::plugins::canary::{
    Canary, CandidateLoader, CandidateOrigin, LoadedCandidate, NamedVersion, Position,
};
use crate::plugins::load::Origin;
use crate::plugins::shadows::replace_file;
use crate::plugins::start::RunningVersion;
use crate::plugins::supervisor::tasks::Ticket;
use crate::plugins::supervisor::{Event, Reply, Supervisor};

impl Supervisor {
    /// Begins to load a candidate for the version that runs, unless it is loaded or refused already.
    pub(super) fn load_candidate(&mut self, name: &str, asked: Asked, reply: Option<Reply>) {
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
        let last_failure = loader.last_failure.clone();
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
            last_failure,
            reply,
            is_placed: false,
            problem: None,
        };
        self.canaries.runs.insert(name.to_owned(), run);
    }

    /// Returns a loader of candidates for the version that runs.
    pub(in crate::plugins::supervisor) fn candidate_loader(
        &self,
        name: &str,
        running: &RunningVersion,
    ) -> CandidateLoader {
        let policy = self.feeds.grants().plugins.plugins.get(name);
        let signed_by = policy.and_then(|policy| policy.signed_by.clone());
        let config = running.version.grant.config.clone();
        self.loader
            .of_candidates(name.to_owned(), config, signed_by)
    }

    /// Stores the result of loading a candidate.
    pub(in crate::plugins::supervisor) fn candidate_loaded(
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
    pub(super) fn begin_canary(&mut self, name: &str) {
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
        Ok(Canary {
            running: NamedVersion::of(runs),
            candidate: NamedVersion::of(candidate),
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
    pub(super) fn attach(&mut self, name: &str) {
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

    /// Puts the file of a candidate that an operator has started, and that has all keys, into the place of the plugin's
    /// file. The supervisor loads it from there, as any file that changes.
    pub(super) fn place(&mut self, name: &str) {
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

    pub(in crate::plugins::supervisor) fn candidate_not_placed(
        &mut self,
        plugin: &str,
        problem: String,
    ) {
        tracing::warn!(
            plugin,
            "can't put the candidate into the place of the plugin's file, so that it goes on beside it: {problem}"
        );
        if let Some(run) = self.canaries.runs.get_mut(plugin) {
            run.problem = Some(problem);
        }
    }
}
