//! Maps deltas to keys: applies a watch's declared mappings to the old and to the new object and returns the union of
//! the keys, so that both sides of a changed owner or label are reconciled. It is a function of plain values; only
//! [`Lookup`] reads the caches.
//!
//! A delta is decided on twice. First by [`Router::concerns`], under the cache's lock: by the values that the cache has
//! found for all routers at once, it drops what yields no key, whatever the caches hold. Most deltas of most plugins end
//! there, and wake nothing. Then `watch_router.rs` takes those that are left, and asks for their [`keys`](Router::keys).

mod columns;
mod predicate;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::{Delta, Object, OwnerReference, Seen};
use flyball_reads::lookup::{Lookup, reference};
use flyball_types::description::{
    Change, DeltaType, Description, MAX_KEY, Mapping, Owners, To, Watch,
};
use flyball_types::{FieldPath, Kind, PathSet, Reference, strings_in};

use self::columns::{Column, ColumnsOf};
use self::predicate::{Predicate, Values, has_some_string};

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
    mappings: Vec<ParsedMapping>,
    /// Select the deltas that go to the guest's `route`.
    guest_predicates: Vec<Predicate>,
    /// The paths of the values that it reads of an object, by column.
    paths: Vec<FieldPath>,
    /// The same paths, for the search of an object.
    set: PathSet,
}

/// The modifications that the watch selects; all if none is named.
struct Changes {
    any: bool,
    generation: bool,
    labels: bool,
    /// A modification is selected if one of these columns differs.
    columns: Vec<Column>,
}

struct ParsedMapping {
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
        column: Column,
        namespaced: bool,
        /// None if the cache is not asked for the object.
        object: Option<NamedObject>,
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

/// What the cache must hold under a name.
struct NamedObject {
    kind: Kind,
    /// Whether it must hold nothing.
    missing: bool,
    whose: Values,
}

impl NamedObject {
    fn is_as_wanted(&self, namespace: &str, name: &str, lookup: &impl Lookup) -> bool {
        match lookup.get(&self.kind, namespace, name) {
            Some(object) => !self.missing && self.whose.are_in(&object),
            None => self.missing,
        }
    }
}

impl Router {
    /// The router of a watch, for the objects of this kind. The description was checked before: a path that does not
    /// parse here maps to nothing.
    pub fn new(description: &Description, watch: &Watch, kind: &Kind) -> Self {
        let mut columns = ColumnsOf::default();
        let changes = Changes::new(&watch.changes, &mut columns);
        let mappings = watch.map.iter();
        let mappings = mappings
            .filter_map(|mapping| ParsedMapping::new(description, mapping, kind, &mut columns))
            .collect();
        let routed = watch.map.iter().filter(|own| own.to == To::Route);
        let guest_predicates = routed
            .filter_map(|mapping| Predicate::new(mapping, &mut columns))
            .collect();
        let (paths, set) = columns.into_paths();
        Self {
            changes,
            mappings,
            guest_predicates,
            paths,
            set,
        }
    }

    /// The paths of the values that it reads of an object.
    pub fn paths(&self) -> &[FieldPath] {
        &self.paths
    }

    /// A delta with the values that it reads, for the other functions.
    pub fn seen<'a>(&'a self, delta: &'a Delta) -> Seen<'a> {
        Seen::of(delta, &self.set)
    }

    /// Whether a delta may yield keys, judged without the caches. It is false for most deltas: objects of other owners,
    /// and changes that the watch does not select.
    pub fn concerns(&self, seen: &Seen<'_>) -> bool {
        let asks = |asking: &Predicate| {
            asking.selects(seen) && { seen.versions() }
                .any(|(version, object)| asking.matches(seen, version, object))
        };
        let yields = |own: &ParsedMapping| {
            let applies = |(version, object): (usize, &Object)| {
                own.to.may_have_keys(object)
                    && own.to.names_some(seen, version)
                    && own.predicate.matches(seen, version, object)
            };
            own.predicate.selects(seen) && seen.versions().any(applies)
        };
        self.selects_change(seen)
            && (self.mappings.iter().any(yields) || self.guest_predicates.iter().any(asks))
    }

    /// Like [`Router::concerns`], judged by metadata alone: for plugins whose paths nobody but themselves should pay for.
    pub fn may_concern(&self, delta: &Delta) -> bool {
        let may_apply = |predicate: &Predicate, object: &Object| {
            predicate.is_on(delta.delta_type()) && predicate.may_match(object)
        };
        let yields = |object: &Object| {
            let mut mappings = self.mappings.iter();
            let mut guests = self.guest_predicates.iter();
            mappings.any(|own| may_apply(&own.predicate, object) && own.to.may_have_keys(object))
                || guests.any(|asking| may_apply(asking, object))
        };
        let has_columns = !self.changes.columns.is_empty();
        (has_columns || self.changes.selects_metadata(delta))
            && delta.versions().any(|object| yields(object))
    }

    /// Whether the watch selects the change of a delta: additions and deletions always, modifications if they change the
    /// fields that the watch names.
    pub fn selects_change(&self, seen: &Seen<'_>) -> bool {
        let mut columns = self.changes.columns.iter();
        self.changes.selects_metadata(seen.delta())
            || columns.any(|column| seen.has_changed(*column))
    }

    /// Whether any delta goes to the guest's `route`.
    pub(crate) fn has_guest_route(&self) -> bool {
        !self.guest_predicates.is_empty()
    }

