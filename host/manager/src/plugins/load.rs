//! Loads a plugin from its file in four steps: read, check and compile, describe, check the description.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use flyball_limits::rate::RateGate;
use flyball_plugin::{
    Component, Describe, DescribeError, EmbeddedComponent, Engine, Limits, LoadError,
};
use flyball_policy::LimitPolicy;
use flyball_policy::grant::{Asks, PluginFile};
use flyball_policy::kinds;
use flyball_registry::RegistryError;
use flyball_runtime::telemetry::{call_span, log_guest};
use flyball_types::description::{Description, DescriptionError};
use flyball_types::{error_chain, excerpt};

/// The most instances of a dropped-in plugin if its policy sets no limit.
const DROPPED_IN_INSTANCES: usize = 100;
/// The least number of instances and of connections of a cloud's provider if its policy sets no limit: controllers make
/// many calls at once, each of which waits for the cloud.
const PROVIDER_INSTANCES: usize = 32;
/// Bytes that are shown of the reason why a plugin can't be loaded.
const MAX_REASON: usize = 4096;
/// The CPU quota of a dropped-in plugin if its policy sets none, in thousandths of a core.
const DROPPED_IN_SHARE: u32 = 250;

/// A controller that is part of the host's binary.
#[derive(Clone, Debug)]
pub struct BuiltIn {
    /// Its canonical name.
    pub name: &'static str,
    pub component: EmbeddedComponent,
}

/// The source of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The host's binary.
    BuiltIn(&'static str),
    /// A file in a plugin folder.
    File(PathBuf),
    /// A package that the policy names, by its address.
    Package(String),
}

/// A compiled and described plugin: all that decides whether it runs. Its compiled code is stored elsewhere, by the
/// digest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoadedPlugin {
    pub(crate) origin: Origin,
    /// The SHA-256 of its file, in hex.
    pub(crate) digest: String,
    pub(crate) description: Arc<Description>,
    /// All that it asks for.
    pub(crate) asks: Arc<Asks>,
    /// The configuration of its `describe` call.
    pub(crate) config: BTreeMap<String, String>,
}

/// The reason why a file or package is not a plugin that can run.
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
    /// The package can't be pulled, or the policy does not allow it.
    #[error("can't pull the plugin {origin}")]
    Pull {
        /// Its address.
        origin: Arc<str>,
        /// Why.
        source: RegistryError,
    },
    /// The package contains another plugin than the policy says.
    #[error(
        "the package {origin} holds the plugin `{found}`, and the policy names it as the source of `{expected}`"
    )]
    Another {
        /// Its address.
        origin: Arc<str>,
        /// The plugin that it contains.
        found: String,
        /// The plugin that it should contain.
        expected: String,
    },
    /// The file is not a component that this host can run.
    #[error("can't load the plugin {origin}")]
    Load {
        /// The file, or the built-in's name.
        origin: Arc<str>,
        /// Why.
        source: LoadError,
    },
    /// The same file exceeded its time before.
    #[error(
        "the plugin {origin} is not loaded again, because the same file has failed before: {reason}"
    )]
    Refused { origin: Arc<str>, reason: String },
    /// Its `describe` failed.
    #[error("the plugin {origin} did not describe itself")]
    Describe {
        /// The file, or the built-in's name.
        origin: Arc<str>,
        /// Why.
        source: Box<DescribeError>,
    },
    /// Its name depends on its configuration, although the configuration is found by the name.
    #[error(
        "the plugin {origin} has the name `{before}`, but describes itself as `{configured}` with the operator's \
         configuration for `{before}`: a plugin's name must not depend on its configuration"
    )]
    NameDependsOnConfig {
        /// The file.
        origin: Arc<str>,
        before: String,
        configured: String,
    },
    /// Its description is not valid.
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
            Self::Package(source) => source.as_str().into(),
        }
    }

    /// The error that its component can't be loaded.
    pub(crate) fn not_loaded(&self, source: LoadError) -> PluginError {
        PluginError::Load {
            origin: self.text(),
            source,
        }
    }
}

