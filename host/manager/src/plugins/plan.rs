//! Plans the supervisor's actions: a pure function from the current state ([`CurrentState`]) and the wanted state
//! ([`Inputs`]) to a list of [`Action`]s. `supervisor.rs` carries the actions out and stores their results in the state,
//! until a plan is empty.
//!
//! `plan/state.rs` is the model of the current state, `plan/wanted.rs` decides which versions should run, and
//! `plan/holders.rs` which file a name belongs to. Quarantine is not part of the state: no plugin is stopped or
//! restarted because its keys fail.

mod holders;
mod state;
#[cfg(test)]
mod tests;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use flyball_policy::grant::Grants;
use flyball_types::listed;

use crate::plugins::files::Stamp;
use crate::plugins::load::Origin;
use crate::plugins::packages::{self, Package};
use crate::plugins::rollback::PluginVersions;

pub(crate) use self::holders::Holders;
pub(crate) use self::state::{
    Content, CurrentState, Next, Progress, Slot, Source, SourceKey, Subject, Trouble, Version,
};
pub(crate) use self::wanted::Candidates;

/// The wanted state: the files in the folders, the policy's grants, and the controllers that `--controllers` enables.
pub(crate) struct Inputs<'a> {
    /// The files of the plugin folders. For a folder that can't be read, the files of the last scan that succeeded.
    pub(crate) files: &'a BTreeMap<PathBuf, Stamp>,
    /// Folders that can't be read, with the error.
    pub(crate) unreadable: &'a BTreeMap<PathBuf, String>,
    /// The grants of the last policy that could be read.
    pub(crate) grants: &'a Grants,
    /// Why the policy on disk is not in force.
    pub(crate) policy_problem: Option<&'a str>,
    /// Whether a plugin of this name is enabled.
    pub(crate) enabled: &'a (dyn Fn(&str) -> bool + Sync),
}

/// An action of the supervisor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Read, compile and describe a file, when it is complete.
    Load(PathBuf, Stamp),
    /// Pull, compile and describe a package.
    Pull(Package),
    /// Load the stored version with this digest. It ran from this origin.
    LoadKept(Origin, String),
    /// Call `describe` again, with this configuration.
    Describe(SourceKey, BTreeMap<String, String>),
    /// Remove a source that does not exist any more.
    Forget(SourceKey),
    /// Opens a version's informers, instead of the version that is being opened under its name.
    Open(String, Box<Version>),
    /// Stops opening a version that is not wanted any more.
    Abandon(String),
    /// Start the version that is ready. It takes over from the running version.
    Start(String),
    /// Drain the running version, with the reason to report, if any.
    Stop(String, Option<String>),
    /// Record that a version runs.
    Record(String, PluginVersions),
    /// Report a problem, or that it was solved.
    Note(Subject, Option<Trouble>),
    /// Remove the note about a subject.
    Unnote(Subject),
}

/// Actions and the problems that were found.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    /// Why each plugin, or a newer version of it, does not run.
    pub(crate) troubles: BTreeMap<String, Trouble>,
}

/// Plans all actions.
pub(crate) fn plan(state: &CurrentState, inputs: &Inputs<'_>) -> Plan {
    let mut actions = sources(state, inputs);
    let forgets = |action: &Action| matches!(action, Action::Forget(_));
    if actions.iter().any(forgets) {
        // No other action can depend on a source that is removed. The next plan has the rest.
        let troubles = BTreeMap::new();
        return Plan { actions, troubles };
    }
    let candidates = Candidates::of(state, inputs);
    actions.extend(candidates.loads.iter().cloned());
    actions.extend(slots(state, &candidates.wanted));
    actions.extend(records(state));
    let troubles = troubles(state, inputs, &candidates);
    actions.extend(notes(state, inputs, &troubles));
    Plan { actions, troubles }
}

/// Plans the loading of new and changed sources, and removes those that don't exist any more.
pub(crate) fn sources(state: &CurrentState, inputs: &Inputs<'_>) -> Vec<Action> {
    let packages = wanted_packages(inputs);
    let is_there = |key: &&SourceKey| match key {
        SourceKey::File(path) => inputs.files.contains_key(path),
        SourceKey::Package(plugin) => packages.contains_key(plugin),
        SourceKey::Kept(_) => true,
    };
    let forget = state.sources.keys().filter(|key| !is_there(key));
    let forget = forget.map(|key| Action::Forget(key.clone()));
    let is_new = |key: SourceKey, content: Content| {
        let known = state.sources.get(&key);
        known.is_none_or(|source| source.content != content)
    };
    let files = inputs
        .files
        .iter()
        .filter(|(path, stamp)| is_new(SourceKey::File((*path).clone()), Content::File(**stamp)));
    let load = files.map(|(path, stamp)| Action::Load(path.clone(), *stamp));
    // The content of an address does not change; its signers may.
    let new = packages.iter().filter(|(plugin, package)| {
        let content = Content::Package((*package).clone());
        is_new(SourceKey::Package((*plugin).clone()), content)
    });
    let pull = new.map(|(_, package)| Action::Pull(package.clone()));
    let describe = describe_again(state, inputs);
    forget.chain(load).chain(pull).chain(describe).collect()
}

