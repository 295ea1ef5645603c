//! The format of scenario files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use anyhow::{Context, Result, ensure};
use flyball_controllers::built_in;
use flyball_controlplane::Release;
use serde::Deserialize;
use serde_json::Value;

use crate::api;
use crate::folders::controllers;
use crate::plane::Plane;

/// The placeholder in a file for the name of the scenario's namespace, so that names can be unique.
const NAMESPACE: &str = "{ns}";
/// The maximum length of a namespace's name, in bytes.
const MAX_NAME: usize = 63;

/// A sequence of steps in a separate namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The names of its folder, which is a controller, and of its file, such as `job/indexed`.
    #[serde(skip)]
    pub name: String,
    /// A sentence that describes the scenario.
    pub about: String,
    /// Whether the scenario disturbs others, so that it needs a control plane of its own.
    #[serde(default)]
    alone: bool,
    /// Feature gates that are on, besides the default ones. The scenario then needs a control plane of its own, too.
    #[serde(default)]
    gates: Vec<String>,
    /// The minor number of the first release of Kubernetes that has what the scenario needs, if it is not in all releases
    /// whose control planes the tests can build.
    #[serde(default)]
    since: Option<u32>,
    /// Additional namespaces.
    #[serde(default)]
    pub(crate) namespaces: Vec<String>,
    /// Additional objects to compare, besides the kinds that every scenario compares.
    #[serde(default)]
    pub(crate) compare: Vec<Compared>,
    /// Known differences from stock: prefixes of paths, and the reasons.
    #[serde(default)]
    pub known: BTreeMap<String, String>,
    /// How many more writes than stock Flyball may need, and the reason.
    #[serde(default, rename = "more-writes")]
    pub more_writes: Option<(usize, String)>,
    /// The steps before the controllers start.
    #[serde(default)]
    pub(crate) before: Vec<Step>,
    /// The steps after the controllers have started.
    pub(crate) steps: Vec<Step>,
}

/// An action, or a condition to wait for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) enum Step {
    /// Creates an object, in the scenario's namespace unless it names another. In its strings,
    /// `{uid ConfigMap/owner}` is replaced by the UID of an object, and `{in 5s}` by a time.
    Create(Value),
    /// Creates an object as this user in these groups.
    CreateAs(String, Vec<String>, Value),
    /// Creates an object that several scenarios share, unless it exists.
    Ensure(Value),
    /// Changes an object by a merge patch, with replacements as in `Create`.
    Patch(Which, Value),
    /// Changes an object's status by a merge patch of the object, with replacements as in `Create`.
    PatchStatus(Which, Value),
    /// The same for another subresource.
    PatchSubresource(Which, String, Value),
    /// Applies an object's status by server-side apply, as this manager of fields, with replacements as in `Create`.
    ApplyStatus(Which, String, Value),
    /// Changes an object in etcd: fields replace its own. The result may be invalid, as objects of older releases are.
    Overwrite(Which, Value),
    /// Sets an object's creation time. This writes to etcd, since the API server refuses it.
    Backdate(Which, String),
    /// Deletes an object and waits until it is deleted. A new object of the same name may exist.
    Delete(Which),
    /// Requests the deletion of an object with these options, without waiting.
    DeleteWith(Which, Value),
    /// Waits until the API server refuses to create an object, without ever creating it. This shows that the caches of
    /// the server's admission plugins have the controllers' writes.
    Refused(Value),
    /// Waits until the API server publishes the schema of a kind, such as `Widget.v1.example.com`. A kind is served before.
    Published(String),
    /// Waits until an object does not exist.
    Gone(Which),
    /// Waits until an object has these values; `"*"` is any value except null. If the kind's status
    /// has an observed generation, it must be the current one.
    Wait(Which, BTreeMap<String, Value>),
    /// Waits until nothing has changed for a second, so that the controllers have seen all objects.
    Pause,
    /// Waits until this number of objects of a kind exist in the scenario's namespace.
    Count(String, usize),
    /// Sends a request of its operator to the cloud: a method, a path and a body.
    Cloud(String, String, Value),
    /// Waits until the cloud's response to a GET of this path has these values, as in `Wait`.
    CloudWait(String, BTreeMap<String, Value>),
}

