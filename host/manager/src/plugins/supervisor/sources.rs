//! Where plugins come from: files and packages are loaded in the background, each again when it is another.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bytes::Bytes;
use flyball_types::error_chain;
use tokio_util::task::AbortOnDropHandle;

use super::{Event, File, Kept, Supervisor};
use crate::plugins::files::{Look, Stamp};
use crate::plugins::load::{self, LoadedPlugin, Origin, PluginError};
use crate::plugins::packages::{self, Package};
use crate::plugins::rollback::Store;
use crate::policy::Policy;

impl Supervisor {
    /// Takes note of what lies in the folders now.
    pub(super) fn found(&mut self, look: Look) {
        for (folder, error) in &look.unreadable {
            tracing::warn!(folder = %folder.display(), error, "a folder of plugins can't be read: its plugins stay as they are");
        }
        self.files
            .retain(|path, file| file.package.is_some() || look.found.contains_key(path));
        for (path, stamp) in look.found {
            if self
                .files
                .get(&path)
                .is_some_and(|file| file.stamp == Some(stamp))
            {
                continue;
            }
            let task = Some(self.spawn_load(path.clone(), stamp));
            let file = self.files.entry(path).or_default();
            (file.stamp, file.task) = (Some(stamp), task);
        }
    }

    /// Takes note of the packages that the policy names now.
    pub(super) fn pull(&mut self) {
        let mut packages = packages::named(&self.grants.plugins);
        packages.retain(|_, package| (self.sources.enabled)(&package.plugin));
        self.files.retain(|path, file| {
            file.package.is_none() || file.package.as_ref() == packages.get(path)
        });
        for (path, package) in packages {
            if !self.files.contains_key(&path) {
                let task = Some(self.spawn_pull(path.clone(), package.clone()));
                self.files.insert(
                    path,
                    File {
                        package: Some(package),
                        task,
                        ..File::default()
                    },
                );
            }
        }
    }

    fn spawn_pull(&self, path: PathBuf, package: Package) -> AbortOnDropHandle<()> {
        let (events, engine, store) = (
            self.events.0.clone(),
            self.options.engine.clone(),
            self.versions.store(),
        );
        let cache = self
            .sources
            .state
            .as_ref()
            .map(|folder| folder.join("packages"));
        let options = flyball_registry::Options {
            cache,
            ..flyball_registry::Options::default()
        };
        AbortOnDropHandle::new(tokio::spawn(async move {
            let failed = |error| drop(events.send(Event::Loaded(path.clone(), None, Err(error))));
            if let Some((described, wasm)) = package.load(&engine, &options, failed).await {
                keep(store, &described, wasm).await;
                let _ = events.send(Event::Loaded(path, None, Ok(described)));
            }
        }))
    }

    fn spawn_load(&self, path: PathBuf, stamp: Stamp) -> AbortOnDropHandle<()> {
        let (events, loading) = (self.events.0.clone(), self.loading.clone());
        let (engine, store) = (self.options.engine.clone(), self.versions.store());
        AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(stamp.wait()).await;
            let _turn = loading.acquire_owned().await;
            let origin = Origin::File(path.clone());
            let loaded = match tokio::fs::read(&path).await {
                Ok(wasm) => {
                    let wasm = Bytes::from(wasm);
                    let loaded = load::dropped_in(&engine, origin, wasm.clone()).await;
                    if let Ok(described) = &loaded {
                        keep(store, described, wasm).await;
                    }
                    loaded
                }
                Err(source) => Err(PluginError::Read {
                    origin: origin.text(),
                    source,
                }),
            };
            let _ = events.send(Event::Loaded(path, Some(stamp), loaded));
        }))
    }

    /// Loads a version that was kept.
    pub(super) fn fetch(&mut self, digest: String, origin: Origin) {
        self.kept.insert(digest.clone(), Kept::Loading);
        let (events, engine, store) = (
            self.events.0.clone(),
            self.options.engine.clone(),
            self.versions.store(),
        );
        tokio::spawn(async move {
            let asked = digest.clone();
            let read = tokio::task::spawn_blocking(move || store.read(&asked)).await;
            let loaded = match read.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
                Ok(wasm) => load::dropped_in(&engine, origin, wasm.into())
                    .await
                    .map_err(|error| error_chain(&error)),
                Err(error) => Err(error.to_string()),
            };
            let _ = events.send(Event::Kept(digest, loaded));
        });
    }

    pub(super) fn read_policy(&mut self) {
        let look = self.policies.look();
        let Some(path) = &self.sources.policy else {
            return;
        };
        if !look.unreadable.is_empty() {
            return;
        }
        match Policy::read(path) {
            Ok(policy) => {
                if policy.plugins != self.grants.plugins.plugins {
                    tracing::info!(path = %path.display(), "the policy has changed");
                }
                self.grants.plugins = policy;
                self.policy_problem = None;
            }
            Err(error) => {
                let error = error_chain(&error);
                if self.policy_problem.as_ref() != Some(&error) {
                    tracing::error!("{error}; the policy before stays in force");
                }
                self.policy_problem = Some(error);
            }
        }
    }

    pub(super) fn digests(&self) -> BTreeSet<String> {
        self.in_files()
            .map(|described| described.component.digest().to_owned())
            .collect()
    }
}

/// Keeps a version's bytes, away from the async threads. What can't be kept, one can't go back to: it says so itself.
async fn keep(store: Store, described: &LoadedPlugin, wasm: Bytes) {
    let digest = described.component.digest().to_owned();
    let _ = tokio::task::spawn_blocking(move || store.keep(&digest, &wasm)).await;
}
