//! A plugin's file looked at without a cluster: loaded, instantiated on trial and described, as at a start of the host. It
//! is granted nothing and runs nowhere. For the commands that inspect and validate files.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use flyball_plugin::{Engine, Limits};
use flyball_types::description::Description;

use crate::load::{DESCRIBE_CPU, Grants, PluginError, describe};

/// A file that a host could run, if it was granted what it asks for.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What the plugin says of itself, checked.
    pub description: Description,
    /// The SHA-256 of the file, in hex.
    pub digest: String,
    /// The file, in bytes.
    pub wasm: Bytes,
}

/// Loads a file as the host would, up to its checked description.
///
/// # Errors
/// The file can't be read, is no component for this host, or does not describe itself. No retry helps.
pub async fn try_out(engine: &Engine, path: &Path) -> Result<Trial, PluginError> {
    let origin: Arc<str> = path.display().to_string().into();
    let wasm = tokio::fs::read(path).await;
    let wasm = Bytes::from(wasm.map_err(|source| PluginError::Read { path: path.into(), source })?);
    let component = engine.load(wasm.clone()).await;
    let component = component.map_err(|source| PluginError::Load { origin: origin.clone(), source })?;
    let digest = component.digest().to_owned();
    let limits = Limits { cpu_per_call: DESCRIBE_CPU, max_instances: 1, ..Limits::default() };
    let description = describe(engine, component, limits, &origin, &Grants::default()).await?;
    Ok(Trial { description, digest, wasm })
}