impl LoadedPlugin {
    /// The file that a policy is checked against.
    pub(crate) fn file(&self) -> PluginFile<'_> {
        PluginFile {
            digest: &self.digest,
            package: match &self.origin {
                Origin::Package(source) => Some(source),
                Origin::BuiltIn(_) | Origin::File(_) => None,
            },
            name: match &self.origin {
                Origin::File(path) => path.file_name().and_then(OsStr::to_str),
                Origin::BuiltIn(_) | Origin::Package(_) => None,
            },
        }
    }

    /// The name in its description.
    pub(crate) fn name(&self) -> &str {
        &self.description.name
    }
}

/// An error and its causes as one line, for the log and for `flyball status`. Names in a plugin's file and answers of a
/// registry may be much longer.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    excerpt(&error_chain(error), MAX_REASON)
}

/// Loads a built-in with the operator's configuration.
pub(crate) async fn builtin(
    engine: &Engine,
    builtin: &BuiltIn,
    config: BTreeMap<String, String>,
) -> Result<(LoadedPlugin, Component), PluginError> {
    let origin = Origin::BuiltIn(builtin.name);
    let loaded = engine.load_embedded(builtin.component.clone()).await;
    let component = loaded.map_err(|source| origin.not_loaded(source))?;
    let plugin = describe(engine, origin, &component, config).await?;
    Ok((plugin, component))
}

/// Reads a plugin's file on a blocking thread. At most the largest size of a plugin is read.
pub(crate) async fn read(engine: &Engine, path: &Path) -> Result<Bytes, PluginError> {
    let limit = engine.max_component_bytes();
    let file = path.to_owned();
    let read = tokio::task::spawn_blocking(move || flyball_files::read(file, limit)).await;
    let read = read.map_err(std::io::Error::other).and_then(|read| read);
    read.map(Bytes::from).map_err(|source| PluginError::Read {
        origin: Origin::File(path.to_owned()).text(),
        source,
    })
}

/// Loads a plugin from the bytes of its file. `describe` gets no configuration, because the operator's configuration is
/// found by the plugin's name, which is in its description. See [`describe_with`].
pub(crate) async fn dropped_in(
    engine: &Engine,
    origin: Origin,
    wasm: Bytes,
) -> Result<(LoadedPlugin, Component), PluginError> {
    let loaded = engine.load(wasm).await;
    let component = loaded.map_err(|source| origin.not_loaded(source))?;
    let plugin = describe(engine, origin, &component, BTreeMap::new()).await?;
    Ok((plugin, component))
}

/// Calls `describe` again, with the operator's configuration for the plugin's name.
pub(crate) async fn describe_with(
    config: BTreeMap<String, String>,
    plugin: &LoadedPlugin,
    engine: &Engine,
    component: &Component,
) -> Result<LoadedPlugin, PluginError> {
    let described = describe(engine, plugin.origin.clone(), component, config).await?;
    keeps_its_name(plugin, described)
}

/// Fails if the name differs from the name in the first description, because the configuration belongs to the name.
fn keeps_its_name(
    before: &LoadedPlugin,
    described: LoadedPlugin,
) -> Result<LoadedPlugin, PluginError> {
    if described.name() == before.name() {
        return Ok(described);
    }
    Err(PluginError::NameDependsOnConfig {
        origin: described.origin.text(),
        before: before.name().to_owned(),
        configured: described.name().to_owned(),
    })
}

