//! From a file to a plugin that says of itself what it is: read → check and compile → describe → check the description.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_plugin::{CallError, Component, Engine, Limits, LoadError, Plugin};
use flyball_types::description::{Description, DescriptionError};

use crate::describing::Describing;
use crate::policy::LimitPolicy;

/// How long a `describe` may compute.
const DESCRIBE_CPU: Duration = Duration::from_secs(10);

/// A controller that is part of the host's binary.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its canonical name.
    pub name: &'static str,
    /// The component.
    pub wasm: &'static [u8],
    /// What [`Engine::precompile`] made of it.
    pub cwasm: &'static [u8],
}

/// Where a plugin comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The host's own binary.
    BuiltIn(&'static str),
    /// A file that the operator dropped in.
    File(PathBuf),
}

/// A plugin that was read and has described itself. It runs once it is granted something.
#[derive(Clone)]
pub(crate) struct Described {
    pub(crate) origin: Origin,
    pub(crate) component: Component,
    pub(crate) description: Arc<Description>,
}

/// A file that is no plugin that can run. The others do.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The file can't be read.
    #[error("can't read the plugin {origin}")]
    Read {
        /// The file.
        origin: Arc<str>,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no plugin that this host can run.
    #[error("can't load the plugin {origin}")]
    Load {
        /// The file, or the built-in's name.
        origin: Arc<str>,
        /// Why.
        source: LoadError,
    },
    /// It did not describe itself.
    #[error("the plugin {origin} did not describe itself")]
    Describe {
        /// The file, or the built-in's name.
        origin: Arc<str>,
        /// Why.
        source: Box<CallError>,
    },
    /// What it says of itself makes no sense.
    #[error("can't use the plugin {origin}")]
    Description {
        /// The file, or the built-in's name.
        origin: Arc<str>,
        /// Why.
        source: DescriptionError,
    },
}

impl Origin {
    /// The file, or the built-in's name.
    pub(crate) fn text(&self) -> Arc<str> {
        match self {
            Self::BuiltIn(name) => (*name).into(),
            Self::File(path) => path.display().to_string().into(),
        }
    }
}

impl Described {
    /// The name that it gives itself.
    pub(crate) fn name(&self) -> &str {
        &self.description.name
    }
}

/// Loads a built-in; `config` holds the operator's values.
pub(crate) async fn builtin(
    engine: &Engine,
    builtin: &BuiltIn,
    config: BTreeMap<String, String>,
) -> Result<Described, PluginError> {
    let origin = Origin::BuiltIn(builtin.name);
    let loaded = engine.load_precompiled(builtin.wasm, builtin.cwasm).await;
    let component = loaded.map_err(|source| PluginError::Load { origin: origin.text(), source })?;
    describe(engine, origin, component, config).await
}

/// Loads what lies, or lay, in a file.
pub(crate) async fn dropped_in(engine: &Engine, origin: Origin, wasm: Bytes) -> Result<Described, PluginError> {
    let loaded = engine.load(wasm).await;
    let component = loaded.map_err(|source| PluginError::Load { origin: origin.text(), source })?;
    describe(engine, origin, component, BTreeMap::new()).await
}

/// Has a plugin describe itself, in an instance for this alone.
async fn describe(
    engine: &Engine,
    origin: Origin,
    component: Component,
    config: BTreeMap<String, String>,
) -> Result<Described, PluginError> {
    let text = origin.text();
    // Its own limits are in its policy, which is found by the name that it gives itself.
    let trial = Limits { cpu_per_call: DESCRIBE_CPU, max_instances: 1, ..Limits::default() };
    let plugin = Plugin::new(engine, component.clone(), trial)
        .map_err(|source| PluginError::Load { origin: text.clone(), source })?;
    let document = plugin.describe(Arc::new(Describing { origin: text.clone(), config })).await;
    let document =
        document.map_err(|source| PluginError::Describe { origin: text.clone(), source: Box::new(source) })?;
    let description = Description::read(&document);
    let description = description.map_err(|source| PluginError::Description { origin: text.clone(), source })?;
    Ok(Described { origin, component, description: Arc::new(description) })
}

/// The limits of a plugin with so many queues.
pub(crate) fn limits(policy: &LimitPolicy, concurrency: u32, queues: usize) -> Limits {
    let default = Limits::default();
    Limits {
        cpu_per_call: policy.cpu.unwrap_or(default.cpu_per_call),
        wall_per_call: policy.wall.unwrap_or(default.wall_per_call),
        memory: policy.memory.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(default.memory),
        // One more for `route`.
        max_instances: concurrency as usize * queues + 1,
        ..default
    }
}
