//! Terms: the values that objects are found by.

use std::hash::BuildHasher;

use flyball_types::strings_in;
use foldhash::fast::RandomState;

use super::Indexer;
use super::declared::{Declared, PathIndex};
use crate::postings::{Bucket, Postings};
use crate::{Object, Uid};

/// The most values of one object that an index has. An object with more is a candidate of each query.
const MAX_VALUES: usize = 256;

/// A value that objects are found by.
#[derive(Hash)]
pub(super) enum Term<'a> {
    Namespace(&'a str),
    Owner(&'a Uid),
    /// An object without a controller, in this namespace.
    Orphan(&'a str),
    /// Namespace, key and value.
    Label(&'a str, &'a str, &'a str),
    /// A value at a declared path, in all namespaces.
    Value(&'a str),
    /// A namespace, and a value at a declared path.
    ValueIn(&'a str, &'a str),
    /// An object with too many values at a declared path.
    ManyValues,
    /// A namespace, and the key and value of a label that the selector at a declared path requires.
    Requires(&'a str, &'a str, &'a str),
    /// A namespace, for a selector that requires no value of a label.
    RequiresNone(&'a str),
}

/// The values at a declared path.
#[derive(Default)]
pub(crate) struct ValueIndex {
    terms: Postings,
}

impl Indexer {
    pub(super) fn hash(&self, term: &Term<'_>) -> u64 {
        self.hasher.hash_one(term)
    }

    /// The terms of an object's metadata.
    pub(super) fn terms_of(&self, object: &Object) -> Vec<u64> {
        let namespace = object.namespace();
        let mut terms = vec![self.hash(&Term::Namespace(namespace))];
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
        terms
    }
}

impl ValueIndex {
    /// The buckets whose union has all objects with this value, and few others.
    pub(super) fn buckets<'a>(
        &'a self,
        namespace: Option<&str>,
        value: &str,
        hasher: &RandomState,
    ) -> impl Iterator<Item = &'a Bucket> {
        let term = match namespace {
            Some(namespace) => Term::ValueIn(namespace, value),
            None => Term::Value(value),
        };
        let terms = [term, Term::ManyValues].map(|term| hasher.hash_one(term));
        terms.into_iter().filter_map(|term| self.terms.get(term))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

impl PathIndex for ValueIndex {
    /// The terms.
    type Indexed = Vec<u64>;

    fn indexed(object: &Object, values: &[&str], hasher: &RandomState) -> Vec<u64> {
        let values: Vec<_> = values.iter().flat_map(|value| strings_in(value)).collect();
        if values.len() > MAX_VALUES {
            return vec![hasher.hash_one(Term::ManyValues)];
        }
        let mut terms = Vec::with_capacity(2 * values.len());
        for value in &values {
            terms.push(hasher.hash_one(Term::Value(value)));
            if !object.namespace.is_empty() {
                terms.push(hasher.hash_one(Term::ValueIn(&object.namespace, value)));
            }
        }
        terms
    }

    fn insert(&mut self, slot: u32, terms: Vec<u64>) {
        terms
            .into_iter()
            .for_each(|term| self.terms.insert(term, slot));
    }

    fn remove(&mut self, slot: u32, object: &Object, values: &[&str], hasher: &RandomState) {
        Self::indexed(object, values, hasher)
            .into_iter()
            .for_each(|term| self.terms.remove(term, slot));
    }

    fn bytes(&self) -> usize {
        self.terms.bytes()
    }

    fn declared(indexer: &Indexer) -> &Declared<Self> {
        &indexer.values
    }

    fn declared_mut(indexer: &mut Indexer) -> &mut Declared<Self> {
        &mut indexer.values
    }
}
