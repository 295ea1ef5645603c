//! Plans the supervisor's actions: a pure function from the current state ([`State`]) and the wanted state ([`Inputs`])
//! to a list of [`Action`]s. `supervisor.rs` carries the actions out and stores their results in the state, until a
//! plan is empty.
//!
//! Quarantine is not part of the state: no plugin is stopped or restarted because its keys fail.

mod holders;
#[cfg(test)]
mod tests;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::plugins::files::Stamp;
use crate::plugins::load::{LoadedPlugin, Origin};
use crate::plugins::packages::{self, Package};
use crate::plugins::rollback::{PluginVersions, Record};
use crate::plugins::status::PluginState;
use flyball_policy::grant::{Asks, Grant, Grants};

pub(crate) use self::holders::Holders;
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

/// The current state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) builtins: Vec<LoadedPlugin>,
    /// Files and packages.
    pub(crate) sources: BTreeMap<SourceKey, Source>,
    /// Versions that the operator rolled back to, by digest.
    pub(crate) kept: BTreeMap<String, Source>,
    /// The running plugins, by name.
    pub(crate) slots: BTreeMap<String, Slot>,
    /// The record of the versions that ran.
    pub(crate) record: Record,
    /// The last note about each subject; none if it had no problem.
    pub(crate) noted: BTreeMap<Subject, Option<Trouble>>,
}

/// The source of a plugin: a file, a package, or a stored version, with the results of loading it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub(crate) content: Content,
    pub(crate) is_loading: bool,
    /// Whether loading it takes longer than other plugins wait for it.
    pub(crate) is_slow: bool,
    /// The newest content that could be loaded.
    pub(crate) plugin: Option<LoadedPlugin>,
    /// Whether `plugin` is the present content. It is older content if a load failed or is still running.
    pub(crate) is_current: bool,
    /// Why newer content, or a newer configuration, could not be loaded.
    pub(crate) problem: Option<String>,
    /// The configuration of the last `describe` call.
    pub(crate) described_with: Option<BTreeMap<String, String>>,
}

/// Tells two contents of a source apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    File(Stamp),
    Package(Package),
    /// A stored version. Its digest is its key.
    Kept,
}

/// The running and the wanted version under one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Slot {
    pub(crate) running: Option<Version>,
    pub(crate) next: Option<Next>,
    /// Why the account of the running version may no longer read what it watches.
    pub(crate) denied: Option<String>,
    /// Whether a stopped version is still draining. No other starts until it has ended.
    pub(crate) is_ending: bool,
}

/// A version of a plugin, and its grant.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) plugin: LoadedPlugin,
    pub(crate) grant: Grant,
    /// The digest of the file that it takes the place of: its own, unless the operator rolled back to it.
    pub(crate) file: String,
}

/// A version that should run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Next {
    pub(crate) version: Version,
    pub(crate) progress: Progress,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Progress {
    Opening,
    /// It can't be opened. It is retried in the background if that can help.
    HeldUp(Trouble),
    /// Its informers are synced.
    Ready,
}

/// The reason why a plugin does not run, or not the wanted version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The reason as a sentence.
    pub(crate) reason: String,
    /// The state of a plugin without a running version.
    pub(crate) state: PluginState,
}

/// The subject of a note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Plugin(String),
    Policy,
    Folder(PathBuf),
}

