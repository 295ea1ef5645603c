//! Plugins that the policy names as packages in a registry. They are pulled, checked, and loaded like files in a folder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use flyball_plugin::{Component, Engine};
use flyball_policy::Policy;
use flyball_registry::{Options, PackageReference, PublicKey};

use crate::plugins::load::{self, LoadedPlugin, Origin, PluginError};

/// The largest file of a public key in bytes. A key has 200.
const MAX_KEY: usize = 64 * 1024;
/// The first and the longest time between two attempts to pull a package.
const AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// A package that the policy names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// The name of the plugin that it must contain.
    pub(crate) plugin: String,
    source: String,
    signed_by: Option<PathBuf>,
}

/// A plugin from a package, with its compiled code and its bytes.
pub(crate) struct Pulled {
    pub(crate) plugin: LoadedPlugin,
    pub(crate) component: Component,
    pub(crate) wasm: Bytes,
}

/// The packages that a policy names, by their addresses, which take the place of paths.
pub(crate) fn named(policy: &Policy) -> BTreeMap<PathBuf, Package> {
    let package = |(plugin, rules): (&String, &flyball_policy::PluginPolicy)| {
        let source = rules.source.clone()?;
        let package = Package {
            plugin: plugin.clone(),
            source: source.clone(),
            signed_by: rules.signed_by.clone(),
        };
        Some((PathBuf::from(source), package))
    };
    policy.plugins.iter().filter_map(package).collect()
}

impl Package {
    /// Pulls and loads it. `failed` is called with each failure and whether it is final, that is, a retry can't help.
    pub(crate) async fn load(
        &self,
        engine: &Engine,
        options: &Options,
        mut failed: impl FnMut(PluginError, bool),
    ) -> Option<Pulled> {
        let (mut wait, most) = AGAIN;
        loop {
            match self.try_load(engine, options).await {
                Ok(loaded) => return Some(loaded),
                Err(error) => {
                    let can_retry =
                        matches!(&error, PluginError::Pull { source, .. } if source.can_retry());
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

    async fn try_load(&self, engine: &Engine, options: &Options) -> Result<Pulled, PluginError> {
        let origin = Origin::Package(self.source.clone());
        let failed = |source| PluginError::Pull {
            origin: origin.text(),
            source,
        };
        let source: PackageReference = self.source.parse().map_err(failed)?;
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
        let pulled = flyball_registry::pull(&source, key.as_ref(), options)
            .await
            .map_err(failed)?;
        let wasm = pulled.wasm;
        let (plugin, component) = load::dropped_in(engine, origin.clone(), wasm.clone()).await?;
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
            wasm,
        })
    }
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
        let named: Vec<String> = named(&policy)
            .into_values()
            .map(|package| package.plugin)
            .collect();
        assert_eq!(named, ["a"]);
    }
}
