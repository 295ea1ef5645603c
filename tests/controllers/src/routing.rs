//! From changes to keys: the mappings of a description, on plain objects. `host/runtime/src/router.rs` does the same on
//! the host's cache.

use flyball_types::description::{DeltaType, Description, Having, Mapping, Owners, To, Watch};
use flyball_types::{FieldPath, FieldSelector, Kind, LabelSelector, Reference};
use serde_json::Value;

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Change {
    pub kind: Kind,
    pub old: Option<Value>,
    pub new: Option<Value>,
}

impl Change {
    pub fn delta_type(&self) -> DeltaType {
        match (&self.old, &self.new) {
            (None, _) => DeltaType::Added,
            (_, None) => DeltaType::Deleted,
            _ => DeltaType::Modified,
        }
    }

    /// The versions before and after.
    fn versions(&self) -> impl Iterator<Item = &Value> {
        self.old.iter().chain(&self.new)
    }
}

/// The objects that mappings look up.
pub trait Objects {
    /// Returns the objects of a kind.
    fn of_kind(&self, kind: &Kind) -> Vec<&Value>;
    /// Returns all objects with their kinds.
    fn all(&self) -> Vec<(&Kind, &Value)>;
}

/// Returns the queues and keys of a change, and whether the guest's `route` is asked.
pub fn keys(
    description: &Description,
    change: &Change,
    objects: &impl Objects,
) -> (Vec<(String, String)>, bool) {
    let primary = description.queues.first().map_or("", |queue| &queue.name);
    let (mut keys, mut asks_guest) = (Vec::new(), false);
    for watch in description
        .watches
        .iter()
        .filter(|watch| covers(watch, change))
    {
        for mapping in watch.map.iter().filter(|mapping| applies(mapping, change)) {
            let queue = if mapping.queue.is_empty() {
                primary
            } else {
                &mapping.queue
            };
            if mapping.to == To::Route {
                asks_guest = true;
            }
            for version in change.versions().filter(|version| fits(mapping, version)) {
                let found = keys_of(&mapping.to, &change.kind, version, objects);
                keys.extend(found.into_iter().map(|key| (queue.to_owned(), key)));
            }
        }
    }
    (keys, asks_guest)
}

/// Whether a change is in the scope of a watch.
fn covers(watch: &Watch, change: &Change) -> bool {
    let is_of_kind = match (&watch.kind, &watch.discovered) {
        (Some(kind), _) => *kind == change.kind,
        (None, Some(discovered)) => !discovered.except.contains(&change.kind),
        (None, None) => false,
    };
    let labels: LabelSelector = watch.label_selector.parse().expect("a label selector");
    let fields: FieldSelector = watch.field_selector.parse().expect("a field selector");
    is_of_kind
        && change.versions().any(|object| {
            let field = |path: &FieldPath| path.lookup(object).first().copied().unwrap_or_default();
            (watch.namespace.is_empty() || object["metadata"]["namespace"] == *watch.namespace)
                && labels.matches_all(pairs(&object["metadata"]["labels"]))
                && fields.matches(field)
        })
}

