//! The engine for looking at files: the host's own settings, with little room, and with its cache of compiled plugins.

use std::path::Path;

use flyball_manager::policy::Policy;
use flyball_manager::{Inspection, PluginDescription};
use flyball_plugin::{Engine, EngineError, EngineOptions};

use crate::admin;
use crate::manager::cache_folder;

/// Instances at once: one is described at a time, and an instance with several memories counts for as many.
const INSTANCES: u32 = 16;

/// An engine to try files out with.
pub(super) fn engine() -> Result<Engine, EngineError> {
    let options = EngineOptions {
        max_instances: INSTANCES,
        ..EngineOptions::default()
    };
    // Without the cache a file is compiled anew: slower, and nothing else.
    Engine::new(EngineOptions {
        cache: cache_folder(),
        ..options.clone()
    })
    .or_else(|_| Engine::new(options))
}

/// Loads a file as the host would, up to its checked description.
pub(super) async fn trial(file: &Path) -> anyhow::Result<Inspection> {
    Ok(flyball_manager::inspect(&engine()?, file, &Policy::default()).await?)
}

/// What is known of a file, or of a plugin of the running host.
pub(super) async fn known(plugin: &Path, host: &admin::Host) -> anyhow::Result<PluginDescription> {
    match plugin.to_str() {
        // Names of plugins have neither dots nor slashes.
        Some(name) if !plugin.exists() && !name.contains(['.', '/']) => {
            let (host, name) = (host.clone(), name.to_owned());
            tokio::task::spawn_blocking(move || admin::describe(&host, &name)).await?
        }
        _ => {
            let description = (*trial(plugin).await?.description).clone();
            Ok(PluginDescription {
                description,
                policy: None,
            })
        }
    }
}
