//! The indexes that handles declare: of the values, or of the label selectors, at a path. Handles that declare the same
//! path share its index, which lives as long as the last of them.
//!
//! The index of a path that is declared later is built in steps, so that neither readers nor the reflector wait for the
//! whole. Meanwhile, the objects in the slots below `built` are in it.

use std::sync::Arc;

use flyball_types::FieldPath;
use foldhash::fast::RandomState;

use super::Indexer;
use crate::Object;
use crate::change::Change;
use crate::shared_paths::SharedPaths;

/// How many objects are added to a new index in one step.
const STEP: usize = 256;

/// An index over the values or selectors of the objects at a path.
pub(crate) trait PathIndex: Default {
    /// The data of one object in the index.
    type Indexed;

    /// The entry of an object with these values at the path, as they are written in JSON.
    fn indexed(object: &Object, values: &[&str], hasher: &RandomState) -> Self::Indexed;

    fn insert(&mut self, slot: u32, entry: Self::Indexed);

    /// Removes the entry of the object in a slot, which has these values at the path.
    fn remove(&mut self, slot: u32, object: &Object, values: &[&str], hasher: &RandomState);

    /// Approximate memory use in bytes.
    fn bytes(&self) -> usize;

    /// The indexes of this type.
    fn declared(indexer: &Indexer) -> &Declared<Self>;

    fn declared_mut(indexer: &mut Indexer) -> &mut Declared<Self>;
}

/// The declared indexes of one type.
#[derive(Default)]
pub(crate) struct Declared<I> {
    all: Vec<OfPath<I>>,
}

/// A change of an object, with the values that the indexes read.
pub(super) struct Indexed<'a> {
    change: &'a Change,
    paths: &'a SharedPaths,
    hasher: &'a RandomState,
}

/// The index of one path.
struct OfPath<I> {
    path: FieldPath,
    /// The path's number among the shared paths.
    number: usize,
    /// The number of handles that declare it.
    handles: usize,
    /// The objects in the slots below this number are in the index; all if there is none.
    built: Option<u32>,
    index: I,
}

/// The next slots to add to a new index, with the objects that they held when the step began.
pub(crate) struct Step {
    from: u32,
    slots: Vec<Option<Arc<Object>>>,
    hasher: RandomState,
}

impl<I: PathIndex> Declared<I> {
    /// The index of a path, once it is built.
    pub(super) fn get(&self, path: &FieldPath) -> Option<&I> {
        self.find(path)
            .filter(|own| own.built.is_none())
            .map(|own| &own.index)
    }

    fn find(&self, path: &FieldPath) -> Option<&OfPath<I>> {
        self.all.iter().find(|own| own.path == *path)
    }

    fn find_mut(&mut self, path: &FieldPath) -> Option<&mut OfPath<I>> {
        self.all.iter_mut().find(|own| own.path == *path)
    }

    /// Adds the entries of a new object.
    pub(super) fn insert(&mut self, slot: u32, new: &Indexed<'_>) {
        for own in self.all.iter_mut().filter(|own| own.has(slot)) {
            own.insert(slot, new, 0);
        }
    }

    /// Removes the entries of a deleted object.
    pub(super) fn remove(&mut self, slot: u32, deleted: &Indexed<'_>) {
        for own in self.all.iter_mut().filter(|own| own.has(slot)) {
            own.remove(slot, deleted, 0);
        }
    }

