//! After any changes, reads through indexes return the same objects as a scan of all objects.

use flyball_types::FieldPath;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{LabelSet, ListQuery};

mod building;
mod changes;

fn object(json: &Value) -> Arc<Object> {
    Object::parse(json.to_string().as_bytes()).unwrap()
}

#[test]
fn a_row_that_is_read_counts_until_its_object_is_removed() {
    let mut indexer = Indexer::new();
    let pod = object(
        &json!({"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"}}),
    );
    indexer.upsert(Arc::clone(&pod), &mut Vec::new());
    let before = indexer.bytes();
    let columns = Arc::new(flyball_types::Columns::parse(["metadata.name"]).unwrap());
    pod.append_row(&columns, &mut Vec::new(), usize::MAX)
        .unwrap();
    assert!(indexer.bytes() > before);
    indexer.remove(pod.uid(), None, &mut Vec::new());
    assert_eq!(indexer.bytes, 0);
}

#[derive(Clone, Debug)]
enum Change {
    /// A name, a namespace, and seeds for the object's fields.
    Put(u8, u8, [u8; 5]),
    Delete(u8, u8),
    /// A list with only the objects whose names are even.
    Replace,
    AddPath,
    RemovePath,
    AddSelector,
    RemoveSelector,
    /// A step of building the indexes, during which an object may change.
    Step(Option<(u8, u8, [u8; 5])>),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        20 => (0..8u8, 0..3u8, prop::array::uniform5(0..4u8)).prop_map(|(name, namespace, seeds)| Change::Put(name, namespace, seeds)),
        5 => (0..8u8, 0..3u8).prop_map(|(name, namespace)| Change::Delete(name, namespace)),
        1 => Just(Change::Replace),
        1 => Just(Change::AddPath),
        1 => Just(Change::RemovePath),
        1 => Just(Change::AddSelector),
        1 => Just(Change::RemoveSelector),
        2 => prop::option::of((0..8u8, 0..3u8, prop::array::uniform5(0..4u8))).prop_map(Change::Step),
    ]
}

fn put(name: u8, namespace: u8, version: u64, seeds: [u8; 5]) -> Arc<Object> {
    let [app, tier, owner, node, selector] = seeds;
    let owners: Vec<Value> = (0..owner)
        .map(|own| json!({"apiVersion": "v1", "kind": "K", "name": "k", "uid": format!("u{own}"), "controller": own == 1}))
        .collect();
    let selector = match selector {
        0 => Value::Null,
        1 => json!({"matchLabels": {"app": format!("a{app}")}}),
        2 => {
            json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["t0", "t1"]}]})
        }
        _ => json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
    };
    let mut labels = json!({"app": format!("a{app}")});
    if tier > 0 {
        labels["tier"] = format!("t{tier}").into();
    }
    let mut list = vec!["x".to_owned(), format!("y{node}")];
    if node == 3 {
        // More than an index keeps.
        list.extend((0..300).map(|value| value.to_string()));
    }
    // A recreated object of the same name may have another UID.
    object(&json!({
        "metadata": {
            "name": format!("p{name}"), "namespace": if namespace == 0 { String::new() } else { format!("n{namespace}") },
            "uid": format!("{namespace}-{name}-{}", app / 2), "resourceVersion": version.to_string(),
            "labels": labels, "ownerReferences": owners,
        },
        "spec": {"nodeName": format!("m{node}"), "selector": selector, "list": list},
    }))
}

/// A step of building an index. The object that `then` returns is put meanwhile.
fn step<I: PathIndex>(indexer: &mut Indexer, path: &FieldPath, then: impl FnOnce(&mut Indexer)) {
    let step = indexer.next_step::<I>(path);
    let entries = step.as_ref().map(|step| step.entries::<I>(path));
    then(indexer);
    if let (Some(step), Some(entries)) = (step, entries) {
        indexer.take_step::<I>(path, step, entries);
    }
}

