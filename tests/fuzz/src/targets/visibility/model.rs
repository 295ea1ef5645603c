//! Finds what a policy grants the slow way: tries the rules one by one against an object's JSON, step by step, without
//! the host's masks, caches and projections.

use std::collections::BTreeSet;

use flyball_types::{FieldPath, Step};
use serde_json::Value;

use super::script::Rule;
use super::server::Object;

/// The kind of grant that a host call needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grant {
    /// A cached read, a key, or a delta for `route`.
    Watch,
    /// A live read with this verb.
    Live {
        verb: &'static str,
        subresource: String,
    },
    /// The answer to a write.
    Answer { creates: bool, subresource: String },
}

/// The visible part of one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Visibility {
    /// Not even its existence.
    Nothing,
    /// The values at these paths.
    Fields(Vec<Path>),
    Everything,
}

/// The steps that are left of a path.
type Path = Vec<Step>;

/// The part of an object that a call with this grant may see.
pub(super) fn visibility(rules: &[Rule], grant: &Grant, object: &Object) -> Visibility {
    let read = |verbs: &[&str], subresource: &str| {
        let granting: Vec<&Rule> = rules
            .iter()
            .filter(|rule| grants(rule, verbs, subresource, object))
            .collect();
        match granting.as_slice() {
            [] => Visibility::Nothing,
            some if some.iter().any(|rule| rule.fields.is_empty()) => Visibility::Everything,
            some => fields(some.iter().flat_map(|rule| &rule.fields)),
        }
    };
    match grant {
        Grant::Watch => read(&["watch"], ""),
        Grant::Live { verb, subresource } => read(&[verb], subresource),
        Grant::Answer {
            creates,
            subresource,
        } => {
            let reads = ["get", "list", "watch"];
            let own = read(&reads, subresource);
            let own = match own {
                Visibility::Nothing if !subresource.is_empty() => read(&reads, ""),
                own => own,
            };
            match own {
                // A plugin may see all of an object that it creates.
                Visibility::Nothing if *creates => Visibility::Everything,
                // The plugin wrote to this object, so it knows its name.
                Visibility::Nothing => fields([].into_iter()),
                own => own,
            }
        }
    }
}

fn grants(rule: &Rule, verbs: &[&str], subresource: &str, object: &Object) -> bool {
    let names = |list: &[String], text: &str| list.iter().any(|own| own == "*" || own == text);
    names(&rule.kinds, &object.kind)
        && verbs.iter().any(|verb| names(&rule.verbs, verb))
        && (rule.subresource == subresource || rule.subresource == "*")
        && (rule.namespaces.is_empty()
            || rule.namespaces.iter().any(|own| own == object.namespace()))
}

/// These fields, and the fields that identify an object.
fn fields<'a>(paths: impl Iterator<Item = &'a String>) -> Visibility {
    let identity = ["name", "namespace", "uid", "resourceVersion"];
    let identity = identity.map(|field| FieldPath::of_fields(&["metadata", field]));
    let granted = paths.filter_map(|path| path.parse::<FieldPath>().ok());
    let paths = identity.into_iter().chain(granted);
    Visibility::Fields(paths.map(|path| path.steps().to_vec()).collect())
}

/// The paths that go on below a field.
fn below_field(paths: &[Path], name: &str) -> Vec<Path> {
    let next = |path: &Path| match path.split_first() {
        Some((Step::Field(own), rest)) if **own == *name => Some(rest.to_vec()),
        Some((Step::Each, rest)) => Some(rest.to_vec()),
        _ => None,
    };
    paths.iter().filter_map(next).collect()
}

/// The paths that go on below an element of a list.
fn below_element(paths: &[Path], element: &Value) -> Vec<Path> {
    let mut found = Vec::new();
    for path in paths {
        match path.split_first() {
            Some((Step::Each, rest)) => found.push(rest.to_vec()),
            Some((Step::Where(filter), rest))
                if element.get(&*filter.field).and_then(Value::as_str) == Some(&*filter.value) =>
            {
                found.push(rest.to_vec());
                // A plugin that sees the element knows the value that the filter names.
                found.push(vec![Step::Field(filter.field.clone())]);
            }
            _ => {}
        }
    }
    found
}

