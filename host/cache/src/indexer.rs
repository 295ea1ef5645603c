//! The indexer: the objects of one informer and their indexes. It is plain data; the reflector
//! changes it under the informer's lock (`core.rs`).
//!
//! Objects are in numbered slots and are found by *terms*: a namespace, an owner, a label, or a
//! value at a declared path. The 64-bit hash of a term maps to the slots of its objects
//! (`postings.rs`). A read selects the term with the fewest objects and tests each of these against
//! the whole query. So hash collisions are harmless, and the cost of a read is proportional to the
//! number of objects with its rarest term.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use flyball_types::{FieldPath, LabelSelector, Operator};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::postings::{Bucket, Postings};
use crate::{Delta, LabelSet, ListQuery, Object, Uid};

/// The objects of one informer, with their indexes.
pub(crate) struct Indexer {
    slots: Vec<Option<Arc<Object>>>,
    /// The numbers of the empty slots.
    free: Vec<u32>,
    by_uid: HashTable<u32>,
    by_key: HashTable<u32>,
    /// The number of objects in each namespace.
    namespaces: HashMap<Arc<str>, usize>,
    terms: Postings,
    /// The declared paths whose values are indexed. The index of a path in this list is part of its
    /// terms.
    paths: Vec<FieldPath>,
    selectors: Vec<SelectorIndex>,
    hasher: RandomState,
    /// The approximate size of the objects, without their indexes.
    bytes: usize,
}

/// An index of the label selectors at a path. Each selector is posted under one label that it
/// requires, so that a look-up tests only selectors that have a label in common with the labels
/// looked up.
struct SelectorIndex {
    path: FieldPath,
    /// By slot.
    posted: HashMap<u32, PostedSelector>,
}

struct PostedSelector {
    selector: LabelSelector,
    /// The terms that the selector is posted under.
    terms: Box<[u64]>,
}