/// Calls `describe` without any grant, and checks the description.
pub(crate) async fn describe(
    engine: &Engine,
    origin: Origin,
    component: &Component,
    config: BTreeMap<String, String>,
) -> Result<LoadedPlugin, PluginError> {
    let text = origin.text();
    let (log_lines, file) = (RateGate::new(1.0, 100), text.clone());
    let describe = Describe {
        config: config.clone(),
        log: Arc::new(move |level, message, fields| {
            let _span = call_span(&file, "describe").entered();
            log_guest(&log_lines, level, message, fields);
        }),
        is_builtin: matches!(origin, Origin::BuiltIn(_)),
    };
    let document = engine.describe(component, describe).await;
    let document = document.map_err(|source| match source {
        DescribeError::Load(source) => origin.not_loaded(source),
        source => PluginError::Describe {
            origin: text.clone(),
            source: Box::new(source),
        },
    })?;
    // Parsing a large document takes a while, which must not delay other tasks. Each plan needs what the plugin asks for.
    let read = tokio::task::spawn_blocking(move || {
        std::str::from_utf8(&document)
            .map_err(|error| DescriptionError::Parse(error.to_string()))
            .and_then(kinds::read_description)
            .map(|description| (Asks::of(&description), description))
    });
    let described = read
        .await
        .unwrap_or_else(|error| Err(DescriptionError::Parse(error.to_string())));
    let (asks, description) = described.map_err(|source| PluginError::Description {
        origin: text.clone(),
        source,
    })?;
    Ok(LoadedPlugin {
        origin,
        digest: component.digest().to_owned(),
        description: Arc::new(description),
        asks: Arc::new(asks),
        config,
    })
}

/// The limits of a cloud's provider, from those of a plugin that is none.
pub(crate) fn of_provider(limits: Limits, policy: &LimitPolicy) -> Limits {
    let at_least = |is_set: bool, limit: usize| match is_set {
        true => limit,
        false => limit.max(PROVIDER_INSTANCES),
    };
    let max_instances = at_least(policy.instances.is_some(), limits.max_instances);
    Limits {
        max_instances,
        max_slots: limits.max_slots.max(max_instances),
        connections: at_least(policy.connections.is_some(), limits.connections),
        ..limits
    }
}

