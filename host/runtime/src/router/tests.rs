//! Tests of the keys that a delta yields, and of the deltas that the guest is asked about.

use std::cell::{Cell, RefCell};

use flyball_cache::Uid;
use serde_json::{Value, json};

use super::*;

mod concern;

/// A cache of Deployments: their names, their UIDs, and the values of `app` in their selectors.
struct Deployments(&'static [(&'static str, &'static str, &'static str)]);

impl Lookup for Deployments {
    fn has(&self, kind: &Kind, namespace: &str, name: &str, uid: &Uid) -> Option<bool> {
        let is_there = |known: &&(&str, &str, &str)| known.0 == name && Uid::new(known.1) == *uid;
        (kind.kind == "Deployment")
            .then(|| namespace == "demo" && self.0.iter().any(|known| is_there(&known)))
    }

    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let (_, uid, _) = self.0.iter().find(|known| known.0 == name)?;
        let is_of_cache = kind.kind == "Deployment" && namespace == "demo";
        Some(self.by_uid(&Uid::new(uid))?.1).filter(|_| is_of_cache)
    }

    fn has_any(&self, kind: &Kind, namespace: &str) -> bool {
        kind.kind == "Deployment" && matches!(namespace, "demo" | "") && !self.0.is_empty()
    }

    fn selecting(&self, _: &Kind, _: &FieldPath, object: &Object) -> Vec<Arc<Object>> {
        let app = object
            .labels()
            .iter()
            .find(|(key, _)| *key == "app")
            .map(|(_, app)| app.to_owned());
        let found = self
            .0
            .iter()
            .filter(|known| Some(known.2) == app.as_deref());
        found
            .filter_map(|known| self.by_uid(&Uid::new(known.1)))
            .map(|(_, object)| object)
            .collect()
    }

    fn keys(&self, _: &Kind, namespace: &str) -> Vec<String> {
        let found = self
            .0
            .iter()
            .filter(|_| namespace.is_empty() || namespace == "demo");
        found.map(|known| format!("demo/{}", known.0)).collect()
    }

    /// A Deployment whose selector asks for `going` is being deleted.
    fn by_uid(&self, uid: &Uid) -> Option<(Kind, Arc<Object>)> {
        let (name, uid, app) = self.0.iter().find(|known| Uid::new(known.1) == *uid)?;
        let mut metadata =
            json!({"namespace": "demo", "name": name, "uid": uid, "resourceVersion": "1"});
        if *app == "going" {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let object =
            Object::parse(json!({"metadata": metadata}).to_string().as_bytes()).expect("an object");
        Some((Kind::new("apps", "v1", "Deployment"), object))
    }

    fn dependents(&self, uid: &Uid) -> Vec<Reference> {
        let kind = Kind::new("apps", "v1", "ReplicaSet");
        let owned = ["a", "b"].map(|name| (name.to_owned(), format!("{uid}-{name}")));
        owned
            .map(|(name, uid)| Reference {
                kind: kind.clone(),
                namespace: "demo".into(),
                name,
                uid,
            })
            .into()
    }

    fn note_deletion(&self, _: Reference) {}

    fn is_namespaced(&self, kind: &Kind) -> Option<bool> {
        match kind.kind.as_str() {
            "Deployment" => Some(true),
            "Node" => Some(false),
            _ => None,
        }
    }
}

/// The Deployments of [`CACHE`], with other answers about owners. Counts the lookups, and records deletions.
struct Observed {
    /// Returns whether a namespace has the owner.
    has: fn(&str) -> Option<bool>,
    /// How often all keys of a kind were looked up.
    keys_read: Cell<u32>,
    deleted: RefCell<Vec<Reference>>,
}

impl Observed {
    fn new(has: fn(&str) -> Option<bool>) -> Self {
        Self {
            has,
            keys_read: Cell::default(),
            deleted: RefCell::default(),
        }
    }
}