fn pairs(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    let entries = map.as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// Whether a mapping applies to a change of this type.
fn applies(mapping: &Mapping, change: &Change) -> bool {
    let newest = change.new.as_ref().or(change.old.as_ref());
    let is_excluded = newest.is_some_and(|object| {
        mapping.unless.iter().any(|unless| match &unless.value {
            Some(value) => strings(object, &unless.path).contains(&value.as_str()),
            None => !strings(object, &unless.path).is_empty(),
        })
    });
    !is_excluded && (mapping.on.is_empty() || mapping.on.contains(&change.delta_type()))
}

/// Whether a mapping applies to a version of an object.
fn fits(mapping: &Mapping, object: &Value) -> bool {
    let has = |having: &Having| strings(object, &having.path).contains(&having.value.as_str());
    let metadata = &object["metadata"];
    let is_controlled = owners(object).any(|owner| owner["controller"] == true);
    (!mapping.orphans || !is_controlled)
        && (!mapping.deleting || !metadata["deletionTimestamp"].is_null())
        && mapping.having.iter().all(has)
        && (mapping.having_any.is_empty()
            || mapping
                .having_any
                .iter()
                .any(|path| !strings(object, path).is_empty()))
}

fn keys_of(to: &To, kind: &Kind, object: &Value, objects: &impl Objects) -> Vec<String> {
    let namespace = text(&object["metadata"]["namespace"]);
    let in_namespace = |found: &&Value| text(&found["metadata"]["namespace"]) == namespace;
    match to {
        To::Itself => vec![key(object)],
        To::Controller { kind } => owners(object)
            .filter(|owner| owner["controller"] == true)
            .filter_map(|owner| owner_key(owner, kind, namespace, objects))
            .collect(),
        To::Owner { kind } => owners(object)
            .filter_map(|owner| owner_key(owner, kind, namespace, objects))
            .collect(),
        To::Named { path, namespaced } => {
            let names = strings(object, path)
                .into_iter()
                .filter(|name| !name.is_empty());
            names
                .map(|name| {
                    if *namespaced {
                        join(namespace, name)
                    } else {
                        name.to_owned()
                    }
                })
                .collect()
        }
        To::Selecting { kind, path, whose } => {
            let selects = |found: &&Value| {
                let pointer = format!("/{}", path.replace('.', "/"));
                let selector = found.pointer(&pointer).unwrap_or(&Value::Null);
                LabelSelector::of_json(selector.to_string().as_bytes()).is_ok_and(|selector| {
                    selector.matches_all(pairs(&object["metadata"]["labels"]))
                }) && whose
                    .iter()
                    .all(|having| strings(found, &having.path).contains(&having.value.as_str()))
            };
            let found = objects.of_kind(kind).into_iter();
            found
                .filter(in_namespace)
                .filter(selects)
                .map(key)
                .collect()
        }
        To::InNamespace { kind } => {
            let found = objects.of_kind(kind).into_iter();
            found.filter(in_namespace).map(key).collect()
        }
        To::All { kind } => objects.of_kind(kind).into_iter().map(key).collect(),
        To::Namespace => vec![namespace.to_owned()],
        To::Constant { key } => vec![key.clone()],
        To::Reference => vec![reference(kind, object).to_string()],
        To::Dependents => {
            let uid = &object["metadata"]["uid"];
            let names_it =
                |(_, found): &(&Kind, &Value)| owners(found).any(|owner| owner["uid"] == *uid);
            let found = objects.all().into_iter().filter(names_it);
            found
                .map(|(kind, found)| reference(kind, found).to_string())
                .collect()
        }
        To::OwnerReferences { which } => owners(object)
            .filter(|owner| is_among(*which, object, owner, objects))
            .map(|owner| named_owner(owner, namespace, objects).to_string())
            .collect(),
        To::Route => Vec::new(),
    }
}

fn is_among(which: Owners, object: &Value, owner: &Value, objects: &impl Objects) -> bool {
    let is_deleting = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
    let found = objects
        .all()
        .into_iter()
        .find(|(_, found)| found["metadata"]["uid"] == owner["uid"]);
    match which {
        Owners::Missing => {
            let is_as_named = |(kind, found): (&Kind, &Value)| {
                is_of(owner, kind) && found["metadata"]["name"] == owner["name"]
            };
            !is_deleting(object) && !found.is_some_and(is_as_named)
        }
        Owners::Deleting => found.is_some_and(|(_, found)| is_deleting(found)),
    }
}

/// Returns an owner as its dependent names it. It is in the dependent's namespace, unless an object of its kind has none.
fn named_owner(owner: &Value, namespace: &str, objects: &impl Objects) -> Reference {
    let kind = Kind::of_object(text(&owner["apiVersion"]), text(&owner["kind"]));
    let mut known = objects.of_kind(&kind).into_iter();
    let is_cluster_scoped = known.any(|found| found["metadata"]["namespace"].is_null());
    let namespace = if is_cluster_scoped { "" } else { namespace };
    let [name, uid] = ["name", "uid"].map(|field| text(&owner[field]).to_owned());
    Reference {
        kind,
        namespace: namespace.into(),
        name,
        uid,
    }
}

/// Returns the key of an owner of this kind, if it exists.
fn owner_key(
    owner: &Value,
    kind: &Kind,
    namespace: &str,
    objects: &impl Objects,
) -> Option<String> {
    let is_it = |found: &&Value| found["metadata"]["uid"] == owner["uid"];
    let known = objects.of_kind(kind).into_iter().any(|found| is_it(&found));
    (is_of(owner, kind) && known).then(|| join(namespace, text(&owner["name"])))
}

/// Whether an owner reference is to an object of this kind, in any version.
fn is_of(owner: &Value, kind: &Kind) -> bool {
    let named = Kind::of_object(text(&owner["apiVersion"]), text(&owner["kind"]));
    named.kind == kind.kind && named.group == kind.group
}

fn reference(kind: &Kind, object: &Value) -> Reference {
    let [namespace, name, uid] =
        ["namespace", "name", "uid"].map(|field| text(&object["metadata"][field]).to_owned());
    Reference {
        kind: kind.clone(),
        namespace,
        name,
        uid,
    }
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
}

fn strings<'a>(object: &'a Value, path: &str) -> Vec<&'a str> {
    let path: FieldPath = path.parse().expect("a field path");
    path.lookup(object)
}

/// The key of an object.
pub fn key(object: &Value) -> String {
    let metadata = &object["metadata"];
    join(text(&metadata["namespace"]), text(&metadata["name"]))
}

fn join(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
