//! What a scenario file says.

use std::collections::BTreeMap;
use std::{fmt, fs};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::folder;

/// A story about objects, in one namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name of its file and of its namespace.
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
    /// An object is deleted, and gone before the next step.
    Delete(Which),
    /// One object has these values. A Deployment and a ReplicaSet must have been observed since their last change.
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
        let folder = folder("scenarios");
        let files = fs::read_dir(&folder).with_context(|| format!("can't read {}", folder.display()))?;
        let mut scenarios = Vec::new();
        for file in files {
            let path = file?.path();
            let text = fs::read(&path).with_context(|| format!("can't read {}", path.display()))?;
            let mut scenario: Self =
                serde_json::from_slice(&text).with_context(|| format!("{} makes no sense", path.display()))?;
            scenario.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            scenarios.push(scenario);
        }
        scenarios.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(scenarios)
    }
}
