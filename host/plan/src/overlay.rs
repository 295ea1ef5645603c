//! The overlay: the objects that a plan has written or was about to write, over those of the base.
//!
//! An object is taken over before it is written (`load`), and from then on the base is not asked for it any more. The
//! [`Cluster`] holds its current version, and is the one that decides on versions, finalizers, patches and ownership.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use flyball_sdk::testing::Cluster;
use flyball_testserver::api::request::Selection;
use serde_json::Value;

use crate::watches::Watches;

/// The first resource version of the overlay. It is later than all versions of a cluster, whose versions are revisions of
/// etcd, so that versions never go back where an object of the base is written.
pub(crate) const FIRST_VERSION: u64 = 1 << 53;

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    /// As in `apps/v1/Deployment`.
    pub(crate) kind: String,
    /// Empty if the object is cluster-scoped.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Id {
    pub(crate) fn new(kind: &str, namespace: &str, name: &str) -> Self {
        let [kind, namespace, name] = [kind, namespace, name].map(str::to_owned);
        Self {
            kind,
            namespace,
            name,
        }
    }
}

/// An object that was taken over.
pub(crate) struct Taken {
    /// When, counted in objects.
    pub(crate) order: u64,
    /// The object of the base; none if the base has none.
    pub(crate) before: Option<Value>,
    /// Whether it is part of the change that the plan was given.
    pub(crate) is_given: bool,
    /// The controllers that wrote it.
    pub(crate) writers: BTreeSet<String>,
}

pub(crate) struct Overlay {
    pub(crate) cluster: Cluster,
    pub(crate) watches: Watches,
    taken: BTreeMap<Id, Taken>,
    /// An object whose write is being checked: until then, readers see the version before.
    unsettled: Option<(Id, Option<Value>)>,
}

impl Overlay {
    pub(crate) fn new() -> Self {
        let cluster = Cluster::new();
        cluster.hide_warnings();
        // Names that are generated follow from versions. Those of two plans differ, and their UIDs, too.
        let start = FIRST_VERSION + u64::from(rand::random::<u32>());
        cluster.skip_versions(start);
        cluster.skip_uids(start);
        Self {
            watches: Watches::new(cluster.next_version()),
            cluster,
            taken: BTreeMap::new(),
            unsettled: None,
        }
    }

    /// The number of objects that were taken over.
    pub(crate) fn order(&self) -> u64 {
        self.taken.len() as u64
    }

    pub(crate) fn taken(&self) -> &BTreeMap<Id, Taken> {
        &self.taken
    }

    pub(crate) fn taken_mut(&mut self, id: &Id) -> Option<&mut Taken> {
        self.taken.get_mut(id)
    }

    pub(crate) fn is_taken(&self, id: &Id) -> bool {
        self.taken.contains_key(id)
    }

    /// Takes over an object, or notes that the base has none. `listed` is the version of the list in which its kind was
    /// first served, if it was: an object that is newer has changed since, which watches are told.
    pub(crate) fn load(&mut self, id: Id, before: Option<Value>, listed: Option<u64>) {
        if self.is_taken(&id) {
            return;
        }
        if let Some(object) = &before {
            let mut object = object.clone();
            let has_changed = listed.is_some_and(|listed| version(&object) > listed);
            if has_changed {
                let version = self.cluster.next_version();
                object["metadata"]["resourceVersion"] = version.to_string().into();
            }
            self.cluster.adopt(object);
        }
        let taken = Taken {
            order: self.order(),
            before,
            is_given: false,
            writers: BTreeSet::new(),
        };
        self.taken.insert(id.clone(), taken);
        if listed.is_some() {
            // Nothing is published unless its version is new.
            let before = self.taken[&id].before.clone();
            self.publish(&id, before);
        }
    }

    /// Returns a taken object as readers see it.
    pub(crate) fn object(&self, id: &Id) -> Option<Value> {
        match &self.unsettled {
            Some((unsettled, before)) if unsettled == id => before.clone(),
            _ => self.current(id),
        }
    }

