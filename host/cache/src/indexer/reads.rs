//! Selects the candidates for a query: the objects of the term with the fewest objects.

use std::sync::Arc;

use flyball_types::Operator;

use super::Indexer;
use super::terms::Term;
use crate::postings::Bucket;
use crate::{ListQuery, Object, Uid};

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
}
