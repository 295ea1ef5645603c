//! What operators are told, and what they tell: trouble in the log and where people look, and the answers to their requests.

use std::collections::BTreeSet;

use flyball_types::{error_chain, printable};

use super::{Refused, Supervisor, Trouble};
use crate::plugins::load::{LoadedPlugin, Origin};
use crate::plugins::requests::{Request, RequestError};
use crate::plugins::start::RunningVersion;
use crate::plugins::status::{PluginDescription, PluginState, PluginStatus};
use crate::policy::approve;

impl Supervisor {
    /// What holds up the plugin of a name, or a newer version of it.
    fn trouble(&self, name: &str) -> Option<Refused> {
        let held_up = self
            .slots
            .get(name)
            .and_then(|slot| slot.next.as_ref())
            .and_then(|next| next.held_up.lock().clone());
        let files = || {
            self.files.values().filter(|file| {
                file.described
                    .as_ref()
                    .is_some_and(|own| own.name() == name)
            })
        };
        let problem = || files().find_map(|file| file.problem.clone());
        let refusal = || files().find_map(|file| file.refusal.clone());
        held_up.or_else(refusal).or_else(|| {
            Some(Refused {
                reason: problem()?,
                state: PluginState::Failed,
            })
        })
    }

    /// The names of all plugins that run, are to run, or can't.
    fn to_tell_of(&self) -> BTreeSet<String> {
        self.slots
            .keys()
            .cloned()
            .chain(self.dropped_in())
            .collect()
    }

    /// Logs trouble once, and shows it where people look.
    pub(super) fn tell(&mut self) {
        let names = self.to_tell_of();
        self.told.retain(|name, _| names.contains(name));
        for name in names {
            let Some(refused) = self.trouble(&name) else {
                self.told.remove(&name);
                self.problems.with_label_values(&[&name]).set(0.0);
                continue;
            };
            self.problems.with_label_values(&[&name]).set(1.0);
            if self
                .told
                .get(&name)
                .is_some_and(|told| told.refused.topic() == refused.topic())
            {
                continue;
            }
            let runs = self.running(&name).is_some();
            let goes_on = if runs {
                "; the version before goes on"
            } else {
                ""
            };
            tracing::warn!(plugin = name, "{}{goes_on}", refused.reason);
            let note = if runs {
                "a newer version is held up"
            } else {
                "does not run"
            };
            let note = self.telemetry.health.note(format!("plugin-{name}"), note);
            self.told.insert(
                name,
                Trouble {
                    refused,
                    _note: note,
                },
            );
        }
    }

    pub(super) fn obey(&mut self, command: Request) {
        // Whoever asked may have gone.
        match command {
            Request::Status(answer) => drop(answer.send(self.status())),
            Request::Why(object, answer) => {
                let about = |(name, running): (&String, &RunningVersion)| {
                    running.controller.services().history.about(name, &object)
                };
                let mut all: Vec<_> = self.all_running().flat_map(about).collect();
                all.sort_by(|a, b| a.at.cmp(&b.at));
                drop(answer.send(all));
            }
            Request::Approve(name, answer) => {
                let done = self.approve(&name);
                if done.is_ok() {
                    self.read_policy();
                    self.plan();
                }
                drop(answer.send(done));
            }
            Request::RollBack(name, answer) => {
                let done = self.roll_back(&name);
                self.plan();
                drop(answer.send(done));
            }
            Request::Resume(name, answer) => drop(answer.send(self.resume(&name))),
            Request::Describe(name, answer) => drop(answer.send(self.describe(&name))),
        }
    }