    /// Returns a taken object, though its write may still be taken back.
    pub(crate) fn current(&self, id: &Id) -> Option<Value> {
        self.cluster.object(&id.kind, &id.namespace, &id.name)
    }

    /// Hides a write from readers until [`settle`](Self::settle).
    pub(crate) fn unsettle(&mut self, id: &Id, before: Option<Value>) {
        self.unsettled = Some((id.clone(), before));
    }

    pub(crate) fn settle(&mut self) {
        self.unsettled = None;
    }

    /// The taken objects of a kind that exist and are selected, of the first `order` ones.
    pub(crate) fn selected(&self, kind: &str, selection: &Selection, order: u64) -> Vec<Value> {
        let from = Id::new(kind, "", "");
        let of_kind = self
            .taken
            .range(from..)
            .take_while(|(id, _)| id.kind == kind);
        let early = of_kind.filter(|(_, taken)| taken.order < order);
        let objects = early.filter_map(|(id, _)| self.object(id));
        objects.filter(|object| selection.matches(object)).collect()
    }

    /// Tells watches what has become of an object, which was `old` before.
    pub(crate) fn publish(&mut self, id: &Id, old: Option<Value>) {
        let old = old.map(Rc::new);
        match self.current(id).map(Rc::new) {
            None => {
                let Some(last) = &old else {
                    return;
                };
                let version = self.cluster.next_version();
                let mut last = Value::clone(last);
                last["metadata"]["resourceVersion"] = version.to_string().into();
                self.watches
                    .publish(&id.kind, version, old, Rc::new(last), true);
            }
            Some(new) => {
                let at = version(&new);
                if old.as_ref().is_none_or(|old| version(old) != at) {
                    self.watches.publish(&id.kind, at, old, new, false);
                }
            }
        }
    }
}

/// The resource version of an object; 0 if it has none.
pub(crate) fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(version: &str) -> Value {
        let metadata =
            json!({"name": "m", "namespace": "n", "uid": "u", "resourceVersion": version});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    }

    #[test]
    fn an_object_that_changed_after_its_kind_was_listed_gets_a_version_of_the_overlay() {
        let id = Id::new("v1/ConfigMap", "n", "m");
        let loaded = |listed| {
            let mut overlay = Overlay::new();
            let at = overlay.watches.version();
            overlay.load(id.clone(), Some(map("7")), listed);
            let object = overlay.object(&id).expect("it was taken over");
            (version(&object), overlay.watches.version() > at)
        };
        assert_eq!(loaded(None), (7, false));
        assert_eq!(loaded(Some(7)), (7, false));
        let (version, is_published) = loaded(Some(6));
        assert!(version > FIRST_VERSION && is_published);
    }

    #[test]
    fn readers_see_the_version_before_until_a_write_is_settled() {
        let id = Id::new("v1/ConfigMap", "n", "m");
        let mut overlay = Overlay::new();
        overlay.load(id.clone(), Some(map("7")), None);
        overlay.unsettle(&id, overlay.current(&id));
        overlay.cluster.remove(&id.kind, &id.namespace, &id.name);
        assert!(overlay.object(&id).is_some() && overlay.current(&id).is_none());
        overlay.settle();
        assert!(overlay.object(&id).is_none());
    }

    #[test]
    fn a_list_has_the_objects_that_were_taken_before_it_began() {
        let mut overlay = Overlay::new();
        let everything = || Selection::everything("");
        let name = |name: &str| {
            let mut object = map("1");
            object["metadata"]["name"] = name.into();
            (Id::new("v1/ConfigMap", "n", name), Some(object))
        };
        for (id, object) in [name("b"), name("a")] {
            overlay.load(id, object, None);
        }
        let names = |order| {
            let objects = overlay
                .selected("v1/ConfigMap", &everything(), order)
                .into_iter();
            let name = |object: Value| {
                object["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            objects.map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(1), ["b"]);
        assert_eq!(names(2), ["a", "b"]);
    }
}
