//! Loads a candidate, and checks that it can share the queues, the cache and the grants of the version that runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use flyball_plugin::{Component, Engine, Limits, Plugin};
use flyball_recording::differences;
use flyball_types::description::Description;
use flyball_types::{error_chain, printable};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::state::CandidateOrigin;
use crate::plugins::load::{LoadedPlugin, Origin, PluginError, reason};
use crate::plugins::load_turns::{Content, LoadTurns};
use crate::plugins::packages::{Package, Pulled};
use crate::plugins::rollback::KeptVersion;

/// How many fields of descriptions are shown.
const FIELDS: usize = 5;

/// Loads candidates of one plugin.
pub(crate) struct CandidateLoader {
    pub(crate) engine: Engine,
    pub(crate) turns: Arc<LoadTurns>,
    pub(crate) registry: flyball_registry::Options,
    /// The plugin's name.
    pub(crate) plugin: String,
    /// The operator's values.
    pub(crate) config: BTreeMap<String, String>,
    /// The public key that a package must be signed with.
    pub(crate) signed_by: Option<PathBuf>,
    pub(crate) last_failure: LastFailure,
}

/// Why a candidate could not be loaded the last time, while it is tried again.
#[derive(Clone, Default)]
pub(crate) struct LastFailure(Arc<Mutex<Option<String>>>);

/// A candidate that can be called.
pub(crate) struct LoadedCandidate {
    pub(crate) plugin: LoadedPlugin,
    pub(crate) linked: Plugin,
}

impl CandidateLoader {
    /// Loads a candidate for a version that runs. `kept` is the host's own copy of it, if only that one may be loaded.
    ///
    /// # Errors
    /// It can't be loaded, or doesn't fit the version that runs. The error is a sentence.
    pub(crate) async fn load_fitting(
        &self,
        origin: &CandidateOrigin,
        kept: Option<KeptVersion>,
        running: &Description,
        limits: Limits,
    ) -> Result<LoadedCandidate, String> {
        let (plugin, component) = self.load(origin, kept).await?;
        fits(running, &plugin.description)?;
        let engine = self.engine.clone();
        let link = move || Plugin::new(&engine, component, limits);
        let linked = tokio::task::spawn_blocking(link).await;
        let linked = linked.map_err(|error| error.to_string())?;
        let linked = linked.map_err(|error| error_chain(&error))?;
        if linked.is_provider() {
            return Err(
                "a cloud's provider can't have a canary: its calls have no keys".to_owned(),
            );
        }
        Ok(LoadedCandidate { plugin, linked })
    }

    /// Loads a candidate and has it describe itself with the operator's values.
    ///
    /// # Errors
    /// It can't be loaded, or is another plugin. The error is a sentence.
    pub(crate) async fn load(
        &self,
        origin: &CandidateOrigin,
        kept: Option<KeptVersion>,
    ) -> Result<(LoadedPlugin, Component), String> {
        let (plugin, component) = match kept {
            Some(kept) => self.load_kept(origin, kept).await?,
            None => self.load_origin(origin).await?,
        };
        if plugin.name() != self.plugin {
            let (found, own) = (printable(plugin.name()), &self.plugin);
            return Err(format!(
                "{origin} is the plugin `{found}`, and can't be the candidate of `{own}`"
            ));
        }
        if plugin.config == self.config {
            return Ok((plugin, component));
        }
        let described =
            self.turns
                .describe_with(self.config.clone(), &plugin, &self.engine, &component);
        let described = described.await.map_err(|error| reason(&error))?;
        Ok((described, component))
    }

    async fn load_kept(
        &self,
        origin: &CandidateOrigin,
        kept: KeptVersion,
    ) -> Result<(LoadedPlugin, Component), String> {
        let (turns, content) = (&self.turns, Content::Kept(kept));
        let loaded = turns.load(&self.engine, loaded_from(origin), content, true, &|_| ());
        loaded.await.map_err(|error| match error {
            PluginError::Read { source, .. } => {
                format!("this host has no copy of {origin}: {source}")
            }
            error => reason(&error),
        })
    }

