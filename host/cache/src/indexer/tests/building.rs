//! How indexes are built in steps, and which terms a query is looked up under.

use super::*;

/// An object whose selector requires these labels to be `1`.
fn selecting(name: usize, version: u64, labels: &[&str]) -> Arc<Object> {
    let labels: serde_json::Map<_, _> = labels
        .iter()
        .map(|label| ((*label).to_owned(), json!("1")))
        .collect();
    object(&json!({
        "metadata": {"name": name.to_string(), "namespace": "n", "uid": name.to_string(), "resourceVersion": version.to_string()},
        "spec": {"selector": {"matchLabels": labels}},
    }))
}

/// An indexer of objects that require the label `a`, whose index of selectors is yet to be built.
fn filled(count: usize) -> (Indexer, FieldPath) {
    let mut indexer = Indexer::new();
    for name in 0..count {
        indexer.upsert(selecting(name, 1, &["a"]), &mut Vec::new());
    }
    let path = "spec.selector".parse().unwrap();
    indexer.declare::<SelectorIndex>(&path);
    (indexer, path)
}

fn count_selecting(indexer: &Indexer, path: &FieldPath, label: &str) -> usize {
    let labels = LabelSet::new([(label, "1")]);
    indexer.selecting(path, "n", &labels).len()
}

fn assert_no_posting_outlives_its_object(mut indexer: Indexer) {
    let uids: Vec<Uid> = indexer.iter().map(|object| object.uid().clone()).collect();
    for uid in uids {
        indexer.remove(&uid, None, &mut Vec::new());
    }
    assert!(indexer.selectors.all().all(SelectorIndex::is_empty));
}

#[test]
fn an_index_is_built_in_steps_of_a_bounded_number_of_objects() {
    let (mut indexer, path) = filled(600);
    let mut sizes = Vec::new();
    while let Some(step) = indexer.next_step::<SelectorIndex>(&path) {
        assert!(!indexer.is_built::<SelectorIndex>(&path));
        let entries = step.entries::<SelectorIndex>(&path);
        assert!(entries.iter().all(Option::is_some));
        sizes.push(entries.len());
        indexer.take_step::<SelectorIndex>(&path, step, entries);
    }
    assert_eq!(sizes, [256, 256, 88]);
    assert_eq!(count_selecting(&indexer, &path, "a"), 600);
}

#[test]
fn changes_between_steps_are_in_the_index() {
    let (mut indexer, path) = filled(600);
    step::<SelectorIndex>(&mut indexer, &path, |_| {});
    // One that the build has reached, the next one, and a later one.
    for name in [0, 256, 500] {
        indexer.upsert(selecting(name, 2, &["b", "c"]), &mut Vec::new());
    }
    indexer.upsert(selecting(255, 2, &["b"]), &mut Vec::new());
    build::<SelectorIndex>(&mut indexer, &path);
    assert_eq!(count_selecting(&indexer, &path, "a"), 596);
    assert_eq!(count_selecting(&indexer, &path, "b"), 1);
    assert_no_posting_outlives_its_object(indexer);
}

#[test]
fn an_object_is_not_in_the_index_until_the_build_has_reached_it() {
    let (mut indexer, path) = filled(600);
    step::<SelectorIndex>(&mut indexer, &path, |_| {});
    // The build reaches this object next. The label that fewer selectors require is `b` now, and `a` later.
    indexer.upsert(selecting(256, 2, &["a", "b"]), &mut Vec::new());
    for name in 0..256 {
        indexer.upsert(selecting(name, 2, &["b"]), &mut Vec::new());
    }
    step::<SelectorIndex>(&mut indexer, &path, |_| {});
    assert_no_posting_outlives_its_object(indexer);
}

#[test]
fn a_selector_with_few_values_is_posted_under_its_label() {
    let (mut indexer, _) = filled(0);
    let mut terms = |name: usize, count: usize| {
        let values: Vec<String> = (0..count).map(|value| value.to_string()).collect();
        let name = name.to_string();
        let object = object(&json!({
            "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"},
            "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": values}]}},
        }));
        indexer.upsert(object, &mut Vec::new());
        let all = indexer.selectors.all().next().unwrap();
        all.posted_terms()
    };
    assert_eq!(terms(0, 64), 64);
    // One more, for the selectors that require no label: this one has too many values.
    assert_eq!(terms(1, 65), 65);
}

#[test]
fn an_object_with_many_values_has_one_term_for_all() {
    let path: FieldPath = "spec.list".parse().unwrap();
    for (count, is_in_bucket) in [(256, false), (257, true)] {
        let mut indexer = Indexer::new();
        indexer.declare::<ValueIndex>(&path);
        let values: Vec<String> = (0..count).map(|value| value.to_string()).collect();
        let object = object(&json!({
            "metadata": {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": "1"}, "spec": {"list": values},
        }));
        indexer.upsert(object, &mut Vec::new());
        let other = ListQuery {
            fields: vec![(path.clone(), "other".into())],
            ..ListQuery::default()
        };
        assert_eq!(indexer.candidates(&other).len(), usize::from(is_in_bucket));
    }
}

#[test]
fn labels_are_looked_up_only_while_that_costs_less_than_a_scan() {
    let mut indexer = Indexer::new();
    for (name, app, tier) in [("x", "a", "t"), ("y", "b", "t"), ("z", "c", "u")] {
        let object = object(&json!({
            "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1", "labels": {"app": app, "tier": tier}},
        }));
        indexer.upsert(object, &mut Vec::new());
    }
    for (labels, expected) in [
        ("app in (a,b,d)", 2),
        ("app in (a,b,d,e)", 3),
        ("tier in (t),app in (a,d)", 1),
        ("tier in (t,v),app in (a,d)", 1),
        ("app in (a,b),tier in (u,v)", 2),
    ] {
        let query = ListQuery {
            labels: labels.parse().unwrap(),
            ..ListQuery::default()
        };
        assert_eq!(indexer.candidates(&query).len(), expected, "{labels}");
    }
}