/// An object: `Deployment/web`, `Deployment/another-namespace/web` in a namespace other than the
/// scenario's, or, for generated names, `Pod/#0` by its index in the order of names, `Pod/@node-0` by its node, and
/// `Event/@web` or `Event/@FailedDelete` by the object that it is about or by its reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Which {
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Is(String),
    /// An index in the order of names.
    Index(usize),
    /// The name of the pod's node, or the name of the object that the event is about or its reason.
    Of(String),
}

/// Objects to compare: all objects of a kind, in the scenario's namespaces if it is namespaced; or one
/// object, which is cluster-scoped, such as `ClusterRole/reader`, or in a namespace that is not the
/// scenario's, such as `Secret/kube-system/token`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Compared {
    Kind(String),
    /// A cluster-scoped object has no namespace.
    Object {
        kind: String,
        namespace: Option<String>,
        name: String,
    },
}

impl TryFrom<String> for Which {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some(namespace.to_owned()), name),
            _ => return Err(format!("{text} is not a kind and a name")),
        };
        let name = if let Some(index) = name.strip_prefix('#') {
            let index = index.parse();
            Name::Index(index.map_err(|_| format!("{text} has no number after its #"))?)
        } else if let Some(other) = name.strip_prefix('@') {
            Name::Of(other.to_owned())
        } else {
            Name::Is(name.to_owned())
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
            Name::Index(index) => write!(f, "#{index}"),
            Name::Of(other) => write!(f, "@{other}"),
        }
    }
}

impl TryFrom<String> for Compared {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let kind = parts[0];
        api::path(kind, "").map_err(|error| error.to_string())?;
        let object = |namespace: Option<&str>, name: &str| Self::Object {
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        };
        match (&parts[1..], api::is_namespaced(kind)) {
            ([], _) => Ok(Self::Kind(text)),
            ([name], false) => Ok(object(None, name)),
            ([namespace, name], true) => Ok(object(Some(namespace), name)),
            (_, false) => Err(format!(
                "{kind} is cluster-scoped, so its objects have no namespace: write {kind}/NAME"
            )),
            (_, true) => Err(format!(
                "{kind} is namespaced: write {kind} to compare all its objects, or {kind}/NAMESPACE/NAME for one in \
                 another namespace"
            )),
        }
    }
}

impl Compared {
    /// The kind, if all its objects are compared.
    pub(crate) fn kind(&self) -> Option<&str> {
        match self {
            Self::Kind(kind) => Some(kind),
            Self::Object { .. } => None,
        }
    }
}

impl Scenario {
    /// Reads all scenarios that the chosen release can play, in the order of their names.
    ///
    /// # Errors
    /// A file can't be read, or is not a valid scenario.
    pub fn all() -> Result<Vec<Self>> {
        let release = Release::chosen()?;
        let mut scenarios = Vec::new();
        for (_, guest) in built_in() {
            for path in entries(&controllers().join(guest.folder).join("scenarios"))? {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("can't read {}", path.display()))?;
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                let scenario = Self::parse(&format!("{}/{name}", guest.folder), &text);
                scenarios.push(
                    scenario
                        .with_context(|| format!("{} is not a valid scenario", path.display()))?,
                );
            }
        }
        scenarios.retain(|scenario| scenario.since.is_none_or(|since| since <= release.minor));
        Ok(scenarios)
    }

    /// Whether these are all scenarios that are played together on a plane.
    pub(crate) fn are_all_of(plane: &Plane, scenarios: &[Self]) -> Result<bool> {
        let all = Self::all()?;
        let own = all
            .iter()
            .filter(|one| !one.is_alone() && one.plane().is_ok_and(|its| its == plane));
        Ok(own
            .map(|one| &one.name)
            .all(|name| scenarios.iter().any(|scenario| scenario.name == *name)))
    }

    fn parse(name: &str, text: &str) -> Result<Self> {
        let text = Release::chosen()?.adapt(text);
        let mut scenario: Self =
            serde_json::from_str(&text.replace(NAMESPACE, &name.replace('/', "-")))?;
        scenario.name = name.to_owned();
        scenario.plane()?;
        for namespace in scenario.all_namespaces() {
            ensure!(
                namespace.len() <= MAX_NAME,
                "{namespace} is too long for the name of a namespace"
            );
        }
        for namespace in &scenario.namespaces {
            let is_own = namespace.starts_with(&format!("{}-", scenario.namespace()));
            ensure!(
                is_own,
                "another scenario may use the namespace {namespace}: begin its name with {NAMESPACE}-"
            );
        }
        for compared in &scenario.compare {
            if let Compared::Kind(kind) = compared {
                ensure!(
                    scenario.is_alone() || api::is_namespaced(kind),
                    "{kind} is cluster-scoped: another scenario may have such objects, so compare them by name, as in \
                     {kind}/NAME, or set `alone`"
                );
            }
        }
        Ok(scenario)
    }

    /// The name of the scenario's namespace.
    pub fn namespace(&self) -> String {
        self.name.replace('/', "-")
    }

    /// The scenario's namespace, and the additional ones.
    pub(crate) fn all_namespaces(&self) -> Vec<String> {
        [self.namespace()]
            .into_iter()
            .chain(self.namespaces.clone())
            .collect()
    }

    /// The namespaces in which objects and writes are compared. They include namespaces that the steps
    /// create, if the scenario compares them.
    pub(crate) fn compared_namespaces(&self) -> Vec<String> {
        let mut namespaces = self.all_namespaces();
        for compared in &self.compare {
            if let Compared::Object { kind, name, .. } = compared
                && kind == "Namespace"
                && !namespaces.contains(name)
            {
                namespaces.push(name.clone());
            }
        }
        namespaces
    }

    /// The control plane that it is played on.
    ///
    /// # Errors
    /// The scenario's folder is not assigned to a plane.
    pub fn plane(&self) -> Result<&'static Plane> {
        Plane::of(self.folder())
    }

    /// Whether it is played on a control plane of its own.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone || !self.gates.is_empty()
    }

    /// The flag with its feature gates, for the API server and the controllers.
    pub(crate) fn gates_flag(&self) -> Option<String> {
        let gates: Vec<String> = self
            .gates
            .iter()
            .map(|gate| format!("{gate}=true"))
            .collect();
        (!gates.is_empty()).then(|| format!("--feature-gates={}", gates.join(",")))
    }

    /// Whether a step lifts an admission policy, so that writes are refused until the API server has noticed.
    pub(crate) fn lifts_a_policy(&self) -> bool {
        let lifts = |step: &Step| matches!(step, Step::Delete(which) if which.kind == "ValidatingAdmissionPolicyBinding");
        self.steps.iter().any(lifts)
    }

    fn folder(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}

