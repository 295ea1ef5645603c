//! Loads plugins for the tools, with the host's engine settings and its cache of compiled plugins, but with memory for
//! only a few instances.

use std::path::Path;

use flyball_manager::{Inspection, PluginDescription};
use flyball_plugin::{Engine, EngineError, EngineOptions};
use flyball_policy::Policy;

use crate::admin;

/// Maximum number of concurrent instances. Only one plugin is described at a time, but an instance with several
/// memories counts once for each.
const MAX_INSTANCES: u32 = 16;

/// Creates an engine to load plugins with.
pub(super) fn engine() -> Result<Engine, EngineError> {
    crate::engine::engine(EngineOptions {
        max_instances: MAX_INSTANCES,
        ..EngineOptions::default()
    })
}

/// Reads the policy at `path`; without a path, the policy is empty.
pub(super) fn policy(path: Option<&Path>) -> anyhow::Result<Policy> {
    Ok(path.map(Policy::read).transpose()?.unwrap_or_default())
}

/// Loads a file as the host would, up to its validated description with the policy's configuration.
pub(super) async fn load(file: &Path, policy: &Policy) -> anyhow::Result<Inspection> {
    Ok(flyball_manager::inspect(&engine()?, file, policy).await?)
}

/// Returns the description of a file, or the description and policy of a plugin of the running host.
pub(super) async fn describe(
    plugin: &Path,
    host: &admin::RunningHost,
) -> anyhow::Result<PluginDescription> {
    match plugin.to_str() {
        // Names of plugins contain neither dots nor slashes. A project's folder is often named like its plugin.
        Some(name) if !plugin.is_file() && !name.contains(['.', '/']) => {
            let (host, name) = (host.clone(), name.to_owned());
            tokio::task::spawn_blocking(move || admin::describe(&host, &name)).await?
        }
        _ => {
            let description = (*load(plugin, &Policy::default()).await?.description).clone();
            Ok(PluginDescription {
                description,
                policy: None,
            })
        }
    }
}
