//! The values that readers see, shared or not, are those that a parser finds in each version.

use std::sync::Arc;

use flyball_types::FieldPath;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::shared_paths::SharedPaths;

const PATHS: [&str; 8] = [
    "spec.a",
    "spec.a.b",
    "spec.list",
    "spec.list[*]",
    "spec.list[*].b",
    "spec.list[k=x].b",
    "metadata.labels",
    "spec['é']",
];

fn arb_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        (0..3u8).prop_map(Value::from),
        prop_oneof![Just("x"), Just("y\"]}")].prop_map(Value::from)
    ];
    let object = (scalar.clone(), scalar.clone()).prop_map(|(k, b)| json!({"k": k, "b": b}));
    prop_oneof![scalar, object]
}

fn arb_object() -> impl Strategy<Value = Value> {
    let list = proptest::collection::vec(arb_value(), 0..3);
    (arb_value(), list, arb_value()).prop_map(|(a, list, other)| {
        json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}, "spec": {"a": a, "list": list, "é": other}})
    })
}

/// The values at a path of a parsed object, found step by step.
fn reference(path: &str, object: &Value) -> Vec<Value> {
    let spec = &object["spec"];
    let list = spec["list"].as_array().cloned().unwrap_or_default();
    let field = |value: &Value| value.get("b").cloned();
    match path {
        "spec.a" => vec![spec["a"].clone()],
        "spec.a.b" => field(&spec["a"]).into_iter().collect(),
        "spec.list" => vec![spec["list"].clone()],
        "spec.list[*]" => list,
        "spec.list[*].b" => list.iter().filter_map(field).collect(),
        "spec.list[k=x].b" => {
            let selected = list.iter().filter(|value| value["k"] == "x");
            selected.filter_map(field).collect()
        }
        "spec['é']" => vec![spec["é"].clone()],
        _ => Vec::new(),
    }
}

fn delta(versions: &[Value]) -> Delta {
    let object = |value: &Value| Object::parse(value.to_string().as_bytes()).unwrap();
    let mut versions: Vec<Arc<Object>> = versions.iter().map(object).collect();
    let new = versions.pop();
    let between = match versions.len() {
        0 => Vec::new(),
        _ => versions.split_off(1),
    };
    Delta {
        old: versions.pop(),
        new,
        between,
        initial: false,
    }
}

fn assert_sees(seen: &Seen<'_>, paths: &[&str], versions: &[Value]) {
    for (number, path) in paths.iter().enumerate() {
        let expected: Vec<Vec<Value>> = { versions.iter() }
            .map(|version| reference(path, version))
            .collect();
        for (version, expected) in expected.iter().enumerate() {
            let values = seen.values_of(version, number);
            let values: Vec<Value> = values
                .map(|value| serde_json::from_str(value).unwrap())
                .collect();
            assert_eq!(values, *expected, "{path} in {}", versions[version]);
        }
        let counts = |values: &Vec<Value>| match path.contains("[*]") {
            true => values.clone(),
            false => vec![values.first().cloned().unwrap_or_default()],
        };
        let has_changed = expected
            .windows(2)
            .any(|pair| counts(&pair[0]) != counts(&pair[1]));
        assert_eq!(seen.has_changed(number), has_changed, "{path}");
    }
}

proptest! {
    #[test]
    fn each_reader_sees_its_own_values(
        versions in proptest::collection::vec(arb_object(), 1..4),
        readers in proptest::collection::vec(proptest::sample::subsequence(PATHS.to_vec(), 0..PATHS.len()), 1..4),
    ) {
        let change = Change::from(delta(&versions));
        let mut shared = SharedPaths::default();
        let parsed = |path: &&str| path.parse::<FieldPath>().unwrap();
        let numbers: Vec<Vec<usize>> = { readers.iter() }
            .map(|paths| paths.iter().map(|path| shared.add(&parsed(path))).collect())
            .collect();
        for (paths, numbers) in readers.iter().zip(&numbers) {
            assert_sees(&change.seen(shared.set(), numbers), paths, &versions);
            let own = PathSet::new(paths.iter().map(parsed));
            assert_sees(&Seen::of(&change, &own), paths, &versions);
        }
    }
}

#[test]
fn the_values_are_found_once_for_all_readers_and_can_be_forgotten() {
    let mut change = Change::from(delta(&[
        json!({"metadata": {"name": "n", "resourceVersion": "1"}}),
    ]));
    let paths = PathSet::new(["metadata.name".parse().unwrap()]);
    assert!(change.values.get().is_none());
    assert!(change.seen(&paths, &[0]).values_of(0, 0).eq(["\"n\""]));
    let found: *const Values = change.values.get().unwrap();
    assert!(!change.seen(&paths, &[0]).has_changed(0));
    assert!(std::ptr::eq(found, change.values.get().unwrap()));
    change.forget_values();
    assert!(change.values.get().is_none());
}
