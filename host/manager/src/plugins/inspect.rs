//! Inspects a plugin's file without a cluster, for the commands that inspect and validate files: it is loaded and describes
//! itself as at a start of the host. It is granted nothing and runs nowhere.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use flyball_plugin::Engine;
use flyball_types::description::Description;

use crate::plugins::load::{Origin, PluginError, describe_with, dropped_in, read};
use crate::policy::Policy;
use crate::policy::grant::Grants;

/// What is known of a file that a host could run, if it were granted what it asks for.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Its description, checked.
    pub description: Arc<Description>,
    /// The SHA-256 of the file, in hex.
    pub digest: String,
    /// The file.
    pub wasm: Bytes,
}

/// Loads a file as the host would, up to its checked description. The plugin describes itself with the configuration that
/// `policy` has for it.
///
/// # Errors
/// The file can't be read, is no component for this host, or does not describe itself. No retry helps.
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