impl Lookup for Observed {
    fn has(&self, _: &Kind, namespace: &str, _: &str, _: &Uid) -> Option<bool> {
        (self.has)(namespace)
    }

    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        CACHE.get(kind, namespace, name)
    }

    fn has_any(&self, kind: &Kind, namespace: &str) -> bool {
        CACHE.has_any(kind, namespace)
    }

    fn selecting(&self, kind: &Kind, path: &FieldPath, object: &Object) -> Vec<Arc<Object>> {
        CACHE.selecting(kind, path, object)
    }

    fn keys(&self, kind: &Kind, namespace: &str) -> Vec<String> {
        self.keys_read.set(self.keys_read.get() + 1);
        CACHE.keys(kind, namespace)
    }

    fn by_uid(&self, uid: &Uid) -> Option<(Kind, Arc<Object>)> {
        CACHE.by_uid(uid)
    }

    fn dependents(&self, uid: &Uid) -> Vec<Reference> {
        CACHE.dependents(uid)
    }

    fn note_deletion(&self, object: Reference) {
        self.deleted.borrow_mut().push(object);
    }

    fn is_namespaced(&self, kind: &Kind) -> Option<bool> {
        CACHE.is_namespaced(kind)
    }
}

const CACHE: Deployments = Deployments(&[("web", "u-web", "web"), ("db", "u-db", "db")]);

/// A ReplicaSet `web-1`; `more` is merged into its metadata.
fn set(more: Value) -> Arc<Object> {
    let mut object = json!({"metadata": {"namespace": "demo", "name": "web-1", "uid": "u", "resourceVersion": "7"}});
    for (name, value) in more.as_object().expect("an object") {
        object["metadata"][name] = value.clone();
    }
    Object::parse(object.to_string().as_bytes()).expect("an object")
}

fn owned_by(name: &str, uid: &str) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": true});
    json!({"ownerReferences": [owner]})
}

fn router(watch: Value) -> Router {
    let mut watch = watch;
    watch["kind"] = "apps/v1/ReplicaSet".into();
    let description = json!({
        "format": 1, "name": "test", "version": "1.0.0", "queues": [{"name": "first"}, {"name": "second"}],
        "watches": [watch, {"kind": "apps/v1/Deployment"}],
    });
    let description = Description::read(&description.to_string()).expect("a description");
    Router::new(
        &description,
        &description.watches[0],
        &Kind::new("apps", "v1", "ReplicaSet"),
    )
}

fn delta(old: Option<Arc<Object>>, new: Option<Arc<Object>>) -> Delta {
    Delta {
        old,
        new,
        between: Vec::new(),
        initial: false,
    }
}

fn all_keys(router: &Router, delta: &Delta, lookup: &impl Lookup) -> Vec<Enqueue> {
    router.all_keys(&router.seen(delta), lookup)
}

fn asks_guest(router: &Router, delta: &Delta) -> bool {
    router.asks_guest(&router.seen(delta), &CACHE)
}

fn keys(router: &Router, delta: &Delta) -> Vec<String> {
    all_keys(router, delta, &CACHE)
        .iter()
        .map(|routed| routed.key.to_string())
        .collect()
}

#[test]
fn a_moved_owner_wakes_both_sides() {
    let router = router(json!({"map": [{"to": "controller", "kind": "apps/v1/Deployment"}]}));
    let delta = delta(
        Some(set(owned_by("web", "u-web"))),
        Some(set(owned_by("db", "u-db"))),
    );
    assert_eq!(keys(&router, &delta), ["demo/web", "demo/db"]);
}

#[test]
fn the_guest_is_asked_about_what_its_mapping_names_alone() {
    let having = json!({"path": "metadata.finalizers", "value": "x/held"});
    let router = router(json!({"map": [{"to": "route", "on": ["modified"], "having": having}]}));
    let (held, free) = (set(json!({"finalizers": ["x/held"]})), set(json!({})));
    for (old, new, asks) in [
        (Some(&held), Some(&free), true),
        (Some(&free), Some(&held), true),
        (Some(&free), Some(&free), false),
        (None, Some(&held), false),
    ] {
        assert_eq!(
            asks_guest(&router, &delta(old.cloned(), new.cloned())),
            asks,
            "{old:?} {new:?}"
        );
    }
    assert_eq!(
        keys(&router, &delta(Some(held.clone()), Some(held))),
        Vec::<String>::new()
    );
}

