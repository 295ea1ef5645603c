//! From deltas to keys: applies a watch's declared mappings to the old and to the new object and yields the union, so that
//! moved ownership and changed labels wake both sides. Plain values in, plain values out: caches are asked by [`Lookup`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::{Delta, Object, OwnerReference, Uid};
use flyball_types::description::{Change, DeltaType, Description, Having, Mapping, Owners, To, Watch};
use flyball_types::{Columns, FieldPath, Kind, Reference};

/// What the mappings need to know of the plugin's caches.
pub(crate) trait Lookup {
    /// Whether the cache holds this object under this UID; none if the plugin doesn't watch the kind.
    fn has(&self, kind: &Kind, namespace: &str, name: &str, uid: &Uid) -> Option<bool>;
    /// The keys of the objects of a kind whose selector at `path` matches this object's labels, in its namespace.
    fn selecting(&self, kind: &Kind, path: &FieldPath, object: &Object) -> Vec<String>;
    /// The keys of the objects of a kind, in this namespace (all, if empty).
    fn keys(&self, kind: &Kind, namespace: &str) -> Vec<String>;
    /// The object of this UID among all kinds that the plugin watches.
    fn by_uid(&self, uid: &Uid) -> Option<(Kind, Arc<Object>)>;
    /// References to the objects of all kinds that the plugin watches which name this UID as an owner.
    fn dependents(&self, uid: &Uid) -> Vec<Reference>;
    /// Notes that this object, which has dependents, is gone.
    fn went(&self, object: Reference);
    /// Whether objects of a kind lie in namespaces; none if the server is not known to serve it.
    fn is_namespaced(&self, kind: &Kind) -> Option<bool>;
}

/// A key that a delta yields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Routed {
    /// The number of the queue, in the order of the description.
    pub(crate) queue: usize,
    pub(crate) key: Arc<str>,
    pub(crate) delay: Duration,
}

/// The mappings of one watch, ready for use.
pub(crate) struct Router {
    changes: Changes,
    routes: Vec<Route>,
    /// Which deltas the guest's `route` wants.
    asking: Vec<Condition>,
}

/// For which deltas a mapping is.
struct Condition {
    orphans: bool,
    deleting: bool,
    having: Vec<(FieldPath, String)>,
    /// Whether one of them is a finalizer.
    held: bool,
    on: Vec<DeltaType>,
}

/// The modifications that count; all, if none is named.
struct Changes {
    any: bool,
    generation: bool,
    labels: bool,
    /// What must differ in some column.
    fields: Columns,
}

struct Route {
    to: Target,
    condition: Condition,
    queue: usize,
    delay: Duration,
}

enum Target {
    Itself,
    Controller(Kind),
    Owner(Kind),
    Named {
        path: FieldPath,
        namespaced: bool,
    },
    Selecting {
        kind: Kind,
        path: FieldPath,
    },
    Keys {
        kind: Kind,
        in_namespace: bool,
    },
    Namespace,
    Constant(Arc<str>),
    /// References to objects of this watch's kind.
    Reference(Kind),
    /// References to the dependents of objects of this watch's kind.
    Dependents(Kind),
    OwnerReferences(Owners),
}

impl Router {
    /// The router of a watch, for the objects of this kind. The description was checked: paths that don't parse map to
    /// nothing.
    pub(crate) fn new(description: &Description, watch: &Watch, kind: &Kind) -> Self {
        let routes = watch.map.iter().filter_map(|mapping| Route::new(description, mapping, kind));
        let asking = watch.map.iter().filter(|mapping| mapping.to == To::Route).filter_map(Condition::new);
        Self { changes: Changes::new(&watch.changes), routes: routes.collect(), asking: asking.collect() }
    }

