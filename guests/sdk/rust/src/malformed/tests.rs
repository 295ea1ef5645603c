use serde_json::{Value, json};

use crate::imports::Read;
use crate::prelude::*;
use crate::testing::{Cluster, delta};

/// A view that is read from objects.
#[derive(View, Debug, Default)]
#[view(kind = "v1/Pod")]
struct Whole {
    #[view(path = "metadata", fields())]
    _meta: Meta,
    #[view(path = "spec.priority")]
    _priority: i32,
}

/// A view that is read from rows.
#[derive(View, Debug, Default)]
#[view(kind = "v1/Pod")]
struct Row {
    #[view(path = "spec.priority")]
    _priority: i32,
}

const PROBLEM: &str = "spec.priority: invalid type: string \"high\", expected i32";

fn pod(name: &str, priority: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "demo", "name": name, "uid": name},
        "spec": {"priority": priority},
    })
}

/// Two pods; the second one is malformed.
fn cluster() -> Cluster {
    Cluster::with([pod("good", &json!(1)), pod("odd", &json!("high"))])
}

#[test]
fn each_way_to_read_names_the_object_that_does_not_fit() {
    let cluster = cluster();
    let host = cluster.host();
    let changed = delta(
        "v1/Pod",
        None,
        Some(&cluster.object("v1/Pod", "demo", "odd").unwrap()),
    );
    let each = |_: Whole| Ok(());
    for (how, read) in [
        ("get", host.get::<Whole>("demo", "odd").map(drop)),
        ("list", host.list::<Whole>().all().map(drop)),
        ("list of rows", host.list::<Row>().all().map(drop)),
        (
            "live get",
            host.live().get::<Whole>("demo", "odd").map(drop),
        ),
        (
            "live list",
            host.live().list::<Whole>("demo", &[]).map(drop),
        ),
        (
            "live pages",
            host.live().each("v1/Pod", "", Whole::FIELDS, each),
        ),
        ("delta", changed.after::<Whole>().map(drop)),
    ] {
        let error = read.unwrap_err().doing_again();
        let expected = format!("again: v1/Pod demo/odd is malformed: {PROBLEM}");
        assert_eq!(error.to_string(), expected, "{how}");
        let mut found = Vec::new();
        error.each_malformed(&mut |object, malformed| {
            found.push((object.uid.clone(), malformed.problem()));
            assert!(
                !object.resource_version.is_empty() || how == "delta",
                "{how}"
            );
        });
        assert_eq!(found, [("odd".to_owned(), PROBLEM.to_owned())], "{how}");
    }
}

impl Error {
    fn doing_again(self) -> Self {
        Err::<(), _>(self).doing(|| "again".into()).unwrap_err()
    }
}

#[test]
fn what_is_no_object_is_named_in_words() {
    let cluster = cluster();
    let host = cluster.host();
    let get = Read::Get {
        kind: "v1/Pod".into(),
        namespace: "demo".into(),
        name: "odd".into(),
        fields: vec!["spec".into()],
    };
    let read = host.live().batch().with(get).run().remove(0).unwrap();
    let error = read.parse::<Whole>().unwrap_err();
    let expected = format!("the result of a read is malformed: {PROBLEM}");
    assert_eq!(error.to_string(), expected);
    let delta = delta("v1/Pod", None, Some(&json!({"metadata": 1})));
    let error = delta.after::<Whole>().unwrap_err().to_string();
    assert!(error.starts_with("a v1/Pod is malformed: "), "{error}");
}

/// Reads all pods, and asks for events if `EVENTS`.
struct Reads<const EVENTS: bool>;

impl<const EVENTS: bool> Controller for Reads<EVENTS> {
    fn describe() -> Description {
        let description = describe("reads", "1.0.0")
            .watch(watch::<Whole>().enqueue(Mapping::route()))
            .queue("reads");
        match EVENTS {
            true => description.malformed_events(),
            false => description,
        }
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let errors = [
            host.get_by_key::<Whole>(key).map(drop).err(),
            host.list::<Whole>().all().map(drop).err(),
            Some(Error::terminal("and another")),
        ];
        Error::join(errors.into_iter().flatten()).map_or(Ok(Outcome::Done), Err)
    }

    fn route(_: &Host, deltas: &[crate::Delta]) -> Result<Vec<crate::RoutedKey>, Error> {
        deltas
            .iter()
            .try_for_each(|delta| delta.after::<Whole>().map(drop))?;
        Ok(Vec::new())
    }
}

#[test]
fn a_plugin_that_asks_for_it_has_one_event_about_each_malformed_object() {
    let cluster = cluster();
    let error = cluster.reconcile::<Reads<true>>("demo/odd").unwrap_err();
    assert!(!error.is_terminal(), "{error}");
    let events = cluster.recorded_events();
    let text: Vec<String> = events.iter().map(ToString::to_string).collect();
    let expected = format!("Warning MalformedObject reads can't read this object: {PROBLEM}");
    assert_eq!(text, [expected]);
    let about = &events[0].about;
    assert_eq!(
        [&about.kind, &about.namespace, &about.name, &about.uid],
        ["v1/Pod", "demo", "odd", "odd"]
    );
    cluster.reconcile::<Reads<true>>("demo/odd").unwrap_err();
    assert_eq!(cluster.events(), [""; 0]);
}

#[test]
fn a_route_that_can_t_read_an_object_has_an_event_too() {
    let cluster = cluster();
    let odd = cluster.object("v1/Pod", "demo", "odd").unwrap();
    let deltas = [delta("v1/Pod", None, Some(&odd))];
    cluster.route::<Reads<true>>(&deltas).unwrap_err();
    assert_eq!(cluster.events().len(), 1);
}

#[test]
fn a_plugin_that_does_not_ask_for_it_has_no_event() {
    let cluster = cluster();
    cluster.reconcile::<Reads<false>>("demo/odd").unwrap_err();
    assert_eq!(cluster.events(), [""; 0]);
}
