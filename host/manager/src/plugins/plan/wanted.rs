//! Decides which versions should run: plugins of files and packages as far as the policy allows them, and the built-ins that
//! none of them replaces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Action, Inputs, State, Trouble, Version};
use crate::plugins::load::{LoadedPlugin, Origin};
use crate::plugins::status::PluginState;
use flyball_policy::grant::{Asks, Grant, Refusal};

/// The loaded plugins that should run.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// The versions, by name.
    pub(crate) wanted: BTreeMap<String, Version>,
    /// Why the plugin of a source may not run, by the source's path.
    pub(crate) refusals: BTreeMap<PathBuf, Trouble>,
    /// Versions to load before they can run.
    pub(crate) loads: Vec<Action>,
}

impl Candidates {
    pub(crate) fn of(state: &State, inputs: &Inputs<'_>) -> Self {
        let mut candidates = Self::default();
        for builtin in &state.builtins {
            let version = Version {
                plugin: builtin.clone(),
                grant: inputs.grants.builtin(&builtin.description),
                file: builtin.digest.clone(),
            };
            candidates.wanted.insert(builtin.name().to_owned(), version);
        }
        // Of two files with the same name, the one that runs or ran last stays.
        let mut plugins: Vec<(&PathBuf, &LoadedPlugin)> = state
            .sources
            .iter()
            .filter_map(|(path, source)| Some((path, source.plugin.as_ref()?)))
            .collect();
        plugins.sort_by_key(|(path, plugin)| {
            let ran = state.record.of(plugin.name());
            let ran_last = ran.is_some_and(|ran| ran.current == plugin.digest);
            (!runs_from(state, path), !ran_last)
        });
        let mut taken: BTreeMap<&str, &Path> = BTreeMap::new();
        for (path, plugin) in plugins {
            let refusal = match taken.get(plugin.name()) {
                Some(other) => Some(Trouble::failed(format!(
                    "{} and {} both hold a plugin with the name `{}`: that of {} is used; remove one of them",
                    other.display(),
                    path.display(),
                    plugin.name(),
                    other.display(),
                ))),
                None => {
                    taken.insert(plugin.name(), path);
                    candidates.consider(plugin, state, inputs)
                }
            };
            if let Some(refusal) = refusal {
                candidates.refusals.insert(path.clone(), refusal);
            }
        }
        candidates
    }

    /// Adds a plugin if it may run; otherwise the running version, if that may continue. Returns why the plugin may not run.
    fn consider(
        &mut self,
        plugin: &LoadedPlugin,
        state: &State,
        inputs: &Inputs<'_>,
    ) -> Option<Trouble> {
        let name = plugin.name();
        if !(inputs.enabled)(name) {
            return Some(Trouble::failed(
                "--controllers does not enable it".to_owned(),
            ));
        }
        let file = plugin.digest.clone();
        let mut plugin = plugin;
        let mut problem = None;
        // Since the rollback, the policy may have been changed to name another file or package.
        let is_granted =
            |digest: &&str| (inputs.grants).is_for(name, state.record.version(name, digest));
        let pinned = state.record.pinned(name, &file).filter(is_granted);
        if let Some(pinned) = pinned {
            match state.kept.get(pinned) {
                None => {
                    let origin = state.record.origin(name, pinned, &plugin.origin);
                    self.loads.push(Action::LoadKept(origin, pinned.to_owned()));
                    self.go_on(name, state, inputs);
                    return None;
                }
                Some(kept) => match &kept.plugin {
                    Some(loaded) => (plugin, problem) = (loaded, kept.problem.clone()),
                    None if kept.is_loading => {
                        self.go_on(name, state, inputs);
                        return None;
                    }
                    // The stored version was lost. The version of the file runs.
                    None => {}
                },
            }
        }
        match grant(plugin, state, inputs) {
            // It has to be described again first. If that fails, its source's problem says why.
            Ok(grant) if grant.config != plugin.config => {
                self.go_on(name, state, inputs);
                problem.map(Trouble::failed)
            }
            Ok(grant) => {
                let version = Version {
                    plugin: plugin.clone(),
                    grant,
                    file,
                };
                self.wanted.insert(name.to_owned(), version);
                None
            }
            Err(refusal) => {
                self.go_on(name, state, inputs);
                Some(Trouble::from(refusal))
            }
        }
    }

    /// Lets the running dropped-in version continue, with what the policy grants now. It keeps the configuration of its
    /// `describe` call.
    fn go_on(&mut self, name: &str, state: &State, inputs: &Inputs<'_>) {
        let Some(running) = running_dropped_in(name, state) else {
            return;
        };
        if let Ok(grant) = grant(&running.plugin, state, inputs) {
            let mut policy = (*grant.policy).clone();
            policy.config.clone_from(&running.grant.policy.config);
            let version = Version {
                grant: Grant {
                    policy: policy.into(),
                    config: running.grant.config.clone(),
                    ..grant
                },
                ..running.clone()
            };
            self.wanted.insert(name.to_owned(), version);
        }
    }
}

fn grant(plugin: &LoadedPlugin, state: &State, inputs: &Inputs<'_>) -> Result<Grant, Refusal> {
    let running = running_dropped_in(plugin.name(), state);
    let running = running.map(|running| Asks::of(&running.plugin.description));
    let recorded = state.record.of(plugin.name()).map(|ran| &ran.asks);
    let before = running.as_ref().or(recorded);
    let grants = inputs.grants;
    grants.dropped_in(&plugin.description, plugin.file(), before)
}

fn running_dropped_in<'a>(name: &str, state: &'a State) -> Option<&'a Version> {
    let running = state.running(name)?;
    (!running.grant.is_builtin).then_some(running)
}

fn runs_from(state: &State, path: &Path) -> bool {
    let running = state
        .slots
        .values()
        .filter_map(|slot| slot.running.as_ref());
    let mut origins = running.map(|running| &running.plugin.origin);
    origins.any(|origin| match origin {
        Origin::File(own) => own == path,
        Origin::Package(source) => Path::new(source) == path,
        Origin::BuiltIn(_) => false,
    })
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        let state = match refusal {
            Refusal::BuiltIn { .. } => PluginState::Failed,
            _ => PluginState::Pending,
        };
        Self {
            reason: refusal.to_string(),
            state,
        }
    }
}