    /// Whether a delta may matter and yield something, as far as what is known of objects without reading them tells. Most
    /// are sorted out by that: changes of what something else owns, or of what does not count.
    pub(crate) fn may_concern(&self, delta: &Delta) -> bool {
        let counts = self.changes.fields.count() > 0 || self.counts(delta);
        let delta_type = delta.delta_type();
        let may_be =
            |condition: &Condition, object: &Object| condition.is_on(delta_type) && condition.may_be_for(object);
        let asks = |object: &Object| self.asking.iter().any(|asking| may_be(asking, object));
        let yields = |object: &Object| {
            self.routes.iter().any(|route| may_be(&route.condition, object) && route.to.may_have_keys(object))
        };
        counts && delta.versions().any(|object| asks(object) || yields(object))
    }

    /// Whether a delta matters: additions and deletions do, modifications if they change what counts.
    pub(crate) fn counts(&self, delta: &Delta) -> bool {
        if self.changes.any || delta.delta_type() != DeltaType::Modified {
            return true;
        }
        let versions: Vec<&Arc<Object>> = delta.versions().collect();
        versions.windows(2).any(|pair| self.changes.count(pair[0], pair[1]))
    }

    /// Whether the guest's `route` wants a delta.
    pub(crate) fn asks_guest(&self, delta: &Delta) -> bool {
        let delta_type = delta.delta_type();
        let wants =
            |asking: &Condition| asking.is_on(delta_type) && delta.versions().any(|object| asking.is_for(object));
        self.asking.iter().any(wants)
    }

    /// The keys that a delta yields, each once.
    pub(crate) fn route(&self, delta: &Delta, lookup: &impl Lookup) -> Vec<Routed> {
        let delta_type = delta.delta_type();
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        let mut went = None;
        for route in self.routes.iter().filter(|route| route.condition.is_on(delta_type)) {
            for object in delta.versions().filter(|object| route.condition.is_for(object)) {
                let keys = route.to.keys(object, lookup);
                // Before the keys are there: who gets one asks what has become of its owner.
                if let (DeltaType::Deleted, Target::Dependents(kind), false) = (delta_type, &route.to, keys.is_empty())
                {
                    went = Some(reference(kind, object));
                }
                for key in keys {
                    let routed = Routed { queue: route.queue, key, delay: route.delay };
                    if seen.insert(routed.clone()) {
                        found.push(routed);
                    }
                }
            }
        }
        if let Some(object) = went {
            lookup.went(object);
        }
        found
    }
}

impl Changes {
    fn new(changes: &[Change]) -> Self {
        let path = |change: &Change| match change {
            Change::Path(path) => path.parse().ok(),
            _ => None,
        };
        Self {
            any: changes.is_empty(),
            generation: changes.contains(&Change::Generation),
            labels: changes.contains(&Change::Labels),
            fields: Columns::new(changes.iter().filter_map(path)),
        }
    }

    /// Whether what differs between two versions is among them.
    fn count(&self, one: &Object, other: &Object) -> bool {
        (self.generation && one.generation() != other.generation())
            || (self.labels && one.labels() != other.labels())
            || (self.fields.count() > 0 && self.row(one) != self.row(other))
    }

    fn row(&self, object: &Object) -> Vec<u8> {
        let mut row = Vec::new();
        self.fields.row(object.json(), &mut row).expect("the cache holds JSON");
        row
    }
}

impl Route {
    fn new(description: &Description, mapping: &Mapping, own: &Kind) -> Option<Self> {
        let to = match mapping.to.clone() {
            To::Itself => Target::Itself,
            To::Controller { kind } => Target::Controller(kind),
            To::Owner { kind } => Target::Owner(kind),
            To::Named { path, namespaced } => Target::Named { path: path.parse().ok()?, namespaced },
            To::Selecting { kind, path } => Target::Selecting { kind, path: path.parse().ok()? },
            To::InNamespace { kind } => Target::Keys { kind, in_namespace: true },
            To::All { kind } => Target::Keys { kind, in_namespace: false },
            To::Namespace => Target::Namespace,
            To::Constant { key } => Target::Constant(key.into()),
            To::Reference => Target::Reference(own.clone()),
            To::Dependents => Target::Dependents(own.clone()),
            To::OwnerReferences { which } => Target::OwnerReferences(which),
            To::Route => return None,
        };
        let queue = description.queues.iter().position(|queue| queue.name == mapping.queue).unwrap_or(0);
        let delay = Duration::from_millis(mapping.delay_ms.into());
        Some(Self { to, condition: Condition::new(mapping)?, queue, delay })
    }
}