fn build<I: PathIndex>(indexer: &mut Indexer, path: &FieldPath) {
    while indexer.next_step::<I>(path).is_some() {
        step::<I>(indexer, path, |_| {});
    }
}

fn queries() -> Vec<ListQuery> {
    let node = || ("spec.nodeName".parse().unwrap(), "m1".to_owned());
    let list = || ("spec.list".parse().unwrap(), "x".to_owned());
    let labels = |text: &str| ListQuery {
        labels: text.parse().unwrap(),
        ..ListQuery::default()
    };
    let mut queries = vec![
        ListQuery::default(),
        labels("app=a1"),
        labels("app in (a1,a2),tier!=t1"),
        labels("!tier"),
        labels("app=none"),
        ListQuery {
            orphans: true,
            ..ListQuery::default()
        },
        ListQuery {
            owner: Some(Uid::new("u0")),
            ..ListQuery::default()
        },
        ListQuery {
            controller: Some(Uid::new("u1")),
            ..ListQuery::default()
        },
        ListQuery {
            controller: Some(Uid::new("u0")),
            ..ListQuery::default()
        },
        ListQuery {
            fields: vec![node()],
            ..ListQuery::default()
        },
        ListQuery {
            fields: vec![node(), list()],
            orphans: true,
            ..labels("app=a1")
        },
    ];
    let everywhere = queries.clone();
    queries.extend(everywhere.into_iter().map(|query| ListQuery {
        namespace: "n1".into(),
        ..query
    }));
    queries
}

