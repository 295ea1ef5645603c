//! The indexer: the objects of one informer and their indexes. It is plain data; the reflector changes it under the
//! informer's lock (`core.rs`).
//!
//! Objects are in numbered slots and are found by *terms*: a namespace, an owner, a label, or a value at a declared
//! path. The 64-bit hash of a term maps to the slots of its objects (`postings.rs`). A read selects the term with the
//! fewest objects and tests each of these against the whole query. So hash collisions are harmless, and the cost of a
//! read is proportional to the number of objects with its rarest term.
//!
//! `terms` has the terms of an object, `declared` the indexes of declared paths, `selectors` finds objects by the
//! labels that they select, and `reads` narrows a query.
//!
//! # Example
//!
//! Slots 0, 1 and 2 hold the pods `a/web-1`, `a/web-2` and `b/web-1`. The ReplicaSet with the UID `u` owns the first
//! two; `b/web-1` has no owner. All have the label `app=web`.
//!
//! | term | slots |
//! |---|---|
//! | namespace `a` | 0, 1 |
//! | namespace `b` | 2 |
//! | owner `u` | 0, 1 |
//! | orphan in `b` | 2 |
//! | label `app=web` in `a` | 0, 1 |
//! | label `app=web` in `b` | 2 |
//!
//! A list of the pods of owner `u` with the label `app=web` in `a` looks up two terms, selects one of the shorter slot
//! lists, and tests the pods in it against both conditions. When `a/web-1` is removed, slot 0 leaves the lists of its
//! terms and becomes free: the next new pod gets it. A list that becomes empty is dropped with its term, so that a
//! missing term proves that no object has it, and so that terms of objects that are gone take no memory (as they once
//! did in client-go: kubernetes/kubernetes#84959).

mod declared;
mod reads;
mod selectors;
mod terms;

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::change::Change;
use crate::postings::Postings;
use crate::shared_paths::SharedPaths;
use crate::{Delta, Object, Uid};
pub(crate) use declared::PathIndex;
use declared::{Declared, Indexed};
pub(crate) use selectors::{SelectorIndex, selector_at};
pub(crate) use terms::ValueIndex;

/// The objects of one informer, with their indexes.
pub(crate) struct Indexer {
    slots: Vec<Option<Arc<Object>>>,
    /// The numbers of the empty slots.
    free: Vec<u32>,
    by_uid: HashTable<u32>,
    by_key: HashTable<u32>,
    /// The number of objects in each namespace.
    namespaces: HashMap<Arc<str>, usize>,
    /// The terms of metadata.
    terms: Postings,
    values: Declared<ValueIndex>,
    selectors: Declared<SelectorIndex>,
    /// The paths of the indexes, and those that subscribers read.
    pub(crate) paths: SharedPaths,
    hasher: RandomState,
    /// The approximate size of the objects, without their indexes.
    bytes: usize,
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
            values: Declared::default(),
            selectors: Declared::default(),
            paths: SharedPaths::default(),
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
        let rows = self.slots.iter().flatten().map(|object| object.row_size());
        self.bytes
            + rows.sum::<usize>()
            + self.terms.bytes()
            + self.values.bytes()
            + self.selectors.bytes()
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

