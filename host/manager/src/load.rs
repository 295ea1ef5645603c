//! From a file to a plugin that may run: read → check and compile → describe → check the description → find what the
//! operator grants it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_plugin::{CallError, Component, Engine, Limits, LoadError, Plugin};
use flyball_types::Kind;
use flyball_types::description::{Description, DescriptionError, Discovered, Watch};

use crate::describing::Describing;
use crate::policy::{LimitPolicy, PluginPolicy, Policy};

/// How long a `describe` may compute.
pub(crate) const DESCRIBE_CPU: Duration = Duration::from_secs(10);

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
#[derive(Clone, Debug)]
pub enum Origin {
    /// The host's own binary.
    BuiltIn(BuiltIn),
    /// A file that the operator dropped in.
    File(PathBuf),
}

/// What decides on grants.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// Of the built-ins.
    pub builtins: Policy,
    /// Of dropped-in plugins.
    pub plugins: Policy,
    /// Whether a dropped-in plugin without a policy gets what it asks for.
    pub trust: bool,
    /// The operator's values by plugin and key; they go before those of a policy.
    pub config: BTreeMap<String, BTreeMap<String, String>>,
    /// How many keys a plugin may reconcile at once, by name; goes before a policy.
    pub concurrency: BTreeMap<String, u32>,
}

/// A plugin that was read, described and granted something.
pub(crate) struct Loaded {
    pub(crate) plugin: Plugin,
    pub(crate) description: Description,
    pub(crate) policy: Arc<PluginPolicy>,
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) concurrency: u32,
    pub(crate) limits: Limits,
    pub(crate) is_builtin: bool,
}

/// A plugin that can't run. The others do.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The file can't be read.
    #[error("can't read the plugin {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
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
    /// A dropped-in file says that it is what runs already.
    #[error("the plugin {origin} calls itself `{name}`, as {other} does: only one of them can run")]
    NameTaken {
        /// The file.
        origin: Arc<str>,
        /// Its name.
        name: String,
        /// Who has the name.
        other: String,
    },
    /// The operator's policy says nothing of it.
    #[error(
        "no policy grants the plugin `{name}` ({origin}) anything, so it does not run: it wants {wants}; write a policy for \
         it and give it with --policy, or grant everything with --trust-plugins"
    )]
    NotGranted {
        /// The file.
        origin: Arc<str>,
        /// Its name.
        name: String,
        /// What it asks for, in words.
        wants: String,
    },
    /// The operator's policy does not let it read what it watches.
    #[error(
        "the policy does not let the plugin `{name}` ({origin}) watch {kind}, so it does not run: allow the verb `watch`"
    )]
    WatchNotGranted {
        /// The file, or the built-in's name.
        origin: Arc<str>,
        /// Its name.
        name: String,
        /// What it watches.
        kind: Kind,
    },
}

impl PluginError {
    /// The name that the plugin gives itself, if it came so far.
    pub(crate) fn plugin(&self) -> Option<&str> {
        match self {
            Self::NameTaken { name, .. } | Self::NotGranted { name, .. } | Self::WatchNotGranted { name, .. } => {
                Some(name)
            }
            Self::Read { .. } | Self::Load { .. } | Self::Describe { .. } | Self::Description { .. } => None,
        }
    }
}

impl Origin {
    /// The file, or the built-in's name.
    pub(crate) fn text(&self) -> Arc<str> {
        match self {
            Self::BuiltIn(builtin) => builtin.name.into(),
            Self::File(path) => path.display().to_string().into(),
        }
    }
}

/// The plugins of a folder: its `.wasm` files, in order of their names.
pub fn plugins_in(folder: &Path) -> Result<Vec<Origin>, PluginError> {
    let read = |source| PluginError::Read { path: folder.into(), source };
    let entries = std::fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>()).map_err(read)?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "wasm"));
    files.sort();
    Ok(files.into_iter().map(Origin::File).collect())
}

