//! What should run: what the folders and the registries hold, as far as the policy grants it, in place of the built-ins where
//! it says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Kept, Refused, Supervisor};
use crate::plugins::load::{LoadedPlugin, Origin};
use crate::plugins::open::Version;
use crate::plugins::status::PluginState;
use crate::policy::grant::{Asks, Grant, Refusal};

impl Supervisor {
    /// What should run, by name.
    pub(super) fn wanted(&mut self) -> BTreeMap<String, Version> {
        let mut wanted = BTreeMap::new();
        for builtin in &self.builtins {
            let granted = self.grants.builtin(&builtin.description);
            let file = builtin.component.digest().to_owned();
            wanted.insert(
                builtin.name().to_owned(),
                Version {
                    plugin: builtin.clone(),
                    grant: granted,
                    file,
                },
            );
        }
        // Of two files with one name, the one that runs goes on.
        let mut paths: Vec<PathBuf> = self.files.keys().cloned().collect();
        paths.sort_by_key(|path| !self.runs_from(path));
        let mut taken: BTreeMap<String, PathBuf> = BTreeMap::new();
        for path in paths {
            let Some(described) = self.files[&path].described.clone() else {
                continue;
            };
            let name = described.name().to_owned();
            let refusal = match taken.get(&name) {
                Some(other) => Some(Refused {
                    reason: format!(
                        "it calls itself `{name}`, as {} does: only one of them can run",
                        other.display()
                    ),
                    state: PluginState::Failed,
                }),
                None => {
                    taken.insert(name.clone(), path.clone());
                    self.want(&mut wanted, &name, described)
                }
            };
            if let Some(file) = self.files.get_mut(&path) {
                file.refusal = refusal;
            }
        }
        wanted
    }

    /// Wants what a file holds, if it may run; else what ran before. Answers why the file's may not.
    fn want(
        &mut self,
        wanted: &mut BTreeMap<String, Version>,
        name: &str,
        described: LoadedPlugin,
    ) -> Option<Refused> {
        if !(self.sources.enabled)(name) {
            let reason = "--controllers does not enable it".to_owned();
            return Some(Refused {
                reason,
                state: PluginState::Failed,
            });
        }
        let file = described.component.digest().to_owned();
        let mut described = described;
        if let Some(pinned) = self.versions.pinned(name, &file).map(str::to_owned) {
            match self.kept.get(&pinned) {
                Some(Kept::Loaded(kept)) => described = kept.clone(),
                Some(Kept::Lost) => {}
                found => {
                    if found.is_none() {
                        self.fetch(pinned, described.origin.clone());
                    }
                    // What runs goes on until it is there.
                    let version = self.running_dropped_in(name)?.version.clone();
                    wanted.insert(name.to_owned(), version);
                    return None;
                }
            }
        }
        match self.grant(name, &described) {
            Ok(granted) => {
                wanted.insert(
                    name.to_owned(),
                    Version {
                        plugin: described,
                        grant: granted,
                        file,
                    },
                );
                None
            }
            Err(refusal) => {
                if let Some(running) = self.running_dropped_in(name)
                    && running.version.plugin.component.digest() != described.component.digest()
                    && let Ok(granted) = self.grant(name, &running.version.plugin)
                {
                    let version = Version {
                        grant: granted,
                        ..running.version.clone()
                    };
                    wanted.insert(name.to_owned(), version);
                }
                let state = match refusal {
                    Refusal::BuiltIn { .. } => PluginState::Failed,
                    _ => PluginState::Pending,
                };
                Some(Refused {
                    reason: refusal.to_string(),
                    state,
                })
            }
        }
    }

    fn grant(&self, name: &str, described: &LoadedPlugin) -> Result<Grant, Refusal> {
        let before = self.versions.of(name).map(|history| &history.asks);
        let running = self
            .running_dropped_in(name)
            .map(|running| Asks::of(&running.version.plugin.description));
        let is_name_of_builtin = self.sources.builtin_names.contains(&name);
        let (description, digest) = (&described.description, described.component.digest());
        self.grants.dropped_in(
            description,
            digest,
            running.as_ref().or(before),
            is_name_of_builtin,
        )
    }

    fn runs_from(&self, path: &Path) -> bool {
        let is_it = |origin: &Origin| matches!(origin, Origin::File(own) if own == path);
        self.all_running()
            .any(|(_, running)| is_it(&running.version.plugin.origin))
    }
}
