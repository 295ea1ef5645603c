//! From deltas to keys: applies a watch's declared mappings to the old and to the new object and yields the union, so that
//! moved ownership and changed labels wake both sides. Plain values in, plain values out: caches are asked by [`Lookup`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::{Delta, Object, OwnerReference, Uid};
use flyball_types::description::{Change, DeltaType, Description, Mapping, To, Watch};
use flyball_types::{FieldPath, Kind};

/// What the mappings need to know of the plugin's caches.
pub(crate) trait Lookup {
    /// Whether the cache holds this object under this UID; none if the plugin doesn't watch the kind.
    fn has(&self, kind: &Kind, namespace: &str, name: &str, uid: &Uid) -> Option<bool>;
    /// The keys of the objects of a kind whose selector at `path` matches this object's labels, in its namespace.
    fn selecting(&self, kind: &Kind, path: &FieldPath, object: &Object) -> Vec<String>;
    /// The keys of the objects of a kind, in this namespace (all, if empty).
    fn keys(&self, kind: &Kind, namespace: &str) -> Vec<String>;
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
    changes: Vec<Counted>,
    routes: Vec<Route>,
    /// Whether the guest's `route` wants the deltas.
    pub(crate) asks_guest: bool,
}

/// A modification that counts.
enum Counted {
    Generation,
    Labels,
    Path(FieldPath),
}

struct Route {
    to: Target,
    on: Vec<DeltaType>,
    queue: usize,
    delay: Duration,
}

enum Target {
    Itself,
    Controller(Kind),
    Owner(Kind),
    Named { path: FieldPath, namespaced: bool },
    Selecting { kind: Kind, path: FieldPath, orphans: bool },
    Keys { kind: Kind, in_namespace: bool },
    Namespace,
    Constant(Arc<str>),
}

impl Router {
    /// The router of a watch. The description was checked: paths that don't parse map to nothing.
    pub(crate) fn new(description: &Description, watch: &Watch) -> Self {
        let changes = watch.changes.iter().filter_map(|change| {
            Some(match change {
                Change::Generation => Counted::Generation,
                Change::Labels => Counted::Labels,
                Change::Path(path) => Counted::Path(path.parse().ok()?),
            })
        });
        let routes = watch.map.iter().filter_map(|mapping| Route::new(description, mapping));
        let asks_guest = watch.map.iter().any(|mapping| mapping.to == To::Route);
        Self { changes: changes.collect(), routes: routes.collect(), asks_guest }
    }

    /// Whether a delta matters: additions and deletions do, modifications if they change what counts.
    pub(crate) fn counts(&self, delta: &Delta) -> bool {
        if self.changes.is_empty() || delta.delta_type() != DeltaType::Modified {
            return true;
        }
        let versions: Vec<&Arc<Object>> = delta.versions().collect();
        versions.windows(2).any(|pair| self.changes.iter().any(|change| change.differs(pair[0], pair[1])))
    }

    /// The keys that a delta yields, each once.
    pub(crate) fn route(&self, delta: &Delta, lookup: &impl Lookup) -> Vec<Routed> {
        let delta_type = delta.delta_type();
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        for route in self.routes.iter().filter(|route| route.on.is_empty() || route.on.contains(&delta_type)) {
            for object in delta.versions() {
                for key in route.to.keys(object, lookup) {
                    let routed = Routed { queue: route.queue, key, delay: route.delay };
                    if seen.insert(routed.clone()) {
                        found.push(routed);
                    }
                }
            }
        }
        found
    }
}

impl Counted {
    fn differs(&self, one: &Object, other: &Object) -> bool {
        match self {
            Self::Generation => one.generation() != other.generation(),
            Self::Labels => one.labels() != other.labels(),
            Self::Path(path) => {
                let values = |object: &Object| -> Vec<String> {
                    path.select(object.json()).into_iter().map(|value| value.get().to_owned()).collect()
                };
                values(one) != values(other)
            }
        }
    }
}

impl Route {
    fn new(description: &Description, mapping: &Mapping) -> Option<Self> {
        let to = match mapping.to.clone() {
            To::Itself => Target::Itself,
            To::Controller { kind } => Target::Controller(kind),
            To::Owner { kind } => Target::Owner(kind),
            To::Named { path, namespaced } => Target::Named { path: path.parse().ok()?, namespaced },
            To::Selecting { kind, path, orphans } => Target::Selecting { kind, path: path.parse().ok()?, orphans },
            To::InNamespace { kind } => Target::Keys { kind, in_namespace: true },
            To::All { kind } => Target::Keys { kind, in_namespace: false },
            To::Namespace => Target::Namespace,
            To::Constant { key } => Target::Constant(key.into()),
            To::Route => return None,
        };
        let queue = description.queues.iter().position(|queue| queue.name == mapping.queue).unwrap_or(0);
        Some(Self { to, on: mapping.on.clone(), queue, delay: Duration::from_millis(mapping.delay_ms.into()) })
    }
}

impl Target {
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
            Self::Selecting { orphans: true, .. } if object.controller().is_some() => Vec::new(),
            Self::Selecting { kind, path, .. } => all(lookup.selecting(kind, path, object)),
            Self::Keys { kind, in_namespace } => {
                all(lookup.keys(kind, if *in_namespace { object.namespace() } else { "" }))
            }
            Self::Namespace => vec![object.namespace().into()],
            Self::Constant(key) => vec![key.clone()],
        }
    }
}

/// The key of an owner of this kind, unless the cache knows that it is gone or another object has its name.
fn owner_key(object: &Object, owner: &OwnerReference, kind: &Kind, lookup: &impl Lookup) -> Option<Arc<str>> {
    if owner.kind.kind != kind.kind || owner.kind.group != kind.group {
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
