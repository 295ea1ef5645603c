//! What a change changes: a delta, with the values that its readers declared.
//!
//! Dozens of plugins watch pods, and most changes of a pod concern few of them. Whether a change concerns a plugin
//! depends on a few values of the object: those that its predicates compare, those whose changes count, those that name
//! another object. If each plugin searched the object for its own values, an event would cost what the object holds times
//! the number of plugins.
//!
//! So the values of all plugins are found together, once for each version of the object: the cache knows which paths its
//! indexes and its subscribers read (`shared_paths.rs`), the first reader of a [`Change`] searches the versions for all of
//! these paths at once, and compares them. From then on, a reader pays only for what it reads: "has one of my columns
//! changed" is a few bits, and a value is a slice of the object's JSON. The indexes read the same values. They are
//! forgotten with the change, so that the cache keeps nothing for them.
//!
//! A subscriber reads through a [`Seen`], in which its paths have its own numbers. Dropped-in plugins don't share: a
//! `Seen` finds the values of their paths alone ([`Seen::of`]), at the expense of the plugin.
//!
//! ```text
//!  event ─► indexer ─► Change { delta, values }  ──► Seen of plugin 1 ─► selects? ─► its queue of deltas
//!            (indexes read the values)           ├─► Seen of plugin 2 ─► selects? ─► no: nothing is woken
//!                                                └─► …
//! ```

use std::cell::OnceCell;
use std::ops::Deref;

use flyball_types::{FieldPath, PathSet, Places};

use crate::{Delta, Object};

/// A delta, and the values of its versions at the paths of a set, once somebody reads them.
#[derive(Debug)]
pub(crate) struct Change {
    delta: Delta,
    values: OnceCell<Values>,
}

/// The values at the paths of a set in each version of a delta.
#[derive(Debug)]
struct Values {
    /// In the order of [`Delta::versions`].
    versions: Vec<Places>,
    /// The paths whose values differ between two consecutive versions: the bit of each path's number, in words of 64.
    changed: Box<[u64]>,
}

impl Values {
    fn of(delta: &Delta, paths: &PathSet) -> Self {
        let versions: Vec<Places> = { delta.versions() }
            .map(|object| paths.find(object.json()))
            .collect();
        let mut changed = vec![0; paths.count().div_ceil(64)];
        let found: Vec<(&Places, &[u8])> = { versions.iter() }
            .zip(delta.versions().map(|object| object.json()))
            .collect();
        for pair in found.windows(2) {
            let differences = paths.differences(pair[0], pair[1]);
            for (word, differences) in changed.iter_mut().zip(differences) {
                *word |= differences;
            }
        }
        Self {
            versions,
            changed: changed.into(),
        }
    }
}

impl From<Delta> for Change {
    fn from(delta: Delta) -> Self {
        Self {
            delta,
            values: OnceCell::new(),
        }
    }
}

impl Deref for Change {
    type Target = Delta;

    fn deref(&self) -> &Delta {
        &self.delta
    }
}

impl Change {
    /// The change as a reader sees it, whose paths have these numbers in the set. The set must be the same for all
    /// readers.
    pub(crate) fn seen<'a>(&'a self, paths: &'a PathSet, numbers: &'a [usize]) -> Seen<'a> {
        Seen {
            delta: &self.delta,
            paths,
            numbers: Some(numbers),
            values: Found::Shared(&self.values),
        }
    }

    /// Frees the values. The next reader finds them anew.
    pub(crate) fn forget_values(&mut self) {
        self.values = OnceCell::new();
    }
}

/// A delta as one reader sees it: with the values at the reader's paths, in each version.
pub struct Seen<'a> {
    delta: &'a Delta,
    paths: &'a PathSet,
    /// The numbers of the reader's paths in `paths`; none if they are the same.
    numbers: Option<&'a [usize]>,
    values: Found<'a>,
}

enum Found<'a> {
    Shared(&'a OnceCell<Values>),
    Own(OnceCell<Values>),
}

impl<'a> Seen<'a> {
    /// A delta for a reader of these paths. The values are found when the first one is read.
    pub fn of(delta: &'a Delta, paths: &'a PathSet) -> Self {
        Self {
            delta,
            paths,
            numbers: None,
            values: Found::Own(OnceCell::new()),
        }
    }

    pub fn delta(&self) -> &'a Delta {
        self.delta
    }

    /// The versions of the delta with their numbers, the oldest first.
    pub fn versions(&self) -> impl Iterator<Item = (usize, &'a Object)> + use<'a> {
        self.delta.versions().map(|object| &**object).enumerate()
    }

    /// Whether the value at a path of the reader differs between two consecutive versions. Without a `[*]` in the path,
    /// the first value counts, and a missing one is `null`.
    pub fn has_changed(&self, path: usize) -> bool {
        let Some(number) = self.number(path) else {
            return false;
        };
        let word = self.values().changed.get(number / 64);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The values at a path of the reader in a version, as they are written in JSON.
    pub fn values_of(&self, version: usize, path: usize) -> impl Iterator<Item = &str> {
        let object = self.delta.versions().nth(version);
        let found = object.and_then(|object| {
            let places = self.values().versions.get(version)?;
            Some(places.values(self.number(path)?, object.json()))
        });
        found.into_iter().flatten()
    }

    fn number(&self, path: usize) -> Option<usize> {
        match self.numbers {
            None => Some(path),
            Some(numbers) => numbers.get(path).copied(),
        }
    }

    fn values(&self) -> &Values {
        let values = match &self.values {
            Found::Shared(values) => values,
            Found::Own(values) => values,
        };
        values.get_or_init(|| Values::of(self.delta, self.paths))
    }
}

/// A subscriber's choice among the deltas of an informer.
pub trait Select: Send + Sync + 'static {
    /// The paths whose values it reads, by their numbers. The cache finds the values of all of its subscribers at once. A
    /// subscriber that should bear the cost of its paths itself returns none, and uses [`Seen::of`].
    fn shared_paths(&self) -> &[FieldPath] {
        &[]
    }

    /// Whether the subscriber receives a delta. Called for each delta under the cache's lock, so it must return quickly.
    fn selects(&self, seen: &Seen<'_>) -> bool;

    /// Whether the snapshot at the start of the subscription has an object, judged without its values: the cache is locked
    /// while all objects are asked for. Must be true for each addition that [`Select::selects`].
    fn may_select(&self, added: &Delta) -> bool;
}

/// A choice that reads no values.
pub(crate) struct ByDelta<F>(pub(crate) F);

impl<F: Fn(&Delta) -> bool + Send + Sync + 'static> Select for ByDelta<F> {
    fn selects(&self, seen: &Seen<'_>) -> bool {
        self.0(seen.delta())
    }

    fn may_select(&self, added: &Delta) -> bool {
        self.0(added)
    }
}

#[cfg(test)]
mod tests;