fn names(objects: impl IntoIterator<Item = Arc<Object>>) -> Vec<String> {
    let mut names: Vec<String> = objects
        .into_iter()
        .map(|object| format!("{object:?}"))
        .collect();
    names.sort();
    names
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reads_through_indexes_equal_a_scan_of_all_objects(changes in prop::collection::vec(change(), 0..60)) {
        let [node, list, selector] = ["spec.nodeName", "spec.list", "spec.selector"].map(|path| path.parse::<FieldPath>().unwrap());
        let mut indexer = Indexer::new();
        let (mut paths, mut selectors) = (0, 0);
        let mut model: HashMap<(u8, u8), Arc<Object>> = HashMap::new();
        let mut published: HashMap<Uid, u64> = HashMap::new();
        for (version, change) in (1..).zip(changes) {
            let mut deltas = Vec::new();
            match change {
                Change::Put(name, namespace, seeds) => {
                    let object = put(name, namespace, version, seeds);
                    model.insert((name, namespace), Arc::clone(&object));
                    indexer.upsert(object, &mut deltas);
                }
                Change::Delete(name, namespace) => {
                    if let Some(object) = model.remove(&(name, namespace)) {
                        indexer.remove(object.uid(), None, &mut deltas);
                    }
                }
                Change::Replace => {
                    model.retain(|(name, _), _| name % 2 == 0);
                    indexer.replace(model.values().cloned().collect(), false, &mut deltas);
                }
                Change::AddPath => {
                    [&node, &list].into_iter().for_each(|path| indexer.declare::<ValueIndex>(path));
                    paths += 1;
                }
                Change::RemovePath if paths > 0 => {
                    [&node, &list].into_iter().for_each(|path| drop(indexer.withdraw::<ValueIndex>(path)));
                    paths -= 1;
                }
                Change::AddSelector => {
                    indexer.declare::<SelectorIndex>(&selector);
                    selectors += 1;
                }
                Change::RemoveSelector if selectors > 0 => {
                    indexer.withdraw::<SelectorIndex>(&selector);
                    selectors -= 1;
                }
                Change::RemovePath | Change::RemoveSelector => {}
                Change::Step(changed) => {
                    step::<ValueIndex>(&mut indexer, &list, |indexer| {
                        if let Some((name, namespace, seeds)) = changed {
                            let object = put(name, namespace, version, seeds);
                            model.insert((name, namespace), Arc::clone(&object));
                            indexer.upsert(object, &mut deltas);
                        }
                    });
                    step::<SelectorIndex>(&mut indexer, &selector, |_| {});
                }
            }
            for delta in deltas {
                let uid = delta.object().uid().clone();
                prop_assert_eq!(delta.old.as_ref().map(|old| old.resource_version()), published.get(&uid).copied());
                match &delta.new {
                    Some(new) => published.insert(uid, new.resource_version()),
                    None => published.remove(&uid),
                };
            }
            prop_assert_eq!(names(indexer.iter().cloned()), names(model.values().cloned()));
            prop_assert_eq!(published.len(), model.len());
        }
        // Reads that need no index find everything before it is built.
        for query in queries() {
            let found = indexer.candidates(&query).into_iter().filter(|object| query.matches(object));
            let expected = model.values().filter(|object| query.matches(object)).cloned();
            prop_assert_eq!(names(found), names(expected), "{:?}", query);
        }
        [&node, &list].into_iter().for_each(|path| build::<ValueIndex>(&mut indexer, path));
        build::<SelectorIndex>(&mut indexer, &selector);
        for query in queries() {
            let found = indexer.candidates(&query).into_iter().filter(|object| query.matches(object));
            let expected = model.values().filter(|object| query.matches(object)).cloned();
            prop_assert_eq!(names(found), names(expected), "{:?}", query);
        }
        for labels in [LabelSet::none(), LabelSet::new([("app", "a1")]), LabelSet::new([("app", "a0"), ("tier", "t1")])] {
            let found = indexer.selecting(&selector, "n1", &labels);
            let is_found = |object: &&Arc<Object>| {
                object.namespace() == "n1" && selector_at(object, &selector).is_some_and(|selector| selector.matches(&labels))
            };
            let expected = model.values().filter(is_found).filter(|_| selectors > 0).cloned();
            prop_assert_eq!(names(found), names(expected));
        }
        for object in model.values() {
            prop_assert!(indexer.get(object.namespace(), object.name()).is_some_and(|own| Arc::ptr_eq(own, object)));
            prop_assert!(indexer.by_uid(object.uid()).is_some_and(|own| Arc::ptr_eq(own, object)));
        }
        for object in model.into_values() {
            indexer.remove(object.uid(), None, &mut Vec::new());
        }
        prop_assert_eq!((indexer.len(), indexer.bytes, indexer.namespaces.len()), (0, 0, 0));
        prop_assert!(indexer.terms.is_empty(), "terms are left after all objects are removed");
        prop_assert!(indexer.values.all().all(ValueIndex::is_empty) && indexer.selectors.all().all(SelectorIndex::is_empty));
        prop_assert_eq!((indexer.values.all().count(), indexer.selectors.all().count()), (2 * usize::from(paths > 0), usize::from(selectors > 0)));
    }
}

#[test]
fn a_list_through_an_index_tests_only_matching_objects() {
    let mut indexer = Indexer::new();
    indexer.declare::<ValueIndex>(&"spec.nodeName".parse().unwrap());
    for name in 0..100 {
        indexer.upsert(
            put(
                name,
                1 + name % 2,
                u64::from(name) + 1,
                [name % 10, 0, 0, name % 5, 0],
            ),
            &mut Vec::new(),
        );
    }
    let candidates = |query: &ListQuery| indexer.candidates(query).len();
    assert_eq!(
        candidates(&ListQuery {
            labels: "app=a3".parse().unwrap(),
            ..ListQuery::namespace("n2")
        }),
        10
    );
    assert_eq!(
        candidates(&ListQuery {
            labels: "app=a3".parse().unwrap(),
            ..ListQuery::default()
        }),
        10
    );
    assert_eq!(
        candidates(&ListQuery {
            fields: vec![("spec.nodeName".parse().unwrap(), "m2".into())],
            ..ListQuery::default()
        }),
        20
    );
    assert_eq!(candidates(&ListQuery::namespace("n1")), 50);
}