/// A value that objects are found by.
#[derive(Hash)]
enum Term<'a> {
    Namespace(&'a str),
    Owner(&'a Uid),
    /// An object without a controller, in this namespace.
    Orphan(&'a str),
    /// Namespace, key and value.
    Label(&'a str, &'a str, &'a str),
    /// The index of a path and a value at it, in all namespaces.
    Value(usize, &'a str),
    /// The index of a path, a namespace, and a value.
    ValueIn(usize, &'a str, &'a str),
    /// The index of a selector path, a namespace, and the key and value of a label that the
    /// selector requires.
    Requires(usize, &'a str, &'a str, &'a str),
    /// The index of a selector path and a namespace, for a selector that requires no value of a
    /// label.
    RequiresNone(usize, &'a str),
}

impl Indexer {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_uid: HashTable::new(),
            by_key: HashTable::new(),
            namespaces: HashMap::new(),
            terms: Postings::default(),
            paths: Vec::new(),
            selectors: Vec::new(),
            hasher: RandomState::default(),
            bytes: 0,
        }
    }

    /// The number of objects.
    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// Approximate memory use in bytes, with the indexes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
            + self.terms.bytes()
            + self.slots.len() * (size_of::<usize>() + 4 * size_of::<u32>())
    }

    /// All objects, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.slots.iter().flatten()
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        let hash = self.hasher.hash_one((namespace, name));
        let is_it = |slot: &u32| {
            let object = self.object_at(*slot);
            object.name() == name && object.namespace() == namespace
        };
        self.by_key
            .find(hash, is_it)
            .map(|slot| self.object_at(*slot))
    }

    pub(crate) fn by_uid(&self, uid: &Uid) -> Option<&Arc<Object>> {
        self.slot_of(uid).map(|slot| self.object_at(slot))
    }

    fn slot_of(&self, uid: &Uid) -> Option<u32> {
        self.by_uid
            .find(self.hasher.hash_one(uid), |slot| {
                self.object_at(*slot).uid == *uid
            })
            .copied()
    }

    fn object_at(&self, slot: u32) -> &Arc<Object> {
        self.slots[slot as usize]
            .as_ref()
            .expect("indexes hold only slots in use")
    }
}

/// Changes.
impl Indexer {
    /// Adds a version of an object. A version older than the cached one is ignored. The same
    /// version replaces the object without a delta, since it may have more fields.
    pub(crate) fn upsert(&mut self, object: Arc<Object>, deltas: &mut Vec<Delta>) {
        match self.slot_of(&object.uid) {
            Some(slot) if self.object_at(slot).resource_version > object.resource_version => {}
            Some(slot) => self.modify(slot, object, deltas),
            None => {
                // If another UID has the name, the deletion of that object was missed.
                if let Some(old) = self
                    .get(&object.namespace, &object.name)
                    .map(|old| old.uid.clone())
                {
                    self.remove(&old, None, deltas);
                }
                self.insert(Arc::clone(&object));
                deltas.push(Delta {
                    old: None,
                    new: Some(object),
                    between: Vec::new(),
                    initial: false,
                });
            }
        }
    }

    /// Removes an object. `last` is its final state, if known.
    pub(crate) fn remove(&mut self, uid: &Uid, last: Option<Arc<Object>>, deltas: &mut Vec<Delta>) {
        let Some(slot) = self.slot_of(uid) else {
            return;
        };
        let old = self.remove_slot(slot);
        let is_other = |last: &Arc<Object>| last.resource_version != old.resource_version;
        let between = last.filter(is_other).into_iter().collect();
        deltas.push(Delta {
            old: Some(old),
            new: None,
            between,
            initial: false,
        });
    }

    /// Replaces the objects by a complete list. Objects that are not in it are removed. If `reset`,
    /// versions may go back.
    pub(crate) fn replace(
        &mut self,
        objects: Vec<Arc<Object>>,
        reset: bool,
        deltas: &mut Vec<Delta>,
    ) {
        let listed: HashSet<&Uid> = objects.iter().map(|object| object.uid()).collect();
        let removed: Vec<Uid> = self
            .iter()
            .map(|object| object.uid())
            .filter(|uid| !listed.contains(uid))
            .cloned()
            .collect();
        for uid in removed {
            self.remove(&uid, None, deltas);
        }
        for object in objects {
            match self.slot_of(&object.uid) {
                Some(slot) if reset => self.modify(slot, object, deltas),
                _ => self.upsert(object, deltas),
            }
        }
    }

    fn insert(&mut self, object: Arc<Object>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than 4 billion objects")
        });
        *self
            .namespaces
            .entry(Arc::clone(&object.namespace))
            .or_default() += 1;
        self.bytes += object.size();
        for term in self.terms_of(&object, true) {
            self.terms.insert(term, slot);
        }
        self.slots[slot as usize] = Some(Arc::clone(&object));
        let Self {
            hasher,
            slots,
            by_uid,
            by_key,
            ..
        } = self;
        let object_at = |slot: &u32| {
            slots[*slot as usize]
                .as_ref()
                .expect("indexes hold only slots in use")
        };
        by_uid.insert_unique(hasher.hash_one(&object.uid), slot, |slot| {
            hasher.hash_one(&object_at(slot).uid)
        });
        let key_hash = |object: &Object| hasher.hash_one((&*object.namespace, &*object.name));
        by_key.insert_unique(key_hash(&object), slot, |slot| key_hash(object_at(slot)));
        for number in 0..self.selectors.len() {
            self.post_selector(number, slot, &object);
        }
    }

    /// Removes the object of a slot from the slot and from all indexes.
    fn remove_slot(&mut self, slot: u32) -> Arc<Object> {
        let object = Arc::clone(self.object_at(slot));
        for number in 0..self.selectors.len() {
            self.unpost_selector(number, slot);
        }
        for term in self.terms_of(&object, true) {
            self.terms.remove(term, slot);
        }
        let key_hash = self.hasher.hash_one((&*object.namespace, &*object.name));
        for (table, hash) in [
            (&mut self.by_uid, self.hasher.hash_one(&object.uid)),
            (&mut self.by_key, key_hash),
        ] {
            if let Ok(entry) = table.find_entry(hash, |own| *own == slot) {
                entry.remove();
            }
        }
        if let Some(count) = self.namespaces.get_mut(&object.namespace) {
            *count -= 1;
            if *count == 0 {
                self.namespaces.remove(&object.namespace);
            }
        }
        self.bytes -= object.size();
        self.slots[slot as usize] = None;
        self.free.push(slot);
        object
    }

    /// Replaces an object in its slot by another version of it.
    fn modify(&mut self, slot: u32, new: Arc<Object>, deltas: &mut Vec<Delta>) {
        let old = Arc::clone(self.object_at(slot));
        if (&old.namespace, &old.name) != (&new.namespace, &new.name) {
            // No server renames an object. This is handled anyway, so that the indexes can't become
            // inconsistent.
            self.remove(&old.uid, None, deltas);
            return self.upsert(new, deltas);
        }
        let has_same_metadata = old.labels == new.labels
            && (Arc::ptr_eq(&old.owners, &new.owners) || old.owners == new.owners);
        if !has_same_metadata || !self.paths.is_empty() {
            let mut before = self.terms_of(&old, !has_same_metadata);
            let mut after = self.terms_of(&new, !has_same_metadata);
            before.sort_unstable();
            after.sort_unstable();
            for term in before
                .iter()
                .filter(|term| after.binary_search(term).is_err())
            {
                self.terms.remove(*term, slot);
            }
            for term in after
                .iter()
                .filter(|term| before.binary_search(term).is_err())
            {
                self.terms.insert(*term, slot);
            }
        }
        for number in 0..self.selectors.len() {
            let path = &self.selectors[number].path;
            let selector_json = |object: &Object| {
                path.select(&object.json)
                    .first()
                    .map(|raw| raw.get().to_owned())
            };
            if selector_json(&old) != selector_json(&new) {
                self.unpost_selector(number, slot);
                self.post_selector(number, slot, &new);
            }
        }
        self.bytes = self.bytes + new.size() - old.size();
        self.slots[slot as usize] = Some(Arc::clone(&new));
        if old.resource_version != new.resource_version {
            deltas.push(Delta {
                old: Some(old),
                new: Some(new),
                between: Vec::new(),
                initial: false,
            });
        }
    }
}

