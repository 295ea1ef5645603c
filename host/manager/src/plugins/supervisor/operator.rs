//! Handles the requests of operators.

use std::collections::BTreeSet;

use flyball_policy::PluginPolicy;
use flyball_runtime::causes::PluginHistory;
use flyball_runtime::history::Reconciled;
use flyball_runtime::object_name::ObjectName;
use flyball_types::{Kind, printable};
use tokio::sync::oneshot;

use super::{Event, Reply, Supervisor};
use crate::plugins::details::PluginDetails;
use crate::plugins::load::{LoadedPlugin, Origin};
use crate::plugins::plan::{Content, Holders, Source, SourceKey};
use crate::plugins::recordings::Recordings;
use crate::plugins::requests::{Request, RequestError};
use crate::plugins::rollback::{RollbackError, RollbackTo};
use crate::plugins::served;
use crate::plugins::start::RunningVersion;
use crate::plugins::status::{PluginDescription, PluginState, PluginStatus};

/// A rollback of a plugin that an operator requested.
pub(super) struct Rollback {
    plugin: String,
    /// The digest of the version that should run.
    target: String,
    /// The digest of the plugin's file.
    file: String,
}

impl Supervisor {
    pub(super) fn answer(&mut self, request: Request) {
        // The operator's connection may be closed.
        match request {
            Request::Status { reply } => drop(reply.send(self.status())),
            Request::Served { reply } => served::reply(self.cluster.discovery.clone(), reply),
            Request::Why {
                object,
                served,
                reply,
            } => drop(reply.send(self.why(&ObjectName::parse(&object, &served)))),
            Request::Recent { reply } => drop(reply.send(self.recent())),
            Request::Approve {
                plugin,
                namespaces,
                reply,
            } => self.approve(&plugin, namespaces, reply),
            Request::RollBack { plugin, to, reply } => self.roll_back(&plugin, &to, reply),
            Request::Resume { plugin, reply } => drop(reply.send(self.resume(&plugin))),
            Request::Describe { plugin, reply } => drop(reply.send(self.description(&plugin))),
            Request::StartShadow {
                plugin,
                file,
                duration,
                reply,
            } => self.start_shadow(&plugin, file, duration, reply),
            Request::Shadow { plugin, reply } => {
                let known = self.known(&plugin).map(drop);
                drop(reply.send(known.and_then(|()| self.shadows.status(&plugin))));
            }
            Request::EndShadow { plugin, reply } => drop(reply.send(self.shadows.end(&plugin))),
            Request::Promote { plugin, reply } => self.promote(&plugin, reply),
            Request::StartCanary {
                plugin,
                file,
                rollout,
                reply,
            } => self.start_canary(&plugin, file, *rollout, reply),
            Request::Canary { plugin, reply } => {
                drop(reply.send(self.canary(&plugin).map(Box::new)));
            }
            Request::AbortCanary { plugin, reply } => {
                drop(reply.send(self.abort_canary(&plugin)));
            }
            Request::Recordings { plugin, reply } => drop(reply.send(self.recordings(&plugin))),
            Request::Details { plugin, reply } => drop(reply.send(self.details(&plugin))),
            Request::Histories { reply } => drop(reply.send(self.histories())),
        }
    }

