//! Server-side apply: which field manager owns which fields, modelled on the API server's
//! structured merge (`sigs.k8s.io/structured-merge-diff`).
//!
//! The fake has no schemas. Field names decide whether a list is keyed or a set (see
//! [`merge_key`]); `selector` is atomic, all other objects are granular and all other lists are
//! atomic. Not modelled: keys of several fields (`ports`), the order of list elements, explicit
//! nulls, defaults, conversion between versions, and `metadata.managedFields` itself, which the
//! host never passes to a plugin.

mod managed;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use flyball_types::ApiError;
use serde_json::{Map, Value};

use super::patch::merge_key;

/// A step from a value to one of its parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    /// The list element whose field `key` has this value; if `key` is empty, the element that equals the value. The
    /// value is JSON text, because JSON values have no order.
    Element {
        key: &'static str,
        value: String,
    },
}

type Path = Vec<Step>;

/// The fields that a field manager wrote with one verb to the object or to one subresource.
#[derive(Clone, Debug, PartialEq)]
struct Manager {
    name: String,
    applies: bool,
    subresource: String,
    fields: BTreeSet<Path>,
}

/// The owners of an object's fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Owners(Vec<Manager>);

/// The writer of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer<'a> {
    pub(super) manager: &'a str,
    /// Whether an apply takes over fields that other managers own.
    pub(super) force: bool,
}

impl Owners {
    /// Records the changes of a write other than an apply: the writer becomes their only owner.
    pub(super) fn update(&mut self, manager: &str, subresource: &str, old: &Value, new: &Value) {
        let (old, new) = (flatten(old), flatten(new));
        let changed: BTreeSet<Path> = new
            .iter()
            .filter(|(path, value)| old.get(*path) != Some(value))
            .map(|(path, _)| path.clone())
            .collect();
        for owner in &mut self.0 {
            owner
                .fields
                .retain(|path| new.contains_key(path) && !changed.contains(path));
        }
        self.manager(manager, false, subresource).extend(changed);
        self.0.retain(|owner| !owner.fields.is_empty());
    }

    /// Merges the applied configuration into the live object and returns the result. Fields that
    /// the field manager applied before and does not apply now are removed, unless another manager owns
    /// them.
    ///
    /// # Errors
    /// Another field manager owns a field with another value, and `force` is not set.
    pub(super) fn apply(
        &mut self,
        writer: Writer,
        subresource: &str,
        live: &Value,
        applied: &Value,
    ) -> Result<Value, ApiError> {
        let mut merged = live.clone();
        merge(&mut merged, applied);
        let before = flatten(live);
        let fields: BTreeMap<Path, &Value> = flatten(applied);
        let is_own = |owner: &Manager| {
            owner.applies && owner.name == writer.manager && owner.subresource == subresource
        };
        let conflicts: Vec<(&str, &Path)> = self
            .0
            .iter()
            .filter(|owner| !is_own(owner))
            .flat_map(|owner| owner.fields.iter().map(|path| (owner.name.as_str(), path)))
            .filter(|(_, path)| {
                fields
                    .get(*path)
                    .is_some_and(|value| before.get(*path) != Some(value))
            })
            .collect();
        if !conflicts.is_empty() && !writer.force {
            return Err(conflict(&conflicts));
        }
        let taken: BTreeSet<Path> = conflicts
            .into_iter()
            .map(|(_, path)| path.clone())
            .collect();
        let fields: BTreeSet<Path> = fields.into_keys().collect();
        for owner in self.0.iter_mut().filter(|owner| !is_own(owner)) {
            owner.fields.retain(|path| !taken.contains(path));
        }
        let own = self.manager(writer.manager, true, subresource);
        let dropped: Vec<Path> = own.difference(&fields).cloned().collect();
        *own = fields;
        // An element's path sorts before the paths of its fields, so the reverse order removes its fields first.
        for path in dropped.iter().rev().filter(|path| !self.is_needed(path)) {
            remove(&mut merged, path);
        }
        self.0.retain(|owner| !owner.fields.is_empty());
        Ok(merged)
    }