#[test]
fn the_guest_is_asked_about_what_meets_all_conditions() {
    let asks = |mapping: Value, object: &Arc<Object>| {
        asks_guest(
            &router(json!({"map": [mapping]})),
            &delta(None, Some(object.clone())),
        )
    };
    let (orphan, owned) = (set(json!({})), set(owned_by("web", "u-web")));
    let going = set(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
    let (orphans, deleting) = (
        json!({"to": "route", "orphans": true}),
        json!({"to": "route", "deleting": true}),
    );
    assert!(asks(orphans.clone(), &orphan) && !asks(orphans, &owned));
    assert!(asks(deleting.clone(), &going) && !asks(deleting, &orphan));
    let (held, web) = (json!(["x/held"]), json!({"app": "web"}));
    let values = [
        ("metadata.finalizers", "x/held"),
        ("metadata.labels.app", "web"),
    ];
    let both = json!({"to": "route", "having": values.map(|(path, value)| json!({"path": path, "value": value}))});
    assert!(asks(
        both.clone(),
        &set(json!({"finalizers": held, "labels": web}))
    ));
    assert!(
        !asks(both.clone(), &set(json!({"finalizers": held})))
            && !asks(both, &set(json!({"labels": web})))
    );
}

#[test]
fn a_mapping_applies_to_objects_with_one_of_its_fields() {
    let any = ["metadata.finalizers", "metadata.labels.app"];
    let router = router(json!({"map": [{"to": "route", "havingAny": any}]}));
    for (metadata, asks) in [
        (json!({"finalizers": ["x/held"]}), true),
        (json!({"labels": {"app": "web"}}), true),
        (json!({"finalizers": [], "labels": {"other": "web"}}), false),
        (json!({}), false),
    ] {
        let added = delta(None, Some(set(metadata.clone())));
        assert_eq!(asks_guest(&router, &added), asks, "{metadata}");
    }
}

#[test]
fn a_mapping_skips_deltas_whose_newest_version_has_a_value() {
    let unless = json!([{"path": "metadata.labels.done"}, {"path": "metadata.finalizers", "value": "x/held"}]);
    for to in ["itself", "route"] {
        let router = router(json!({"map": [{"to": to, "unless": unless}]}));
        let applies =
            |delta: &Delta| asks_guest(&router, delta) || !keys(&router, delta).is_empty();
        for (metadata, expected) in [
            (json!({}), true),
            (json!({"labels": {"done": "yes"}}), false),
            (json!({"labels": {"other": "yes"}}), true),
            (json!({"finalizers": ["x/held"]}), false),
            (json!({"finalizers": ["x/other"]}), true),
        ] {
            let (open, object) = (set(json!({})), set(metadata.clone()));
            for delta in [
                delta(None, Some(object.clone())),
                delta(Some(open.clone()), Some(object.clone())),
                delta(Some(object.clone()), None),
            ] {
                assert_eq!(applies(&delta), expected, "{to}: {metadata}, {delta:?}");
            }
            let reopened = delta(Some(object), Some(open));
            assert!(applies(&reopened), "{to}: no more {metadata}");
        }
    }
}

#[test]
fn a_router_knows_its_mappings_to_the_guest_and_to_the_object_itself() {
    let own = router(json!({"map": [{"to": "itself"}, {"to": "namespace"}]}));
    assert_eq!((own.mapping_count(), own.has_guest_route()), (2, false));
    assert!(own.is_to_itself(0) && !own.is_to_itself(1));
    let guests = router(json!({"map": [{"to": "route"}]}));
    assert_eq!(
        (guests.mapping_count(), guests.has_guest_route()),
        (0, true)
    );
}

#[test]
fn the_deletion_of_an_owner_with_dependents_is_noted() {
    let noted = |to: &str, delta: &Delta| {
        let lookup = Observed::new(|_| None);
        all_keys(&router(json!({"map": [{"to": to}]})), delta, &lookup);
        let noted = lookup.deleted.into_inner();
        noted.iter().map(Reference::to_string).collect::<Vec<_>>()
    };
    let object = || Some(set(json!({})));
    let deleted = delta(object(), None);
    assert_eq!(
        noted("dependents", &deleted),
        ["apps/v1/ReplicaSet/demo/web-1/u"]
    );
    assert_eq!(noted("reference", &deleted), [""; 0]);
    assert_eq!(noted("dependents", &delta(object(), object())), [""; 0]);
}

#[test]
fn values_that_can_be_no_names_are_no_keys() {
    let named = json!({"to": "named", "path": "metadata.annotations['to']", "namespaced": false});
    let router = router(json!({"map": [named]}));
    let keys = |length: usize| {
        let object = set(json!({"annotations": {"to": "x".repeat(length)}}));
        keys(&router, &delta(None, Some(object)))
    };
    assert_eq!(keys(0), [""; 0]);
    assert_eq!(keys(MAX_KEY), ["x".repeat(MAX_KEY)]);
    assert_eq!(keys(MAX_KEY + 1), [""; 0]);
}

#[test]
fn an_owner_is_looked_up_in_the_namespace_and_then_among_cluster_scoped_objects() {
    let to_owner = router(json!({"map": [{"to": "controller", "kind": "apps/v1/Deployment"}]}));
    let owned = delta(None, Some(set(owned_by("web", "u-web"))));
    let keys = |has: fn(&str) -> Option<bool>| {
        let routed = all_keys(&to_owner, &owned, &Observed::new(has));
        let keys = routed.iter().map(|routed| routed.key.to_string());
        keys.collect::<Vec<_>>()
    };
    let is_cluster_scoped = |namespace: &str| Some(namespace.is_empty());
    assert_eq!(keys(|namespace| Some(namespace == "demo")), ["demo/web"]);
    assert_eq!(keys(is_cluster_scoped), ["web"]);
    assert_eq!(keys(|_| Some(false)), [""; 0]);
    // No cache holds the kind.
    assert_eq!(keys(|_| None), ["demo/web"]);
    // A cache of this namespace alone knows no cluster-scoped objects.
    let of_demo = |namespace: &str| (namespace == "demo").then_some(false);
    assert_eq!(keys(of_demo), [""; 0]);
}

#[test]
fn an_owner_of_another_uid_is_not_woken() {
    let router = router(json!({"map": [{"to": "controller", "kind": "apps/v1/Deployment"}]}));
    assert_eq!(
        keys(&router, &delta(None, Some(set(owned_by("web", "u-older"))))),
        Vec::<String>::new()
    );
}

#[test]
fn changed_labels_wake_who_selected_and_who_selects_and_those_between() {
    let selecting =
        json!({"to": "selecting", "kind": "apps/v1/Deployment", "path": "spec.selector"});
    let router = router(json!({"map": [selecting]}));
    let labelled = |app: &str| set(json!({"labels": {"app": app}}));
    let mut delta = delta(Some(labelled("none")), Some(labelled("db")));
    delta.between.push(labelled("web"));
    assert_eq!(keys(&router, &delta), ["demo/web", "demo/db"]);
}

#[test]
fn of_those_that_select_an_object_only_those_with_the_value_are_woken() {
    let whose = json!({"path": "metadata.name", "value": "web"});
    let selecting = json!({"to": "selecting", "kind": "apps/v1/Deployment", "path": "spec.selector", "whose": whose});
    let router = router(json!({"map": [selecting]}));
    let labelled = |app: &str| Some(set(json!({"labels": {"app": app}})));
    assert_eq!(
        keys(&router, &delta(labelled("web"), labelled("db"))),
        ["demo/web"]
    );
}

#[test]
fn of_named_objects_only_those_that_are_as_wanted_are_woken() {
    let named = |more: Value| {
        let mut mapping = json!({"to": "named", "path": "metadata.annotations['to']", "namespaced": true,
                                 "kind": "apps/v1/Deployment"});
        for (name, value) in more.as_object().expect("an object") {
            mapping[name] = value.clone();
        }
        router(json!({"map": [mapping]}))
    };
    let keys = |router: &Router, name: &str| {
        let object = set(json!({"annotations": {"to": name}}));
        keys(router, &delta(None, Some(object)))
    };
    let is_web = named(json!({"whose": {"path": "metadata.name", "value": "web"}}));
    let missing = named(json!({"missing": true}));
    let any = named(json!({}));
    for (name, of_web, of_missing) in [
        ("web", &["demo/web"][..], &[][..]),
        ("db", &[], &[]),
        ("none", &[], &["demo/none"]),
    ] {
        assert_eq!(keys(&is_web, name), of_web);
        assert_eq!(keys(&missing, name), of_missing);
        assert_eq!(keys(&any, name), [format!("demo/{name}")]);
    }
}

#[test]
fn a_mapping_may_wait_for_objects_of_another_kind_in_the_namespace() {
    let deployments =
        router(json!({"map": [{"to": "itself", "whileAny": ["apps/v1/Deployment"]}]}));
    let added = delta(None, Some(set(json!({}))));
    const NONE: Deployments = Deployments(&[]);
    assert_eq!(all_keys(&deployments, &added, &CACHE).len(), 1);
    assert_eq!(all_keys(&deployments, &added, &NONE).len(), 0);
    let asked = router(json!({"map": [{"to": "route", "whileAny": ["apps/v1/Deployment"]}]}));
    assert!(asks_guest(&asked, &added) && !asked.asks_guest(&asked.seen(&added), &NONE));
    // The caches are asked later.
    assert!(asked.concerns(&asked.seen(&added)));
}

#[test]
fn of_orphans_only_those_without_a_controller_wake_their_selectors() {
    let selecting = json!({"to": "selecting", "kind": "apps/v1/Deployment", "path": "spec.selector", "orphans": true});
    let router = router(json!({"map": [selecting]}));
    let mut owned = owned_by("db", "u-db");
    owned["labels"] = json!({"app": "web"});
    assert_eq!(
        keys(&router, &delta(None, Some(set(owned)))),
        Vec::<String>::new()
    );
    assert_eq!(
        keys(
            &router,
            &delta(None, Some(set(json!({"labels": {"app": "web"}}))))
        ),
        ["demo/web"]
    );
}

#[test]
fn names_namespaces_constants_and_all_of_a_kind_are_keys() {
    let targets = [
        (json!({"to": "itself"}), vec!["demo/web-1"]),
        (json!({"to": "namespace"}), vec!["demo"]),
        (json!({"to": "constant", "key": "all"}), vec!["all"]),
        (
            json!({"to": "all", "kind": "apps/v1/Deployment"}),
            vec!["demo/web", "demo/db"],
        ),
        (
            json!({"to": "inNamespace", "kind": "apps/v1/Deployment"}),
            vec!["demo/web", "demo/db"],
        ),
        (
            json!({"to": "named", "path": "metadata.annotations['to']", "namespaced": true}),
            vec!["demo/there"],
        ),
    ];
    let object = set(json!({"annotations": {"to": "there"}}));
    for (mapping, expected) in targets {
        let router = router(json!({"map": [mapping]}));
        assert_eq!(
            keys(&router, &delta(None, Some(object.clone()))),
            expected,
            "{mapping}"
        );
    }
}

#[test]
fn references_name_objects_of_whatever_kind() {
    let object = set(json!({}));
    let keys = |to: &str| {
        keys(
            &router(json!({"map": [{"to": to}]})),
            &delta(Some(object.clone()), None),
        )
    };
    assert_eq!(keys("reference"), ["apps/v1/ReplicaSet/demo/web-1/u"]);
    assert_eq!(
        keys("dependents"),
        [
            "apps/v1/ReplicaSet/demo/a/u-a",
            "apps/v1/ReplicaSet/demo/b/u-b"
        ]
    );
}

#[test]
fn owners_are_missing_where_no_cache_holds_them_as_they_are_named() {
    let router = router(json!({"map": [{"to": "ownerReferences", "which": "missing"}]}));
    let owned = |kind: &str, name: &str, uid: &str| {
        let api_version = if kind == "Node" { "v1" } else { "apps/v1beta1" };
        set(
            json!({"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}]}),
        )
    };
    let keys = |object: Arc<Object>| keys(&router, &delta(None, Some(object)));
    assert_eq!(
        keys(owned("Deployment", "web", "u-web")),
        Vec::<String>::new()
    );
    assert_eq!(
        keys(owned("Deployment", "web", "u-old")),
        ["apps/v1beta1/Deployment/demo/web/u-old"]
    );
    assert_eq!(
        keys(owned("Deployment", "other", "u-web")),
        ["apps/v1beta1/Deployment/demo/other/u-web"]
    );
    assert_eq!(
        keys(owned("StatefulSet", "web", "u-web")),
        ["apps/v1beta1/StatefulSet/demo/web/u-web"]
    );
    assert_eq!(keys(owned("Node", "n", "u-n")), ["v1/Node//n/u-n"]);
    let mut going = owned_by("web", "u-old");
    going["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(keys(set(going)), Vec::<String>::new());
}

#[test]
fn owners_that_are_being_deleted_are_known_by_their_uid() {
    const GOING: Deployments = Deployments(&[("web", "u-web", "web"), ("db", "u-db", "going")]);
    let router = router(json!({"map": [{"to": "ownerReferences", "which": "deleting"}]}));
    let keys = |object| -> Vec<String> {
        let routed = all_keys(&router, &delta(Some(set(object)), None), &GOING);
        routed.iter().map(|routed| routed.key.to_string()).collect()
    };
    assert_eq!(keys(owned_by("web", "u-web")), Vec::<String>::new());
    assert_eq!(
        keys(owned_by("db", "u-db")),
        ["apps/v1/Deployment/demo/db/u-db"]
    );
}

#[test]
fn a_mapping_may_be_for_objects_with_a_value_in_a_field() {
    let having = json!({"path": "metadata.finalizers", "value": "orphan"});
    let router = router(json!({"map": [{"to": "itself", "having": having}]}));
    let keys = |finalizers: Value| {
        keys(
            &router,
            &delta(None, Some(set(json!({"finalizers": finalizers})))),
        )
    };
    assert_eq!(keys(json!(["other", "orphan"])), ["demo/web-1"]);
    assert_eq!(keys(json!(["other"])), Vec::<String>::new());
    assert_eq!(keys(Value::Null), Vec::<String>::new());
}

#[test]
fn a_mapping_has_its_types_of_change_its_queue_and_its_delay() {
    let mapping = json!({"to": "itself", "on": ["deleted"], "queue": "second", "delayMs": 1500});
    let router = router(json!({"map": [mapping]}));
    let object = set(json!({}));
    assert!(all_keys(&router, &delta(None, Some(object.clone())), &CACHE).is_empty());
    let expected = Enqueue {
        queue: 1,
        key: "demo/web-1".into(),
        delay: Duration::from_millis(1500),
    };
    assert_eq!(
        all_keys(&router, &delta(Some(object), None), &CACHE),
        [expected]
    );
}

#[test]
fn the_versions_of_an_object_share_the_keys_of_all_of_a_kind() {
    let router = router(json!({"map": [{"to": "all", "kind": "apps/v1/Deployment"}]}));
    let mut changed = delta(Some(set(json!({}))), Some(set(json!({}))));
    changed.between = (0..64).map(|_| set(json!({}))).collect();
    let lookup = Observed::new(|_| None);
    let seen = router.seen(&changed);
    assert_eq!(router.keys(0, &seen, &lookup).len(), 2);
    assert_eq!(lookup.keys_read.get(), 1);
}
