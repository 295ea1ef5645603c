//! Plugins that the policy names as packages in a registry. They are pulled, checked, and loaded like files in a
//! folder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use flyball_plugin::{Component, Engine};
use flyball_policy::{MAX_KEY, Policy};
use flyball_registry::{Options, PackageReference, PublicKey};

use crate::plugins::load::{LoadedPlugin, Origin, PluginError};
use crate::plugins::load_turns::{Content, LoadTurns, OnStep};

/// The first and the longest time between two attempts to pull a package. The fault may be fixed at any time, and an
/// attempt that fails again costs a few small requests.
const AGAIN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(20));

/// A package that the policy names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// The name of the plugin that it must contain.
    pub(crate) plugin: String,
    /// Its address, pinned to a digest.
    pub(crate) source: String,
    signed_by: Option<PathBuf>,
}

/// A plugin from a package, with its compiled code.
pub(crate) struct Pulled {
    pub(crate) plugin: LoadedPlugin,
    pub(crate) component: Component,
    /// The file of its component in the cache of packages, if there is one.
    pub(crate) path: Option<PathBuf>,
}

/// The packages that a policy names, by the names of their plugins.
pub(crate) fn named(policy: &Policy) -> BTreeMap<String, Package> {
    let package = |(plugin, rules): (&String, &flyball_policy::PluginPolicy)| {
        let package = Package {
            plugin: plugin.clone(),
            source: rules.source.clone()?,
            signed_by: rules.signed_by.clone(),
        };
        Some((plugin.clone(), package))
    };
    policy.plugins.iter().filter_map(package).collect()
}

impl Package {
    pub(crate) fn new(plugin: String, source: String, signed_by: Option<PathBuf>) -> Self {
        Self {
            plugin,
            source,
            signed_by,
        }
    }

    /// Pulls and loads it. `on_step` is told how far loading is. `failed` is called with each failure and whether it is final, that is, a retry can't help.
    pub(crate) async fn load(
        &self,
        engine: &Engine,
        turns: &LoadTurns,
        options: &Options,
        on_step: OnStep<'_>,
        mut failed: impl FnMut(PluginError, bool),
    ) -> Option<Pulled> {
        let (mut wait, most) = AGAIN;
        loop {
            match self.try_load(engine, turns, options, on_step).await {
                Ok(loaded) => return Some(loaded),
                Err(error) => {
                    let can_retry = can_be_put_right(&error);
                    failed(error, !can_retry);
                    if !can_retry {
                        return None;
                    }
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(most);
        }
    }

    async fn try_load(
        &self,
        engine: &Engine,
        turns: &LoadTurns,
        options: &Options,
        on_step: OnStep<'_>,
    ) -> Result<Pulled, PluginError> {
        let origin = Origin::Package(self.source.clone());
        let failed = |source| PluginError::Pull {
            origin: origin.text(),
            source,
        };
        let source =
            PackageReference::from_str(&self.source).map_err(|error| failed(error.into()))?;
        let key = match &self.signed_by {
            Some(path) => {
                let file = path.clone();
                let read = move || flyball_files::read_to_string(file, MAX_KEY);
                let read = tokio::task::spawn_blocking(read).await;
                let read = read.map_err(std::io::Error::other).and_then(|read| read);
                let text = read.map_err(|source| PluginError::Read {
                    origin: format!("{} (its key {})", origin.text(), path.display()).into(),
                    source,
                })?;
                Some(PublicKey::from_pem(&text).map_err(failed)?)
            }
            None => None,
        };
        let turn = turns.pulling(source.registry()).await;
        let pulled = flyball_registry::pull(&source, key.as_ref(), options);
        let pulled = pulled.await.map_err(failed)?;
        let (wasm, path) = (pulled.wasm, pulled.path);
        // A package in the cache is read again in its turn, so that others that wait take no memory.
        let content = match &path {
            Some(path) => {
                drop((wasm, turn));
                Content::File {
                    path: path.clone(),
                    digest: Some(pulled.component_digest),
                }
            }
            None => Content::Pulled { wasm, turn },
        };
        let loaded = turns.load(engine, origin.clone(), content, true, on_step);
        let (plugin, component) = loaded.await?;
        if plugin.name() != self.plugin {
            let (found, expected) = (plugin.name().to_owned(), self.plugin.clone());
            return Err(PluginError::Another {
                origin: origin.text(),
                found,
                expected,
            });
        }
        Ok(Pulled {
            plugin,
            component,
            path,
        })
    }
}

/// Whether a package that fails with this error may be loaded later, although its address pins its content: the
/// registry answers again or has the package by then, the package is signed, or the key's file is there.
fn can_be_put_right(error: &PluginError) -> bool {
    matches!(error, PluginError::Pull { .. } | PluginError::Read { .. })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn packages_are_those_that_the_policy_names() {
        let digest = "0".repeat(64);
        let text =
            format!("[plugins.a]\nsource = \"oci://example.com/a@sha256:{digest}\"\n[plugins.b]");
        let policy = Policy::parse(Path::new("policy.toml"), &text).unwrap();
        assert_eq!(named(&policy).into_keys().collect::<Vec<_>>(), ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_package_that_cannot_be_pulled_is_tried_again_twice_in_40_seconds_at_least() {
        let package = Package {
            plugin: "a".into(),
            source: format!("oci://127.0.0.1:1/a@sha256:{}", "0".repeat(64)),
            signed_by: Some("no-such-key.pem".into()),
        };
        let engine = Engine::new(flyball_plugin::EngineOptions {
            max_instances: 1,
            ..flyball_plugin::EngineOptions::default()
        })
        .unwrap();
        let start = tokio::time::Instant::now();
        let mut attempts = Vec::new();
        let options = Options::default();
        let turns = LoadTurns::default();
        let pulling = package.load(&engine, &turns, &options, &|_| (), |error, is_last| {
            assert!(!is_last, "{error}");
            attempts.push(start.elapsed());
        });
        let pulled = tokio::time::timeout(Duration::from_secs(600), pulling).await;
        assert!(pulled.is_err(), "there is no key");
        for pair in attempts.windows(3) {
            assert!(pair[2] - pair[0] <= Duration::from_secs(40), "{pair:?}");
        }
    }
}