    /// Replaces the entries of an object by those of the next version.
    pub(super) fn update(&mut self, slot: u32, modified: &Indexed<'_>) {
        for own in self.all.iter_mut().filter(|own| own.has(slot)) {
            if modified.has_other_values(own.number) {
                own.remove(slot, modified, 0);
                own.insert(slot, modified, 1);
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.all.iter().map(|own| own.index.bytes()).sum()
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &I> {
        self.all.iter().map(|own| &own.index)
    }
}

impl<'a> Indexed<'a> {
    pub(super) fn new(change: &'a Change, paths: &'a SharedPaths, hasher: &'a RandomState) -> Self {
        Self {
            change,
            paths,
            hasher,
        }
    }

    /// Whether the new version has other values than the old one at the path with this number.
    fn has_other_values(&self, number: usize) -> bool {
        let numbers = [number];
        let seen = self.change.seen(self.paths.set(), &numbers);
        !seen.values_of(0, 0).eq(seen.values_of(1, 0))
    }

    /// Calls `change` with a version of the object, and its values at the path with this number.
    fn with(&self, version: usize, number: usize, change: impl FnOnce(&Object, &[&str])) {
        let numbers = [number];
        let seen = self.change.seen(self.paths.set(), &numbers);
        let object = self.change.versions().nth(version);
        let values: Vec<&str> = seen.values_of(version, 0).collect();
        change(object.expect("the version is part of the change"), &values);
    }
}

impl<I: PathIndex> OfPath<I> {
    fn insert(&mut self, slot: u32, indexed: &Indexed<'_>, version: usize) {
        indexed.with(version, self.number, |object, values| {
            let entry = I::indexed(object, values, indexed.hasher);
            self.index.insert(slot, entry);
        });
    }

    fn remove(&mut self, slot: u32, indexed: &Indexed<'_>, version: usize) {
        indexed.with(version, self.number, |object, values| {
            self.index.remove(slot, object, values, indexed.hasher);
        });
    }
}

impl<I> OfPath<I> {
    /// Whether the object in a slot is in the index. If not, the build has yet to reach it.
    fn has(&self, slot: u32) -> bool {
        self.built.is_none_or(|built| slot < built)
    }
}

impl Step {
    /// Computes an index's entry for the object in each slot.
    pub(crate) fn entries<I: PathIndex>(&self, path: &FieldPath) -> Vec<Option<I::Indexed>> {
        let entry = |object: &Option<Arc<Object>>| {
            let object = object.as_ref()?;
            Some(I::indexed(
                object,
                &path.select(object.json()),
                &self.hasher,
            ))
        };
        self.slots.iter().map(entry).collect()
    }
}

impl Indexer {
    /// Declares an index for a handle. It must be built, unless it exists or there are no objects.
    pub(crate) fn declare<I: PathIndex>(&mut self, path: &FieldPath) {
        let built = (!self.slots.is_empty()).then_some(0);
        if let Some(own) = I::declared_mut(self).find_mut(path) {
            own.handles += 1;
            return;
        }
        let number = self.paths.add(path);
        I::declared_mut(self).all.push(OfPath {
            path: path.clone(),
            number,
            handles: 1,
            built,
            index: I::default(),
        });
    }

    /// Ends a declaration. Returns the index if no other handle declares it.
    pub(crate) fn withdraw<I: PathIndex>(&mut self, path: &FieldPath) -> Option<I> {
        let all = &mut I::declared_mut(self).all;
        let at = all.iter().position(|own| own.path == *path)?;
        all[at].handles -= 1;
        if all[at].handles > 0 {
            return None;
        }
        let OfPath { number, index, .. } = all.swap_remove(at);
        self.paths.remove(number);
        Some(index)
    }

    pub(crate) fn is_built<I: PathIndex>(&self, path: &FieldPath) -> bool {
        I::declared(self).get(path).is_some()
    }

    /// The next step of building an index; `None` once it is built, or once no handle declares it.
    pub(crate) fn next_step<I: PathIndex>(&self, path: &FieldPath) -> Option<Step> {
        let from = I::declared(self).find(path)?.built?;
        let slots = self.slots.iter().skip(from as usize).take(STEP);
        Some(Step {
            from,
            slots: slots.cloned().collect(),
            hasher: self.hasher.clone(),
        })
    }

    /// Adds the entries of a step to its index.
    pub(crate) fn take_step<I: PathIndex>(
        &mut self,
        path: &FieldPath,
        step: Step,
        entries: Vec<Option<I::Indexed>>,
    ) {
        let current = self.slots.iter().skip(step.from as usize);
        let current: Vec<_> = current.take(step.slots.len()).cloned().collect();
        let slots = self.slots.len();
        let declared = I::declared_mut(self);
        let is_next = |own: &&mut OfPath<I>| own.built == Some(step.from);
        let Some(own) = declared.find_mut(path).filter(is_next) else {
            return;
        };
        let mut to = step.from;
        for ((object, then), entry) in current.iter().zip(&step.slots).zip(entries) {
            if let Some(object) = object {
                let is_unchanged = then.as_ref().is_some_and(|then| Arc::ptr_eq(then, object));
                let entry = entry.filter(|_| is_unchanged);
                let entry = entry.unwrap_or_else(|| {
                    I::indexed(object, &path.select(object.json()), &step.hasher)
                });
                own.index.insert(to, entry);
            }
            to += 1;
        }
        own.built = ((to as usize) < slots).then_some(to);
    }
}
