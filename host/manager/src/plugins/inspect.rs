//! Inspects a plugin's file without a cluster, for the commands that inspect and validate files. The plugin is loaded and
//! describes itself as in a host, but it has no grant and does not run.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use flyball_plugin::Engine;
use flyball_types::description::Description;

use crate::plugins::load::{Origin, PluginError, describe_with, dropped_in, read};
use crate::policy::Policy;
use crate::policy::grant::Grants;

/// A file that a host could run, if the policy granted what the plugin asks for.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The checked description.
    pub description: Arc<Description>,
    /// The SHA-256 of the file, in hex.
    pub digest: String,
    /// The file's bytes.
    pub wasm: Bytes,
}

/// Loads a file as the host would, up to its checked description. The plugin describes itself with the configuration that
/// `policy` has for it.
///
/// # Errors
/// The file can't be read, is not a component for this host, or its `describe` fails. A retry does not help.
pub async fn inspect(
    engine: &Engine,
    path: &Path,
    policy: &Policy,
) -> Result<Inspection, PluginError> {
    let origin = Origin::File(path.to_owned());
    let wasm = read(engine, path).await?;
    let grants = Grants {
        plugins: policy.clone(),
        ..Grants::default()
    };
    let (mut plugin, component) = dropped_in(engine, origin, wasm.clone()).await?;
    let config = grants.config_for(plugin.name(), plugin.file());
    if !config.is_empty() {
        plugin = describe_with(config, &plugin, engine, &component).await?;
    }
    Ok(Inspection {
        description: plugin.description,
        digest: plugin.digest,
        wasm,
    })
}
