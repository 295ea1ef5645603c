//! The router's lookups in a plugin's caches.

use std::sync::Arc;

use flyball_cache::{ListQuery, Lister, Object, Uid};
use flyball_types::{FieldPath, Kind, Reference};

use crate::cached::{CachedReads, DELETED_KEPT};
use crate::lookup::{Lookup, reference};

impl Lookup for CachedReads {
    fn has(&self, kind: &Kind, namespace: &str, name: &str, uid: &Uid) -> Option<bool> {
        let listers = self.listers.of_named(kind)?;
        Some(listers.iter().any(|lister| {
            lister
                .get(namespace, name)
                .is_some_and(|object| object.uid() == uid)
        }))
    }

    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let mut listers = self.listers.of_named(kind)?.iter();
        listers.find_map(|lister| lister.get(namespace, name))
    }

    fn has_any(&self, kind: &Kind, namespace: &str) -> bool {
        let mut listers = self.listers.of_named(kind).into_iter().flatten();
        listers.any(|lister| lister.may_have_any(namespace))
    }

    fn selecting(&self, kind: &Kind, path: &FieldPath, object: &Object) -> Vec<Arc<Object>> {
        let listers = self.listers.of_named(kind).into_iter().flatten();
        listers
            .flat_map(|lister| lister.selecting(path, object.namespace(), object.labels()))
            .collect()
    }

    fn keys(&self, kind: &Kind, namespace: &str) -> Vec<String> {
        let listers = self.listers.of_named(kind).into_iter().flatten();
        listers
            .flat_map(|lister| lister.list(&ListQuery::namespace(namespace)))
            .map(|found| found.key())
            .collect()
    }

    fn by_uid(&self, uid: &Uid) -> Option<(Kind, Arc<Object>)> {
        let discovered = self.listers.discovered();
        let (kind, object) = self
            .listers
            .named()
            .chain(&*discovered)
            .find_map(|(kind, lister)| Some((kind, lister.by_uid(uid)?)))?;
        Some((kind.clone(), object))
    }

    fn dependents(&self, uid: &Uid) -> Vec<Reference> {
        let owned = ListQuery {
            owner: Some(uid.clone()),
            ..ListQuery::default()
        };
        let discovered = self.listers.discovered();
        let owning = self
            .listers
            .named()
            .chain(&*discovered)
            .filter(|(_, lister)| lister.may_have_dependents(uid));
        let references = |(kind, lister): (&Kind, &Lister)| -> Vec<Reference> {
            lister
                .list(&owned)
                .iter()
                .map(|object| reference(kind, object))
                .collect()
        };
        owning.flat_map(references).collect()
    }

    fn note_deletion(&self, object: Reference) {
        let mut deleted = self.shared.deleted.lock();
        if deleted.known.insert(object.clone()) {
            deleted.in_order.push_back(object);
        }
        if deleted.in_order.len() > DELETED_KEPT
            && let Some(first) = deleted.in_order.pop_front()
        {
            deleted.known.remove(&first);
        }
    }

    fn is_namespaced(&self, kind: &Kind) -> Option<bool> {
        self.discovery
            .cached(kind)
            .map(|resource| resource.namespaced)
    }
}
