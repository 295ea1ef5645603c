//! Maps deltas to keys: applies a watch's declared mappings to the old and to the new object and returns the union of
//! the keys, so that both sides of a changed owner or label are reconciled. `watch_router.rs` calls it for each delta. It
//! is a function of plain values; only [`Lookup`] reads the caches.

mod predicate;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::{Delta, Object, OwnerReference};
use flyball_reads::lookup::{Lookup, reference};
use flyball_types::description::{
    Change, DeltaType, Description, MAX_KEY, Mapping, Owners, To, Watch,
};
use flyball_types::{Columns, FieldPath, Kind, Reference};

use self::predicate::{Predicate, Values};

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
}

/// The modifications that the watch selects; all if none is named.
struct Changes {
    any: bool,
    generation: bool,
    labels: bool,
    /// A modification is selected if one of these columns differs.
    fields: Columns,
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
        let mappings = watch
            .map
            .iter()
            .filter_map(|mapping| ParsedMapping::new(description, mapping, kind));
        let guest_predicates = watch
            .map
            .iter()
            .filter(|mapping| mapping.to == To::Route)
            .filter_map(Predicate::new);
        Self {
            changes: Changes::new(&watch.changes),
            mappings: mappings.collect(),
            guest_predicates: guest_predicates.collect(),
        }
    }

    /// Whether a delta may yield keys, judged without decoding the objects. It is false for most deltas: objects of
    /// other owners, and changes that the watch does not select.
    pub fn may_concern(&self, delta: &Delta) -> bool {
        let may_be_selected = self.changes.fields.count() > 0 || self.selects_change(delta);
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
            self.mappings
                .iter()
                .any(|own| may_apply(&own.predicate, object) && own.to.may_have_keys(object))
        };
        may_be_selected
            && delta
                .versions()
                .any(|object| asks(object) || yields(object))
    }

    /// Whether the watch selects the change of a delta: additions and deletions always, modifications if they change the
    /// fields that the watch names.
    pub fn selects_change(&self, delta: &Delta) -> bool {
        if self.changes.any || delta.delta_type() != DeltaType::Modified {
            return true;
        }
        let versions: Vec<&Arc<Object>> = delta.versions().collect();
        versions
            .windows(2)
            .any(|pair| self.changes.differ(pair[0], pair[1]))
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
    pub fn mapping_count(&self) -> usize {
        self.mappings.len()
    }

    /// Whether a mapping is to the object itself.
    pub(crate) fn is_to_itself(&self, mapping: usize) -> bool {
        matches!(self.mappings[mapping].to, Target::Itself)
    }

    /// Returns the keys that one of the mappings yields for a delta, each once.
    pub fn keys(&self, mapping: usize, delta: &Delta, lookup: &impl Lookup) -> Vec<Enqueue> {
        let (mapping, delta_type) = (&self.mappings[mapping], delta.delta_type());
        let mut found = Vec::new();
        if !mapping.predicate.selects(delta) {
            return found;
        }
        let mut known = HashSet::new();
        let mut deleted = None;
        for object in delta
            .versions()
            .filter(|object| mapping.predicate.matches(object))
        {
            let keys = mapping.to.keys(object, lookup);
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
    pub fn all_keys(&self, delta: &Delta, lookup: &impl Lookup) -> Vec<Enqueue> {
        let mut known = HashSet::new();
        (0..self.mapping_count())
            .flat_map(|mapping| self.keys(mapping, delta, lookup))
            .filter(|enqueue| known.insert(enqueue.clone()))
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
    fn differ(&self, one: &Object, other: &Object) -> bool {
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

impl ParsedMapping {
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
