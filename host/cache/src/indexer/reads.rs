//! Selects the candidates for a query: the objects of the term with the fewest objects.

use std::sync::Arc;

use flyball_types::Operator;

use super::Indexer;
use super::terms::Term;
use crate::postings::Bucket;
use crate::{ListQuery, Object, Uid};

impl Indexer {
    /// A superset of the objects that match a query, narrowed by one term. The caller tests each of them.
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

    /// Whether an object may name this UID as an owner. A hash collision can make it true if none does.
    pub(crate) fn may_have_dependents(&self, uid: &Uid) -> bool {
        self.terms.get(self.hash(&Term::Owner(uid))).is_some()
    }

    /// The buckets whose union has all objects that match a query; `None` if no term narrows it.
    fn narrowest(&self, query: &ListQuery) -> Option<Vec<&Bucket>> {
        let namespace = (!query.namespace.is_empty()).then_some(&*query.namespace);
        let mut best: Option<Vec<&Bucket>> = None;
        let mut consider = |buckets: Vec<_>| {
            let size =
                |buckets: &Vec<&Bucket>| buckets.iter().map(|bucket| bucket.len()).sum::<usize>();
            if best.as_ref().is_none_or(|best| size(&buckets) < size(best)) {
                best = Some(buckets);
            }
        };
        let bucket = |term: Term<'_>| self.terms.get(self.hash(&term));
        for uid in query.owner.iter().chain(&query.controller) {
            consider(bucket(Term::Owner(uid)).into_iter().collect());
        }
        for (path, value) in &query.fields {
            if let Some(index) = self.values.get(path) {
                consider(index.buckets(namespace, value, &self.hasher).collect());
            }
        }
        if let Some(namespace) = namespace {
            consider(bucket(Term::Namespace(namespace)).into_iter().collect());
        }
        if query.orphans {
            let orphans = self.in_namespaces(namespace).map(Term::Orphan);
            consider(orphans.filter_map(bucket).collect());
        }
        // Beyond as many look-ups as there are objects, a scan of these is cheaper.
        let mut lookups = self.len();
        let namespaces = if namespace.is_some() {
            1
        } else {
            self.namespaces.len()
        };
        for own in query.labels.requirements() {
            let needed = own.values.len().saturating_mul(namespaces);
            if own.operator != Operator::In || needed > lookups {
                continue;
            }
            lookups -= needed;
            let terms = self.in_namespaces(namespace).flat_map(|namespace| {
                let values = own.values.iter();
                values.map(move |value| Term::Label(namespace, &own.key, value))
            });
            consider(terms.filter_map(bucket).collect());
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
