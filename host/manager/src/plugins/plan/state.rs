//! The model that the supervisor plans on: the current state of all sources and plugins. It has plain values only, so
//! that plans are tested without files, guests or a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_policy::grant::{Grant, Grants};

use super::Action;
use crate::plugins::files::Stamp;
use crate::plugins::load::LoadedPlugin;
use crate::plugins::load_turns::Step;
use crate::plugins::packages::{self, Package};
use crate::plugins::rollback::Record;
use crate::plugins::status::PluginState;

/// The current state of all plugins and of their sources.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CurrentState {
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
    /// The step that loading it has come to; none before the first.
    pub(crate) step: Option<Step>,
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
    /// The digest of the file that it runs instead of: its own, unless the operator rolled back to it.
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

impl CurrentState {
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

    /// The version that should run under a name, if it doesn't run yet.
    pub(crate) fn next_mut(&mut self, name: &str) -> Option<&mut Next> {
        self.slots.get_mut(name)?.next.as_mut()
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

    /// Stores that an action begins. The supervisor stores the result.
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
            step: None,
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
    pub(super) fn topic(&self) -> &str {
        match (self.state, self.reason.split_once(": ")) {
            (PluginState::Starting, Some((topic, _))) => topic,
            _ => &self.reason,
        }
    }
}
