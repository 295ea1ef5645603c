//! Terms: the values that objects are found by.

use std::hash::BuildHasher;

use flyball_types::FieldPath;

use super::Indexer;
use crate::{Object, Uid};

/// A value that objects are found by.
#[derive(Hash)]
pub(super) enum Term<'a> {
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

    pub(super) fn hash(&self, term: &Term<'_>) -> u64 {
        self.hasher.hash_one(term)
    }

    /// The terms of an object. Without `metadata`, only those of the declared paths.
    pub(super) fn terms_of(&self, object: &Object, metadata: bool) -> Vec<u64> {
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
}