/// Identifies a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceKey {
    /// A file.
    File(PathBuf),
    /// The package that the policy names as the source of this plugin. Another address under the same name is new
    /// content of the same source, so that the version before goes on until the new one is ready.
    Package(String),
    /// The stored version with this digest.
    Kept(String),
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
pub(crate) fn plan(state: &State, inputs: &Inputs<'_>) -> Plan {
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
pub(crate) fn sources(state: &State, inputs: &Inputs<'_>) -> Vec<Action> {
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
pub(crate) fn lacks_expected(state: &State, grants: &Grants) -> bool {
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
fn awaited_packages(state: &State, inputs: &Inputs<'_>) -> BTreeSet<String> {
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
fn describe_again(state: &State, inputs: &Inputs<'_>) -> Vec<Action> {
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
fn slots(state: &State, wanted: &BTreeMap<String, Version>) -> Vec<Action> {
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
fn records(state: &State) -> Vec<Action> {
    let running = state.slots.iter().filter_map(|(name, slot)| {
        let version = slot.running.as_ref()?;
        (!version.grant.is_builtin).then_some((name, version))
    });
    let changed = running.filter_map(|(name, version)| {
        let asks = Asks::of(&version.plugin.description);
        let runs = version.plugin.file();
        let own = &version.plugin.description.version;
        let versions = state.record.after(name, runs, own, &version.file, asks);
        let is_new = state.record.of(name) != Some(&versions);
        is_new.then(|| Action::Record(name.clone(), versions))
    });
    changed.collect()
}

/// Why plugins don't run. The latest attempt comes first.
fn troubles(
    state: &State,
    inputs: &Inputs<'_>,
    candidates: &Candidates,
) -> BTreeMap<String, Trouble> {
    let mut troubles: BTreeMap<String, Trouble> = BTreeMap::new();
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
            match troubles.get_mut(name) {
                Some(first) => first.reason = format!("{}; {}", first.reason, trouble.reason),
                None => drop(troubles.insert(name.to_owned(), trouble)),
            }
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
fn notes(state: &State, inputs: &Inputs<'_>, troubles: &BTreeMap<String, Trouble>) -> Vec<Action> {
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

impl State {
    /// The names of all plugins that run, should run, or can't run.
    pub(crate) fn names(&self, grants: &Grants) -> BTreeSet<String> {
        let running = self.slots.keys().cloned();
        running.chain(self.dropped_in(grants)).collect()
    }

    /// The names of the plugins that come from files and packages.
    pub(crate) fn dropped_in(&self, grants: &Grants) -> Vec<String> {
        let loaded = self.plugins().map(|plugin| plugin.name().to_owned());
        let packages = packages::named(&grants.plugins).into_keys();
        loaded.chain(packages).collect()
    }

    /// The plugins of files and packages.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = &LoadedPlugin> {
        self.sources
            .values()
            .filter_map(|source| source.plugin.as_ref())
    }

    /// Whether files are being loaded.
    pub(crate) fn is_loading_files(&self) -> bool {
        let is_file = |content: &Content| matches!(content, Content::File(_));
        let mut sources = self.sources.values();
        sources.any(|source| source.is_loading && is_file(&source.content))
    }

    /// Whether a file may contain a plugin that has a grant. The file is not loaded yet, so this is decided by the name
    /// of the plugin that it contained before, or else by the file's name, which the policy may name, too.
    pub(crate) fn is_expected(&self, path: &Path, grants: &Grants) -> bool {
        let known = self.sources.get(&SourceKey::File(path.to_owned()));
        let before = known.and_then(|source| source.plugin.as_ref());
        let name = match before {
            Some(plugin) => Some(plugin.name()),
            None => path.file_stem().and_then(|stem| stem.to_str()),
        };
        let policies = &grants.plugins.plugins;
        let file = path.file_name().and_then(|file| file.to_str());
        let names_file = || {
            let mut files = policies
                .values()
                .filter_map(|policy| policy.file.as_deref());
            files.any(|named| file == Some(named))
        };
        grants.trust || name.is_some_and(|name| policies.contains_key(name)) || names_file()
    }

    /// The running version under a name.
    pub(crate) fn running(&self, name: &str) -> Option<&Version> {
        self.slots.get(name)?.running.as_ref()
    }

    /// A source, by its key.
    pub(crate) fn source(&mut self, key: &SourceKey) -> Option<&mut Source> {
        match key {
            SourceKey::File(_) | SourceKey::Package(_) => self.sources.get_mut(key),
            SourceKey::Kept(digest) => self.kept.get_mut(digest),
        }
    }

    /// The digests of all compiled code that may be needed.
    pub(crate) fn digests(&self) -> BTreeSet<&str> {
        let sources = self.sources.values().chain(self.kept.values());
        let loaded = sources.filter_map(|source| source.plugin.as_ref());
        let versions = self.slots.values().flat_map(|slot| {
            let next = slot.next.as_ref().map(|next| &next.version);
            slot.running.iter().chain(next)
        });
        let versions = versions.map(|version| &version.plugin);
        let all = self.builtins.iter().chain(loaded).chain(versions);
        all.map(|plugin| plugin.digest.as_str()).collect()
    }

    /// Stores that an action begins. Its result is stored by its executor.
    pub(crate) fn begin(&mut self, action: &Action) {
        match action {
            Action::Load(path, stamp) => {
                self.load(SourceKey::File(path.clone()), Content::File(*stamp));
            }
            Action::Pull(package) => {
                let key = SourceKey::Package(package.plugin.clone());
                self.load(key, Content::Package(package.clone()));
            }
            Action::LoadKept(_, digest) => {
                let source = Source::loading(Content::Kept);
                self.kept.insert(digest.clone(), source);
            }
            Action::Describe(key, config) => {
                if let Some(source) = self.source(key) {
                    source.is_loading = true;
                    source.described_with = Some(config.clone());
                }
            }
            Action::Forget(key) => {
                self.sources.remove(key);
            }
            Action::Open(name, version) => {
                let next = Next {
                    version: (**version).clone(),
                    progress: Progress::Opening,
                };
                self.slots.entry(name.clone()).or_default().next = Some(next);
            }
            Action::Abandon(name) => {
                if let Some(slot) = self.slots.get_mut(name) {
                    slot.next = None;
                }
            }
            Action::Start(name) => {
                if let Some(slot) = self.slots.get_mut(name)
                    && let Some(next) = slot.next.take()
                {
                    slot.running = Some(next.version);
                }
            }
            Action::Stop(name, _) => {
                let slot = self.slots.remove(name);
                if slot.is_some_and(|slot| slot.running.is_some()) {
                    let ending = Slot {
                        is_ending: true,
                        ..Slot::default()
                    };
                    self.slots.insert(name.clone(), ending);
                }
            }
            Action::Record(name, versions) => self.record.set(name, versions.clone()),
            Action::Note(subject, trouble) => {
                self.noted.insert(subject.clone(), trouble.clone());
            }
            Action::Unnote(subject) => {
                self.noted.remove(subject);
            }
        }
    }

    /// Stores that the newest content of a source is being loaded. The loaded content remains until then.
    fn load(&mut self, key: SourceKey, content: Content) {
        let before = self.sources.remove(&key);
        let source = Source {
            plugin: before.and_then(|source| source.plugin),
            ..Source::loading(content)
        };
        self.sources.insert(key, source);
    }
}

impl Source {
    fn loading(content: Content) -> Self {
        Self {
            content,
            is_loading: true,
            is_slow: false,
            plugin: None,
            is_current: false,
            problem: None,
            described_with: None,
        }
    }

    /// Stores the result of loading, or of calling `describe` again.
    pub(crate) fn loaded(&mut self, loaded: Result<LoadedPlugin, String>) {
        self.is_loading = false;
        match loaded {
            Ok(plugin) => {
                (self.plugin, self.problem) = (Some(plugin), None);
                self.is_current = true;
            }
            Err(problem) => self.problem = Some(problem),
        }
    }
}

/// Two versions are equal if replacing one with the other changes nothing. Their files may differ in path.
impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        let (own, others) = (&self.plugin.description, &other.plugin.description);
        self.plugin.digest == other.plugin.digest
            && self.file == other.file
            && self.grant == other.grant
            && (Arc::ptr_eq(own, others) || own == others)
    }
}

impl Trouble {
    pub(crate) fn failed(reason: String) -> Self {
        Self {
            reason,
            state: PluginState::Failed,
        }
    }

    /// The part of a problem's text that decides whether it changed. The texts of temporary problems differ between
    /// attempts, which needs no new log line.
    fn topic(&self) -> &str {
        match (self.state, self.reason.split_once(": ")) {
            (PluginState::Starting, Some((topic, _))) => topic,
            _ => &self.reason,
        }
    }
}
