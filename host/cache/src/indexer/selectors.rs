//! Finds the objects whose label selector at a path matches given labels.

use std::collections::HashMap;
use std::sync::Arc;

use flyball_types::{FieldPath, LabelSelector, Operator};

use super::Indexer;
use super::terms::Term;
use crate::{LabelSet, Object};

/// An index of the label selectors at a path. Each selector is posted under one label that it
/// requires, so that a look-up tests only selectors that have a label in common with the labels
/// looked up.
pub(super) struct SelectorIndex {
    pub(super) path: FieldPath,
    /// By slot.
    posted: HashMap<u32, PostedSelector>,
}

struct PostedSelector {
    selector: LabelSelector,
    /// The terms that the selector is posted under.
    terms: Box<[u64]>,
}

impl Indexer {
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

    pub(super) fn post_selector(&mut self, number: usize, slot: u32, object: &Object) {
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

    pub(super) fn unpost_selector(&mut self, number: usize, slot: u32) {
        if let Some(posted) = self.selectors[number].posted.remove(&slot) {
            posted
                .terms
                .iter()
                .for_each(|term| self.terms.remove(*term, slot));
        }
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

/// The selector at a path; `None` if there is none, or if it is invalid or matches nothing.
pub(crate) fn selector_at(object: &Object, path: &FieldPath) -> Option<LabelSelector> {
    let raw = path.select(&object.json).into_iter().next()?;
    LabelSelector::of_json(raw.get().as_bytes())
        .ok()
        .filter(|selector| !selector.is_nothing())
}
