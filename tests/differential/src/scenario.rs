//! What a scenario file says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::plane::Plane;
use crate::{api, folder};

/// What stands in a file for the name of the scenario's namespace: for names that no other scenario has.
const NAMESPACE: &str = "{ns}";
/// The most that the name of a namespace may have of bytes.
const LONGEST: usize = 63;

/// A story about objects, in a namespace of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The controller that it is about, which is the name of its folder, and the name of its file: `job/indexed`.
    #[serde(skip)]
    pub name: String,
    /// What it is about, in a sentence.
    pub about: String,
    /// Whether it disturbs all others, and so is played on a control plane of its own.
    #[serde(default)]
    pub(crate) alone: bool,
    /// Namespaces that it has besides its own.
    #[serde(default)]
    pub(crate) namespaces: Vec<String>,
    /// What is compared besides the kinds that are compared in each scenario.
    #[serde(default)]
    pub(crate) compare: Vec<Compared>,
    /// What is known to differ from stock, by what paths of differences begin with, and why.
    #[serde(default)]
    pub known: BTreeMap<String, String>,
    /// What happens before the controllers start.
    #[serde(default)]
    pub(crate) before: Vec<Step>,
    /// What happens then, one after the other.
    pub(crate) steps: Vec<Step>,
}

/// One thing that happens, or is waited for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) enum Step {
    /// An object is created, in the scenario's namespace if it names no other. In its texts `{uid ConfigMap/owner}` is the
    /// UID that an object has.
    Create(Value),
    /// An object is changed by a merge patch, with UIDs as above.
    Patch(Which, Value),
    /// An object's time of creation becomes this one: written to etcd, since the API server lets nobody do that.
    Backdate(Which, String),
    /// An object is deleted, and gone before the next step; another of the same name may be there.
    Delete(Which),
    /// The deletion of an object is asked for, with these options; it may take its time.
    DeleteWith(Which, Value),
    /// An object is not there, or not any more.
    Gone(Which),
    /// One object has these values, where `"*"` is any but none. What has a generation must have been observed since its
    /// last change.
    Wait(Which, BTreeMap<String, Value>),
    /// There are so many objects of a kind in the scenario's namespace.
    Count(String, usize),
}

/// An object, written as `Deployment/web`, or as `Deployment/another-namespace/web` where it lies in another than the
/// scenario's own; or as `Pod/#0` by its place in the order of names, where those are generated.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Which {
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Name,
}

/// Which of the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Is(String),
    Place(usize),
}

/// What is compared: all objects of a kind that has namespaces, in the scenario's; or one object that lies in none, written
/// as `ClusterRole/reader`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Compared {
    Kind(String),
    Object(String, String),
}

impl TryFrom<String> for Which {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some(namespace.to_owned()), name),
            _ => return Err(format!("{text} is no kind and name")),
        };
        let name = match name.strip_prefix('#') {
            Some(place) => Name::Place(
                place
                    .parse()
                    .map_err(|_| format!("{text} has no number after its #"))?,
            ),
            None => Name::Is(name.to_owned()),
        };
        api::path(kind, "").map_err(|error| error.to_string())?;
        Ok(Self {
            kind: kind.to_owned(),
            namespace,
            name,
        })
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        match &self.name {
            Name::Is(name) => f.write_str(name),
            Name::Place(place) => write!(f, "#{place}"),
        }
    }
}

