//! Expectations: objects that must exist with at least some fields, or that must not exist.

use std::path::{Path, PathBuf};

use anyhow::bail;
use flyball_types::Kind;
use serde_json::Value;

use super::kinds::{Objects, kind_of};
use crate::tools::manifests;

/// The longest value in a difference, in characters.
const MAX_VALUE: usize = 200;

/// An expectation of a file.
pub(super) struct Expectation {
    file: PathBuf,
    kind: Kind,
    /// The fields. Without a name, any object of the kind and the namespace may have them.
    object: Value,
    /// Whether no such object may exist.
    absent: bool,
}

impl Expectation {
    /// Reads the expectations of a file.
    pub(super) fn read(file: &Path, absent: bool) -> anyhow::Result<Vec<Self>> {
        let objects = manifests::read(file)?;
        if objects.is_empty() {
            bail!("{} has no objects to expect", file.display());
        }
        let read = |object: Value| {
            let Some(kind) = kind_of(&object) else {
                bail!("an object in {} has no apiVersion or kind", file.display());
            };
            Ok(Self {
                file: file.to_owned(),
                kind,
                object,
                absent,
            })
        };
        objects.into_iter().map(read).collect()
    }

    pub(super) fn object(&self) -> &Value {
        &self.object
    }

    /// Returns why the expectation does not hold; none if it holds.
    pub(super) fn problem(&self, objects: &Objects) -> Option<String> {
        let kind = self.kind.to_string();
        let metadata = |name: &str| self.object["metadata"][name].as_str();
        // As in a file that `kubectl apply` reads.
        let is_meant = |[own, namespace, name]: &[String; 3]| {
            *own == kind
                && (namespace.is_empty() || metadata("namespace").unwrap_or("default") == namespace)
                && metadata("name").is_none_or(|own| own == name)
        };
        let meant = objects.iter().filter(|(key, _)| is_meant(key));
        let compared = meant.map(|(key, found)| {
            let mut differences = Vec::new();
            compare(&self.object, found, "", &mut differences);
            (key, differences)
        });
        let best = compared.min_by_key(|(_, differences)| differences.len());
        let problem = match (best, self.absent) {
            (Some((_, differences)), true) if !differences.is_empty() => return None,
            (None, true) => return None,
            (Some((_, differences)), false) if differences.is_empty() => return None,
            (Some((key, _)), true) => format!("{} exists, and must not", named(key)),
            (Some((key, differences)), false) => {
                let which = match metadata("name") {
                    Some(_) => "differs",
                    None => "is the most similar object, and differs",
                };
                format!(
                    "{} {which}:\n    {}",
                    named(key),
                    differences.join("\n    ")
                )
            }
            (None, false) => {
                let others = objects.keys().filter(|[own, ..]| *own == kind);
                let others: Vec<String> = others.map(named).collect();
                let others = match others.as_slice() {
                    [] => format!("there is no {kind}"),
                    others => format!("there are {}", others.join(", ")),
                };
                let namespace = metadata("namespace").unwrap_or("default");
                let name = metadata("name").unwrap_or("…");
                format!("no {kind} {namespace}/{name} exists; {others}")
            }
        };
        Some(format!("{}: {problem}", self.file.display()))
    }
}

/// `v1/Pod default/web`
fn named([kind, namespace, name]: &[String; 3]) -> String {
    match namespace.as_str() {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// Adds the differences between the expected and the found value. Fields that are not expected are no differences.
fn compare(expected: &Value, found: &Value, path: &str, differences: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(fields), Value::Object(own)) => {
            for (name, expected) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                let path = match name.contains(['.', '/']) {
                    true => format!("{path}[{name:?}]"),
                    false => format!("{path}{dot}{name}"),
                };
                compare(
                    expected,
                    own.get(name).unwrap_or(&Value::Null),
                    &path,
                    differences,
                );
            }
        }
        (Value::Array(items), Value::Array(own)) if items.len() == own.len() => {
            for (at, (expected, found)) in items.iter().zip(own).enumerate() {
                compare(expected, found, &format!("{path}[{at}]"), differences);
            }
        }
        _ if expected == found => {}
        _ => differences.push(format!(
            "{path}: expected {}, found {}",
            brief(expected),
            brief(found)
        )),
    }
}

fn brief(value: &Value) -> String {
    if value.is_null() {
        return "nothing".to_owned();
    }
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(expected: Value, absent: bool) -> Option<String> {
        let map = |name: &str, data: Value| {
            let key = ["v1/ConfigMap", "default", name].map(str::to_owned);
            (key, json!({"metadata": {"name": name}, "data": data}))
        };
        let objects = Objects::from([
            map("a", json!({"x": "1", "list": [1, {"y": 2, "z": 3}]})),
            map("b", json!({"x": "2", "other": {}})),
        ]);
        let expectation = Expectation {
            file: "want.yaml".into(),
            kind: "v1/ConfigMap".parse().expect("a kind"),
            object: expected,
            absent,
        };
        expectation.problem(&objects)
    }

    #[test]
    fn an_object_with_more_fields_is_as_expected() {
        let list =
            json!({"metadata": {"name": "a"}, "data": {"list": [1, {"y": 2}], "none": null}});
        assert_eq!(problem(list, false), None);
        assert_eq!(problem(json!({"data": {"x": "2"}}), false), None);
    }

    #[test]
    fn each_difference_is_told_with_its_path() {
        let expected = json!({"metadata": {"name": "a", "labels": {"a/b": "c"}},
                              "data": {"x": null, "list": [2, {"y": 3}]}});
        assert_eq!(
            problem(expected, false).expect("it differs"),
            "want.yaml: v1/ConfigMap default/a differs:\n    \
             data.list[0]: expected 2, found 1\n    \
             data.list[1].y: expected 3, found 2\n    \
             data.x: expected nothing, found \"1\"\n    \
             metadata.labels: expected {\"a/b\":\"c\"}, found nothing"
        );
        let shorter = json!({"metadata": {"name": "a"}, "data": {"list": [1]}});
        let told = problem(shorter, false).expect("it differs");
        assert!(
            told.contains("data.list: expected [1], found [1,{\"y\":2,\"z\":3}]"),
            "{told}"
        );
    }

    #[test]
    fn an_object_that_is_missing_is_told_with_those_that_exist() {
        let told = problem(json!({"metadata": {"name": "c"}}), false).expect("there is none");
        assert!(told.contains("no v1/ConfigMap default/c exists"), "{told}");
        assert!(
            told.contains("v1/ConfigMap default/a, v1/ConfigMap default/b"),
            "{told}"
        );
        let similar = problem(json!({"data": {"x": "2", "other": []}}), false);
        assert!(similar.is_some_and(|told| told.contains("default/b is the most similar object")));
    }

    #[test]
    fn an_object_that_must_be_absent_is_told_if_it_has_the_fields() {
        let absent = |expected| problem(expected, true);
        assert_eq!(absent(json!({"metadata": {"name": "c"}})), None);
        assert_eq!(
            absent(json!({"metadata": {"name": "a"}, "data": {"x": "2"}})),
            None
        );
        let told = absent(json!({"data": {"x": "2"}})).expect("b exists");
        assert_eq!(
            told,
            "want.yaml: v1/ConfigMap default/b exists, and must not"
        );
    }
}