/// Indexes.
impl Indexer {
    /// Indexes the values at a path.
    pub(crate) fn add_path(&mut self, path: &FieldPath) {
        if self.paths.contains(path) {
            return;
        }
        let number = self.paths.len();
        self.paths.push(path.clone());
        for (slot, object) in (0..).zip(&self.slots) {
            if let Some(object) = object {
                let mut terms = Vec::new();
                self.push_values(number, object, &mut terms);
                terms
                    .into_iter()
                    .for_each(|term| self.terms.insert(term, slot));
            }
        }
    }

    /// Indexes the label selectors at a path.
    pub(crate) fn add_selector(&mut self, path: &FieldPath) {
        if self.selectors.iter().any(|own| own.path == *path) {
            return;
        }
        self.selectors.push(SelectorIndex {
            path: path.clone(),
            posted: HashMap::new(),
        });
        let objects: Vec<(u32, Arc<Object>)> = (0..)
            .zip(&self.slots)
            .filter_map(|(slot, object)| Some((slot, object.clone()?)))
            .collect();
        for (slot, object) in objects {
            self.post_selector(self.selectors.len() - 1, slot, &object);
        }
    }

    fn hash(&self, term: &Term<'_>) -> u64 {
        self.hasher.hash_one(term)
    }

    /// The terms of an object. Without `metadata`, only those of the declared paths.
    fn terms_of(&self, object: &Object, metadata: bool) -> Vec<u64> {
        let mut terms = Vec::new();
        let namespace = object.namespace();
        if metadata {
            terms.push(self.hash(&Term::Namespace(namespace)));
            terms.extend(
                object
                    .owners()
                    .iter()
                    .map(|owner| self.hash(&Term::Owner(&owner.uid))),
            );
            if object.controller().is_none() {
                terms.push(self.hash(&Term::Orphan(namespace)));
            }
            terms.extend(
                object
                    .labels()
                    .iter()
                    .map(|(key, value)| self.hash(&Term::Label(namespace, key, value))),
            );
        }
        for number in 0..self.paths.len() {
            self.push_values(number, object, &mut terms);
        }
        terms
    }

    fn push_values(&self, number: usize, object: &Object, terms: &mut Vec<u64>) {
        for value in object.strings(&self.paths[number]) {
            terms.push(self.hash(&Term::Value(number, &value)));
            if !object.namespace.is_empty() {
                terms.push(self.hash(&Term::ValueIn(number, &object.namespace, &value)));
            }
        }
    }

    fn post_selector(&mut self, number: usize, slot: u32, object: &Object) {
        let Some(selector) = selector_at(object, &self.selectors[number].path) else {
            return;
        };
        let namespace = object.namespace();
        let posted = selector
            .requirements()
            .iter()
            .filter(|requirement| requirement.operator == Operator::In)
            .map(|own| {
                let term =
                    |value: &str| self.hash(&Term::Requires(number, namespace, &own.key, value));
                own.values
                    .iter()
                    .map(|value| term(value))
                    .collect::<Box<[u64]>>()
            });
        // The label that the fewest other selectors require, so that look-ups test few selectors.
        let fewest = posted.min_by_key(|terms| {
            terms
                .iter()
                .map(|term| self.terms.count(*term))
                .sum::<usize>()
        });
        let terms =
            fewest.unwrap_or_else(|| [self.hash(&Term::RequiresNone(number, namespace))].into());
        terms.iter().for_each(|term| self.terms.insert(*term, slot));
        self.selectors[number]
            .posted
            .insert(slot, PostedSelector { selector, terms });
    }

    fn unpost_selector(&mut self, number: usize, slot: u32) {
        if let Some(posted) = self.selectors[number].posted.remove(&slot) {
            posted
                .terms
                .iter()
                .for_each(|term| self.terms.remove(*term, slot));
        }
    }
}

/// The selector at a path; `None` if there is none, or if it is invalid or matches nothing.
pub(crate) fn selector_at(object: &Object, path: &FieldPath) -> Option<LabelSelector> {
    let raw = path.select(&object.json).into_iter().next()?;
    LabelSelector::of_json(raw.get().as_bytes())
        .ok()
        .filter(|selector| !selector.is_nothing())
}

