//! Maps deltas to keys: applies a watch's declared mappings to the old and to the new object and returns the union of
//! the keys, so that both sides of a changed owner or label are reconciled. `route.rs` calls it for each delta. It is a
//! function of plain values; only [`Lookup`] reads the caches.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::{Delta, Object, OwnerReference};
use flyball_reads::lookup::{Lookup, reference};
use flyball_types::description::{
    Change, DeltaType, Description, Having, MAX_KEY, Mapping, Owners, To, Unless, Watch,
};
use flyball_types::{Columns, FieldPath, Kind, Reference};

/// A key to enqueue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Enqueue {
    /// The number of the queue, in the order of the description.
    pub queue: usize,
    pub key: Arc<str>,
    pub delay: Duration,
}

/// The parsed mappings of one watch.
pub struct Router {
    changes: Changes,
    routes: Vec<Route>,
    /// Select the deltas that go to the guest's `route`.
    guest_predicates: Vec<Predicate>,
}

/// Selects the deltas that a mapping applies to.
struct Predicate {
    orphans: bool,
    deleting: bool,
    having: Values,
    /// Whether `having` requires a finalizer.
    requires_finalizer: bool,
    /// Fields of which at least one must hold a string; empty if none is required.
    having_any: Vec<FieldPath>,
    /// Values that the newest version must not have. Without a value, the field must hold no string.
    unless: Vec<(FieldPath, Option<String>)>,
    on: Vec<DeltaType>,
}

/// Values that fields must have.
struct Values(Vec<(FieldPath, String)>);

/// The modifications that are routed; all if none is named.
struct Changes {
    any: bool,
    generation: bool,
    labels: bool,
    /// A modification is routed if one of these columns differs.
    fields: Columns,
}

struct Route {
    to: Target,
    predicate: Predicate,
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
    /// The router of a watch, for the objects of this kind. The description was checked before: a path that does not
    /// parse here maps to nothing.
    pub fn new(description: &Description, watch: &Watch, kind: &Kind) -> Self {
        let routes = watch
            .map
            .iter()
            .filter_map(|mapping| Route::new(description, mapping, kind));
        let guest_predicates = watch
            .map
            .iter()
            .filter(|mapping| mapping.to == To::Route)
            .filter_map(Predicate::new);
        Self {
            changes: Changes::new(&watch.changes),
            routes: routes.collect(),
            guest_predicates: guest_predicates.collect(),
        }
    }

    /// Whether a delta may yield keys, judged without decoding the objects. It is false for most deltas: objects of
    /// other owners, and changes that are not routed.
    pub fn may_concern(&self, delta: &Delta) -> bool {
        let counts = self.changes.fields.count() > 0 || self.counts(delta);
        let delta_type = delta.delta_type();
        let may_apply = |predicate: &Predicate, object: &Object| {
            predicate.is_on(delta_type) && predicate.may_match(object)
        };
        let asks = |object: &Object| {
            self.guest_predicates
                .iter()
                .any(|asking| may_apply(asking, object))
        };
        let yields = |object: &Object| {
            self.routes
                .iter()
                .any(|route| may_apply(&route.predicate, object) && route.to.may_have_keys(object))
        };
        counts
            && delta
                .versions()
                .any(|object| asks(object) || yields(object))
    }

    /// Whether a delta is routed: additions and deletions always, modifications if they change the fields that the
    /// watch names.
    pub fn counts(&self, delta: &Delta) -> bool {
        if self.changes.any || delta.delta_type() != DeltaType::Modified {
            return true;
        }
        let versions: Vec<&Arc<Object>> = delta.versions().collect();
        versions
            .windows(2)
            .any(|pair| self.changes.count(pair[0], pair[1]))
    }

    /// Whether any delta goes to the guest's `route`.
    pub(crate) fn has_guest_route(&self) -> bool {
        !self.guest_predicates.is_empty()
    }

    /// Whether a delta goes to the guest's `route`.
    pub fn asks_guest(&self, delta: &Delta) -> bool {
        let wants = |asking: &Predicate| {
            asking.selects(delta) && delta.versions().any(|object| asking.matches(object))
        };
        self.guest_predicates.iter().any(wants)
    }

    /// The number of declared mappings.
    pub fn mappings(&self) -> usize {
        self.routes.len()
    }

    /// Whether a mapping is to the object itself.
    pub(crate) fn is_to_itself(&self, mapping: usize) -> bool {
        matches!(self.routes[mapping].to, Target::Itself)
    }

    /// Returns the keys that one of the mappings yields for a delta, each once.
    pub fn route(&self, mapping: usize, delta: &Delta, lookup: &impl Lookup) -> Vec<Enqueue> {
        let (route, delta_type) = (&self.routes[mapping], delta.delta_type());
        let mut found = Vec::new();
        if !route.predicate.selects(delta) {
            return found;
        }
        let mut seen = HashSet::new();
        let mut deleted = None;
        for object in delta
            .versions()
            .filter(|object| route.predicate.matches(object))
        {
            let keys = route.to.keys(object, lookup);
            // Noted before the keys are enqueued: their reconciles ask whether the owner was deleted.
            if let (DeltaType::Deleted, Target::Dependents(kind), false) =
                (delta_type, &route.to, keys.is_empty())
            {
                deleted = Some(reference(kind, object));
            }
            for key in keys {
                if seen.insert(key.clone()) {
                    found.push(Enqueue {
                        queue: route.queue,
                        key,
                        delay: route.delay,
                    });
                }
            }
            if route.to.is_the_same_for_all_versions() {
                break;
            }
        }
        if let Some(object) = deleted {
            lookup.note_deletion(object);
        }
        found
    }