    /// Whether there is an object in a namespace; in any namespace if it is empty.
    pub(crate) fn has_any_in(&self, namespace: &str) -> bool {
        match namespace {
            "" => self.len() > 0,
            _ => self.namespaces.contains_key(namespace),
        }
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
    /// Adds a version of an object. A version older than the cached one is ignored. The same version replaces the
    /// object without a delta, since it may have more fields.
    pub(crate) fn upsert(&mut self, object: Arc<Object>, changes: &mut Vec<Change>) {
        match self.slot_of(&object.uid) {
            Some(slot) if self.object_at(slot).resource_version > object.resource_version => {}
            Some(slot) => self.modify(slot, object, changes),
            None => {
                // If another UID has the name, the deletion of that object was missed.
                if let Some(old) = self
                    .get(&object.namespace, &object.name)
                    .map(|old| old.uid.clone())
                {
                    self.remove(&old, None, changes);
                }
                let change = change(None, Vec::new(), Some(Arc::clone(&object)));
                self.insert(object, &change);
                changes.push(change);
            }
        }
    }

    /// Removes an object. `last` is its final state, if known.
    pub(crate) fn remove(
        &mut self,
        uid: &Uid,
        last: Option<Arc<Object>>,
        changes: &mut Vec<Change>,
    ) {
        let Some(slot) = self.slot_of(uid) else {
            return;
        };
        let old = Arc::clone(self.object_at(slot));
        let is_other = |last: &Arc<Object>| last.resource_version != old.resource_version;
        let between = last.filter(is_other).into_iter().collect();
        let change = change(Some(old), between, None);
        self.remove_slot(slot, &change);
        changes.push(change);
    }

    /// Replaces the objects by a complete list. Objects that are not in it are removed. If `reset`, versions may go
    /// back.
    pub(crate) fn replace(
        &mut self,
        objects: Vec<Arc<Object>>,
        reset: bool,
        changes: &mut Vec<Change>,
    ) {
        let listed: HashSet<&Uid> = objects.iter().map(|object| object.uid()).collect();
        let removed: Vec<Uid> = self
            .iter()
            .map(|object| object.uid())
            .filter(|uid| !listed.contains(uid))
            .cloned()
            .collect();
        for uid in removed {
            let first = changes.len();
            self.remove(&uid, None, changes);
            forget_values(&mut changes[first..]);
        }
        for object in objects {
            let first = changes.len();
            match self.slot_of(&object.uid) {
                Some(slot) if reset => self.modify(slot, object, changes),
                _ => self.upsert(object, changes),
            }
            forget_values(&mut changes[first..]);
        }
    }

    /// Adds an object, which is the newest version of a change, with index 0.
    fn insert(&mut self, object: Arc<Object>, change: &Change) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than 4 billion objects")
        });
        *self
            .namespaces
            .entry(Arc::clone(&object.namespace))
            .or_default() += 1;
        self.bytes += object.size();
        for term in self.terms_of(&object) {
            self.terms.insert(term, slot);
        }
        let indexed = Indexed::new(change, &self.paths, &self.hasher);
        self.values.insert(slot, &indexed);
        self.selectors.insert(slot, &indexed);
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
    }

    /// Removes the object of a slot, which is the oldest version of a change, from the slot and from all indexes.
    fn remove_slot(&mut self, slot: u32, change: &Change) {
        let object = Arc::clone(self.object_at(slot));
        let indexed = Indexed::new(change, &self.paths, &self.hasher);
        self.values.remove(slot, &indexed);
        self.selectors.remove(slot, &indexed);
        for term in self.terms_of(&object) {
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
    }

    /// Replaces an object in its slot by another version of it.
    fn modify(&mut self, slot: u32, new: Arc<Object>, changes: &mut Vec<Change>) {
        let old = Arc::clone(self.object_at(slot));
        if (&old.namespace, &old.name) != (&new.namespace, &new.name) {
            // No server renames an object. This is handled anyway, so that the indexes can't become inconsistent.
            self.remove(&old.uid, None, changes);
            return self.upsert(new, changes);
        }
        let has_same_metadata = old.labels == new.labels
            && (Arc::ptr_eq(&old.owners, &new.owners) || old.owners == new.owners);
        if !has_same_metadata {
            let mut before = self.terms_of(&old);
            let mut after = self.terms_of(&new);
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
        self.bytes = self.bytes + new.size() - old.size();
        self.slots[slot as usize] = Some(Arc::clone(&new));
        let is_other_version = old.resource_version != new.resource_version;
        let change = change(Some(old), Vec::new(), Some(new));
        let indexed = Indexed::new(&change, &self.paths, &self.hasher);
        self.values.update(slot, &indexed);
        self.selectors.update(slot, &indexed);
        if is_other_version {
            changes.push(change);
        }
    }
}

fn change(old: Option<Arc<Object>>, between: Vec<Arc<Object>>, new: Option<Arc<Object>>) -> Change {
    Change::from(Delta {
        old,
        new,
        between,
        initial: false,
    })
}

/// Frees the values of changes of a list. Those of all objects would take as much memory as the objects.
fn forget_values(changes: &mut [Change]) {
    changes.iter_mut().for_each(Change::forget_values);
}

#[cfg(test)]
mod tests;