    /// Whether a field manager owns this part or one below it.
    fn is_needed(&self, path: &Path) -> bool {
        let mut owned = self.0.iter().flat_map(|owner| &owner.fields);
        owned.any(|own| own.starts_with(path))
    }

    fn manager(&mut self, name: &str, applies: bool, subresource: &str) -> &mut BTreeSet<Path> {
        let same = |owner: &Manager| {
            (owner.name.as_str(), owner.applies) == (name, applies)
                && owner.subresource == subresource
        };
        let at = self.0.iter().position(same).unwrap_or_else(|| {
            self.0.push(Manager {
                name: name.into(),
                applies,
                subresource: subresource.into(),
                fields: BTreeSet::new(),
            });
            self.0.len() - 1
        });
        &mut self.0[at].fields
    }
}

/// `Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas`
fn conflict(conflicts: &[(&str, &Path)]) -> ApiError {
    let mut message = format!("Apply failed with {} conflict", conflicts.len());
    message.push_str(if conflicts.len() == 1 { ":" } else { "s:" });
    for (manager, path) in conflicts {
        let _ = write!(message, " conflict with {manager:?}: {}", display(path));
    }
    ApiError::of_server(409, "Conflict", message)
}

/// `.spec.containers[name="web"].image`
fn display(path: &Path) -> String {
    path.iter().fold(String::new(), |mut text, step| {
        let _ = match step {
            Step::Field(name) => write!(text, ".{name}"),
            Step::Element { key, value } => write!(text, "[{key}={value}]"),
        };
        text
    })
}

/// Returns the parts of an object that a field manager can own, with their values. An element of a keyed
/// list is a part in addition to its fields. The object's identity and fields that only the server
/// writes have no owner.
fn flatten(object: &Value) -> BTreeMap<Path, &Value> {
    const UNOWNED: [&str; 9] = [
        "name",
        "namespace",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    let mut parts = BTreeMap::new();
    let fields = object.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| !["apiVersion", "kind"].contains(&name.as_str()))
    {
        if name != "metadata" {
            collect(vec![Step::Field(name.clone())], name, value, &mut parts);
            continue;
        }
        for (field, value) in value.as_object().into_iter().flatten() {
            if !UNOWNED.contains(&field.as_str()) {
                let path = vec![Step::Field(name.clone()), Step::Field(field.clone())];
                collect(path, field, value, &mut parts);
            }
        }
    }
    parts
}

/// Collects the parts of a field's value.
fn collect<'v>(path: Path, field: &str, value: &'v Value, parts: &mut BTreeMap<Path, &'v Value>) {
    let below = |step| path.iter().cloned().chain([step]).collect::<Path>();
    match (value, merge_key(field)) {
        (Value::Object(fields), _) if field != "selector" && !fields.is_empty() => {
            for (name, value) in fields {
                collect(below(Step::Field(name.clone())), name, value, parts);
            }
        }
        (Value::Array(elements), Some(key)) if !elements.is_empty() => {
            for element in elements {
                let path = below(step_to(key, element));
                // The existence of the element is a part too, besides its fields.
                parts.insert(path.clone(), &Value::Null);
                if let Value::Object(fields) = element {
                    for (name, value) in fields {
                        let path = path.iter().cloned().chain([Step::Field(name.clone())]);
                        collect(path.collect(), name, value, parts);
                    }
                }
            }
        }
        _ => drop(parts.insert(path, value)),
    }
}

fn step_to(key: &'static str, element: &Value) -> Step {
    let value = if key.is_empty() {
        element
    } else {
        &element[key]
    };
    Step::Element {
        key,
        value: value.to_string(),
    }
}

