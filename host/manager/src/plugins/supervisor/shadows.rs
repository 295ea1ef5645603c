//! Starts candidates in the shadow of running plugins, for operators and by the policy.

use std::path::PathBuf;
use std::time::Duration;

use flyball_policy::ShadowPolicy;

use super::{Reply, Supervisor};
use crate::plugins::canary::CandidateOrigin;
use crate::plugins::shadows::Shadows;
use crate::plugins::start::RunningVersion;

impl Supervisor {
    /// Starts the candidate of an operator. The reply comes once it is loaded, or can't be.
    pub(super) fn start_shadow(
        &mut self,
        name: &str,
        file: PathBuf,
        duration: Option<Duration>,
        reply: Reply,
    ) {
        let candidate = match self.known_running(name) {
            Ok(running) => {
                let loader = self.candidate_loader(name, running);
                let origin = CandidateOrigin::File(file);
                Shadows::candidate(running, loader, origin, duration)
            }
            Err(error) => return drop(reply.send(Err(error))),
        };
        self.shadows.start(candidate, reply);
    }

    /// Starts the candidates that the policy names for plugins that run, and ends those that it does not name any more.
    pub(super) fn sync_shadows(&mut self) {
        let policies = &self.feeds.grants().plugins.plugins;
        let shadow = |name: &str| policies.get(name)?.shadow.as_ref();
        self.shadows.keep_by_policy(|name| shadow(name).is_some());
        let running = self.running.iter();
        let new: Vec<(&RunningVersion, ShadowPolicy)> = running
            .filter_map(|(name, running)| Some((running, shadow(name)?.clone())))
            .filter(|(running, policy)| !self.shadows.has_started(running.tasks.name(), policy))
            .collect();
        for (running, policy) in new {
            let named = CandidateOrigin::named(policy.file.as_ref(), policy.source.as_ref());
            let Some(origin) = named else {
                continue;
            };
            let loader = self.candidate_loader(running.tasks.name(), running);
            let candidate = Shadows::candidate(running, loader, origin, policy.duration);
            self.shadows.start_by_policy(&policy, candidate);
        }
    }
}