fn is_whole(paths: &[Path]) -> bool {
    paths.iter().any(Vec::is_empty)
}

/// Adds the markers that may be seen: granted strings, and keys that are granted at least in part.
pub(super) fn visible_markers(
    version: &Value,
    visibility: &Visibility,
    found: &mut BTreeSet<String>,
) {
    match visibility {
        Visibility::Nothing => {}
        Visibility::Everything => collect(version, &[Vec::new()], found),
        Visibility::Fields(paths) => collect(version, paths, found),
    }
}

fn collect(value: &Value, paths: &[Path], found: &mut BTreeSet<String>) {
    let whole = [Vec::new()];
    match value {
        Value::String(text) if is_whole(paths) => {
            found.insert(text.clone());
        }
        Value::Array(items) => {
            for item in items {
                match is_whole(paths) {
                    true => collect(item, &whole, found),
                    false => collect(item, &below_element(paths, item), found),
                }
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let below = match is_whole(paths) {
                    true => whole.to_vec(),
                    false => below_field(paths, name),
                };
                if !below.is_empty() {
                    found.insert(name.clone());
                    collect(value, &below, found);
                }
            }
        }
        _ => {}
    }
}

/// The object with other values wherever it may not be seen; `None` if nothing of it may be. A plugin
/// must not notice the difference.
pub(super) fn concealed(object: &Object, visibility: &Visibility) -> Option<Object> {
    let paths = match visibility {
        Visibility::Nothing => return None,
        Visibility::Everything => return Some(object.clone()),
        Visibility::Fields(paths) => paths,
    };
    let mut concealed = object.clone();
    for version in [Some(&mut concealed.version), concealed.later.as_mut()] {
        let Some(version) = version else { continue };
        let has_finalizers = version["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty());
        let mut removed = false;
        conceal(version, paths, &mut |name| {
            // Every other field is removed; the rest have other values.
            removed = !removed;
            match name {
                "finalizers" => false,
                // Without finalizers, the object is gone.
                "deletionTimestamp" => has_finalizers,
                _ => removed,
            }
        });
    }
    Some(concealed)
}

fn conceal(value: &mut Value, paths: &[Path], removes: &mut impl FnMut(&str) -> bool) {
    if is_whole(paths) {
        return;
    }
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let below = below_field(paths, name);
                let is_hidden = below.is_empty() || (is_scalar(value) && !is_whole(&below));
                if is_hidden && removes(name) {
                    return false;
                }
                match is_hidden {
                    // Kept, because a zero decides whether a deletion waits, and so whether the object exists.
                    true if name == "deletionGracePeriodSeconds" => {}
                    true => change(value),
                    false => conceal(value, &below, removes),
                }
                true
            });
        }
        Value::Array(items) => {
            for item in items {
                let below = below_element(paths, item);
                match below.is_empty() {
                    true => change(item),
                    false => conceal(item, &below, removes),
                }
            }
        }
        scalar => change(scalar),
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// Replaces all values by others of the same type and, mostly, length.
fn change(value: &mut Value) {
    match value {
        Value::String(text) if text.contains('#') => *text = text.replace('#', "~"),
        Value::String(text) => {
            let last = text.pop();
            text.extend(last.map(|last| if last == 'x' { 'y' } else { 'x' }));
        }
        Value::Bool(yes) => *yes = !*yes,
        Value::Number(number) => {
            if let Some(own) = number.as_u64() {
                *value = if own % 10 == 9 { own - 1 } else { own + 1 }.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(change),
        Value::Object(fields) => {
            for (name, mut value) in std::mem::take(fields) {
                change(&mut value);
                fields.insert(name.replace('#', "~"), value);
            }
        }
        Value::Null => {}
    }
}