/// Whether any file that is being loaded may contain a plugin that the policy names and that is not loaded yet.
pub(crate) fn lacks_expected(state: &CurrentState, grants: &Grants) -> bool {
    let is_loaded = |name: &String| state.plugins().any(|plugin| plugin.name() == name);
    let mut named = grants.plugins.plugins.iter();
    state.is_loading_files()
        && (grants.trust || named.any(|(name, policy)| policy.source.is_none() && !is_loaded(name)))
}

/// The packages that the policy names and whose plugins are enabled.
fn wanted_packages(inputs: &Inputs<'_>) -> BTreeMap<String, Package> {
    let mut packages = packages::named(&inputs.grants.plugins);
    packages.retain(|_, package| (inputs.enabled)(&package.plugin));
    packages
}

/// The plugins whose package is not loaded: it is new, it differs from the previous one, or it must be signed with
/// another key. Until it is loaded, a running version may continue, but no version may start, because its signature has
/// not been verified with the policy's key.
fn awaited_packages(state: &CurrentState, inputs: &Inputs<'_>) -> BTreeSet<String> {
    let is_loaded = |package: &Package| {
        let source = state
            .sources
            .get(&SourceKey::Package(package.plugin.clone()));
        source.is_some_and(|source| {
            source.is_current && source.content == Content::Package(package.clone())
        })
    };
    let mut packages = wanted_packages(inputs);
    packages.retain(|_, package| !is_loaded(package));
    packages.into_keys().collect()
}

/// Plans `describe` calls for plugins that were described with an outdated configuration. A configuration for which
/// `describe` failed is not tried again.
fn describe_again(state: &CurrentState, inputs: &Inputs<'_>) -> Vec<Action> {
    let awaited = awaited_packages(state, inputs);
    let is_awaited =
        |key: &SourceKey| matches!(key, SourceKey::Package(plugin) if awaited.contains(plugin));
    let holders = Holders::all(state, inputs);
    // Other files that hold a plugin with the name must not see the values.
    let undisputed = holders.iter().filter(|holders| !holders.is_disputed());
    let rightful: BTreeSet<&SourceKey> = undisputed
        .filter_map(|holders| Some(holders.rightful()?.0))
        .collect();
    let sources = state.sources.iter();
    let sources = sources.filter(|(key, _)| !is_awaited(key) && rightful.contains(key));
    let sources = sources.map(|(key, source)| (key.clone(), source));
    let kept = state.kept.iter();
    let kept = kept.map(|(digest, source)| (SourceKey::Kept(digest.clone()), source));
    let stale = sources.chain(kept).filter_map(|(key, source)| {
        let plugin = source.plugin.as_ref().filter(|_| !source.is_loading)?;
        let file = match key {
            SourceKey::Kept(_) => inputs.grants.rolled_back(plugin.name(), plugin.file()),
            SourceKey::File(_) | SourceKey::Package(_) => plugin.file(),
        };
        let config = inputs.grants.config_for(plugin.name(), file);
        let is_tried = source.described_with.as_ref() == Some(&config);
        (plugin.config != config && !is_tried).then_some(Action::Describe(key, config))
    });
    stale.collect()
}

/// Plans which versions are opened, started and stopped.
fn slots(state: &CurrentState, wanted: &BTreeMap<String, Version>) -> Vec<Action> {
    let mut actions = Vec::new();
    for (name, slot) in &state.slots {
        if slot.is_ending {
            continue;
        }
        match wanted.get(name) {
            None => actions.push(Action::Stop(name.clone(), None)),
            // It is opened again when it has ended, with the new grant, or when its account may read.
            Some(version) => {
                if let Some(reason) = must_end(slot, version) {
                    actions.push(Action::Stop(name.clone(), Some(reason)));
                }
            }
        }
    }
    let nothing = Slot::default();
    for (name, version) in wanted {
        let slot = state.slots.get(name).unwrap_or(&nothing);
        if slot.is_ending || must_end(slot, version).is_some() {
            continue;
        }
        let is_wanted = slot.running.as_ref() == Some(version);
        match &slot.next {
            Some(_) if is_wanted => actions.push(Action::Abandon(name.clone())),
            None if is_wanted => {}
            Some(next) if next.version == *version => {
                if next.progress == Progress::Ready {
                    actions.push(Action::Start(name.clone()));
                }
            }
            _ => actions.push(Action::Open(name.clone(), Box::new(version.clone()))),
        }
    }
    actions
}