impl Condition {
    fn new(mapping: &Mapping) -> Option<Self> {
        let parsed = |Having { path, value }: &Having| Some((path.parse().ok()?, value.clone()));
        let having = mapping.having.iter().map(parsed).collect::<Option<Vec<(FieldPath, _)>>>()?;
        let finalizers = FieldPath::of_fields(&["metadata", "finalizers"]);
        let held = having.iter().any(|(path, _)| *path == finalizers);
        let (orphans, deleting) = (mapping.orphans, mapping.deleting);
        Some(Self { orphans, deleting, having, held, on: mapping.on.clone() })
    }

    fn is_on(&self, delta_type: DeltaType) -> bool {
        self.on.is_empty() || self.on.contains(&delta_type)
    }

    fn is_for(&self, object: &Object) -> bool {
        let has = |(path, value): &(FieldPath, String)| object.strings(path).iter().any(|own| own == value);
        self.may_be_for(object) && self.having.iter().all(has)
    }

    /// Whether it may be for an object, as far as can be told without reading it.
    fn may_be_for(&self, object: &Object) -> bool {
        (!self.orphans || object.controller().is_none())
            && (!self.deleting || object.is_deleting())
            && (!self.held || object.finalizers() > 0)
    }
}

impl Target {
    /// Whether an object may have keys, as far as can be told without looking at the caches or reading the object.
    fn may_have_keys(&self, object: &Object) -> bool {
        match self {
            Self::Controller(kind) => object.controller().is_some_and(|owner| is_of(owner, kind)),
            Self::Owner(kind) => object.owners().iter().any(|owner| is_of(owner, kind)),
            Self::OwnerReferences(_) => !object.owners().is_empty(),
            _ => true,
        }
    }

    fn keys(&self, object: &Object, lookup: &impl Lookup) -> Vec<Arc<str>> {
        let all = |keys: Vec<String>| keys.into_iter().map(Arc::from).collect();
        match self {
            Self::Itself => vec![object.key().into()],
            Self::Controller(kind) => {
                object.controller().and_then(|owner| owner_key(object, owner, kind, lookup)).into_iter().collect()
            }
            Self::Owner(kind) => {
                object.owners().iter().filter_map(|owner| owner_key(object, owner, kind, lookup)).collect()
            }
            Self::Named { path, namespaced } => {
                let names = object.strings(path).into_iter().filter(|name| !name.is_empty());
                let key = |name: &str| if *namespaced { join(object.namespace(), name) } else { name.to_owned() };
                names.map(|name| key(&name).into()).collect()
            }
            Self::Selecting { kind, path } => all(lookup.selecting(kind, path, object)),
            Self::Keys { kind, in_namespace } => {
                all(lookup.keys(kind, if *in_namespace { object.namespace() } else { "" }))
            }
            Self::Namespace => vec![object.namespace().into()],
            Self::Constant(key) => vec![key.clone()],
            Self::Reference(kind) => vec![reference(kind, object).to_string().into()],
            Self::Dependents(_) => all(lookup.dependents(object.uid()).iter().map(Reference::to_string).collect()),
            Self::OwnerReferences(which) => {
                let owners = object.owners().iter().filter(|owner| is_among(*which, object, owner, lookup));
                owners.map(|owner| named_owner(object, owner, lookup).to_string().into()).collect()
            }
        }
    }
}

/// The reference to an object of the cache.
pub(crate) fn reference(kind: &Kind, object: &Object) -> Reference {
    let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
    Reference { kind: kind.clone(), namespace, name, uid: object.uid().to_string() }
}

