//! Finds the objects whose label selector at a path matches given labels.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use flyball_types::{FieldPath, LabelSelector, Operator, Requirement};
use foldhash::fast::RandomState;

use super::Indexer;
use super::declared::{Declared, PathIndex};
use super::terms::Term;
use crate::postings::Postings;
use crate::{LabelSet, Object};

/// The most values of a requirement that a selector is posted under.
const MAX_VALUES: usize = 64;

/// The label selectors at a path. Each selector is posted under one label that it requires, so that a look-up tests
/// only selectors that have a label in common with the labels looked up.
#[derive(Default)]
pub(crate) struct SelectorIndex {
    terms: Postings,
    /// By slot.
    posted: HashMap<u32, PostedSelector>,
    /// The bytes behind the posted selectors.
    bytes: usize,
}

struct PostedSelector {
    selector: LabelSelector,
    /// The terms that the selector is posted under.
    terms: Box<[u64]>,
}

impl PostedSelector {
    /// The bytes behind it. A selector of JSON may have any number of requirements.
    fn bytes(&self) -> usize {
        self.selector.size() + size_of_val(&*self.terms)
    }
}

/// A selector that is to be posted.
pub(crate) struct SelectorTerms {
    selector: LabelSelector,
    /// For each label that it requires, the terms of its values.
    required: Vec<Box<[u64]>>,
    /// The term of a selector that requires none.
    requires_none: u64,
}

impl PathIndex for SelectorIndex {
    /// None if the object has no selector that matches anything.
    type Indexed = Option<SelectorTerms>;

    fn indexed(object: &Object, values: &[&str], hasher: &RandomState) -> Option<SelectorTerms> {
        let selector = selector_of(values.first()?)?;
        let namespace = object.namespace();
        let is_posted =
            |own: &&Requirement| own.operator == Operator::In && own.values.len() <= MAX_VALUES;
        let terms = |own: &Requirement| {
            let term = |value: &str| hasher.hash_one(Term::Requires(namespace, &own.key, value));
            own.values.iter().map(|value| term(value)).collect()
        };
        let required = selector.requirements().iter().filter(is_posted);
        Some(SelectorTerms {
            required: required.map(terms).collect(),
            requires_none: hasher.hash_one(Term::RequiresNone(namespace)),
            selector,
        })
    }

    fn insert(&mut self, slot: u32, entry: Option<SelectorTerms>) {
        let Some(entry) = entry else {
            return;
        };
        // The label that the fewest other selectors require, so that look-ups test few selectors.
        let fewest = entry.required.into_iter().min_by_key(|terms| {
            terms
                .iter()
                .map(|term| self.terms.count(*term))
                .sum::<usize>()
        });
        let terms = fewest.unwrap_or_else(|| [entry.requires_none].into());
        terms.iter().for_each(|term| self.terms.insert(*term, slot));
        let selector = entry.selector;
        let posted = PostedSelector { selector, terms };
        self.bytes += posted.bytes();
        self.posted.insert(slot, posted);
    }

    fn remove(&mut self, slot: u32, _: &Object, _: &[&str], _: &RandomState) {
        if let Some(posted) = self.posted.remove(&slot) {
            self.bytes -= posted.bytes();
            posted
                .terms
                .iter()
                .for_each(|term| self.terms.remove(*term, slot));
        }
    }

    fn bytes(&self) -> usize {
        let posted = size_of::<(u32, PostedSelector)>() + size_of::<u64>();
        self.terms.bytes() + self.posted.capacity() * posted + self.bytes
    }

    fn declared(indexer: &Indexer) -> &Declared<Self> {
        &indexer.selectors
    }

    fn declared_mut(indexer: &mut Indexer) -> &mut Declared<Self> {
        &mut indexer.selectors
    }
}

#[cfg(test)]
impl SelectorIndex {
    pub(super) fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.posted.is_empty() && self.bytes == 0
    }

    /// The number of terms that all selectors are posted under.
    pub(super) fn posted_terms(&self) -> usize {
        self.posted.values().map(|posted| posted.terms.len()).sum()
    }
}

impl Indexer {
    /// The objects of a namespace whose selector at an indexed path matches these labels.
    pub(crate) fn selecting(
        &self,
        path: &FieldPath,
        namespace: &str,
        labels: &LabelSet,
    ) -> Vec<Arc<Object>> {
        let Some(index) = self.selectors.get(path) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let required = labels
            .iter()
            .map(|(key, value)| self.hash(&Term::Requires(namespace, key, value)));
        for term in required.chain(std::iter::once(self.hash(&Term::RequiresNone(namespace)))) {
            if let Some(bucket) = index.terms.get(term) {
                bucket.for_each(|slot| {
                    let object = self.object_at(slot);
                    let posted = index.posted.get(&slot);
                    if object.namespace() == namespace
                        && posted.is_some_and(|posted| labels.match_selector(&posted.selector))
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

/// The selector at a path; `None` if there is none, or if it is invalid or matches nothing.
pub(crate) fn selector_at(object: &Object, path: &FieldPath) -> Option<LabelSelector> {
    selector_of(path.select(&object.json).into_iter().next()?)
}

/// The selector in JSON; `None` if it is invalid or matches nothing.
fn selector_of(json: &str) -> Option<LabelSelector> {
    let selector = LabelSelector::of_json(json.as_bytes());
    selector.ok().filter(|selector| !selector.is_nothing())
}