    /// Returns the keys of all mappings, each once.
    pub fn route_all(&self, delta: &Delta, lookup: &impl Lookup) -> Vec<Enqueue> {
        let mut seen = HashSet::new();
        (0..self.mappings())
            .flat_map(|mapping| self.route(mapping, delta, lookup))
            .filter(|routed| seen.insert(routed.clone()))
            .collect()
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
            // The description was checked: its paths are few.
            fields: Columns::new(changes.iter().filter_map(path)).unwrap_or_default(),
        }
    }

    /// Whether one of them differs between two versions.
    fn count(&self, one: &Object, other: &Object) -> bool {
        (self.generation && one.generation() != other.generation())
            || (self.labels && one.labels() != other.labels())
            || (self.fields.count() > 0 && self.row(one) != self.row(other))
    }

    fn row(&self, object: &Object) -> Vec<u8> {
        let mut row = Vec::new();
        self.fields
            .row(object.json(), &mut row, usize::MAX)
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
            predicate: Predicate::new(mapping)?,
            queue,
            delay,
        })
    }
}

impl Predicate {
    fn new(mapping: &Mapping) -> Option<Self> {
        let having = Values::parse(&mapping.having)?;
        let finalizers = FieldPath::of_fields(&["metadata", "finalizers"]);
        let requires_finalizer = having.0.iter().any(|(path, _)| *path == finalizers);
        let having_any = mapping.having_any.iter().map(|path| path.parse().ok());
        let unless = mapping
            .unless
            .iter()
            .map(|Unless { path, value }| Some((path.parse().ok()?, value.clone())));
        let (orphans, deleting) = (mapping.orphans, mapping.deleting);
        Some(Self {
            orphans,
            deleting,
            having,
            requires_finalizer,
            having_any: having_any.collect::<Option<_>>()?,
            unless: unless.collect::<Option<_>>()?,
            on: mapping.on.clone(),
        })
    }

    fn is_on(&self, delta_type: DeltaType) -> bool {
        self.on.is_empty() || self.on.contains(&delta_type)
    }

    /// Whether it applies to this type of delta, and the newest version has no excluded value.
    fn selects(&self, delta: &Delta) -> bool {
        self.is_on(delta.delta_type())
            && delta
                .versions()
                .last()
                .is_none_or(|newest| !self.excludes(newest))
    }

    /// Whether an object has a value that it must not have.
    fn excludes(&self, object: &Object) -> bool {
        self.unless.iter().any(|(path, value)| {
            let mut own = object.strings(path).into_iter();
            own.any(|own| value.as_ref().is_none_or(|value| *value == own))
        })
    }

    fn matches(&self, object: &Object) -> bool {
        self.may_match(object) && self.having.are_in(object) && self.has_any(object)
    }

    fn has_any(&self, object: &Object) -> bool {
        let is_present = |path: &FieldPath| !object.strings(path).is_empty();
        self.having_any.is_empty() || self.having_any.iter().any(is_present)
    }

    /// Whether it may match an object, judged without decoding it.
    fn may_match(&self, object: &Object) -> bool {
        (!self.orphans || object.controller().is_none())
            && (!self.deleting || object.is_deleting())
            && (!self.requires_finalizer || object.finalizers() > 0)
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
    /// Whether an object may have keys, judged without the caches and without decoding the object.
    fn may_have_keys(&self, object: &Object) -> bool {
        match self {
            Self::Controller(kind) => object.controller().is_some_and(|owner| is_of(owner, kind)),
            Self::Owner(kind) => object.owners().iter().any(|owner| is_of(owner, kind)),
            Self::OwnerReferences(_) => !object.owners().is_empty(),
            _ => true,
        }
    }

    /// Whether the keys depend only on fields that are equal in all versions of an object.
    fn is_the_same_for_all_versions(&self) -> bool {
        matches!(
            self,
            Self::Itself
                | Self::Keys { .. }
                | Self::Namespace
                | Self::Constant(_)
                | Self::Reference(_)
        )
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
                // Longer values name no object, and would take memory in each queue.
                let names = object
                    .strings(path)
                    .into_iter()
                    .filter(|name| !name.is_empty() && name.len() <= MAX_KEY);
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

/// Returns an owner as its dependent names it: in the same namespace, unless its kind is known to be cluster-scoped.
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

/// Whether a mapping selects this owner.
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

/// Whether an owner is of this kind, in any version.
fn is_of(owner: &OwnerReference, kind: &Kind) -> bool {
    owner.kind.kind == kind.kind && owner.kind.group == kind.group
}

/// Returns the key of an owner of this kind, unless the cache shows that it was deleted or that another object has its
/// name.
fn owner_key(
    object: &Object,
    owner: &OwnerReference,
    kind: &Kind,
    lookup: &impl Lookup,
) -> Option<Arc<str>> {
    if !is_of(owner, kind) {
        return None;
    }
    // A cluster-scoped owner has no namespace, even if its dependent has one.
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