/// An owner as its dependent names it: in the same namespace, unless its kind is known to have none.
pub(crate) fn named_owner(object: &Object, owner: &OwnerReference, lookup: &impl Lookup) -> Reference {
    let namespace = match lookup.is_namespaced(&owner.kind) {
        Some(false) => String::new(),
        _ => object.namespace().to_owned(),
    };
    Reference { kind: (*owner.kind).clone(), namespace, name: owner.name.to_string(), uid: owner.uid.to_string() }
}

/// Whether a mapping is about this owner.
fn is_among(which: Owners, object: &Object, owner: &OwnerReference, lookup: &impl Lookup) -> bool {
    let found = || lookup.by_uid(&owner.uid);
    let is_as_named = |(kind, found): (Kind, Arc<Object>)| {
        is_of(owner, &kind)
            && *found.name() == *owner.name
            && (found.namespace().is_empty() || found.namespace() == object.namespace())
    };
    match which {
        Owners::Missing => !object.is_deleting() && !found().is_some_and(is_as_named),
        Owners::Deleting => found().is_some_and(|(_, found)| found.is_deleting()),
    }
}

/// Whether an owner is of this kind, in whatever version.
fn is_of(owner: &OwnerReference, kind: &Kind) -> bool {
    owner.kind.kind == kind.kind && owner.kind.group == kind.group
}

/// The key of an owner of this kind, unless the cache knows that it is gone or another object has its name.
fn owner_key(object: &Object, owner: &OwnerReference, kind: &Kind, lookup: &impl Lookup) -> Option<Arc<str>> {
    if !is_of(owner, kind) {
        return None;
    }
    // A cluster-scoped owner has no namespace, whatever that of its dependent.
    [object.namespace(), ""].into_iter().find_map(|namespace| {
        match lookup.has(kind, namespace, &owner.name, &owner.uid) {
            Some(true) => Some(join(namespace, &owner.name).into()),
            None if namespace == object.namespace() => Some(join(namespace, &owner.name).into()),
            _ => None,
        }
    })
}

