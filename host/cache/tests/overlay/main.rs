//! A plugin reads its own writes, whether or not the reflector has seen them. Other plugins read them only from the
//! cache.

mod deletions;
#[path = "../fake/mod.rs"]
mod fake;
mod read_your_writes;

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use fake::{Server, interest, started};
use flyball_cache::{
    ApiResponse, DecodeError, Informer, InformerFactory, Interest, LabelSet, ListQuery, Lister,
    Object, OverlayWriter, Scope, Uid, View,
};
use serde_json::{Value, json};
use tokio::time::sleep;

struct Plugin {
    writer: OverlayWriter,
    lister: Lister,
    informer: Informer,
}

impl Plugin {
    fn new(informer: &Informer) -> Self {
        let writer = OverlayWriter::new();
        let lister = Lister::new(informer.clone(), writer.reader(), View::default());
        Self {
            writer,
            lister,
            informer: informer.clone(),
        }
    }

    fn wrote(&self, response: &Value) {
        self.writer
            .written(
                &self.informer,
                &ApiResponse::new(response.to_string().into()),
            )
            .unwrap();
    }

    fn deleted(&self, name: &str, response: &Value) {
        self.deleted_as_seen(name, None, response);
    }

    /// `before` is the object as the plugin read it before the delete.
    fn deleted_as_seen(&self, name: &str, before: Option<&Object>, response: &Value) {
        self.writer
            .deleted(
                &self.informer,
                ("a", name),
                before,
                &ApiResponse::new(response.to_string().into()),
            )
            .unwrap();
    }

    fn contents(&self) -> Vec<String> {
        let found = self.lister.list(&ListQuery::default());
        assert_eq!(found.len(), self.lister.count(&ListQuery::default()));
        for object in &found {
            let same = |other: Option<Arc<_>>| {
                assert!(other.is_some_and(|other| Arc::ptr_eq(&other, object)))
            };
            same(self.lister.get(object.namespace(), object.name()));
            same(self.lister.by_uid(object.uid()));
        }
        found
            .iter()
            .map(|object| format!("{}={}", object.key(), object.resource_version()))
            .collect()
    }
}

/// A server, and a plugin that reads these fields from a synced cache. The factory keeps the reflector running.
async fn reading_plugin(fields: &[&str]) -> (Arc<Server>, InformerFactory, Plugin) {
    let server = Server::new();
    let (factory, informer) = started(&server, interest(fields)).await;
    informer.synced().await;
    let plugin = Plugin::new(&informer);
    (server, factory, plugin)
}

/// The lister of a plugin that has written nothing and sees all fields, in one namespace or in all.
fn reading(informer: &Informer, namespace: Option<&str>) -> Lister {
    let view = View {
        mask: informer.mask().clone(),
        namespaces: namespace.map(|namespace| [namespace.to_owned()].into()),
    };
    Lister::new(informer.clone(), OverlayWriter::new().reader(), view)
}

fn status(uid: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"name": "x", "kind": "pods", "uid": uid}})
}

fn pod(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"nodeName": "n1"}})
}