    /// Gives all keys to a canary, or else puts the candidate in the shadow of a plugin into the place of its file.
    fn promote(&mut self, name: &str, reply: Reply) {
        if let Some(promoted) = self.promote_canary(name) {
            return drop(reply.send(promoted));
        }
        match self.known_running(name) {
            Ok(running) => self.shadows.promote(running, reply),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    fn histories(&self) -> Vec<PluginHistory> {
        let history = |(name, running): (&str, &RunningVersion)| {
            let context = running.tasks.context();
            let kinds = context.kinds_of_keys();
            PluginHistory {
                plugin: name.to_owned(),
                history: context.telemetry.history.clone(),
                kinds: kinds
                    .map(|(queue, kind)| (queue.clone(), kind.clone()))
                    .collect(),
            }
        };
        self.running.iter().map(history).collect()
    }

    fn why(&self, object: &ObjectName<'_>) -> Result<Vec<Reconciled>, RequestError> {
        let about = |(name, running): (&str, &RunningVersion)| {
            let context = running.tasks.context();
            let is_key_of =
                |queue: &str, is_kind: &dyn Fn(&Kind) -> bool| context.is_queue_of(queue, is_kind);
            (context.telemetry.history).about(name, object, is_key_of)
        };
        let mut all: Vec<_> = self.running.iter().flat_map(about).collect();
        all.sort_by(|a, b| a.at.cmp(&b.at));
        match object.unknown_kind() {
            Some(unknown) if all.is_empty() => Err(RequestError::Refused(unknown)),
            _ => Ok(all),
        }
    }

    /// The last reconciles of all plugins, the oldest first.
    fn recent(&self) -> Vec<Reconciled> {
        let recent = |(name, running): (&str, &RunningVersion)| {
            let context = running.tasks.context();
            context.telemetry.history.recent(name)
        };
        let mut all: Vec<_> = self.running.iter().flat_map(recent).collect();
        all.sort_by(|a, b| a.at.cmp(&b.at));
        all
    }

    fn status(&self) -> Vec<PluginStatus> {
        let names = self.state.names(self.feeds.grants());
        let plugins = names.iter().filter_map(|name| self.status_of(name));
        let sources = self.state.sources.iter();
        let not_loaded = sources.filter_map(status_of_unloaded);
        let policy = self.feeds.policy_problem();
        let policy = policy.map(|(path, problem)| PluginStatus::refused_policy(path, problem));
        let mut all: Vec<PluginStatus> = plugins.chain(not_loaded).chain(policy).collect();
        all.sort_by(|a, b| {
            (a.origin != "built-in", &a.name).cmp(&(b.origin != "built-in", &b.name))
        });
        all
    }

    /// The status of a plugin; none if no loaded plugin has this name.
    pub(super) fn status_of(&self, name: &str) -> Option<PluginStatus> {
        let slot = self.state.slots.get(name);
        let version = slot.and_then(|slot| slot.running.as_ref());
        let next = || Some(&slot?.next.as_ref()?.version.plugin);
        let loaded = || self.state.plugins().find(|plugin| plugin.name() == name);
        let plugin = version.map(|version| &version.plugin);
        let plugin = plugin.or_else(next).or_else(loaded)?;
        let running = self.running.get(name);
        let trouble = self.troubles.get(name);
        let quarantine = running.and_then(RunningVersion::quarantine);
        let waits_for = running.and_then(RunningVersion::waits_for);
        let leads = || *self.cluster.leadership(name).leading.borrow();
        let state = match (running, trouble) {
            (Some(running), _) => running.state(leads()),
            (None, Some(trouble)) => trouble.state,
            (None, None) => PluginState::Starting,
        };
        let stats = running.map(|running| running.tasks.plugin().stats());
        let stats = stats.unwrap_or_default();
        let context = running.map(|running| running.tasks.context());
        Some(PluginStatus {
            name: name.to_owned(),
            version: printable(&plugin.description.version),
            digest: plugin.digest.clone(),
            origin: match &plugin.origin {
                Origin::BuiltIn(_) => "built-in".to_owned(),
                Origin::File(_) | Origin::Package(_) => plugin.origin.text().to_string(),
            },
            state,
            reason: quarantine
                .or_else(|| trouble.map(|trouble| trouble.reason.clone()))
                .or(waits_for)
                .or_else(|| {
                    let is_standby = state == PluginState::Standby;
                    let waits = self.cluster.leadership(name).waits.borrow();
                    waits.clone().filter(|_| is_standby)
                }),
            canary: self.canary_in_short(name),
            rolled_back: version.is_some_and(|version| version.file != plugin.digest),
            route_waiting: context.map_or(0, |context| context.limits.route.waiting()),
            route_failing: context.map_or(0, |context| context.limits.route.failing()),
            queued: context.map_or(0, |context| {
                context.queues.iter().map(|queue| queue.keys.len()).sum()
            }),
            processing: context.map_or(0, |context| {
                let queues = context.queues.iter();
                queues.map(|queue| queue.keys.snapshot().processing).sum()
            }),
            delayed: context.map_or(0, |context| {
                let queues = context.queues.iter();
                queues.map(|queue| queue.keys.snapshot().delayed).sum()
            }),
            next_delayed_ms: context.and_then(|context| {
                let queues = context.queues.iter();
                let due = queues.filter_map(|queue| queue.keys.next_delayed()).min()?;
                u64::try_from(due.as_millis()).ok()
            }),
            performance: context
                .map(|context| context.telemetry.history.performance())
                .unwrap_or_default(),
            memory: stats.memory,
            instances: stats.live,
            memo: context.map_or(0, |context| context.memo.bytes()),
            cpu_seconds: stats.cpu.as_secs_f64(),
        })
    }

    pub(super) fn known(&self, name: &str) -> Result<&LoadedPlugin, RequestError> {
        let rightful = || Some(self.holders(name)?.rightful()?.1);
        let mut all = self.state.plugins().chain(&self.state.builtins);
        let known = rightful().or_else(|| all.find(|plugin| plugin.name() == name));
        known.ok_or_else(|| {
            let package = SourceKey::Package(name.to_owned());
            match self.state.sources.get(&package) {
                Some(source) => RequestError::Refused(match &source.problem {
                    Some(problem) => format!("no version of `{name}` is loaded: {problem}"),
                    None => {
                        format!("no version of `{name}` is loaded yet: its package is being pulled")
                    }
                }),
                None => RequestError::Unknown(name.to_owned()),
            }
        })
    }

    /// The files and packages that hold a plugin with this name.
    fn holders(&self, name: &str) -> Option<Holders<'_>> {
        let mut holders = Holders::all(&self.state, &self.feeds.inputs()).into_iter();
        holders.find(|holders| holders.name() == name)
    }

    /// Finds a plugin that is not a built-in. For a built-in, `why_not` is the reason of the refusal.
    fn known_dropped_in(&self, name: &str, why_not: &str) -> Result<&LoadedPlugin, RequestError> {
        let plugin = self.known(name)?;
        match plugin.origin {
            Origin::File(_) | Origin::Package(_) => Ok(plugin),
            Origin::BuiltIn(_) => {
                let reason = format!("`{name}` is a built-in controller: {why_not}");
                Err(RequestError::Refused(reason))
            }
        }
    }

    /// Approves a plugin, in these namespaces only unless there are none. The task that follows the policy replies.
    fn approve(&self, name: &str, namespaces: BTreeSet<String>, reply: Reply) {
        // An operator must not approve what another file asks for than the one that they mean.
        let dispute = self.holders(name).and_then(|holders| holders.dispute());
        let plugin = match dispute {
            None => self.known_dropped_in(name, "its policy is part of the host"),
            Some(dispute) => Err(RequestError::Refused(dispute)),
        };
        let description = match plugin {
            Ok(plugin) => plugin.description.clone(),
            Err(error) => return drop(reply.send(Err(error))),
        };
        let discovery = &self.cluster.discovery;
        self.feeds
            .approve(description, namespaces, discovery, reply);
    }

    /// Begins a rollback: checks whether the version can be read. [`finish_rollback`](Self::finish_rollback) continues.
    fn roll_back(&mut self, name: &str, to: &RollbackTo, reply: Reply) {
        let rollback = match self.check_rollback(name, to) {
            Ok(rollback) => rollback,
            Err(error) => return drop(reply.send(Err(error))),
        };
        if rollback.target == rollback.file {
            return self.finish_rollback(rollback, Ok(()), reply);
        }
        let version = self.versions.version(&rollback.target);
        let events = self.inbox.sender.clone();
        tokio::spawn(async move {
            let read = version.read().await;
            let read = read.map(drop).map_err(|error| error.to_string());
            let _ = events.send(Event::RollbackRead {
                rollback,
                read,
                reply,
            });
        });
    }

    /// Resolves a request for a rollback, and fails if the policy does not allow it.
    fn check_rollback(&self, name: &str, to: &RollbackTo) -> Result<Rollback, RequestError> {
        let plugin = self.known_dropped_in(name, "there is one version of it")?;
        let target = match self.versions.is_kept() {
            true => self.state.record.target(name, &plugin.digest, to),
            false => Err(RollbackError::NotKept),
        };
        let refused = |error: RollbackError| RequestError::Refused(error.to_string());
        let target = target.map_err(refused)?;
        let (version, grants) = (self.state.record.version(name, target), self.feeds.grants());
        // A running version has a grant.
        if target != plugin.digest && !grants.may_roll_back(name, version) {
            return Err(refused(RollbackError::OtherFile {
                name: name.to_owned(),
                granted: grants.only_file(name),
                found: version.to_string(),
            }));
        }
        Ok(Rollback {
            plugin: name.to_owned(),
            target: target.to_owned(),
            file: plugin.digest.clone(),
        })
    }

    /// Rolls a plugin back if the version could be read. The operator gets the answer when the rollback is on disk.
    pub(super) fn finish_rollback(
        &mut self,
        rollback: Rollback,
        read: Result<(), String>,
        reply: Reply,
    ) {
        let Rollback {
            plugin: name,
            target,
            file,
        } = rollback;
        if let Err(reason) = read {
            let error = RollbackError::Lost(name, reason).to_string();
            self.answers
                .push((reply, Err(RequestError::Refused(error))));
            return;
        }
        let words = self.state.record.words(&name, &target);
        let until = format!(
            "until its file changes; `flyball rollback {name} --forward` returns to the version of the file"
        );
        let sentence = match (self.state.record.pinned(&name, &file), target == file) {
            (None, true) => format!("`{name}` has the version of its file already, {words}"),
            (Some(_), true) => format!("`{name}` returns to the version of its file, {words}"),
            (Some(pinned), false) if pinned == target => {
                format!("`{name}` is rolled back to {words} already, {until}")
            }
            _ => format!("`{name}` is rolled back to {words}, {until}"),
        };
        self.state.record.pin(&name, &target, &file);
        let (done, written) = oneshot::channel();
        self.write_record(Some(done));
        let events = self.inbox.sender.clone();
        tokio::spawn(async move {
            let _ = written.await;
            let answer = Ok(sentence);
            let _ = events.send(Event::Answered { answer, reply });
        });
    }

    fn resume(&self, name: &str) -> Result<String, RequestError> {
        self.known(name)?;
        let running = self.running.get(name);
        match running.filter(|running| running.quarantine().is_some()) {
            Some(running) => {
                running.tasks.context().resume();
                Ok(format!("`{name}` is no longer quarantined"))
            }
            None => Err(RequestError::Refused(format!(
                "`{name}` is not quarantined"
            ))),
        }
    }

    fn recordings(&self, name: &str) -> Result<Recordings, RequestError> {
        self.known_running(name).map(Recordings::of)
    }

    pub(super) fn known_running(&self, name: &str) -> Result<&RunningVersion, RequestError> {
        self.known(name)?;
        self.running.get(name).ok_or_else(|| {
            RequestError::Refused(format!(
                "`{name}` does not run, so that it has no calls: `flyball status` says why"
            ))
        })
    }

    fn description(&self, name: &str) -> Result<PluginDescription, RequestError> {
        let plugin = self.known(name)?;
        Ok(PluginDescription {
            description: (*plugin.description).clone(),
            policy: self.policy_of(name, plugin).cloned(),
        })
    }

    /// The policy in force, or else the one that the operator gives this plugin: a plugin that waits, for example for the
    /// rights of its account, has a policy, too.
    fn policy_of(&self, name: &str, plugin: &LoadedPlugin) -> Option<&PluginPolicy> {
        let running = self.state.running(name);
        let granted = || {
            let grants = self.feeds.grants();
            let is_granted = grants.is_for(name, plugin.file());
            grants.plugins.plugins.get(name).filter(|_| is_granted)
        };
        running
            .map(|running| &*running.grant.policy)
            .or_else(granted)
    }

    fn details(&self, name: &str) -> Result<Box<PluginDetails>, RequestError> {
        let details = match (self.known(name), self.status_of(name)) {
            (Ok(plugin), Some(status)) => PluginDetails::new(
                status,
                plugin,
                self.running.get(name),
                self.policy_of(name, plugin),
                self.state.record.of(name),
            )
            .with_candidates(self.shadows.status(name).ok(), self.canary(name).ok()),
            (known, _) => {
                // A file without a valid description is shown by its path.
                let mut all = self.status().into_iter();
                let status = all.find(|status| status.name == name);
                match (status, known) {
                    (Some(status), _) => PluginDetails::not_loaded(status),
                    (None, Err(error)) => return Err(error),
                    (None, Ok(_)) => return Err(RequestError::Unknown(name.to_owned())),
                }
            }
        };
        Ok(Box::new(details))
    }
}

/// Returns the status of a file or package that has never been loaded; none if it has been.
fn status_of_unloaded((key, source): (&SourceKey, &Source)) -> Option<PluginStatus> {
    if source.plugin.is_some() {
        return None;
    }
    let (name, origin) = match (key, &source.content) {
        (SourceKey::File(path), _) => (path.display().to_string(), path.display().to_string()),
        (_, Content::Package(package)) => (package.plugin.clone(), package.source.clone()),
        (_, Content::File(_) | Content::Kept) => return None,
    };
    match &source.problem {
        Some(problem) => Some(PluginStatus::not_loaded(name, origin, problem)),
        None if source.is_loading => {
            let reason = source.step.map(|step| match source.is_slow {
                true => format!("takes long: {step}"),
                false => step.to_string(),
            });
            Some(PluginStatus::loading(name, origin, reason))
        }
        None => None,
    }
}
