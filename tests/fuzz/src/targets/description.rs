//! The descriptions of plugins, which come from `describe` before the operator has granted anything.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use flyball_types::description::{Change, Description, Having, To, Watch, WatchedPaths};
use flyball_types::{FieldPath, Kind, Mask};
use serde_json::Value;

use super::{Target, Verdict, equal};

pub(super) const DESCRIPTION: Target = Target {
    name: "description",
    tokens: || {
        SCHEMA_TOKENS
            .iter()
            .map(String::as_str)
            .chain(TOKENS)
            .collect()
    },
    feed: description,
};

/// Whole fields and edge values. The names of all fields come from the schema.
const TOKENS: [&str; 24] = [
    r#"{"kind":"v1/Pod"}"#,
    r#"{"discovered":{"periodMs":1}}"#,
    r#"{"to":"itself"}"#,
    r#"{"to":"named","path":"spec","namespaced":true}"#,
    r#"{"to":"selecting","kind":"v1/Pod","path":"spec.selector","whose":{"path":"a","value":"b"}}"#,
    r#"{"having":[{"path":"a","value":"b"},{"path":"c[d=e].f","value":""}]}"#,
    r#"{"name":"i","kind":"v1/Pod","path":"spec.nodeName"}"#,
    r#"{"path":"metadata.labels['a.b/c']"}"#,
    r#"{"labelSelector":"a in (b)"}"#,
    r#"{"fieldSelector":"metadata.name=a,b!=c"}"#,
    r#"{"fields":["."]}"#,
    r#"{"fields":["a.z","[*].b.z","[*][*].c.z"]}"#,
    r#""list[name=a].x""#,
    r#""[*]""#,
    r#""*""#,
    r#""v1/Pod""#,
    "{}",
    "[]",
    "null",
    "-1",
    "0",
    "1e999",
    "4294967295",
    "4294967296",
];

/// The fields and the constants that the schema of descriptions names.
static SCHEMA_TOKENS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let schema = serde_json::from_str(include_str!("../../../../wit/describe.schema.json"))
        .expect("the schema is JSON");
    let mut words = BTreeSet::new();
    collect_words(&schema, &mut words);
    words.into_iter().collect()
});

/// Collects `"name":` of properties, and constants, as they stand in a document.
fn collect_words(schema: &Value, words: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("properties", Value::Object(properties)) => {
                        words.extend(properties.keys().map(|name| format!("\"{name}\":")));
                    }
                    ("enum", Value::Array(values)) => {
                        words.extend(values.iter().map(Value::to_string));
                    }
                    ("const", value) => {
                        words.insert(value.to_string());
                    }
                    _ => {}
                }
                collect_words(value, words);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_words(item, words)),
        _ => {}
    }
}

/// The maximum length of a list in a description, whatever its elements.
const MAX_LIST: usize = 1000;

fn description(input: &[u8]) -> Verdict {
    let Ok(text) = str::from_utf8(input) else {
        return Ok("not text".into());
    };
    let description = match Description::read(text) {
        Ok(description) => description,
        Err(error) => return Ok(error.to_string()),
    };
    let printed = serde_json::to_value(&description)
        .map_err(|error| format!("the description can't be serialized: {error}"))?;
    if let Some(length) = longest_list(&printed).filter(|length| *length > MAX_LIST) {
        return Err(format!(
            "an accepted description has a list of {length} items"
        ));
    }
    equal(
        "the serialized description, parsed again",
        Description::read(&printed.to_string()),
        Ok(description.clone()),
    )?;
    let named = description.watches.iter().filter_map(|w| w.kind.clone());
    let mut kinds: BTreeSet<Kind> = named.collect();
    kinds.insert(Kind::new("fuzz.example.com", "v1", "Unknown"));
    for watch in &description.watches {
        let of_watch = watch.kind.iter().chain(
            kinds
                .iter()
                .filter(|_| watch.kind.is_none() && watch.discovered.is_some()),
        );
        for kind in of_watch {
            check_paths(watch, &description.watched_paths(watch, kind))?;
        }
        if let Some(kind) = &watch.kind
            && description.watched_paths(watch, kind).mask().is_err()
        {
            return Err(format!("the watch of {kind} is accepted without a mask"));
        }
    }
    Ok(format!(
        "a description of {} watches, {} mappings, {} indexes, {} permissions, {} other parts",
        description.watches.len(),
        description
            .watches
            .iter()
            .map(|watch| watch.map.len())
            .sum::<usize>(),
        description.indexes.len(),
        description.permissions.len(),
        description.tickers.len() + description.config.len() + description.metrics.len(),
    ))
}

/// Checks that a policy is asked for every path that a watch names: one that is left out would be
/// read without a grant.
fn check_paths(watch: &Watch, watched: &WatchedPaths) -> Result<(), String> {
    let all: BTreeSet<&FieldPath> = watched.all().collect();
    for text in named_paths(watch) {
        let path: FieldPath = text
            .parse()
            .map_err(|error| format!("a description is accepted although {error}"))?;
        if !all.contains(&path) {
            return Err(format!(
                "the watch names the path {path}, which is not read"
            ));
        }
    }
    let mask = watched.mask().ok();
    for path in all {
        equal(
            "the printed path, parsed again",
            path.to_string().parse(),
            Ok(path.clone()),
        )?;
        let alone = Mask::from(path);
        if mask.as_ref().is_some_and(|mask| !mask.covers(&alone)) {
            return Err(format!("the mask of the watch does not cover {path}"));
        }
    }
    Ok(())
}

/// The paths in the text of a watch.
fn named_paths(watch: &Watch) -> Vec<&str> {
    let mut paths: Vec<&str> = watch.fields.iter().map(String::as_str).collect();
    for change in &watch.changes {
        match change {
            Change::Path(path) => paths.push(path),
            Change::Generation => paths.push("metadata.generation"),
            Change::Labels => paths.push("metadata.labels"),
        }
    }
    for mapping in &watch.map {
        paths.extend(
            mapping
                .having
                .iter()
                .map(|Having { path, .. }| path.as_str()),
        );
        paths.extend(mapping.orphans.then_some("metadata.ownerReferences"));
        paths.extend(mapping.deleting.then_some("metadata.deletionTimestamp"));
        match &mapping.to {
            To::Named { path, .. } => paths.push(path),
            To::Selecting { .. } => paths.push("metadata.labels"),
            To::Controller { .. }
            | To::Owner { .. }
            | To::Dependents
            | To::OwnerReferences { .. } => paths.push("metadata.ownerReferences"),
            _ => {}
        }
    }
    if !watch.label_selector.is_empty() {
        paths.push("metadata.labels");
    }
    paths
}

fn longest_list(value: &Value) -> Option<usize> {
    match value {
        Value::Array(items) => {
            let inner = items.iter().filter_map(longest_list).max();
            inner.max(Some(items.len()))
        }
        Value::Object(fields) => {
            let inner = fields.values().filter_map(longest_list).max();
            inner.max(Some(fields.len()))
        }
        _ => None,
    }
}