/// Merges an applied configuration into a live object.
fn merge(target: &mut Value, applied: &Value) {
    merge_field("", target, applied);
}

fn merge_field(field: &str, target: &mut Value, applied: &Value) {
    match (applied, merge_key(field)) {
        (Value::Object(fields), _) if field != "selector" => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            for (name, value) in fields {
                merge_field(name, &mut target[name], value);
            }
        }
        (Value::Array(elements), Some(key)) => {
            if !target.is_array() {
                *target = Value::Array(Vec::new());
            }
            let list = target.as_array_mut().expect("set to a list above");
            for element in elements {
                let step = step_to(key, element);
                match list.iter_mut().find(|known| step_to(key, known) == step) {
                    Some(known) => merge_field("", known, element),
                    None => list.push(element.clone()),
                }
            }
        }
        _ => *target = applied.clone(),
    }
}

/// Removes a part of an object, and parents that become empty.
fn remove(value: &mut Value, path: &[Step]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    match (value, first) {
        (Value::Object(fields), Step::Field(name)) => {
            if let Some(below) = fields.get_mut(name) {
                remove(below, rest);
                if rest.is_empty() || is_empty(below) {
                    fields.remove(name);
                }
            }
        }
        (Value::Array(elements), Step::Element { key, .. }) => {
            let Some(at) = elements
                .iter()
                .position(|element| step_to(key, element) == *first)
            else {
                return;
            };
            match rest {
                [] => drop(elements.remove(at)),
                // An element keeps its key as long as it exists.
                [Step::Field(name)] if name == key => {}
                _ => remove(&mut elements[at], rest),
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn writer(manager: &str) -> Writer<'_> {
        Writer {
            manager,
            force: false,
        }
    }

    #[test]
    fn a_different_value_of_another_managers_field_is_a_conflict() {
        let mut owners = Owners::default();
        let live = json!({"spec": {"replicas": 1, "paused": false}});
        owners.update("kubectl", "", &json!({}), &live);
        let applied = json!({"spec": {"replicas": 2, "paused": true}});
        let error = owners
            .apply(writer("ours"), "", &live, &applied)
            .unwrap_err();
        assert_eq!((error.status, error.reason.as_str()), (409, "Conflict"));
        assert_eq!(
            error.message,
            "Apply failed with 2 conflicts: conflict with \"kubectl\": .spec.paused \
             conflict with \"kubectl\": .spec.replicas"
        );
    }

    #[test]
    fn a_forced_apply_takes_over_fields() {
        let mut owners = Owners::default();
        let live = owners
            .apply(
                writer("theirs"),
                "",
                &json!({}),
                &json!({"spec": {"a": 1, "b": 1}}),
            )
            .unwrap();
        let forced = Writer {
            force: true,
            ..writer("ours")
        };
        let live = owners
            .apply(forced, "", &live, &json!({"spec": {"a": 2}}))
            .unwrap();
        assert_eq!(live, json!({"spec": {"a": 2, "b": 1}}));
        // The other field manager no longer owns `a`: its value conflicts, and omitting it does not
        // remove it.
        let again = json!({"spec": {"a": 1, "b": 1}});
        assert!(owners.apply(writer("theirs"), "", &live, &again).is_err());
        let without = json!({"spec": {"b": 1}});
        assert_eq!(
            owners.apply(writer("theirs"), "", &live, &without).unwrap(),
            live
        );
    }

    #[test]
    fn a_field_with_the_same_value_is_owned_by_both_until_both_omit_it() {
        let mut owners = Owners::default();
        let both = json!({"data": {"shared": "1"}});
        let live = owners.apply(writer("a"), "", &json!({}), &both).unwrap();
        let live = owners.apply(writer("b"), "", &live, &both).unwrap();
        let live = owners.apply(writer("a"), "", &live, &json!({})).unwrap();
        assert_eq!(live, both);
        assert_eq!(
            owners.apply(writer("b"), "", &live, &json!({})).unwrap(),
            json!({})
        );
        assert_eq!(owners, Owners::default());
    }

    #[test]
    fn a_field_that_an_update_changed_is_not_removed_by_the_manager_that_applied_it() {
        let mut owners = Owners::default();
        let live = owners
            .apply(
                writer("ours"),
                "",
                &json!({}),
                &json!({"data": {"a": "1", "b": "1"}}),
            )
            .unwrap();
        let edited = json!({"data": {"a": "2", "b": "1"}});
        owners.update("kubectl-edit", "", &live, &edited);
        let left = owners
            .apply(writer("ours"), "", &edited, &json!({}))
            .unwrap();
        assert_eq!(left, json!({"data": {"a": "2"}}));
    }

    #[test]
    fn elements_of_keyed_lists_have_their_own_owners() {
        let pod = |image: &str| json!({"spec": {"containers": [{"name": "web", "image": image}]}});
        let mut owners = Owners::default();
        let live = owners
            .apply(writer("a"), "", &json!({}), &pod("1"))
            .unwrap();
        let sidecar = json!({"spec": {"containers": [{"name": "log", "image": "x"}]}});
        let live = owners.apply(writer("b"), "", &live, &sidecar).unwrap();
        assert_eq!(live["spec"]["containers"].as_array().unwrap().len(), 2);
        let error = owners.apply(writer("b"), "", &live, &pod("2")).unwrap_err();
        assert!(
            error
                .message
                .ends_with(".spec.containers[name=\"web\"].image"),
            "{}",
            error.message
        );
        let live = owners.apply(writer("b"), "", &live, &json!({})).unwrap();
        assert_eq!(live, pod("1"));
    }

    #[test]
    fn an_element_is_kept_while_another_manager_owns_one_of_its_fields() {
        let mut owners = Owners::default();
        let ours = json!({"spec": {"containers": [{"name": "web", "image": "1"}]}});
        let live = owners.apply(writer("ours"), "", &json!({}), &ours).unwrap();
        let theirs = json!({"spec": {"containers": [{"name": "web", "image": "1", "tty": true}]}});
        owners.update("theirs", "", &live, &theirs);
        let left = owners
            .apply(writer("ours"), "", &theirs, &json!({}))
            .unwrap();
        assert_eq!(
            left,
            json!({"spec": {"containers": [{"name": "web", "tty": true}]}})
        );
    }

    #[test]
    fn finalizers_are_a_set_and_selectors_and_other_lists_are_atomic() {
        let mut owners = Owners::default();
        let live = json!({"metadata": {"name": "a", "finalizers": ["x"]},
                          "spec": {"args": ["1"], "selector": {"app": "a"}}});
        owners.update("theirs", "", &json!({}), &live);
        let applied = json!({"metadata": {"name": "a", "finalizers": ["y"]}});
        let live = owners.apply(writer("ours"), "", &live, &applied).unwrap();
        assert_eq!(live["metadata"]["finalizers"], json!(["x", "y"]));
        for atomic in [
            json!({"spec": {"args": ["1", "2"]}}),
            json!({"spec": {"selector": {"app": "a", "tier": "b"}}}),
        ] {
            assert!(
                owners
                    .clone()
                    .apply(writer("b"), "", &live, &atomic)
                    .is_err()
            );
        }
    }

    #[test]
    fn fields_applied_to_a_subresource_are_tracked_separately() {
        let mut owners = Owners::default();
        let live = owners
            .apply(writer("ours"), "", &json!({}), &json!({"spec": {"a": 1}}))
            .unwrap();
        let live = owners
            .apply(
                writer("ours"),
                "status",
                &live,
                &json!({"status": {"b": 1}}),
            )
            .unwrap();
        let live = owners.apply(writer("ours"), "", &live, &json!({})).unwrap();
        assert_eq!(live, json!({"status": {"b": 1}}));
    }
}