/// The limits of a plugin: its policy's or the host's defaults, which limit built-ins less.
pub(crate) fn limits(
    policy: &LimitPolicy,
    concurrency: u32,
    queues: usize,
    is_builtin: bool,
) -> Limits {
    let default = Limits::default();
    let size = |policy: Option<u64>| policy.and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = |policy, default| size(policy).unwrap_or(default);
    let cpu_share = policy
        .cpu_share
        .unwrap_or(if is_builtin { 0 } else { DROPPED_IN_SHARE });
    // One more for `route`.
    let instances = (concurrency as usize).saturating_mul(queues) + 1;
    let instances = if is_builtin {
        instances
    } else {
        instances.min(DROPPED_IN_INSTANCES)
    };
    let max_instances = policy
        .instances
        .map_or(instances, |instances| instances.max(1) as usize);
    Limits {
        cpu_per_call: policy.cpu.unwrap_or(default.cpu_per_call),
        cpu_share: (cpu_share > 0).then_some(cpu_share),
        wall_per_call: policy.wall.unwrap_or(default.wall_per_call),
        memory: bytes(policy.memory, default.memory),
        total_memory: size(policy.total_memory),
        max_instances,
        max_slots: if is_builtin {
            usize::MAX
        } else {
            max_instances.max(default.max_slots)
        },
        answer_bytes: bytes(policy.answer, default.answer_bytes),
        staged_bytes: bytes(policy.staged, default.staged_bytes),
        held_bytes: bytes(policy.held, default.held_bytes),
        connections: policy
            .connections
            .map_or(default.connections, |connections| connections as usize),
        is_reserved: is_builtin,
        ..default
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flyball_plugin::EngineOptions;
    use flyball_policy::Policy;

    use super::*;

    #[test]
    fn a_plugin_that_was_dropped_in_has_a_share_and_a_built_in_has_none() {
        let none = LimitPolicy::default();
        assert_eq!(
            limits(&none, 5, 2, true),
            Limits {
                max_instances: 11,
                max_slots: usize::MAX,
                is_reserved: true,
                ..Limits::default()
            }
        );
        assert_eq!(
            limits(&none, 100, 32, false).max_instances,
            DROPPED_IN_INSTANCES
        );
        assert_eq!(limits(&none, 5, 2, false).cpu_share, Some(DROPPED_IN_SHARE));
        let many = LimitPolicy {
            instances: Some(300),
            ..none
        };
        assert_eq!(limits(&many, 5, 2, false).max_slots, 300);
    }

    #[test]
    fn the_policy_sets_each_limit() {
        let text = "[plugins.a.limits]\ncpu = \"2s\"\ncpu-share = 1.5\nwall = \"1m\"\nmemory = \"1Mi\"\ntotal-memory = \"2Mi\"\ninstances = 3\n\
                    answer = \"2Mi\"\nstaged = \"3Mi\"\nconnections = 2";
        let policy = Policy::parse(Path::new("policy.toml"), text).unwrap();
        let limits = limits(&policy.plugins["a"].limits, 5, 1, false);
        let expected = Limits {
            cpu_per_call: Duration::from_secs(2),
            cpu_share: Some(1500),
            wall_per_call: Duration::from_secs(60),
            memory: 1 << 20,
            total_memory: Some(2 << 20),
            max_instances: 3,
            answer_bytes: 2 << 20,
            staged_bytes: 3 << 20,
            connections: 2,
            ..Limits::default()
        };
        assert_eq!(limits, expected);
        let unlimited = LimitPolicy {
            cpu_share: Some(0),
            ..LimitPolicy::default()
        };
        assert_eq!(super::limits(&unlimited, 1, 1, false).cpu_share, None);
    }

    #[tokio::test]
    async fn a_file_is_read_only_up_to_the_limit_of_a_plugin_and_only_if_it_is_a_regular_one() {
        let engine = Engine::new(EngineOptions {
            max_instances: 1,
            max_component_bytes: 1000,
            ..EngineOptions::default()
        })
        .unwrap();
        let home = tempfile::tempdir().unwrap();
        let [whole, huge, device] = ["whole", "huge", "device"].map(|name| home.path().join(name));
        std::fs::write(&whole, [1; 1000]).unwrap();
        let file = std::fs::File::create(&huge).unwrap();
        file.set_len(10 << 30).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
        assert_eq!(read(&engine, &whole).await.unwrap().len(), 1000);
        for (path, reason) in [(huge, "limit of 1000 bytes"), (device, "regular file")] {
            let error = read(&engine, &path).await.unwrap_err();
            let text = flyball_types::error_chain(&error);
            let path = path.display().to_string();
            assert!(text.contains(&path) && text.contains(reason), "{text}");
        }
    }

    #[test]
    fn the_reason_of_a_failure_is_short_and_on_one_line() {
        let text = || "a\u{1b}[2J ".repeat(1 << 18);
        let origin: Arc<str> = "a.wasm".into();
        let package = "oci://127.0.0.1:1/a:1".parse().unwrap();
        for error in [
            PluginError::Read {
                origin: origin.clone(),
                source: std::io::Error::other(text()),
            },
            PluginError::Pull {
                origin: origin.clone(),
                source: RegistryError::NotAPlugin {
                    package,
                    problem: text(),
                },
            },
            PluginError::Load {
                origin: origin.clone(),
                source: LoadError::Mismatch(text()),
            },
            PluginError::Describe {
                origin: origin.clone(),
                source: Box::new(DescribeError::Rejected(text())),
            },
            PluginError::Description {
                origin,
                source: DescriptionError::Parse(text()),
            },
        ] {
            let reason = reason(&error);
            assert!(reason.len() < MAX_REASON + 20, "{} bytes", reason.len());
            assert!(!reason.contains(char::is_control), "{reason}");
            assert!(reason.contains("a.wasm"), "{reason}");
        }
    }

    #[test]
    fn a_plugin_whose_name_depends_on_its_configuration_is_refused() {
        let named = |name: &str| LoadedPlugin {
            origin: Origin::File("/plugins/a.wasm".into()),
            digest: "4a".into(),
            description: Arc::new(Description {
                name: name.into(),
                ..Description::default()
            }),
            asks: Arc::default(),
            config: BTreeMap::new(),
        };
        assert_eq!(keeps_its_name(&named("a"), named("a")).unwrap(), named("a"));
        let error = keeps_its_name(&named("a"), named("b")).unwrap_err();
        let error = error.to_string();
        for part in ["/plugins/a.wasm", "`a`", "`b`", "must not depend"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