/// Loads one plugin.
pub(crate) async fn load(engine: &Engine, origin: &Origin, grants: &Grants) -> Result<Loaded, PluginError> {
    let text = origin.text();
    let failed = |source| PluginError::Load { origin: text.clone(), source };
    let component = match origin {
        Origin::BuiltIn(builtin) => engine.load_precompiled(builtin.wasm, builtin.cwasm).await.map_err(failed)?,
        Origin::File(path) => {
            let wasm = tokio::fs::read(path).await;
            let wasm = wasm.map_err(|source| PluginError::Read { path: path.clone(), source })?;
            engine.load(Bytes::from(wasm)).await.map_err(failed)?
        }
    };
    // Its own limits are in its policy, which is found by the name that it gives itself.
    let trial = Limits { cpu_per_call: DESCRIBE_CPU, max_instances: 1, ..Limits::default() };
    let described = describe(engine, component.clone(), trial, &text, grants).await?;
    let is_builtin = matches!(origin, Origin::BuiltIn(_));
    let policy = match (is_builtin, grants.plugins.plugins.get(&described.name)) {
        (true, _) => grants.builtins.plugins.get(&described.name).cloned(),
        (false, Some(policy)) => Some(policy.clone()),
        (false, None) if grants.trust => Some(PluginPolicy::trusting(&described)),
        (false, None) => None,
    };
    let Some(policy) = policy else {
        let wants = wants(&described);
        return Err(PluginError::NotGranted { origin: text, name: described.name, wants });
    };
    for watch in &described.watches {
        if let Some(kind) = &watch.kind
            && policy.check("watch", kind, "", &watch.namespace).is_err()
        {
            return Err(PluginError::WatchNotGranted { origin: text, name: described.name, kind: kind.clone() });
        }
    }
    if !is_builtin && grants.trust && !grants.plugins.plugins.contains_key(&described.name) {
        tracing::warn!(
            plugin = described.name,
            origin = &*text,
            "--trust-plugins: granted everything that the plugin asks for, with the host's own rights: {}",
            wants(&described)
        );
    }
    let concurrency = grants.concurrency.get(&described.name).copied();
    let concurrency = concurrency.or(policy.concurrency).unwrap_or(described.concurrency).max(1);
    let limits = limits(&policy.limits, concurrency, described.queues.len());
    let plugin = Plugin::new(engine, component, limits.clone()).map_err(failed)?;
    let mut config = policy.config.clone();
    config.extend(grants.config.get(&described.name).cloned().unwrap_or_default());
    Ok(Loaded { plugin, description: described, policy: policy.into(), config, concurrency, limits, is_builtin })
}

pub(crate) async fn describe(
    engine: &Engine,
    component: Component,
    limits: Limits,
    origin: &Arc<str>,
    grants: &Grants,
) -> Result<Description, PluginError> {
    let plugin = Plugin::new(engine, component, limits)
        .map_err(|source| PluginError::Load { origin: origin.clone(), source })?;
    let config = grants.config.get(&**origin).cloned().unwrap_or_default();
    let imports = Arc::new(Describing { origin: origin.clone(), config });
    let document = plugin.describe(imports).await;
    let document =
        document.map_err(|source| PluginError::Describe { origin: origin.clone(), source: Box::new(source) })?;
    let invalid = |source| PluginError::Description { origin: origin.clone(), source };
    Description::read(&document).map_err(invalid)
}

fn limits(policy: &LimitPolicy, concurrency: u32, queues: usize) -> Limits {
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

/// What a plugin asks for, in words.
fn wants(description: &Description) -> String {
    let watched = |watch: &Watch| match (&watch.kind, &watch.discovered) {
        (Some(kind), _) => Some(format!("watch {kind}")),
        (None, Some(Discovered { verbs, .. })) if verbs.is_empty() => Some("watch every kind".into()),
        (None, discovered) => {
            let verbs: Vec<&str> = discovered.as_ref()?.verbs.iter().map(String::as_str).collect();
            Some(format!("watch every kind that one can {}", verbs.join(" and ")))
        }
    };
    let mut wants: Vec<String> = description.watches.iter().filter_map(watched).collect();
    wants.extend(description.permissions.iter().map(|permission| {
        let verbs: Vec<&str> = permission.verbs.iter().map(String::as_str).collect();
        let slash = if permission.subresource.is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", verbs.join("+"), permission.kind, permission.subresource)
    }));
    wants.extend(description.imports.iter().map(|import| format!("use {import}")));
    wants.join(", ")
}