    async fn load_origin(
        &self,
        origin: &CandidateOrigin,
    ) -> Result<(LoadedPlugin, Component), String> {
        let (engine, turns) = (&self.engine, &*self.turns);
        let path = match origin {
            CandidateOrigin::File(path) => path.clone(),
            CandidateOrigin::Package(source) => {
                let (plugin, signed_by) = (self.plugin.clone(), self.signed_by.clone());
                let package = Package::new(plugin, source.clone(), signed_by);
                let mut last = String::new();
                let failed = |error, is_final: bool| {
                    last = reason(&error);
                    if !is_final {
                        self.last_failure.set(&self.plugin, &last);
                    }
                };
                let pulled = package.load(engine, turns, &self.registry, &|_| (), failed);
                let pulled = pulled.await.ok_or(last)?;
                let Pulled {
                    plugin, component, ..
                } = pulled;
                return Ok((plugin, component));
            }
        };
        let content = Content::File { path, digest: None };
        let loaded = turns.load(engine, loaded_from(origin), content, true, &|_| ());
        loaded.await.map_err(|error| reason(&error))
    }
}

impl LastFailure {
    /// A sentence.
    pub(crate) fn get(&self) -> Option<String> {
        let failure = self.0.lock().clone();
        failure.map(|failure| format!("{failure}; it is tried again"))
    }

    /// Stores a failure, and logs it once.
    fn set(&self, plugin: &str, failure: &str) {
        let before = self.0.lock().replace(failure.to_owned());
        if before.is_none_or(|before| before != failure) {
            tracing::warn!(
                plugin,
                "can't load the candidate, and tries again: {failure}"
            );
        }
    }
}

fn loaded_from(origin: &CandidateOrigin) -> Origin {
    match origin {
        CandidateOrigin::File(path) => Origin::File(path.clone()),
        CandidateOrigin::Package(source) => Origin::Package(source.clone()),
    }
}

/// Fails with a sentence if a candidate can't take keys over one by one, because it watches, queues or asks for something
/// else. Its grants are those of the version that runs, and never wider.
fn fits(running: &Description, candidate: &Description) -> Result<(), String> {
    let differ = differences(&shared(running), &shared(candidate), FIELDS);
    if differ.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the candidate describes itself otherwise than the version that runs, so that the two can't share its queues and \
         grants: {}. Compare them with `flyball shadow {name}`, see with `flyball plan` what it would do, and put it into \
         the place of the file: it takes over as a whole then, with the approval that it needs",
        differ.join("; "),
        name = running.name
    ))
}

/// The parts of a description that both versions share.
fn shared(description: &Description) -> Value {
    let Description {
        format: _,
        name: _,
        version: _,
        watches,
        indexes,
        queues,
        tickers,
        permissions,
        imports,
        config: _,
        metrics: _,
        concurrency: _,
        event_source: _,
        malformed_events: _,
        memo_schema,
    } = description;
    json!({
        "watches": watches, "indexes": indexes, "queues": queues, "tickers": tickers, "permissions": permissions,
        "imports": imports, "memoSchema": memo_schema,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(more: &str) -> Description {
        let text = format!(r#"{{"format": 1, "name": "a", "queues": [{{"name": "a"}}]{more}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_candidate_that_watches_or_asks_for_something_else_is_refused() {
        let running = description("");
        for same in [
            r#", "version": "2""#,
            r#", "concurrency": 7"#,
            r#", "config": {"x": {"default": "1"}}"#,
        ] {
            assert_eq!(fits(&running, &description(same)), Ok(()), "{same}");
        }
        for (other, named) in [
            (r#", "watches": [{"kind": "v1/Pod"}]"#, "watches"),
            (
                r#", "permissions": [{"kind": "v1/Pod", "verbs": ["delete"]}]"#,
                "permissions",
            ),
            (r#", "imports": ["signer"]"#, "imports"),
            (r#", "memoSchema": 2"#, "memoSchema"),
        ] {
            let refused = fits(&running, &description(other)).unwrap_err();
            assert!(refused.contains(named), "{refused}");
            assert!(
                refused.contains("put it into the place of the file"),
                "{refused}"
            );
        }
    }
}
