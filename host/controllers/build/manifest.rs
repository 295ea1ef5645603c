//! The manifests of controllers, and their checks. `guests/controllers/README.md` describes each field.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A controller: its manifest, and where it is.
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) manifest: Manifest,
    pub(crate) folder: PathBuf,
}

/// `controller.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Manifest {
    pub(crate) about: String,
    #[serde(default = "complete")]
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) aliases: Vec<String>,
    #[serde(default)]
    pub(crate) start: Start,
    #[serde(default)]
    pub(crate) gates: Vec<String>,
    pub(crate) enabled_by: Option<String>,
    pub(crate) since: Option<u32>,
    #[serde(default)]
    pub(crate) needs: Vec<Need>,
    #[serde(default = "yes")]
    pub(crate) resyncs: bool,
    #[serde(default = "yes")]
    pub(crate) native_histograms: bool,
    #[serde(default)]
    pub(crate) flags: Vec<Flag>,
    pub(crate) scenarios: Option<Scenarios>,
    /// The corresponding code of Kubernetes, which `cargo xtask upstream` reads.
    #[serde(default)]
    #[expect(
        dead_code,
        reason = "read by `cargo xtask upstream`, which compares it with Kubernetes' source"
    )]
    upstream: Option<toml::Table>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Start {
    #[default]
    Default,
    Disabled,
    Cloud,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Need {
    RootCa,
    ServiceAccountKey,
    ClusterSigning,
    TimeZone,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Flag {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    pub(crate) default: String,
    /// The effect, for `--help`. Without it, the flag is accepted and has no effect yet.
    pub(crate) help: Option<String>,
    /// Values of a flag without effect that ask for what Flyball does anyway.
    #[serde(default)]
    pub(crate) already: Vec<String>,
    #[serde(default)]
    pub(crate) sets: Sets,
    pub(crate) min: Option<i64>,
    pub(crate) max: Option<i64>,
    #[serde(default)]
    pub(crate) positive: bool,
}

/// Types of flags, by pflag's names.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) enum Kind {
    #[serde(rename = "bool")]
    Bool,
    #[serde(rename = "int32")]
    Int32,
    #[serde(rename = "float32")]
    Float,
    #[serde(rename = "float64")]
    Double,
    #[serde(rename = "duration")]
    Duration,
    #[serde(rename = "string")]
    Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sets {
    #[default]
    Nothing,
    Concurrency,
    Config(String),
    File(String),
    ResyncPeriod,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Scenarios {
    pub(crate) plane: String,
    #[serde(default)]
    pub(crate) killed: Vec<String>,
    #[serde(default)]
    pub(crate) killed_at_every_write: Vec<String>,
}

fn complete() -> String {
    "complete".to_owned()
}

fn yes() -> bool {
    true
}

/// Reads the manifests of all controllers, sorted by name.
///
/// # Errors
/// Fails if a file can't be read, a manifest is not valid, or two controllers share a name or a flag.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<Described>, String> {
    let mut all = Vec::new();
    let entries = fs::read_dir(folder)
        .map_err(|error| format!("can't read {}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry
            .map_err(|error| format!("can't read {}: {error}", folder.display()))?
            .path();
        if path.is_dir() {
            all.push(read(path)?);
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    check_unique(&all)?;
    Ok(all)
}

fn read(folder: PathBuf) -> Result<Described, String> {
    let stem = folder.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-controller");
    let path = folder.join("controller.toml");
    let manifest: Manifest = parse(&path)?;
    let invalid = |reason: &str| Err(format!("{}: {reason}", path.display()));
    let Some(scenarios) = &manifest.scenarios else {
        return invalid(
            "it has no [scenarios]: add it, with the `plane` that the differential suite plays the controller's \
             scenarios on, such as \"workloads\"",
        );
    };
    for scenario in scenarios
        .killed
        .iter()
        .chain(&scenarios.killed_at_every_write)
    {
        if !folder
            .join("scenarios")
            .join(format!("{scenario}.json"))
            .exists()
        {
            return invalid(&format!("there is no scenarios/{scenario}.json"));
        }
    }
    let policy = folder.join("policy.toml");
    let text = fs::read_to_string(&policy)
        .map_err(|error| format!("can't read {}: {error}", policy.display()))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error| format!("{}: {error}", policy.display()))?;
    let plugins = table.get("plugins").and_then(toml::Value::as_table);
    if plugins.is_none_or(|plugins| plugins.keys().ne([&name])) {
        return Err(format!(
            "{}: it must be the policy of {name} alone",
            policy.display()
        ));
    }
    Ok(Described {
        name,
        manifest,
        folder,
    })
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("can't read {}: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Fails if a name, an alias or a flag belongs to two controllers.
fn check_unique(all: &[Described]) -> Result<(), String> {
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    for one in all {
        let names = std::iter::once(&one.name).chain(&one.manifest.aliases);
        let flags = one
            .manifest
            .flags
            .iter()
            .map(|flag| format!("--{}", flag.name));
        for name in names.cloned().chain(flags) {
            if let Some(other) = owners.insert(name.clone(), &one.name) {
                return Err(format!("{name} belongs to both {other} and {}", one.name));
            }
        }
    }
    Ok(())
}