    /// Whether a delta goes to the guest's `route`.
    pub fn asks_guest(&self, seen: &Seen<'_>, lookup: &impl Lookup) -> bool {
        let wants = |asking: &Predicate| {
            asking.selects(seen) && { seen.versions() }.any(|(version, object)| {
                asking.matches(seen, version, object) && asking.is_possible(object, lookup)
            })
        };
        self.guest_predicates.iter().any(wants)
    }

    /// The number of declared mappings.
    pub fn mapping_count(&self) -> usize {
        self.mappings.len()
    }

    /// Whether a mapping is to the object itself.
    pub(crate) fn is_to_itself(&self, mapping: usize) -> bool {
        matches!(self.mappings[mapping].to, Target::Itself)
    }

    /// Returns the keys that one of the mappings yields for a delta, each once.
    pub fn keys(&self, mapping: usize, seen: &Seen<'_>, lookup: &impl Lookup) -> Vec<Enqueue> {
        let (mapping, delta_type) = (&self.mappings[mapping], seen.delta().delta_type());
        let mut found = Vec::new();
        if !mapping.predicate.selects(seen) {
            return found;
        }
        let mut known = HashSet::new();
        let mut deleted = None;
        for (version, object) in seen.versions() {
            if !mapping.predicate.matches(seen, version, object)
                || !mapping.predicate.is_possible(object, lookup)
            {
                continue;
            }
            let keys = mapping.to.keys(seen, version, object, lookup);
            // Noted before the keys are enqueued: their reconciles ask whether the owner was deleted.
            if let (DeltaType::Deleted, Target::Dependents(kind), false) =
                (delta_type, &mapping.to, keys.is_empty())
            {
                deleted = Some(reference(kind, object));
            }
            for key in keys {
                if known.insert(key.clone()) {
                    found.push(Enqueue {
                        queue: mapping.queue,
                        key,
                        delay: mapping.delay,
                    });
                }
            }
            if mapping.to.is_the_same_for_all_versions() {
                break;
            }
        }
        if let Some(object) = deleted {
            lookup.note_deletion(object);
        }
        found
    }

    /// Returns the keys of all mappings, each once.
    pub fn all_keys(&self, seen: &Seen<'_>, lookup: &impl Lookup) -> Vec<Enqueue> {
        let mut known = HashSet::new();
        (0..self.mapping_count())
            .flat_map(|mapping| self.keys(mapping, seen, lookup))
            .filter(|enqueue| known.insert(enqueue.clone()))
            .collect()
    }
}

impl Changes {
    fn new(changes: &[Change], columns: &mut ColumnsOf) -> Self {
        let mut column = |change: &Change| match change {
            Change::Path(path) => columns.add(path),
            _ => None,
        };
        Self {
            any: changes.is_empty(),
            generation: changes.contains(&Change::Generation),
            labels: changes.contains(&Change::Labels),
            columns: changes.iter().filter_map(&mut column).collect(),
        }
    }

    /// Whether a delta is selected without regard to columns.
    fn selects_metadata(&self, delta: &Delta) -> bool {
        if self.any || delta.delta_type() != DeltaType::Modified {
            return true;
        }
        let mut pairs = delta.versions().zip(delta.versions().skip(1));
        pairs.any(|(one, other)| self.differ(one, other))
    }

    /// Whether the metadata that counts differs between two versions.
    fn differ(&self, one: &Object, other: &Object) -> bool {
        (self.generation && one.generation() != other.generation())
            || (self.labels && one.labels() != other.labels())
    }
}

impl ParsedMapping {
    fn new(
        description: &Description,
        mapping: &Mapping,
        own: &Kind,
        columns: &mut ColumnsOf,
    ) -> Option<Self> {
        let to = match mapping.to.clone() {
            To::Itself => Target::Itself,
            To::Controller { kind } => Target::Controller(kind),
            To::Owner { kind } => Target::Owner(kind),
            To::Named {
                path,
                namespaced,
                kind,
                whose,
                missing,
            } => Target::Named {
                column: columns.add(&path)?,
                namespaced,
                object: match kind {
                    Some(kind) if missing || !whose.is_empty() => Some(NamedObject {
                        kind,
                        missing,
                        whose: Values::parse(&whose)?,
                    }),
                    _ => None,
                },
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
            predicate: Predicate::new(mapping, columns)?,
            queue,
            delay,
        })
    }
}

impl Target {
    /// Whether a version names an object, if the keys are names.
    fn names_some(&self, seen: &Seen<'_>, version: usize) -> bool {
        match self {
            Self::Named { column, .. } => has_some_string(seen, version, *column),
            _ => true,
        }
    }

    /// Whether an object may have keys, judged by its metadata.
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

    fn keys(
        &self,
        seen: &Seen<'_>,
        version: usize,
        object: &Object,
        lookup: &impl Lookup,
    ) -> Vec<Arc<str>> {
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
            Self::Named {
                column,
                namespaced,
                object: named,
            } => {
                let namespace = if *namespaced { object.namespace() } else { "" };
                // Longer values name no object, and would take memory in each queue.
                let names = { seen.values_of(version, *column) }
                    .flat_map(strings_in)
                    .filter(|name| !name.is_empty() && name.len() <= MAX_KEY);
                // An object may repeat a name a hundred thousand times: it is looked up once.
                let mut looked_up = HashSet::new();
                let mut is_wanted = |name: &str| {
                    named.as_ref().is_none_or(|named| {
                        looked_up.insert(name.to_owned())
                            && named.is_as_wanted(namespace, name, lookup)
                    })
                };
                let key = |name: &str| match namespaced {
                    true => join(namespace, name),
                    false => name.to_owned(),
                };
                names
                    .filter(|name| is_wanted(name))
                    .map(|name| key(&name).into())
                    .collect()
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
