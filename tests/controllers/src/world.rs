//! The objects of scenarios.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use flyball_sdk::testing::Cluster;
use flyball_types::Kind;
use serde_json::{Value, json};

use crate::Subject;

/// The placeholders of scenarios: the namespace, the UID of an object, and a time.
const NAMESPACE: &str = "{ns}";
const UID: &str = "{uid ";
const IN: &str = "{in ";
/// A time that `{in …}` stands for, a little after the start of the cluster's clock.
const SOON: &str = "2026-01-01T00:00:05Z";
/// The steps whose last part is an object.
const CREATES: [&str; 3] = ["create", "create-as", "ensure"];
/// Stands for the random end of a name in goldens.
const RANDOM: &str = "*";

/// The kinds without a namespace that scenarios create.
const CLUSTER_SCOPED: [&str; 26] = [
    "APIService",
    "CSIDriver",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "CustomResourceDefinition",
    "DeviceClass",
    "DeviceTaintRule",
    "IPAddress",
    "IngressClass",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "ResourcePoolStatusRequest",
    "ResourceSlice",
    "ServiceCIDR",
    "StorageClass",
    "StorageVersion",
    "StorageVersionMigration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeAttributesClass",
];

/// The objects of a scenario.
#[derive(Clone, Debug)]
pub struct World {
    /// The scenario, such as `job/indexed`.
    pub name: String,
    pub objects: Vec<Value>,
}

impl World {
    /// Reads the worlds of a controller's scenarios, in the order of their names.
    pub fn all_of(subject: &Subject) -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../guests/controllers")
            .join(subject.folder);
        let scenarios = entries(&folder.join("scenarios"));
        let mut versions = BTreeMap::new();
        let read: Vec<(String, Vec<Value>, Vec<Value>)> = scenarios
            .iter()
            .map(|path| {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                let name = format!("{}/{stem}", subject.folder);
                let created = created(&read_text(path), &name);
                for object in &created {
                    let version = object["apiVersion"].as_str().unwrap_or_default();
                    versions.insert(kind_name(object).to_owned(), version.to_owned());
                }
                let golden = folder.join("goldens").join(format!("{stem}.json"));
                (name, created, left_behind(&golden))
            })
            .collect();
        for kind in watched(subject) {
            versions.insert(kind.kind.clone(), kind.api_version());
        }
        read.into_iter()
            .map(|(name, created, left)| {
                let objects = joined(&name, created, left, &versions);
                Self { name, objects }
            })
            .collect()
    }

    /// Stores the objects in a cluster.
    pub fn put(&self, cluster: &Cluster) {
        for object in &self.objects {
            cluster.put(object.clone());
        }
    }
}

/// Returns the kinds that a controller watches by name.
pub fn watched(subject: &Subject) -> BTreeSet<Kind> {
    let watches = &subject.exported.describe(&subject.cluster()).watches;
    let kinds = watches.iter().filter_map(|watch| watch.kind.clone());
    kinds.collect()
}

/// Returns the kind of an object.
pub fn kind_of(object: &Value) -> Kind {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    Kind::of_object(text("apiVersion"), text("kind"))
}

/// Returns the objects that a scenario creates.
fn created(text: &str, name: &str) -> Vec<Value> {
    let namespace = name.replace('/', "-");
    let mut text = text.replace(NAMESPACE, &namespace);
    text = replaced(text, UID, |which| {
        format!("uid-{}", which.replace('/', "-"))
    });
    text = replaced(text, IN, |_| SOON.to_owned());
    let scenario: Value = serde_json::from_str(&text).expect("a scenario is JSON");
    let steps = ["before", "steps"].iter().flat_map(|part| {
        let steps = scenario[part].as_array();
        steps.into_iter().flatten()
    });
    let object = |step: &Value| {
        let step = CREATES.iter().find_map(|name| step.get(name))?;
        Some(
            step.as_array()
                .and_then(|parts| parts.last())
                .unwrap_or(step)
                .clone(),
        )
    };
    let mut objects: Vec<Value> = steps.filter_map(object).collect();
    for (at, object) in objects.iter_mut().enumerate() {
        if object["metadata"]["name"].is_null() {
            let generated = object["metadata"]["generateName"].as_str();
            object["metadata"]["name"] = format!("{}x{at}", generated.unwrap_or_default()).into();
        }
        let is_namespaced = !CLUSTER_SCOPED.contains(&kind_name(object));
        if is_namespaced && object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = namespace.as_str().into();
        }
    }
    objects
}