    fn status(&self) -> Vec<PluginStatus> {
        let leads = *self.cluster.leading.borrow();
        let mut all = Vec::new();
        for name in self.to_tell_of() {
            let trouble = self.trouble(&name);
            let reason = trouble.as_ref().map(|trouble| trouble.reason.clone());
            let running = self.running(&name);
            let file = || self.in_files().find(|own| own.name() == name);
            let next = || Some(&self.slots.get(&name)?.next.as_ref()?.version.plugin);
            let Some(described) = running
                .map(|running| &running.version.plugin)
                .or_else(next)
                .or_else(file)
            else {
                continue;
            };
            let quarantine = running.and_then(RunningVersion::quarantine);
            let reason = quarantine.clone().or(reason);
            let state = match (running, trouble) {
                (Some(_), _) if quarantine.is_some() => PluginState::Quarantined,
                (Some(_), _) if leads => PluginState::Running,
                (Some(_), _) => PluginState::Standby,
                (None, Some(trouble)) => trouble.state,
                (None, None) => PluginState::Starting,
            };
            let digest = described.component.digest();
            let stats = running
                .map(|running| running.controller.plugin().stats())
                .unwrap_or_default();
            let services = running.map(|running| running.controller.services());
            all.push(PluginStatus {
                name: name.clone(),
                version: printable(&described.description.version),
                digest: digest.to_owned(),
                origin: match &described.origin {
                    Origin::BuiltIn(_) => "built-in".to_owned(),
                    Origin::File(path) => path.display().to_string(),
                },
                state,
                reason,
                rolled_back: running.is_some_and(|running| running.version.file != digest),
                queued: services.map_or(0, |services| {
                    services.queues.iter().map(|queue| queue.keys.len()).sum()
                }),
                performance: services
                    .map(|services| services.history.performance())
                    .unwrap_or_default(),
                memory: stats.memory,
                instances: stats.live,
                memo: services.map_or(0, |services| services.memo.bytes()),
                cpu_seconds: stats.cpu.as_secs_f64(),
            });
        }
        let unnamed = self
            .files
            .iter()
            .filter(|(_, file)| file.described.is_none());
        for (path, file) in unnamed {
            let Some(problem) = &file.problem else {
                continue;
            };
            let status = PluginStatus::not_loaded(path, problem);
            let name = file
                .package
                .as_ref()
                .map_or(status.name.clone(), |package| package.plugin.clone());
            all.push(PluginStatus { name, ..status });
        }
        all.sort_by(|a, b| {
            (a.origin != "built-in", &a.name).cmp(&(b.origin != "built-in", &b.name))
        });
        all
    }

    fn known(&self, name: &str) -> Result<&LoadedPlugin, RequestError> {
        let file = self.in_files().find(|own| own.name() == name);
        let builtin = || self.builtins.iter().find(|builtin| builtin.name() == name);
        file.or_else(builtin)
            .ok_or_else(|| RequestError::Unknown(name.to_owned()))
    }

    fn approve(&self, name: &str) -> Result<String, RequestError> {
        let described = self.known(name)?;
        let Origin::File(_) = described.origin else {
            return Err(RequestError::Refused(format!(
                "`{name}` is built in: its policy is the host's own"
            )));
        };
        let Some(path) = &self.sources.policy else {
            return Err(RequestError::Refused(
                "there is nowhere to write a policy: start the host with --policy".into(),
            ));
        };
        approve::approve(path, &described.description)
            .map_err(|error| RequestError::Refused(error_chain(&error)))
    }

    fn roll_back(&mut self, name: &str) -> Result<String, RequestError> {
        let file = self.known(name)?;
        let Origin::File(_) = file.origin else {
            return Err(RequestError::Refused(format!(
                "`{name}` is built in: there is one version of it"
            )));
        };
        let digest = file.component.digest().to_owned();
        let runs = self
            .versions
            .roll_back(name, &digest)
            .map_err(|error| RequestError::Refused(error.to_string()))?;
        Ok(match runs == digest {
            true => format!("`{name}` goes on with the version of its file, sha256:{runs}"),
            false => {
                format!("`{name}` goes back to the version sha256:{runs}, until its file changes")
            }
        })
    }

    fn resume(&self, name: &str) -> Result<String, RequestError> {
        self.known(name)?;
        match self
            .running(name)
            .filter(|running| running.quarantine().is_some())
        {
            Some(running) => {
                running.controller.services().resume();
                Ok(format!("`{name}` goes on"))
            }
            None => Err(RequestError::Refused(format!(
                "`{name}` is in no quarantine"
            ))),
        }
    }

    fn describe(&self, name: &str) -> Result<PluginDescription, RequestError> {
        let described = self.known(name)?;
        let policy = self
            .running(name)
            .map(|running| (*running.version.grant.policy).clone());
        Ok(PluginDescription {
            description: (*described.description).clone(),
            policy,
        })
    }
}