/// Reads.
impl Indexer {
    /// A superset of the objects that match a query, narrowed by one term. The caller tests each of
    /// them.
    pub(crate) fn candidates(&self, query: &ListQuery) -> Vec<Arc<Object>> {
        if let Some(uid) = &query.uid {
            return self.by_uid(uid).into_iter().cloned().collect();
        }
        match self.narrowest(query) {
            Some(buckets) => {
                let mut found = Vec::with_capacity(buckets.iter().map(|bucket| bucket.len()).sum());
                for bucket in &buckets {
                    bucket.for_each(|slot| found.push(Arc::clone(self.object_at(slot))));
                }
                if buckets.len() > 1 {
                    // An object has one value of a label, but two terms may have the same hash.
                    found.sort_unstable_by_key(Arc::as_ptr);
                    found.dedup_by(|a, b| Arc::ptr_eq(a, b));
                }
                found
            }
            None => self.iter().cloned().collect(),
        }
    }

    /// Whether an object may name this UID as an owner. A hash collision can make it true if none
    /// does.
    pub(crate) fn may_have_dependents(&self, uid: &Uid) -> bool {
        self.terms.get(self.hash(&Term::Owner(uid))).is_some()
    }

    /// The buckets whose union has all objects that match a query; `None` if no term narrows it.
    fn narrowest(&self, query: &ListQuery) -> Option<Vec<&Bucket>> {
        let namespace = (!query.namespace.is_empty()).then_some(&*query.namespace);
        let mut best: Option<Vec<&Bucket>> = None;
        let mut consider = |terms: &mut dyn Iterator<Item = u64>| {
            let buckets: Vec<&Bucket> = terms.filter_map(|term| self.terms.get(term)).collect();
            let size =
                |buckets: &Vec<&Bucket>| buckets.iter().map(|bucket| bucket.len()).sum::<usize>();
            if best.as_ref().is_none_or(|best| size(&buckets) < size(best)) {
                best = Some(buckets);
            }
        };
        for uid in query.owner.iter().chain(&query.controller) {
            consider(&mut std::iter::once(self.hash(&Term::Owner(uid))));
        }
        for (path, value) in &query.fields {
            if let Some(number) = self.paths.iter().position(|own| own == path) {
                let term = match namespace {
                    Some(namespace) => Term::ValueIn(number, namespace, value),
                    None => Term::Value(number, value),
                };
                consider(&mut std::iter::once(self.hash(&term)));
            }
        }
        if let Some(namespace) = namespace {
            consider(&mut std::iter::once(self.hash(&Term::Namespace(namespace))));
        }
        if query.orphans {
            consider(
                &mut self
                    .in_namespaces(namespace)
                    .map(|namespace| self.hash(&Term::Orphan(namespace))),
            );
        }
        for own in query
            .labels
            .requirements()
            .iter()
            .filter(|own| own.operator == Operator::In)
        {
            let values = || own.values.iter();
            let term = |namespace, value| self.hash(&Term::Label(namespace, &own.key, value));
            consider(
                &mut self
                    .in_namespaces(namespace)
                    .flat_map(|namespace| values().map(move |value| term(namespace, value))),
            );
        }
        best
    }

    /// The given namespace, or all namespaces that have objects.
    fn in_namespaces<'a>(&'a self, namespace: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        let all = namespace
            .is_none()
            .then(|| self.namespaces.keys().map(|namespace| &**namespace));
        namespace.into_iter().chain(all.into_iter().flatten())
    }

    /// The objects of a namespace whose selector at an indexed path matches these labels.
    pub(crate) fn selecting(
        &self,
        path: &FieldPath,
        namespace: &str,
        labels: &LabelSet,
    ) -> Vec<Arc<Object>> {
        let Some(number) = self.selectors.iter().position(|own| own.path == *path) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let required = labels
            .iter()
            .map(|(key, value)| self.hash(&Term::Requires(number, namespace, key, value)));
        for term in required.chain(std::iter::once(
            self.hash(&Term::RequiresNone(number, namespace)),
        )) {
            if let Some(bucket) = self.terms.get(term) {
                bucket.for_each(|slot| {
                    let object = self.object_at(slot);
                    let posted = self.selectors[number].posted.get(&slot);
                    if object.namespace() == namespace
                        && posted.is_some_and(|posted| posted.selector.matches(labels))
                    {
                        found.push(Arc::clone(object));
                    }
                });
            }
        }
        found.sort_unstable_by_key(Arc::as_ptr);
        found.dedup_by(|a, b| Arc::ptr_eq(a, b));
        found
    }
}

#[cfg(test)]
mod tests;
