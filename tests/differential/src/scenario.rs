//! What a scenario file says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::folder;

/// A story about objects, in one namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The controller that it is about, which is the name of its folder, and the name of its file: `job/indexed`.
    #[serde(skip)]
    pub name: String,
    /// What it is about, in a sentence.
    pub about: String,
    /// What happens, one after the other.
    pub(crate) steps: Vec<Step>,
}

/// One thing that happens, or is waited for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub(crate) enum Step {
    /// An object is created.
    Create(Value),
    /// An object is changed by a merge patch.
    Patch(Which, Value),
    /// An object is deleted, and gone before the next step; another of the same name may be there.
    Delete(Which),
    /// One object has these values. What has a generation must have been observed since its last change.
    Wait(Which, BTreeMap<String, Value>),
    /// There are so many objects of a kind.
    Count(String, usize),
}

/// An object, written as `Deployment/web`; or as `Pod/#0` by its place in the order of names, where those are generated.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Which {
    pub(crate) kind: String,
    pub(crate) name: Name,
}

/// Which of the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Is(String),
    Place(usize),
}

impl TryFrom<String> for Which {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').ok_or_else(|| format!("{text} is no kind and name"))?;
        let name = match name.strip_prefix('#') {
            Some(place) => Name::Place(place.parse().map_err(|_| format!("{text} has no number after its #"))?),
            None => Name::Is(name.to_owned()),
        };
        Ok(Self { kind: kind.to_owned(), name })
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Name::Is(name) => write!(f, "{}/{name}", self.kind),
            Name::Place(place) => write!(f, "{}/#{place}", self.kind),
        }
    }
}

impl Scenario {
    /// Reads all scenarios, in the order of their names.
    ///
    /// # Errors
    /// A file can't be read, or makes no sense.
    pub fn all() -> Result<Vec<Self>> {
        let mut scenarios = Vec::new();
        for controller in entries(&folder("scenarios"))? {
            for path in entries(&controller)? {
                let text = fs::read(&path).with_context(|| format!("can't read {}", path.display()))?;
                let mut scenario: Self =
                    serde_json::from_slice(&text).with_context(|| format!("{} makes no sense", path.display()))?;
                let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                scenario.name = format!("{}/{}", name(&controller), name(&path));
                scenarios.push(scenario);
            }
        }
        Ok(scenarios)
    }

    /// The name of its namespace.
    pub fn namespace(&self) -> String {
        self.name.replace('/', "-")
    }
}

/// What is in a folder, in the order of names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    let mut entries: Vec<PathBuf> = entries.with_context(|| format!("can't read {}", folder.display()))?;
    entries.sort();
    Ok(entries)
}