/// The entries of a folder, in the order of names.
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
    fn names_are_derived_from_the_name_of_the_scenario() {
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
    fn all_objects_of_a_cluster_scoped_kind_are_compared_only_alone() {
        let file = json!({"about": "", "alone": true, "compare": ["ClusterRole"], "steps": []});
        let compared = parse(file).unwrap().compare;
        assert_eq!(compared, [Compared::Kind("ClusterRole".to_owned())]);
    }

    #[test]
    fn a_scenario_with_feature_gates_is_alone() {
        let scenario = parse(json!({"about": "", "gates": ["A", "B"], "steps": []})).unwrap();
        assert!(scenario.is_alone());
        let flag = scenario.gates_flag();
        assert_eq!(flag.as_deref(), Some("--feature-gates=A=true,B=true"));
        let plain = parse(json!({"about": "", "steps": []})).unwrap();
        assert_eq!((plain.is_alone(), plain.gates_flag()), (false, None));
    }

    #[test]
    fn errors_name_what_is_wrong_with_a_scenario() {
        let of = |field: &str, value: Value| {
            let mut file = json!({"about": "", "steps": []});
            file[field] = value;
            parse(file).unwrap_err()
        };
        assert!(
            of("namespaces", json!(["b"])).starts_with("another scenario may use the namespace b:")
        );
        assert!(of("compare", json!(["ClusterRole"])).contains("by name, as in ClusterRole/NAME"));
        assert!(of("compare", json!(["Secret/x"])).contains("or Secret/NAMESPACE/NAME"));
        assert!(of("compare", json!(["ClusterRole/a/b"])).contains("have no namespace"));
        assert!(
            of("steps", json!([{"gone": "Sprocket/x"}])).contains("the kind Sprocket is unknown")
        );
        assert!(of("steps", json!([{"gone": "Pod"}])).contains("Pod is not a kind and a name"));
        assert!(
            of(
                "namespaces",
                json!([format!("{NAMESPACE}-{}", "x".repeat(MAX_NAME))])
            )
            .contains("too long")
        );
        let unassigned = Scenario::parse("sprocket/x", r#"{"about": "", "steps": []}"#)
            .unwrap_err()
            .to_string();
        assert!(
            unassigned.contains("guests/controllers has no sprocket"),
            "{unassigned}"
        );
    }
}