fn join(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A cache of Deployments: their names, UIDs and what their selectors ask of `app`.
    struct Deployments(&'static [(&'static str, &'static str, &'static str)]);

    impl Lookup for Deployments {
        fn has(&self, kind: &Kind, namespace: &str, name: &str, uid: &Uid) -> Option<bool> {
            let is_there = |known: &&(&str, &str, &str)| known.0 == name && Uid::new(known.1) == *uid;
            (kind.kind == "Deployment").then(|| namespace == "demo" && self.0.iter().any(|known| is_there(&known)))
        }

        fn selecting(&self, _: &Kind, _: &FieldPath, object: &Object) -> Vec<String> {
            let app = object.labels().iter().find(|(key, _)| *key == "app").map(|(_, app)| app.to_owned());
            let found = self.0.iter().filter(|known| Some(known.2) == app.as_deref());
            found.map(|known| format!("demo/{}", known.0)).collect()
        }

        fn keys(&self, _: &Kind, namespace: &str) -> Vec<String> {
            let found = self.0.iter().filter(|_| namespace.is_empty() || namespace == "demo");
            found.map(|known| format!("demo/{}", known.0)).collect()
        }

        /// One whose selector asks for `going` is being deleted.
        fn by_uid(&self, uid: &Uid) -> Option<(Kind, Arc<Object>)> {
            let (name, uid, app) = self.0.iter().find(|known| Uid::new(known.1) == *uid)?;
            let mut metadata = json!({"namespace": "demo", "name": name, "uid": uid, "resourceVersion": "1"});
            if *app == "going" {
                metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            let object = Object::parse(json!({"metadata": metadata}).to_string().as_bytes()).expect("an object");
            Some((Kind::new("apps", "v1", "Deployment"), object))
        }

        fn dependents(&self, uid: &Uid) -> Vec<Reference> {
            let kind = Kind::new("apps", "v1", "ReplicaSet");
            let owned = ["a", "b"].map(|name| (name.to_owned(), format!("{uid}-{name}")));
            owned.map(|(name, uid)| Reference { kind: kind.clone(), namespace: "demo".into(), name, uid }).into()
        }

        fn went(&self, _: Reference) {}

        fn is_namespaced(&self, kind: &Kind) -> Option<bool> {
            match kind.kind.as_str() {
                "Deployment" => Some(true),
                "Node" => Some(false),
                _ => None,
            }
        }
    }

    const CACHE: Deployments = Deployments(&[("web", "u-web", "web"), ("db", "u-db", "db")]);

    /// A ReplicaSet `web-1`; `more` is merged into its metadata.
    fn set(more: Value) -> Arc<Object> {
        let mut object =
            json!({"metadata": {"namespace": "demo", "name": "web-1", "uid": "u", "resourceVersion": "7"}});
        for (name, value) in more.as_object().expect("an object") {
            object["metadata"][name] = value.clone();
        }
        Object::parse(object.to_string().as_bytes()).expect("an object")
    }

    fn owned_by(name: &str, uid: &str) -> Value {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": true});
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
        Router::new(&description, &description.watches[0], &Kind::new("apps", "v1", "ReplicaSet"))
    }

    fn delta(old: Option<Arc<Object>>, new: Option<Arc<Object>>) -> Delta {
        Delta { old, new, between: Vec::new(), initial: false }
    }

    fn keys(router: &Router, delta: &Delta) -> Vec<String> {
        router.route(delta, &CACHE).iter().map(|routed| routed.key.to_string()).collect()
    }

    #[test]
    fn a_moved_owner_wakes_both_sides() {
        let router = router(json!({"map": [{"to": "controller", "kind": "apps/v1/Deployment"}]}));
        let delta = delta(Some(set(owned_by("web", "u-web"))), Some(set(owned_by("db", "u-db"))));
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
            assert_eq!(router.asks_guest(&delta(old.cloned(), new.cloned())), asks, "{old:?} {new:?}");
        }
        assert_eq!(keys(&router, &delta(Some(held.clone()), Some(held))), Vec::<String>::new());
    }

    #[test]
    fn the_guest_is_asked_about_what_meets_all_conditions() {
        let asks = |mapping: Value, object: &Arc<Object>| {
            router(json!({"map": [mapping]})).asks_guest(&delta(None, Some(object.clone())))
        };
        let (orphan, owned) = (set(json!({})), set(owned_by("web", "u-web")));
        let going = set(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let (orphans, deleting) = (json!({"to": "route", "orphans": true}), json!({"to": "route", "deleting": true}));
        assert!(asks(orphans.clone(), &orphan) && !asks(orphans, &owned));
        assert!(asks(deleting.clone(), &going) && !asks(deleting, &orphan));
        let (held, web) = (json!(["x/held"]), json!({"app": "web"}));
        let values = [("metadata.finalizers", "x/held"), ("metadata.labels.app", "web")];
        let both = json!({"to": "route", "having": values.map(|(path, value)| json!({"path": path, "value": value}))});
        assert!(asks(both.clone(), &set(json!({"finalizers": held, "labels": web}))));
        assert!(!asks(both.clone(), &set(json!({"finalizers": held}))) && !asks(both, &set(json!({"labels": web}))));
    }

    #[test]
    fn what_a_router_says_is_of_no_concern_yields_nothing() {
        let controller = json!({"to": "controller", "kind": "apps/v1/Deployment"});
        let owner = json!({"to": "owner", "kind": "apps/v1/Deployment"});
        let selecting =
            json!({"to": "selecting", "kind": "apps/v1/Deployment", "path": "spec.selector", "orphans": true});
        let held = json!({"to": "route", "having": {"path": "metadata.finalizers", "value": "x/held"}});
        let maps = [controller, owner, selecting, held, json!({"to": "ownerReferences", "which": "missing"})];
        let changes = [json!([]), json!(["generation"]), json!(["labels"]), json!([{"path": "spec.x"}])];
        let mut versions = vec![None];
        for metadata in [
            json!({"labels": {"app": "web"}}),
            json!({"finalizers": ["x/held"], "generation": 2, "labels": {"app": "web"}}),
            owned_by("web", "u-web"),
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n", "controller": true}]}),
        ] {
            versions.push(Some(set(metadata)));
        }
        let (mut concerned, mut spared) = (0, 0);
        for (map, changes) in maps.iter().flat_map(|map| changes.iter().map(move |changes| (map, changes))) {
            let router = router(json!({"map": [map], "changes": changes}));
            for (old, new) in versions.iter().flat_map(|old| versions.iter().map(move |new| (old, new))) {
                if old.is_none() && new.is_none() {
                    continue;
                }
                let delta = delta(old.clone(), new.clone());
                let yields = !router.route(&delta, &CACHE).is_empty() || router.asks_guest(&delta);
                if router.may_concern(&delta) {
                    concerned += 1;
                } else {
                    assert!(!(yields && router.counts(&delta)), "{map} {changes}: {old:?} {new:?}");
                    spared += 1;
                }
            }
        }
        assert!(concerned > 50 && spared > 50, "{concerned} {spared}");
    }

    #[test]
    fn an_owner_of_another_uid_is_not_woken() {
        let router = router(json!({"map": [{"to": "controller", "kind": "apps/v1/Deployment"}]}));
        assert_eq!(keys(&router, &delta(None, Some(set(owned_by("web", "u-older"))))), Vec::<String>::new());
    }

    #[test]
    fn changed_labels_wake_who_selected_and_who_selects_and_those_between() {
        let selecting = json!({"to": "selecting", "kind": "apps/v1/Deployment", "path": "spec.selector"});
        let router = router(json!({"map": [selecting]}));
        let labelled = |app: &str| set(json!({"labels": {"app": app}}));
        let mut delta = delta(Some(labelled("none")), Some(labelled("db")));
        delta.between.push(labelled("web"));
        assert_eq!(keys(&router, &delta), ["demo/web", "demo/db"]);
    }

    #[test]
    fn of_orphans_only_those_without_a_controller_wake_their_selectors() {
        let selecting =
            json!({"to": "selecting", "kind": "apps/v1/Deployment", "path": "spec.selector", "orphans": true});
        let router = router(json!({"map": [selecting]}));
        let mut owned = owned_by("db", "u-db");
        owned["labels"] = json!({"app": "web"});
        assert_eq!(keys(&router, &delta(None, Some(set(owned)))), Vec::<String>::new());
        assert_eq!(keys(&router, &delta(None, Some(set(json!({"labels": {"app": "web"}}))))), ["demo/web"]);
    }

    #[test]
    fn names_namespaces_constants_and_all_of_a_kind_are_keys() {
        let targets = [
            (json!({"to": "itself"}), vec!["demo/web-1"]),
            (json!({"to": "namespace"}), vec!["demo"]),
            (json!({"to": "constant", "key": "all"}), vec!["all"]),
            (json!({"to": "all", "kind": "apps/v1/Deployment"}), vec!["demo/web", "demo/db"]),
            (json!({"to": "inNamespace", "kind": "apps/v1/Deployment"}), vec!["demo/web", "demo/db"]),
            (json!({"to": "named", "path": "metadata.annotations['to']", "namespaced": true}), vec!["demo/there"]),
        ];
        let object = set(json!({"annotations": {"to": "there"}}));
        for (mapping, expected) in targets {
            let router = router(json!({"map": [mapping]}));
            assert_eq!(keys(&router, &delta(None, Some(object.clone()))), expected, "{mapping}");
        }
    }

    #[test]
    fn references_name_objects_of_whatever_kind() {
        let object = set(json!({}));
        let keys = |to: &str| keys(&router(json!({"map": [{"to": to}]})), &delta(Some(object.clone()), None));
        assert_eq!(keys("reference"), ["apps/v1/ReplicaSet/demo/web-1/u"]);
        assert_eq!(keys("dependents"), ["apps/v1/ReplicaSet/demo/a/u-a", "apps/v1/ReplicaSet/demo/b/u-b"]);
    }

    #[test]
    fn owners_are_missing_where_no_cache_holds_them_as_they_are_named() {
        let router = router(json!({"map": [{"to": "ownerReferences", "which": "missing"}]}));
        let owned = |kind: &str, name: &str, uid: &str| {
            let api_version = if kind == "Node" { "v1" } else { "apps/v1beta1" };
            set(json!({"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}]}))
        };
        let keys = |object: Arc<Object>| keys(&router, &delta(None, Some(object)));
        assert_eq!(keys(owned("Deployment", "web", "u-web")), Vec::<String>::new());
        assert_eq!(keys(owned("Deployment", "web", "u-old")), ["apps/v1beta1/Deployment/demo/web/u-old"]);
        assert_eq!(keys(owned("Deployment", "other", "u-web")), ["apps/v1beta1/Deployment/demo/other/u-web"]);
        assert_eq!(keys(owned("StatefulSet", "web", "u-web")), ["apps/v1beta1/StatefulSet/demo/web/u-web"]);
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
            let routed = router.route(&delta(Some(set(object)), None), &GOING);
            routed.iter().map(|routed| routed.key.to_string()).collect()
        };
        assert_eq!(keys(owned_by("web", "u-web")), Vec::<String>::new());
        assert_eq!(keys(owned_by("db", "u-db")), ["apps/v1/Deployment/demo/db/u-db"]);
    }

    #[test]
    fn a_mapping_may_be_for_objects_with_a_value_in_a_field() {
        let having = json!({"path": "metadata.finalizers", "value": "orphan"});
        let router = router(json!({"map": [{"to": "itself", "having": having}]}));
        let keys = |finalizers: Value| keys(&router, &delta(None, Some(set(json!({"finalizers": finalizers})))));
        assert_eq!(keys(json!(["other", "orphan"])), ["demo/web-1"]);
        assert_eq!(keys(json!(["other"])), Vec::<String>::new());
        assert_eq!(keys(Value::Null), Vec::<String>::new());
    }

    #[test]
    fn a_mapping_has_its_types_of_change_its_queue_and_its_delay() {
        let mapping = json!({"to": "itself", "on": ["deleted"], "queue": "second", "delayMs": 1500});
        let router = router(json!({"map": [mapping]}));
        let object = set(json!({}));
        assert!(router.route(&delta(None, Some(object.clone())), &CACHE).is_empty());
        let expected = Routed { queue: 1, key: "demo/web-1".into(), delay: Duration::from_millis(1500) };
        assert_eq!(router.route(&delta(Some(object), None), &CACHE), [expected]);
    }

    #[test]
    fn a_modification_counts_only_if_it_changes_what_counts() {
        let counts = |changes: Value, old: Value, new: Value| {
            router(json!({"map": [{"to": "itself"}], "changes": changes}))
                .counts(&delta(Some(set(old)), Some(set(new))))
        };
        let (one, two) = (json!({"generation": 1}), json!({"generation": 2}));
        assert!(counts(json!([]), one.clone(), one.clone()));
        assert!(!counts(json!(["generation"]), one.clone(), one.clone()));
        assert!(counts(json!(["generation"]), one.clone(), two.clone()));
        assert!(!counts(json!(["labels"]), one, two));
        let labelled = |app: &str| json!({"labels": {"app": app}});
        assert!(counts(json!(["labels"]), labelled("a"), labelled("b")));
        let path = json!([{"path": "metadata.labels['app']"}]);
        assert!(counts(path.clone(), labelled("a"), labelled("b")));
        assert!(!counts(path, labelled("a"), labelled("a")));
    }

    #[test]
    fn additions_and_deletions_always_count() {
        let router = router(json!({"map": [{"to": "itself"}], "changes": ["generation"]}));
        assert!(router.counts(&delta(None, Some(set(json!({}))))));
        assert!(router.counts(&delta(Some(set(json!({}))), None)));
    }
}
