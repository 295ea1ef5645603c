//! Loads the sources of plugins in background tasks, which send the results as events.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use flyball_plugin::Component;

use super::tasks::{Tasks, Ticket};
use super::{Event, Events};
use crate::plugins::PluginOptions;
use crate::plugins::canary::{CandidateLoader, LastFailure};
use crate::plugins::files::Stamp;
use crate::plugins::load::{LoadedPlugin, Origin, PluginError, reason};
use crate::plugins::load_turns::{Content, LoadTurns, SLOW, Step};
use crate::plugins::packages::{Package, Pulled};
use crate::plugins::plan::SourceKey;
use crate::plugins::rollback::KeptVersion;

/// Loads files, packages and stored versions.
pub(super) struct Loader {
    options: Arc<PluginOptions>,
    /// The folder that keeps pulled packages; none to pull each again.
    packages: Option<PathBuf>,
    turns: Arc<LoadTurns>,
    tasks: Tasks<SourceKey>,
    events: Events,
}

/// A plugin that was loaded, or that described itself again.
pub(super) struct Loaded {
    pub(super) plugin: LoadedPlugin,
    pub(super) component: Component,
    /// The file that this load has read it from, if any.
    pub(super) path: Option<PathBuf>,
}

/// The sender of a task's results.
struct Results {
    key: SourceKey,
    ticket: Ticket,
    events: Events,
}

impl Loader {
    /// `folder` is the folder of stored versions, if there is one.
    pub(super) fn new(
        options: Arc<PluginOptions>,
        folder: Option<PathBuf>,
        events: Events,
    ) -> Self {
        Self {
            options,
            packages: folder.map(|folder| folder.join("packages")),
            turns: Arc::default(),
            tasks: Tasks::default(),
            events,
        }
    }

    /// Returns a loader of candidates of this plugin.
    pub(super) fn of_candidates(
        &self,
        plugin: String,
        config: BTreeMap<String, String>,
        signed_by: Option<PathBuf>,
    ) -> CandidateLoader {
        CandidateLoader {
            engine: self.options.engine.clone(),
            turns: self.turns.clone(),
            registry: self.registry(),
            plugin,
            config,
            signed_by,
            last_failure: LastFailure::default(),
        }
    }

    fn registry(&self) -> flyball_registry::Options {
        flyball_registry::Options {
            cache: self.packages.clone(),
            ..flyball_registry::Options::default()
        }
    }

    /// Loads a file once it is complete.
    pub(super) fn load_file(&mut self, path: PathBuf, stamp: Stamp, is_expected: bool) {
        let (options, turns) = (self.options.clone(), self.turns.clone());
        self.start(SourceKey::File(path.clone()), |results| async move {
            // Until then, the file may be incomplete.
            tokio::time::sleep(stamp.wait()).await;
            let on_step = |step| results.report(step);
            let (origin, kept) = (Origin::File(path.clone()), path.clone());
            let content = Content::File { path, digest: None };
            let loads = turns.load(&options.engine, origin, content, is_expected, &on_step);
            let mut loads = std::pin::pin!(loads);
            let loaded = match tokio::time::timeout(SLOW, loads.as_mut()).await {
                Ok(loaded) => loaded,
                Err(_) => {
                    results.report_slow();
                    loads.await
                }
            };
            results.finish(loaded.map(|(plugin, component)| Loaded {
                plugin,
                component,
                path: Some(kept),
            }));
        });
    }

    /// Pulls and loads a package. If that can't work yet, it is retried until it does.
    pub(super) fn pull(&mut self, package: Package) {
        let (options, turns) = (self.options.clone(), self.turns.clone());
        let registry = self.registry();
        let key = SourceKey::Package(package.plugin.clone());
        self.start(key, |results| async move {
            let failed = |error: PluginError, is_last| {
                results.send(Err(reason(&error)), is_last);
            };
            let on_step = |step| results.report(step);
            let pulled = package
                .load(&options.engine, &turns, &registry, &on_step, failed)
                .await;
            if let Some(pulled) = pulled {
                let Pulled {
                    plugin,
                    component,
                    path,
                } = pulled;
                results.finish(Ok(Loaded {
                    plugin,
                    component,
                    path,
                }));
            }
        });
    }

    /// Loads a stored version.
    pub(super) fn load_kept(&mut self, origin: Origin, version: KeptVersion) {
        let (options, turns) = (self.options.clone(), self.turns.clone());
        let key = SourceKey::Kept(version.digest().to_owned());
        self.start(key, |results| async move {
            let on_step = |step| results.report(step);
            let content = Content::Kept(version);
            let loaded = turns.load(&options.engine, origin, content, true, &on_step);
            results.finish(loaded.await.map(|(plugin, component)| Loaded {
                plugin,
                component,
                path: None,
            }));
        });
    }

    /// Calls `describe` of a loaded plugin again, with another configuration.
    pub(super) fn describe(
        &mut self,
        key: SourceKey,
        config: BTreeMap<String, String>,
        plugin: LoadedPlugin,
        component: Component,
    ) {
        let (options, turns) = (self.options.clone(), self.turns.clone());
        self.start(key, |results| async move {
            let described = turns.describe_with(config, &plugin, &options.engine, &component);
            results.finish(described.await.map(|plugin| Loaded {
                plugin,
                component,
                path: None,
            }));
        });
    }

    /// Stops loading a source.
    pub(super) fn abort(&mut self, key: &SourceKey) {
        self.tasks.abort(key);
    }

    /// Whether a result is to be used, because its source was not changed or removed since its load began. After the
    /// last result, the load has ended.
    pub(super) fn accepts(&mut self, key: &SourceKey, ticket: Ticket, is_last: bool) -> bool {
        let is_current = self.tasks.is_current(key, ticket);
        if is_current && is_last {
            self.tasks.abort(key);
        }
        is_current
    }

    fn start<F>(&mut self, key: SourceKey, load: impl FnOnce(Results) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let events = self.events.clone();
        self.tasks.start(key.clone(), |ticket| {
            load(Results {
                key,
                ticket,
                events,
            })
        });
    }
}

impl Results {
    /// Sends the last result.
    fn finish(&self, loaded: Result<Loaded, PluginError>) {
        self.send(loaded.map_err(|error| reason(&error)), true);
    }

    /// Reports that the load has come to this step.
    fn report(&self, step: Step) {
        // Fails only if the supervisor has ended.
        let _ = self.events.send(Event::Loading {
            key: self.key.clone(),
            ticket: self.ticket,
            step,
        });
    }

    /// Reports that the load takes longer than other plugins wait for it.
    fn report_slow(&self) {
        // Fails only if the supervisor has ended.
        let _ = self.events.send(Event::LoadsSlowly {
            key: self.key.clone(),
            ticket: self.ticket,
        });
    }

    fn send(&self, loaded: Result<Loaded, String>, is_last: bool) {
        // Fails only if the supervisor has ended.
        let _ = self.events.send(Event::Loaded {
            key: self.key.clone(),
            ticket: self.ticket,
            loaded: loaded.map(Box::new),
            is_last,
        });
    }
}