impl TryFrom<String> for Compared {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (kind, name) = text
            .split_once('/')
            .map_or((text.as_str(), None), |(kind, name)| (kind, Some(name)));
        api::path(kind, "").map_err(|error| error.to_string())?;
        match (name, api::is_namespaced(kind)) {
            (None, true) => Ok(Self::Kind(text)),
            (Some(name), false) => Ok(Self::Object(kind.to_owned(), name.to_owned())),
            (None, false) => Err(format!(
                "{kind} has no namespaces, so its objects are compared by name: {kind}/NAME"
            )),
            (Some(_), true) => Err(format!(
                "{kind} has namespaces, so all its objects there are compared: {kind}"
            )),
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
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("can't read {}", path.display()))?;
                let name = |path: &Path| {
                    path.file_stem()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned()
                };
                let scenario =
                    Self::parse(&format!("{}/{}", name(&controller), name(&path)), &text);
                scenarios
                    .push(scenario.with_context(|| format!("{} makes no sense", path.display()))?);
            }
        }
        Ok(scenarios)
    }

    fn parse(name: &str, text: &str) -> Result<Self> {
        let mut scenario: Self =
            serde_json::from_str(&text.replace(NAMESPACE, &name.replace('/', "-")))?;
        scenario.name = name.to_owned();
        scenario.plane()?;
        for namespace in scenario.all_namespaces() {
            ensure!(
                namespace.len() <= LONGEST,
                "{namespace} is too long a name for a namespace"
            );
        }
        for namespace in &scenario.namespaces {
            let is_own = namespace.starts_with(&format!("{}-", scenario.namespace()));
            ensure!(
                is_own,
                "another scenario may have the namespace {namespace}: begin it with {NAMESPACE}-"
            );
        }
        Ok(scenario)
    }

    /// The name of its namespace.
    pub fn namespace(&self) -> String {
        self.name.replace('/', "-")
    }

    /// Its own namespace, and those that it has besides.
    pub(crate) fn all_namespaces(&self) -> Vec<String> {
        [self.namespace()]
            .into_iter()
            .chain(self.namespaces.clone())
            .collect()
    }

    /// The namespaces in which objects and writes count: also those that it makes itself, and compares.
    pub(crate) fn compared_namespaces(&self) -> Vec<String> {
        let mut namespaces = self.all_namespaces();
        for compared in &self.compare {
            if let Compared::Object(kind, name) = compared
                && kind == "Namespace"
                && !namespaces.contains(name)
            {
                namespaces.push(name.clone());
            }
        }
        namespaces
    }

    /// The control plane that it is for.
    ///
    /// # Errors
    /// There is none for it.
    pub fn plane(&self) -> Result<&'static Plane> {
        Plane::of(self.folder())
    }

    fn folder(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}

/// What is in a folder, in the order of names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).and_then(|entries| {
        entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect()
    });
    let mut entries: Vec<PathBuf> =
        entries.with_context(|| format!("can't read {}", folder.display()))?;
    entries.sort();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(file: Value) -> Result<Scenario, String> {
        Scenario::parse("job/indexed", &file.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_made_from_that_of_the_scenario() {
        let scenario = parse(
            json!({"about": "", "namespaces": ["{ns}-b"], "steps": [{"gone": "ClusterRole/{ns}-x"}]}),
        );
        let scenario = scenario.unwrap();
        assert_eq!(scenario.all_namespaces(), ["job-indexed", "job-indexed-b"]);
        assert!(
            matches!(&scenario.steps[0], Step::Gone(which) if which.to_string() == "ClusterRole/job-indexed-x")
        );
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let of = |field: &str, value: Value| {
            let mut file = json!({"about": "", "steps": []});
            file[field] = value;
            parse(file).unwrap_err()
        };
        assert!(
            of("namespaces", json!(["b"]))
                .starts_with("another scenario may have the namespace b:")
        );
        assert!(
            of("compare", json!(["ClusterRole"])).contains("compared by name: ClusterRole/NAME")
        );
        assert!(of("compare", json!(["Secret/x"])).contains("all its objects there are compared"));
        assert!(
            of("steps", json!([{"gone": "Sprocket/x"}]))
                .contains("the kind Sprocket isn't known here")
        );
        assert!(of("steps", json!([{"gone": "Pod"}])).contains("Pod is no kind and name"));
        assert!(
            of(
                "namespaces",
                json!([format!("{NAMESPACE}-{}", "x".repeat(LONGEST))])
            )
            .contains("too long")
        );
        let nobodys = Scenario::parse("sprocket/x", r#"{"about": "", "steps": []}"#)
            .unwrap_err()
            .to_string();
        assert!(
            nobodys.contains("no control plane is for scenarios of sprocket"),
            "{nobodys}"
        );
    }
}
