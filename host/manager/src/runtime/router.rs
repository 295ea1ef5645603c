//! From deltas to keys: applies a watch's declared mappings to the old and to the new object and yields the union, so that
//! moved ownership and changed labels wake both sides. Plain values in, plain values out: caches are asked by [`Lookup`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::{Delta, Object, OwnerReference, Uid};
use flyball_types::description::{
    Change, DeltaType, Description, Having, Mapping, Owners, To, Watch,
};
use flyball_types::{Columns, FieldPath, Kind, Reference};

/// What the mappings need to know of the plugin's caches.
pub(crate) trait Lookup {
    /// Whether the cache holds this object under this UID; none if the plugin doesn't watch the kind.
    fn has(&self, kind: &Kind, namespace: &str, name: &str, uid: &Uid) -> Option<bool>;
    /// The objects of a kind whose selector at `path` matches this object's labels, in its namespace.
    fn selecting(&self, kind: &Kind, path: &FieldPath, object: &Object) -> Vec<Arc<Object>>;
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
    having: Values,
    /// Whether one of them is a finalizer.
    held: bool,
    on: Vec<DeltaType>,
}

/// Values that fields must have.
struct Values(Vec<(FieldPath, String)>);

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
        whose: Values,
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
        let routes = watch
            .map
            .iter()
            .filter_map(|mapping| Route::new(description, mapping, kind));
        let asking = watch
            .map
            .iter()
            .filter(|mapping| mapping.to == To::Route)
            .filter_map(Condition::new);
        Self {
            changes: Changes::new(&watch.changes),
            routes: routes.collect(),
            asking: asking.collect(),
        }
    }

    /// Whether a delta may matter and yield something, as far as what is known of objects without reading them tells. Most
    /// are sorted out by that: changes of what something else owns, or of what does not count.
    pub(crate) fn may_concern(&self, delta: &Delta) -> bool {
        let counts = self.changes.fields.count() > 0 || self.counts(delta);
        let delta_type = delta.delta_type();
        let may_be = |condition: &Condition, object: &Object| {
            condition.is_on(delta_type) && condition.may_be_for(object)
        };
        let asks = |object: &Object| self.asking.iter().any(|asking| may_be(asking, object));
        let yields = |object: &Object| {
            self.routes
                .iter()
                .any(|route| may_be(&route.condition, object) && route.to.may_have_keys(object))
        };
        counts
            && delta
                .versions()
                .any(|object| asks(object) || yields(object))
    }

    /// Whether a delta matters: additions and deletions do, modifications if they change what counts.
    pub(crate) fn counts(&self, delta: &Delta) -> bool {
        if self.changes.any || delta.delta_type() != DeltaType::Modified {
            return true;
        }
        let versions: Vec<&Arc<Object>> = delta.versions().collect();
        versions
            .windows(2)
            .any(|pair| self.changes.count(pair[0], pair[1]))
    }

    /// Whether the guest's `route` wants a delta.
    pub(crate) fn asks_guest(&self, delta: &Delta) -> bool {
        let delta_type = delta.delta_type();
        let wants = |asking: &Condition| {
            asking.is_on(delta_type) && delta.versions().any(|object| asking.is_for(object))
        };
        self.asking.iter().any(wants)
    }

    /// The keys that a delta yields, each once.
    pub(crate) fn route(&self, delta: &Delta, lookup: &impl Lookup) -> Vec<Routed> {
        let delta_type = delta.delta_type();
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        let mut went = None;
        for route in self
            .routes
            .iter()
            .filter(|route| route.condition.is_on(delta_type))
        {
            for object in delta
                .versions()
                .filter(|object| route.condition.is_for(object))
            {
                let keys = route.to.keys(object, lookup);
                // Before the keys are there: who gets one asks what has become of its owner.
                if let (DeltaType::Deleted, Target::Dependents(kind), false) =
                    (delta_type, &route.to, keys.is_empty())
                {
                    went = Some(reference(kind, object));
                }
                for key in keys {
                    let routed = Routed {
                        queue: route.queue,
                        key,
                        delay: route.delay,
                    };
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
        self.fields
            .row(object.json(), &mut row)
            .expect("the cache holds JSON");
        row
    }
}

impl Route {
    fn new(description: &Description, mapping: &Mapping, own: &Kind) -> Option<Self> {
        let to = match mapping.to.clone() {
            To::Itself => Target::Itself,
            To::Controller { kind } => Target::Controller(kind),
            To::Owner { kind } => Target::Owner(kind),
            To::Named { path, namespaced } => Target::Named {
                path: path.parse().ok()?,
                namespaced,
            },
            To::Selecting { kind, path, whose } => Target::Selecting {
                kind,
                path: path.parse().ok()?,
                whose: Values::parse(&whose)?,
            },
            To::InNamespace { kind } => Target::Keys {
                kind,
                in_namespace: true,
            },
            To::All { kind } => Target::Keys {
                kind,
                in_namespace: false,
            },
            To::Namespace => Target::Namespace,
            To::Constant { key } => Target::Constant(key.into()),
            To::Reference => Target::Reference(own.clone()),
            To::Dependents => Target::Dependents(own.clone()),
            To::OwnerReferences { which } => Target::OwnerReferences(which),
            To::Route => return None,
        };
        let queue = description
            .queues
            .iter()
            .position(|queue| queue.name == mapping.queue)
            .unwrap_or(0);
        let delay = Duration::from_millis(mapping.delay_ms.into());
        Some(Self {
            to,
            condition: Condition::new(mapping)?,
            queue,
            delay,
        })
    }
}

impl Condition {
    fn new(mapping: &Mapping) -> Option<Self> {
        let having = Values::parse(&mapping.having)?;
        let finalizers = FieldPath::of_fields(&["metadata", "finalizers"]);
        let held = having.0.iter().any(|(path, _)| *path == finalizers);
        let (orphans, deleting) = (mapping.orphans, mapping.deleting);
        Some(Self {
            orphans,
            deleting,
            having,
            held,
            on: mapping.on.clone(),
        })
    }

    fn is_on(&self, delta_type: DeltaType) -> bool {
        self.on.is_empty() || self.on.contains(&delta_type)
    }

    fn is_for(&self, object: &Object) -> bool {
        self.may_be_for(object) && self.having.are_in(object)
    }

    /// Whether it may be for an object, as far as can be told without reading it.
    fn may_be_for(&self, object: &Object) -> bool {
        (!self.orphans || object.controller().is_none())
            && (!self.deleting || object.is_deleting())
            && (!self.held || object.finalizers() > 0)
    }
}

impl Values {
    fn parse(values: &[Having]) -> Option<Self> {
        values
            .iter()
            .map(|Having { path, value }| Some((path.parse().ok()?, value.clone())))
            .collect::<Option<_>>()
            .map(Self)
    }

    /// Whether an object has all of them.
    fn are_in(&self, object: &Object) -> bool {
        self.0
            .iter()
            .all(|(path, value)| object.strings(path).iter().any(|own| own == value))
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
            Self::Controller(kind) => object
                .controller()
                .and_then(|owner| owner_key(object, owner, kind, lookup))
                .into_iter()
                .collect(),
            Self::Owner(kind) => object
                .owners()
                .iter()
                .filter_map(|owner| owner_key(object, owner, kind, lookup))
                .collect(),
            Self::Named { path, namespaced } => {
                let names = object
                    .strings(path)
                    .into_iter()
                    .filter(|name| !name.is_empty());
                let key = |name: &str| {
                    if *namespaced {
                        join(object.namespace(), name)
                    } else {
                        name.to_owned()
                    }
                };
                names.map(|name| key(&name).into()).collect()
            }
            Self::Selecting { kind, path, whose } => {
                let selecting = lookup.selecting(kind, path, object).into_iter();
                selecting
                    .filter(|found| whose.are_in(found))
                    .map(|found| found.key().into())
                    .collect()
            }
            Self::Keys { kind, in_namespace } => all(lookup.keys(
                kind,
                if *in_namespace {
                    object.namespace()
                } else {
                    ""
                },
            )),
            Self::Namespace => vec![object.namespace().into()],
            Self::Constant(key) => vec![key.clone()],
            Self::Reference(kind) => vec![reference(kind, object).to_string().into()],
            Self::Dependents(_) => all(lookup
                .dependents(object.uid())
                .iter()
                .map(Reference::to_string)
                .collect()),
            Self::OwnerReferences(which) => {
                let owners = object
                    .owners()
                    .iter()
                    .filter(|owner| is_among(*which, object, owner, lookup));
                owners
                    .map(|owner| named_owner(object, owner, lookup).to_string().into())
                    .collect()
            }
        }
    }
}

/// The reference to an object of the cache.
pub(crate) fn reference(kind: &Kind, object: &Object) -> Reference {
    let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
    Reference {
        kind: kind.clone(),
        namespace,
        name,
        uid: object.uid().to_string(),
    }
}

/// An owner as its dependent names it: in the same namespace, unless its kind is known to have none.
pub(crate) fn named_owner(
    object: &Object,
    owner: &OwnerReference,
    lookup: &impl Lookup,
) -> Reference {
    let namespace = match lookup.is_namespaced(&owner.kind) {
        Some(false) => String::new(),
        _ => object.namespace().to_owned(),
    };
    Reference {
        kind: (*owner.kind).clone(),
        namespace,
        name: owner.name.to_string(),
        uid: owner.uid.to_string(),
    }
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
fn owner_key(
    object: &Object,
    owner: &OwnerReference,
    kind: &Kind,
    lookup: &impl Lookup,
) -> Option<Arc<str>> {
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
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

#[cfg(test)]
mod tests;
