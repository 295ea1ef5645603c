//! Decides which versions should run: plugins of files and packages as far as the policy allows them, and the built-ins
//! that none of them replaces.

use std::collections::BTreeMap;

use super::{
    Action, CurrentState, Holders, Inputs, SourceKey, Trouble, Version, awaited_packages,
    wanted_packages,
};
use crate::plugins::load::LoadedPlugin;
use crate::plugins::status::PluginState;
use flyball_policy::grant::{Grant, PluginFile, Refusal};

/// The loaded plugins that should run.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// The versions, by name.
    pub(crate) wanted: BTreeMap<String, Version>,
    /// Why the plugin of a source may not run.
    pub(crate) refusals: BTreeMap<SourceKey, Trouble>,
    /// Versions to load before they can run.
    pub(crate) loads: Vec<Action>,
}

impl Candidates {
    pub(crate) fn of(state: &CurrentState, inputs: &Inputs<'_>) -> Self {
        let mut candidates = Self::default();
        for builtin in &state.builtins {
            let version = Version {
                plugin: builtin.clone(),
                grant: inputs.grants.builtin(&builtin.description),
                file: builtin.digest.clone(),
            };
            candidates.wanted.insert(builtin.name().to_owned(), version);
        }
        let awaited = awaited_packages(state, inputs);
        for holders in Holders::all(state, inputs) {
            candidates.refusals.extend(holders.refusals());
            let Some((key, plugin)) = holders.rightful() else {
                continue;
            };
            let is_awaited = matches!(key, SourceKey::Package(plugin) if awaited.contains(plugin));
            if let Some(refusal) = candidates.consider(plugin, is_awaited, state, inputs) {
                candidates.refusals.insert(key.clone(), refusal);
            }
        }
        candidates.await_packages(state, inputs);
        candidates
    }

    /// Lets running versions continue, with the grants that they have, until the packages that the policy names now are
    /// loaded and may run.
    fn await_packages(&mut self, state: &CurrentState, inputs: &Inputs<'_>) {
        for name in wanted_packages(inputs).into_keys() {
            let wanted = self.wanted.get(&name);
            if wanted.is_none_or(|version| version.grant.is_builtin)
                && let Some(running) = running_dropped_in(&name, state)
                && inputs.grants.covers_running(
                    &running.plugin.description,
                    &running.plugin.asks,
                    &running.grant,
                )
            {
                self.wanted.insert(name, running.clone());
            }
        }
    }

    /// Adds a plugin if it may run; otherwise the running version, if that may continue. Returns why the plugin may not
    /// run. `is_awaited` says that it is only the content that its package had before.
    fn consider(
        &mut self,
        plugin: &LoadedPlugin,
        is_awaited: bool,
        state: &CurrentState,
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
        let mut is_rolled_back = false;
        // Since the rollback, the policy may have been changed to name another file.
        let is_granted = |digest: &&str| {
            let version = state.record.version(name, digest);
            inputs.grants.may_roll_back(name, version)
        };
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
                    Some(loaded) => {
                        (plugin, problem) = (loaded, kept.problem.clone());
                        is_rolled_back = true;
                    }
                    None if kept.is_loading => {
                        self.go_on(name, state, inputs);
                        return None;
                    }
                    // The stored version was lost. The version of the file runs.
                    None => {}
                },
            }
        }
        if is_awaited && !is_rolled_back {
            return None;
        }
        match grant(plugin, is_rolled_back, state, inputs) {
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

    /// Lets the running dropped-in version continue, with the present grants of the policy. It keeps the configuration
    /// of its `describe` call.
    fn go_on(&mut self, name: &str, state: &CurrentState, inputs: &Inputs<'_>) {
        let Some(running) = running_dropped_in(name, state) else {
            return;
        };
        let is_rolled_back = running.file != running.plugin.digest;
        if let Ok(grant) = grant(&running.plugin, is_rolled_back, state, inputs) {
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

fn grant(
    plugin: &LoadedPlugin,
    is_rolled_back: bool,
    state: &CurrentState,
    inputs: &Inputs<'_>,
) -> Result<Grant, Refusal> {
    let running = running_dropped_in(plugin.name(), state);
    let running = running.map(|running| &*running.plugin.asks);
    let recorded = state.record.of(plugin.name()).map(|ran| &ran.asks);
    let before = running.or(recorded);
    let grants = inputs.grants;
    let file: PluginFile<'_> = match is_rolled_back {
        true => grants.rolled_back(plugin.name(), plugin.file()),
        false => plugin.file(),
    };
    grants.dropped_in(&plugin.description, &plugin.asks, file, before)
}

fn running_dropped_in<'a>(name: &str, state: &'a CurrentState) -> Option<&'a Version> {
    let running = state.running(name)?;
    (!running.grant.is_builtin).then_some(running)
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