#[tokio::test(start_paused = true)]
async fn a_write_is_visible_to_its_plugin_immediately_and_to_others_with_the_event() {
    let server = Server::new();
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    let (own, other) = (Plugin::new(&informer), Plugin::new(&informer));
    server.inner().holding = true;
    own.wrote(&server.put("a", "x", pod(json!({}))));
    assert_eq!(
        (own.contents(), other.contents()),
        (vec!["a/x=101".to_owned()], vec![])
    );
    own.wrote(&server.put("a", "x", pod(json!({}))));
    assert_eq!(own.contents(), ["a/x=102"]);
    server.release(1);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(
        (own.contents(), other.contents()),
        (vec!["a/x=102".to_owned()], vec!["a/x=101".to_owned()])
    );
    server.release(1);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(own.contents(), other.contents());
    assert_eq!(own.writer.tidy(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_cache_has_passed_is_not_returned() {
    let (server, _factory, plugin) = reading_plugin(&["spec"]).await;
    server.inner().holding = true;
    plugin.wrote(&server.put("a", "x", pod(json!({}))));
    server.put("a", "x", pod(json!({})));
    plugin.wrote(&server.put("a", "y", pod(json!({}))));
    assert_eq!(plugin.contents(), ["a/x=101", "a/y=103"]);
    assert_eq!(plugin.writer.tidy(), 2);
    server.release(2);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(plugin.contents(), ["a/x=102", "a/y=103"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_wrote_may_be_a_dependent_until_the_cache_has_it() {
    let (server, _factory, plugin) = reading_plugin(&["spec"]).await;
    let owner = json!({"apiVersion": "v1", "kind": "K", "name": "k", "uid": "owner"});
    let owned = json!({"metadata": {"ownerReferences": [owner]}});
    let (owner, other) = (Uid::new("owner"), Uid::new("other"));
    let may = |uid| plugin.lister.may_have_dependents(uid);
    assert!(!may(&owner) && !may(&other));
    server.inner().holding = true;
    plugin.wrote(&server.put("a", "x", owned));
    assert!(may(&owner) && may(&other));
    server.release(1);
    sleep(Duration::from_millis(1)).await;
    plugin.writer.tidy();
    assert!(may(&owner) && !may(&other));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_the_reflector_has_passed_is_not_recorded() {
    let (server, _factory, plugin) = reading_plugin(&["spec"]).await;
    let old = server.put("a", "x", pod(json!({})));
    server.put("a", "x", pod(json!({})));
    sleep(Duration::from_millis(1)).await;
    plugin.wrote(&old);
    assert_eq!(
        (plugin.contents(), plugin.writer.tidy()),
        (vec!["a/x=102".to_owned()], 0)
    );
}

/// A pod in protobuf with the field 9, which is not in the schema.
fn in_protobuf(version: u64) -> ApiResponse {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let metadata = [
        field(1, b"x"),
        field(3, b"a"),
        field(5, b"u"),
        field(6, version.to_string().as_bytes()),
    ]
    .concat();
    let types = [field(1, b"v1"), field(2, b"Pod")].concat();
    let object = [
        field(1, &metadata),
        field(2, &field(10, b"n1")),
        field(9, b"new"),
    ]
    .concat();
    ApiResponse::new(
        [b"k8s\0".to_vec(), field(1, &types), field(2, &object)]
            .concat()
            .into(),
    )
}

#[tokio::test(start_paused = true)]
async fn the_change_of_an_undecodable_response_is_visible_once_the_reflector_has_seen_it() {
    let server = Server::new();
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    informer.synced().await;
    let plugin = Plugin::new(&informer);
    let response = in_protobuf(server.version() + 1);
    assert!(matches!(
        plugin.writer.written(&informer, &response),
        Err(DecodeError::Protobuf(_))
    ));
    assert!(matches!(
        plugin
            .writer
            .deleted(&informer, ("a", "x"), None, &response),
        Err(DecodeError::Protobuf(_))
    ));
    assert!(
        !informer.catches_up(&response).await,
        "the change has not arrived"
    );
    server.put("a", "x", pod(json!({})));
    assert!(informer.catches_up(&response).await);
    assert_eq!(plugin.contents(), ["a/x=101"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_hidden_until_its_event_and_its_name_can_be_reused() {
    let (server, _factory, plugin) = reading_plugin(&["spec"]).await;
    server.put("a", "x", pod(json!({})));
    sleep(Duration::from_millis(1)).await;
    server.inner().holding = true;
    plugin.deleted("x", &status(&server.delete("a", "x").unwrap()));
    assert!(plugin.contents().is_empty());
    plugin.wrote(&server.put("a", "x", pod(json!({}))));
    assert_eq!(plugin.contents(), ["a/x=103"]);
    // `y` is created and deleted before any of its events arrive. It must stay hidden when they do.
    plugin.wrote(&server.put("a", "y", pod(json!({}))));
    plugin.deleted("y", &status(&server.delete("a", "y").unwrap()));
    for _ in 0..4 {
        assert_eq!(plugin.contents(), ["a/x=103"]);
        server.release(1);
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(
        (plugin.contents(), plugin.writer.tidy()),
        (vec!["a/x=103".to_owned()], 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_the_reflector_saw_before_its_response_leaves_no_entry() {
    let (server, _factory, plugin) = reading_plugin(&["spec"]).await;
    server.put("a", "x", pod(json!({})));
    sleep(Duration::from_millis(1)).await;
    let before = plugin.lister.get("a", "x").unwrap();
    let response = status(&server.delete("a", "x").unwrap());
    sleep(Duration::from_millis(1)).await;
    plugin.deleted_as_seen("x", Some(&before), &response);
    assert_eq!((plugin.contents(), plugin.writer.tidy()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn a_graceful_delete_shows_the_object_until_its_last_finalizer_is_removed() {
    let (server, _factory, plugin) = reading_plugin(&["spec"]).await;
    server.inner().holding = true;
    let deleting = |finalizers: Value| json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}});
    plugin.wrote(&server.put("a", "x", pod(json!({}))));
    plugin.deleted("x", &server.put("a", "x", deleting(json!(["f"]))));
    assert!(plugin.lister.get("a", "x").unwrap().is_deleting());
    plugin.wrote(&server.put("a", "x", deleting(json!([]))));
    assert!(plugin.contents().is_empty());
    for _ in 0..3 {
        server.release(1);
        sleep(Duration::from_millis(1)).await;
        assert!(plugin.contents().is_empty());
    }
    assert_eq!(plugin.writer.tidy(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_finalizers_in_its_spec_stays_visible() {
    let (server, _factory, plugin) = reading_plugin(&["spec"]).await;
    let deleting = |finalizers: Value| {
        let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        json!({"metadata": metadata, "spec": {"finalizers": finalizers}})
    };
    plugin.deleted("x", &server.put("a", "x", deleting(json!(["kubernetes"]))));
    assert!(plugin.lister.get("a", "x").unwrap().is_deleting());
    server.inner().holding = true;
    plugin.wrote(&server.put("a", "x", deleting(json!(["kubernetes"]))));
    assert_eq!(plugin.contents(), ["a/x=102"]);
    plugin.wrote(&server.put("a", "x", deleting(json!([]))));
    assert!(plugin.contents().is_empty());
    server.release(3);
    sleep(Duration::from_millis(1)).await;
    assert_eq!((plugin.contents(), plugin.writer.tidy()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn a_spec_without_valid_finalizers_does_not_delay_the_deletion() {
    let (server, _factory, plugin) = reading_plugin(&["metadata"]).await;
    server.put("a", "x", pod(json!({})));
    sleep(Duration::from_millis(1)).await;
    for spec in [
        json!({"finalizers": {"a": 1}}),
        json!("text"),
        json!({"finalizers": [1]}),
        Value::Null,
    ] {
        server.inner().holding = true;
        let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        plugin.wrote(&server.put("a", "x", json!({"metadata": metadata, "spec": spec})));
        assert!(plugin.contents().is_empty(), "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_scope_by_a_write_is_hidden() {
    let server = Server::new();
    let scope = Scope {
        labels: "app=web".parse().unwrap(),
        ..Scope::default()
    };
    let (_factory, informer) = started(
        &server,
        Interest {
            scope,
            ..interest(&["spec"])
        },
    )
    .await;
    informer.synced().await;
    let plugin = Plugin::new(&informer);
    server.put("a", "x", pod(json!({"app": "web"})));
    sleep(Duration::from_millis(1)).await;
    server.inner().holding = true;
    plugin.wrote(&server.put("a", "x", pod(json!({"app": "db"}))));
    plugin.wrote(&server.put("a", "y", pod(json!({"app": "db"}))));
    assert!(plugin.contents().is_empty());
    plugin.wrote(&server.put("a", "x", pod(json!({"app": "web"}))));
    assert_eq!(plugin.contents(), ["a/x=104"]);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_read_returns_written_objects() {
    let server = Server::new();
    let node: flyball_types::FieldPath = "spec.nodeName".parse().unwrap();
    let selector: flyball_types::FieldPath = "spec.selector".parse().unwrap();
    let want = Interest {
        indexes: vec![node.clone()],
        selectors: vec![selector.clone()],
        ..interest(&[])
    };
    let (_factory, informer) = started(&server, want).await;
    informer.synced().await;
    let plugin = Plugin::new(&informer);
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]);
    let object = json!({
        "metadata": {"labels": {"app": "web"}, "ownerReferences": owner},
        "spec": {"nodeName": "n1", "selector": {"matchLabels": {"app": "web"}}},
    });
    server.inner().holding = true;
    plugin.wrote(&server.put("a", "x", object));
    let queries = [
        ListQuery::namespace("a"),
        ListQuery {
            labels: "app in (web,db)".parse().unwrap(),
            ..ListQuery::default()
        },
        ListQuery {
            fields: vec![(node.clone(), "n1".into())],
            ..ListQuery::default()
        },
        ListQuery {
            owner: Some(Uid::new("u")),
            ..ListQuery::default()
        },
        ListQuery {
            controller: Some(Uid::new("u")),
            ..ListQuery::namespace("a")
        },
    ];
    let none = [
        ListQuery::namespace("b"),
        ListQuery {
            orphans: true,
            ..ListQuery::default()
        },
        ListQuery {
            fields: vec![(node, "n2".into())],
            ..ListQuery::namespace("a")
        },
    ];
    for from_cache in [false, true] {
        for query in &queries {
            assert_eq!(
                plugin.lister.list(query).len(),
                1,
                "{query:?}, from cache: {from_cache}"
            );
        }
        for query in &none {
            assert_eq!(
                plugin.lister.count(query),
                0,
                "{query:?}, from cache: {from_cache}"
            );
        }
        assert_eq!(
            plugin
                .lister
                .selecting(&selector, "a", &LabelSet::new([("app", "web")]))
                .len(),
            1
        );
        assert_eq!(
            plugin
                .lister
                .selecting(&selector, "a", &LabelSet::none())
                .len(),
            0
        );
        assert_eq!(
            plugin
                .lister
                .selecting(&selector, "b", &LabelSet::new([("app", "web")]))
                .len(),
            0
        );
        server.release(1);
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_objects_are_counted_without_a_look_at_each() {
    let server = Server::new();
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    for number in 0..1000 {
        server.put("a", &number.to_string(), json!({"spec": number}));
    }
    sleep(Duration::from_millis(1)).await;
    let count = |namespace| {
        let lister = reading(&informer, namespace);
        lister.count_while(&ListQuery::default(), || Err("too many objects"))
    };
    assert_eq!(count(None), Ok(1000));
    assert_eq!(count(Some("a")), Err("too many objects"));
}

#[tokio::test(start_paused = true)]
async fn a_long_query_asks_whether_it_may_go_on_as_often_as_its_work_says() {
    let server = Server::new();
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    let text = "x".repeat(2500);
    for number in 0..100 {
        server.put("a", &number.to_string(), json!({"spec": {"text": text}}));
    }
    sleep(Duration::from_millis(1)).await;
    let lister = reading(&informer, None);
    // Each field adds the two KiB of an object to its work, which is one without fields. It asks once 256 are done.
    for (fields, expected) in [(0, 0), (1, 1), (3, 2)] {
        let field = ("spec.text".parse().unwrap(), text.clone());
        let query = ListQuery {
            fields: vec![field; fields],
            ..ListQuery::namespace("a")
        };
        let asked = Cell::new(0);
        let found = lister.find_while(&query, || {
            asked.set(asked.get() + 1);
            Ok::<(), Infallible>(())
        });
        assert_eq!(found.unwrap().len(), 100);
        assert_eq!(asked.get(), expected, "with {fields} fields");
    }
}

#[tokio::test(start_paused = true)]
async fn a_projection_copies_only_objects_with_more_fields() {
    let server = Server::new();
    let (_factory, informer) = started(&server, interest(&["spec"])).await;
    server.put("a", "x", json!({"spec": 1}));
    sleep(Duration::from_millis(1)).await;
    let lister = reading(&informer, None);
    let cached = lister.get("a", "x").unwrap();
    let whole = json!({"metadata": {"name": "y", "uid": "y", "resourceVersion": "1"}, "spec": 2, "status": 3});
    let whole = Object::parse(whole.to_string().as_bytes()).unwrap();
    let all = flyball_types::Mask::whole();
    assert!(whole.mask().covers(&all) && !cached.mask().covers(&all));
    let mut projection = lister.projection(None).unwrap();
    for _ in 0..2 {
        let bytes = projection.bytes(&cached);
        assert_eq!(bytes.as_ptr(), cached.json().as_ptr());
        let reduced: Value = serde_json::from_slice(&projection.bytes(&whole)).unwrap();
        assert_eq!(
            (&reduced["spec"], &reduced["status"]),
            (&json!(2), &Value::Null)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_shows_its_own_fields_and_namespaces() {
    let server = Server::new();
    let (factory, informer) = started(&server, interest(&["spec"])).await;
    let wide = factory.informer(interest(&["status"]));
    wide.synced().await;
    server.put("a", "x", json!({"spec": 1, "status": 2}));
    server.put("b", "y", json!({"spec": 1, "status": 2}));
    sleep(Duration::from_millis(1)).await;
    let lister = reading(&informer, Some("a"));
    assert_eq!(lister.view().namespaces, Some(["a".to_owned()].into()));
    assert_eq!(lister.count(&ListQuery::default()), 1);
    assert!(lister.get("b", "y").is_none());
    let object = lister.get("a", "x").unwrap();
    let mut out = Vec::new();
    lister.project(&object, None, &mut out).unwrap();
    let shown: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        (&shown["spec"], &shown["status"]),
        (&json!(1), &Value::Null)
    );
    let fields = Arc::new(flyball_types::Mask::parse(["status.phase", "spec"]).unwrap());
    assert!(
        lister
            .project(&object, Some(&fields), &mut out)
            .unwrap_err()
            .to_string()
            .contains("status.phase")
    );
}
