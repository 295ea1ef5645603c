//! A plugin's file looked at without a cluster: loaded, instantiated on trial and described, as at a start of the host. It
//! is granted nothing and runs nowhere. For the commands that inspect and validate files.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use flyball_plugin::Engine;
use flyball_types::description::Description;

use crate::plugins::load::{Origin, PluginError, dropped_in};

/// A file that a host could run, if it was granted what it asks for.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// What the plugin says of itself, checked.
    pub description: Arc<Description>,
    /// The SHA-256 of the file, in hex.
    pub digest: String,
    /// The file, in bytes.
    pub wasm: Bytes,
}

/// Loads a file as the host would, up to its checked description.
///
/// # Errors
/// The file can't be read, is no component for this host, or does not describe itself. No retry helps.
pub async fn inspect(engine: &Engine, path: &Path) -> Result<Inspection, PluginError> {
    let origin = Origin::File(path.to_owned());
    let read = tokio::fs::read(path).await;
    let wasm = Bytes::from(read.map_err(|source| PluginError::Read {
        origin: origin.text(),
        source,
    })?);
    let described = dropped_in(engine, origin, wasm.clone()).await?;
    let digest = described.component.digest().to_owned();
    Ok(Inspection {
        description: described.description,
        digest,
        wasm,
    })
}