/// Returns why the running version must stop before the wanted version is ready; none if it may continue.
fn must_end(slot: &Slot, wanted: &Version) -> Option<String> {
    let is_less =
        |running: &Version| !running.grant.is_builtin && !wanted.grant.covers(&running.grant);
    let revoked = || {
        let is_less = slot.running.as_ref().is_some_and(is_less);
        is_less.then(|| "its policy grants less than before".to_owned())
    };
    slot.denied.clone().or_else(revoked)
}

/// Plans the record of running dropped-in versions, so that the operator can roll back to a previous one.
fn records(state: &CurrentState) -> Vec<Action> {
    let running = state.slots.iter().filter_map(|(name, slot)| {
        let version = slot.running.as_ref()?;
        (!version.grant.is_builtin).then_some((name, version))
    });
    let changed = running.filter_map(|(name, version)| {
        let asks = (*version.plugin.asks).clone();
        let runs = version.plugin.file();
        let own = &version.plugin.description.version;
        let versions = state.record.after(name, runs, own, &version.file, asks);
        let is_new = state.record.of(name) != Some(&versions);
        is_new.then(|| Action::Record(name.clone(), versions))
    });
    changed.collect()
}

/// Collects why plugins don't run. The problem of the latest attempt to run a version replaces the problem of its source.
fn troubles(
    state: &CurrentState,
    inputs: &Inputs<'_>,
    candidates: &Candidates,
) -> BTreeMap<String, Trouble> {
    let mut troubles: BTreeMap<String, Trouble> = BTreeMap::new();
    let mut others: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, source) in &state.sources {
        let name = match (key, &source.plugin) {
            (SourceKey::Package(plugin), _) => plugin,
            (_, Some(plugin)) => plugin.name(),
            (_, None) => continue,
        };
        let refusal = candidates.refusals.get(key).cloned();
        let problem = || source.problem.clone().map(Trouble::failed);
        if let Some(trouble) = refusal.or_else(problem) {
            // Each of two files with the same name has its own problem.
            match troubles.contains_key(name) {
                true => others.entry(name).or_default().push(trouble.reason),
                false => drop(troubles.insert(name.to_owned(), trouble)),
            }
        }
    }
    for (name, reasons) in others {
        if let Some(trouble) = troubles.get_mut(name) {
            trouble.reason = format!("{}; {}", trouble.reason, listed(reasons));
        }
    }
    for (name, slot) in &state.slots {
        if let Some(Next {
            progress: Progress::HeldUp(trouble),
            ..
        }) = &slot.next
        {
            troubles.insert(name.clone(), trouble.clone());
        }
    }
    let names = state.names(inputs.grants);
    troubles.retain(|name, _| names.contains(name));
    troubles
}

/// Plans the reports of problems. Each problem is reported once, until it changes.
fn notes(
    state: &CurrentState,
    inputs: &Inputs<'_>,
    troubles: &BTreeMap<String, Trouble>,
) -> Vec<Action> {
    let names = state.names(inputs.grants);
    let plugins = names.into_iter().map(|name| {
        let trouble = troubles.get(&name).cloned();
        (Subject::Plugin(name), trouble)
    });
    let folders = inputs.unreadable.iter().map(|(folder, problem)| {
        let trouble = Trouble::failed(problem.clone());
        (Subject::Folder(folder.clone()), Some(trouble))
    });
    let policy = inputs.policy_problem.map(str::to_owned);
    let policy = (Subject::Policy, policy.map(Trouble::failed));
    let wanted: BTreeMap<Subject, Option<Trouble>> =
        plugins.chain(folders).chain([policy]).collect();
    let is_noted = |subject: &Subject, trouble: &Option<Trouble>| match state.noted.get(subject) {
        Some(noted) => noted.as_ref().map(Trouble::topic) == trouble.as_ref().map(Trouble::topic),
        None => false,
    };
    let unnote = state
        .noted
        .keys()
        .filter(|subject| !wanted.contains_key(subject));
    let unnote = unnote.map(|subject| Action::Unnote(subject.clone()));
    let note = wanted
        .iter()
        .filter(|(subject, trouble)| !is_noted(subject, trouble));
    let note = note.map(|(subject, trouble)| Action::Note(subject.clone(), trouble.clone()));
    unnote.chain(note).collect()
}
