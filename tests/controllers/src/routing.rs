//! From changes to keys, by the host's router. A snapshot stands for the host's caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_cache::{Object, Uid};
use flyball_reads::lookup::{Lookup, reference};
use flyball_runtime::router::Router;
use flyball_types::description::{Description, Watch};
use flyball_types::{FieldPath, FieldSelector, Kind, LabelSelector, Reference};
use serde_json::Value;

use crate::snapshot::{Change, Snapshot};

/// The watches of a controller.
pub struct Routes {
    /// The names of the queues.
    queues: Vec<String>,
    routes: Vec<Route>,
}

/// A watch of one kind.
struct Route {
    kind: Kind,
    namespace: String,
    labels: LabelSelector,
    fields: FieldSelector,
    router: Router,
}

/// The result of routing a change.
#[derive(Debug, Default)]
pub struct Routed {
    /// The queues and keys. Their delays don't count.
    pub keys: Vec<(String, String)>,
    /// Whether the guest's `route` is asked.
    pub asks_guest: bool,
}

impl Routes {
    /// Returns the watches of a description, for these kinds.
    ///
    /// # Panics
    /// A selector is invalid.
    pub fn new(description: &Description, kinds: &BTreeSet<Kind>) -> Self {
        let routes = description.watches.iter().flat_map(|watch| {
            let kinds = kinds.iter().filter(|kind| is_watched(watch, kind));
            kinds.map(|kind| Route::new(description, watch, kind))
        });
        let queues = description.queues.iter();
        Self {
            routes: routes.collect(),
            queues: queues.map(|queue| queue.name.clone()).collect(),
        }
    }

    /// Routes a change.
    pub fn route(&self, change: &Change, now: &Snapshot) -> Routed {
        let (delta, caches) = (change.delta(), Caches { routes: self, now });
        let mut routed = Routed::default();
        for route in self.routes.iter().filter(|route| route.covers(change)) {
            let seen = route.router.seen(&delta);
            if !route.router.selects_change(&seen) {
                continue;
            }
            let keys = route.router.all_keys(&seen, &caches).into_iter();
            routed.keys.extend(keys.map(|found| {
                let queue = self.queues.get(found.queue).cloned();
                (queue.unwrap_or_default(), found.key.to_string())
            }));
            routed.asks_guest |= route.router.asks_guest(&seen, &caches);
        }
        routed
    }

    fn watches(&self, kind: &Kind) -> bool {
        self.routes.iter().any(|route| route.kind == *kind)
    }
}

/// Whether a watch is of a kind.
fn is_watched(watch: &Watch, kind: &Kind) -> bool {
    match (&watch.kind, &watch.discovered) {
        (Some(own), _) => own == kind,
        (None, Some(discovered)) => !discovered.except.contains(kind),
        (None, None) => false,
    }
}

impl Route {
    fn new(description: &Description, watch: &Watch, kind: &Kind) -> Self {
        Self {
            kind: kind.clone(),
            namespace: watch.namespace.clone(),
            labels: watch.label_selector.parse().expect("a label selector"),
            fields: watch.field_selector.parse().expect("a field selector"),
            router: Router::new(description, watch, kind),
        }
    }

    /// Whether a change is in the scope of the watch.
    fn covers(&self, change: &Change) -> bool {
        let covers = |object: &Object, value: &Value| {
            let field = |path: &FieldPath| path.lookup(value).first().copied().unwrap_or_default();
            (self.namespace.is_empty() || object.namespace() == self.namespace)
                && object.labels().match_selector(&self.labels)
                && self.fields.matches(field)
        };
        self.kind == change.kind
            && change
                .versions()
                .any(|version| covers(&version.object, &version.value))
    }
}

/// The objects that a controller watches.
struct Caches<'a> {
    routes: &'a Routes,
    now: &'a Snapshot,
}

impl Caches<'_> {
    fn all(&self) -> impl Iterator<Item = (&Kind, &Arc<Object>)> {
        self.now.all().filter(|(kind, _)| self.routes.watches(kind))
    }
}

impl Lookup for Caches<'_> {
    fn has(&self, kind: &Kind, namespace: &str, name: &str, uid: &Uid) -> Option<bool> {
        let is_it = |object: &Arc<Object>| {
            object.namespace() == namespace && object.name() == name && object.uid() == uid
        };
        self.routes
            .watches(kind)
            .then(|| self.now.of_kind(kind).any(is_it))
    }

    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let is_it =
            |object: &&Arc<Object>| object.namespace() == namespace && object.name() == name;
        self.now.of_kind(kind).find(is_it).cloned()
    }

    fn has_any(&self, kind: &Kind, namespace: &str) -> bool {
        let is_in = |object: &Arc<Object>| namespace.is_empty() || object.namespace() == namespace;
        self.now.of_kind(kind).any(is_in)
    }

    fn selecting(&self, kind: &Kind, path: &FieldPath, object: &Object) -> Vec<Arc<Object>> {
        let selects = |found: &&Arc<Object>| {
            let selectors = path.select(found.json()).into_iter();
            found.namespace() == object.namespace()
                && selectors
                    .filter_map(|text| LabelSelector::of_json(text.as_bytes()).ok())
                    .any(|selector| object.labels().match_selector(&selector))
        };
        self.now.of_kind(kind).filter(selects).cloned().collect()
    }

    fn keys(&self, kind: &Kind, namespace: &str) -> Vec<String> {
        let is_in = |found: &&Arc<Object>| namespace.is_empty() || found.namespace() == namespace;
        let found = self.now.of_kind(kind).filter(is_in);
        found.map(|object| object.key()).collect()
    }

    fn by_uid(&self, uid: &Uid) -> Option<(Kind, Arc<Object>)> {
        let (kind, object) = self.all().find(|(_, object)| object.uid() == uid)?;
        Some((kind.clone(), object.clone()))
    }

    fn dependents(&self, uid: &Uid) -> Vec<Reference> {
        let names_it = |object: &Object| object.owners().iter().any(|owner| owner.uid == *uid);
        let found = self.all().filter(|(_, object)| names_it(object));
        found
            .map(|(kind, object)| reference(kind, object))
            .collect()
    }

    fn note_deletion(&self, _: Reference) {}

    /// Only the kinds of present objects are known.
    fn is_namespaced(&self, kind: &Kind) -> Option<bool> {
        let object = self.now.of_kind(kind).next()?;
        Some(!object.namespace().is_empty())
    }
}
