//! Dumps and hashes against `testdata`, which `generator` has written with kube-controller-manager's own packages.

use crate::quantity::Quantity;
use crate::*;

const TEMPLATES: &str = include_str!("../testdata/templates.tsv");
const QUANTITIES: &str = include_str!("../testdata/quantities.tsv");

/// Compares the hash of each template with that in its line, and returns the number of lines.
fn check(lines: &str) -> usize {
    for line in lines.lines() {
        let [hash, collisions, template] = line
            .splitn(3, '\t')
            .collect::<Vec<_>>()
            .try_into()
            .expect("three columns");
        let raw: Raw = flyball_sdk::serde_json::from_str(template).unwrap();
        let found = template_hash(&raw, collisions.parse().ok());
        assert_eq!(found, hash, "{template}\n{}", Dump(&raw.value()));
    }
    lines.lines().count()
}

#[test]
fn hashes_are_those_of_kube_controller_manager() {
    assert!(check(TEMPLATES) > 300);
}

/// Reads the lines that the generator prints for another seed from the file in `TEMPLATES`.
#[test]
#[ignore = "needs a file of the generator"]
fn hashes_of_other_templates_are_those_of_kube_controller_manager() {
    let path = std::env::var("TEMPLATES").expect("TEMPLATES names a file");
    let lines = std::fs::read_to_string(path).unwrap();
    let start = std::time::Instant::now();
    let count = check(&lines);
    println!(
        "{count} templates, {:?} each",
        start.elapsed() / count as u32
    );
}

#[test]
fn quantities_are_held_as_in_go() {
    for line in QUANTITIES.lines() {
        let (text, expected) = line.split_once('\t').unwrap();
        let found = Quantity::parse(text).map_or("-".to_owned(), |quantity| {
            format!("(resource.Quantity){quantity}")
        });
        assert_eq!(found, expected, "{text:?}");
    }
}

#[test]
fn unknown_fields_and_values_of_other_types_are_ignored() {
    let hash = |template: Value| template_hash(&Raw::from(template), None);
    let empty = hash(json!({}));
    for same in [
        json!(null),
        json!([1]),
        json!({"other": 1, "metadata": {"other": {}}}),
        json!({"metadata": "a", "spec": [{}]}),
        json!({"metadata": {"labels": {}, "creationTimestamp": null}, "spec": {"containers": []}}),
        json!({"spec": {"containers": {"name": "a"}, "nodeName": 5, "hostNetwork": "true", "priority": null}}),
    ] {
        assert_eq!(hash(same.clone()), empty, "{same}");
    }
    assert_ne!(hash(json!({"spec": {"securityContext": {}}})), empty);
}

#[test]
fn a_quantity_that_is_not_one_is_the_zero_value() {
    let dump = |limit: Value| {
        let template = json!({"spec": {"overhead": {"cpu": limit}}});
        Dump(&template).to_string()
    };
    for odd in [
        "1e99999999999999999999",
        "1234567890123456789e20000",
        "",
        "1.1.1",
    ] {
        assert_eq!(dump(json!(odd)), dump(json!("oops")));
    }
    assert_eq!(dump(json!(2)), dump(json!("2")));
    assert_eq!(dump(json!({})), dump(json!("0")));
}

#[test]
fn a_long_name_is_cut() {
    assert_eq!(name("web", "abc"), "web-abc");
    let whole = "a".repeat(249);
    assert_eq!(name(&whole, "abc"), format!("{whole}-abc"));
    assert_eq!(name(&"a".repeat(250), "abc"), format!("{whole}-abc"));
}