/// Replaces placeholders that begin with `start` and end with a brace.
fn replaced(mut text: String, start: &str, value: impl Fn(&str) -> String) -> String {
    while let Some((before, rest)) = text.split_once(start) {
        let (inner, after) = rest.split_once('}').expect("a placeholder ends");
        text = format!("{before}{}{after}", value(inner));
    }
    text
}

/// Returns the objects of a golden, which have no versions. Names that were generated are unique again. A controller that
/// stock doesn't have has no goldens.
fn left_behind(golden: &Path) -> Vec<Value> {
    if !golden.exists() {
        return Vec::new();
    }
    let golden: Value = serde_json::from_str(&read_text(golden)).expect("a golden is JSON");
    let mut objects = golden["objects"][0].as_array().cloned().unwrap_or_default();
    for (at, object) in objects.iter_mut().enumerate() {
        if let Some(name) = object["metadata"]["name"].as_str() {
            let unique = name.replace(RANDOM, &format!("x{at}"));
            object["metadata"]["name"] = unique.into();
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            // Null where it depends on timing.
            metadata.retain(|_, value| !value.is_null());
        }
        // Goldens have decoded tokens and certificates.
        if let Some(data) = object["data"].as_object_mut() {
            data.retain(|_, value| value.is_string());
        }
        if let Some(status) = object["status"].as_object_mut() {
            status.retain(|name, value| name != "certificate" || value.is_string());
        }
        if object["status"]["observedGeneration"].is_string() {
            // The text says that the generation was observed.
            object["metadata"]["generation"] = 1.into();
            object["status"]["observedGeneration"] = 1.into();
        }
    }
    objects
}

/// Joins what was left behind with what was created, and adds what goldens don't have: versions, UIDs and the namespace.
fn joined(
    name: &str,
    created: Vec<Value>,
    left: Vec<Value>,
    versions: &BTreeMap<String, String>,
) -> Vec<Value> {
    let mut objects: BTreeMap<[String; 3], Value> = BTreeMap::new();
    for mut object in left {
        if let Some(version) = versions.get(kind_name(&object)) {
            object["apiVersion"] = version.as_str().into();
            objects.insert(id(&object), object);
        }
    }
    for object in created {
        match objects.get_mut(&id(&object)) {
            Some(known) => complete(known, &object),
            None => drop(objects.insert(id(&object), object)),
        }
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name.replace('/', "-")},
                           "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    objects.entry(id(&namespace)).or_insert(namespace);
    let mut objects: Vec<Value> = objects.into_values().collect();
    objects.iter_mut().for_each(add_uids);
    objects
}

/// Adds the UIDs of an object, of its owners and of the pod that is to be evicted.
fn add_uids(object: &mut Value) {
    let of = |kind: &Value, name: &Value| {
        let [kind, name] = [kind, name].map(|part| part.as_str().unwrap_or_default());
        Value::from(format!("uid-{kind}-{name}"))
    };
    if object["metadata"]["uid"].is_null() {
        object["metadata"]["uid"] = of(&object["kind"], &object["metadata"]["name"]);
    }
    for owner in object["metadata"]["ownerReferences"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        if owner["uid"].is_null() {
            owner["uid"] = of(&owner["kind"], &owner["name"]);
        }
    }
    if let Some(target) = object.pointer_mut("/spec/target/pod")
        && target["uid"].is_null()
    {
        target["uid"] = of(&"Pod".into(), &target["name"]);
    }
}

/// Adds the fields of `other` that a value lacks.
fn complete(value: &mut Value, other: &Value) {
    let (Value::Object(fields), Value::Object(others)) = (value, other) else {
        return;
    };
    for (name, other) in others {
        match fields.get_mut(name) {
            Some(own) => complete(own, other),
            None => drop(fields.insert(name.clone(), other.clone())),
        }
    }
}

fn id(object: &Value) -> [String; 3] {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    [&object["kind"], &metadata["namespace"], &metadata["name"]].map(text)
}

fn kind_name(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

fn read_text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
