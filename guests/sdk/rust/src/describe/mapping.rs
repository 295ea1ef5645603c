//! Mappings from changes of watched objects to keys.

use std::time::Duration;

use flyball_types::description::{DeltaType, Having, Mapping as Document, Owners, To, Unless};

use super::kinds::kind;
use crate::time::millis;

/// The keys that a change of a watched object enqueues.
///
/// The host applies a mapping to the old and to the new version of the object and enqueues the keys
/// of both. The conditions of one mapping all have to hold.
///
/// ```
/// use std::time::Duration;
/// use flyball_sdk::prelude::*;
///
/// let pods = watch_kind("v1/Pod")
///     .enqueue(Mapping::controller("batch/v1/Job").after(Duration::from_secs(1)))
///     .enqueue(
///         Mapping::selecting("batch/v1/Job", "spec.selector")
///             .orphans()
///             .on([DeltaType::Added, DeltaType::Modified])
///             .queue("adoptions"),
///     );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping(Document);

/// The keys.
impl Mapping {
    /// The object itself.
    pub fn itself() -> Self {
        Self::to(To::Itself)
    }

    /// The object's controller, if it is of this kind.
    pub fn controller(kind_name: &str) -> Self {
        Self::to(To::Controller {
            kind: kind(kind_name),
        })
    }

    /// The object's owners of this kind, whether they control it or not.
    pub fn owners(kind_name: &str) -> Self {
        Self::to(To::Owner {
            kind: kind(kind_name),
        })
    }

    /// The objects whose names are at this path, in the namespace of the watched object.
    pub fn named(path: &str) -> Self {
        Self::to(to_named(path, true))
    }

    /// The cluster-scoped objects whose names are at this path.
    pub fn named_in_cluster(path: &str) -> Self {
        Self::to(to_named(path, false))
    }

    /// The objects of this kind, in the same namespace, whose selector at `path` matches the labels
    /// of the watched object.
    pub fn selecting(kind_name: &str, path: &str) -> Self {
        Self::to(To::Selecting {
            kind: kind(kind_name),
            path: path.into(),
            whose: Vec::new(),
        })
    }

    /// All objects of this kind in the same namespace.
    pub fn all_in_namespace(kind_name: &str) -> Self {
        Self::to(To::InNamespace {
            kind: kind(kind_name),
        })
    }

    /// All objects of this kind.
    pub fn all_of(kind_name: &str) -> Self {
        Self::to(To::All {
            kind: kind(kind_name),
        })
    }

    /// The namespace of the object.
    pub fn namespace() -> Self {
        Self::to(To::Namespace)
    }

    /// A constant key.
    pub fn key(key: &str) -> Self {
        Self::to(To::Constant { key: key.into() })
    }

    /// A [`Reference`](crate::Reference) to the object.
    pub fn reference() -> Self {
        Self::to(To::Reference)
    }

    /// References to all objects, of any watched kind, that name the object as an owner.
    pub fn dependents() -> Self {
        Self::to(To::Dependents)
    }

    /// References to some of the object's owners, as in its owner references.
    pub fn owner_references(which: Owners) -> Self {
        Self::to(To::OwnerReferences { which })
    }

    /// The keys that [`Controller::route`](crate::Controller::route) returns.
    pub fn route() -> Self {
        Self::to(To::Route)
    }

    fn to(to: To) -> Self {
        Self(Document {
            to,
            on: Vec::new(),
            queue: String::new(),
            delay_ms: 0,
            orphans: false,
            deleting: false,
            having: Vec::new(),
            having_any: Vec::new(),
            unless: Vec::new(),
            while_any: Vec::new(),
        })
    }
}

/// The conditions of a mapping, and how its keys are enqueued.
impl Mapping {
    /// Applies only to these types of delta.
    #[must_use]
    pub fn on(mut self, types: impl IntoIterator<Item = DeltaType>) -> Self {
        self.0.on.extend(types);
        self
    }

    /// Applies only to objects without a controller.
    #[must_use]
    pub fn orphans(mut self) -> Self {
        self.0.orphans = true;
        self
    }

    /// Applies only to objects that are being deleted.
    #[must_use]
    pub fn deleting(mut self) -> Self {
        self.0.deleting = true;
        self
    }

    /// Applies only to objects whose field at `path` is, or contains, this string.
    #[must_use]
    pub fn having(mut self, path: &str, value: &str) -> Self {
        self.0.having.push(having(path, value));
        self
    }

    /// Applies only to objects that have a string at one or more of these paths.
    #[must_use]
    pub fn having_any(mut self, paths: &[&str]) -> Self {
        // The loop adds one path at a time, because `extend` would be compiled for each caller.
        for &path in paths {
            self.0.having_any.push(path.into());
        }
        self
    }

    /// Skips deltas whose newest version has a string at `path`: such objects don't need another reconcile. The other
    /// conditions hold for a modification if either version meets them.
    #[must_use]
    pub fn unless(self, path: &str) -> Self {
        self.skipping(path, None)
    }

    /// Does the same as [`unless`](Self::unless) if the field is, or contains, this string.
    #[must_use]
    pub fn unless_having(self, path: &str, value: &str) -> Self {
        self.skipping(path, Some(value.into()))
    }

    fn skipping(mut self, path: &str, value: Option<String>) -> Self {
        let path = path.into();
        self.0.unless.push(Unless { path, value });
        self
    }

    /// Applies only while the cache holds an object of at least one of these kinds, in the namespace of the watched
    /// object; in any namespace if that is cluster-scoped. The plugin must watch the kinds. Changes that are skipped
    /// don't come again, so an object of the kinds that is created later must enqueue the key by a mapping of its own
    /// watch.
    #[must_use]
    pub fn while_any(mut self, kinds: &[&str]) -> Self {
        for name in kinds {
            self.0.while_any.push(kind(name));
        }
        self
    }

    /// Names the kind of the named objects, which the plugin must watch. [`whose`](Self::whose) or
    /// [`missing`](Self::missing) follows.
    ///
    /// # Panics
    /// If the mapping is not a [`named`](Self::named) one.
    #[must_use]
    pub fn of(mut self, kind_name: &str) -> Self {
        let To::Named { kind: own, .. } = &mut self.0.to else {
            panic!("`of` narrows `Mapping::named` and no other mapping")
        };
        *own = Some(kind(kind_name));
        self
    }

    /// Enqueues only those selecting or named objects whose field at `path` has this value at the
    /// time of the change. If the field gets the value later, a mapping of the object's own watch
    /// must enqueue it.
    ///
    /// # Panics
    /// If the mapping is neither a [`selecting`](Self::selecting) nor a [`named`](Self::named) one.
    #[must_use]
    pub fn whose(mut self, path: &str, value: &str) -> Self {
        let (To::Selecting { whose, .. } | To::Named { whose, .. }) = &mut self.0.to else {
            panic!(
                "`whose` narrows `Mapping::selecting` and `Mapping::named`, and no other mapping"
            )
        };
        whose.push(having(path, value));
        self
    }

    /// Enqueues only those names that no object of the kind has in the cache at the time of the change. If the object
    /// is deleted later, a mapping of its own watch must enqueue it.
    ///
    /// # Panics
    /// If the mapping is not a [`named`](Self::named) one.
    #[must_use]
    pub fn missing(mut self) -> Self {
        let To::Named { missing, .. } = &mut self.0.to else {
            panic!("`missing` narrows `Mapping::named` and no other mapping")
        };
        *missing = true;
        self
    }

    /// Enqueues in this queue instead of the primary one.
    #[must_use]
    pub fn queue(mut self, name: &str) -> Self {
        self.0.queue = name.into();
        self
    }

    /// Enqueues after a delay.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.0.delay_ms = millis(delay);
        self
    }
}

impl From<Mapping> for Document {
    fn from(mapping: Mapping) -> Self {
        mapping.0
    }
}

fn to_named(path: &str, namespaced: bool) -> To {
    To::Named {
        path: path.into(),
        namespaced,
        kind: None,
        whose: Vec::new(),
        missing: false,
    }
}

fn having(path: &str, value: &str) -> Having {
    Having {
        path: path.into(),
        value: value.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mappings_are_serialized_in_the_hosts_format() {
        for (mapping, expected) in [
            (Mapping::itself(), json!({"to": "itself"})),
            (
                Mapping::controller("apps/v1/ReplicaSet"),
                json!({"to": "controller", "kind": "apps/v1/ReplicaSet"}),
            ),
            (
                Mapping::owners("v1/Node"),
                json!({"to": "owner", "kind": "v1/Node"}),
            ),
            (
                Mapping::named("spec.claim"),
                json!({"to": "named", "path": "spec.claim", "namespaced": true}),
            ),
            (
                Mapping::named_in_cluster("spec.nodeName"),
                json!({"to": "named", "path": "spec.nodeName", "namespaced": false}),
            ),
            (
                Mapping::named_in_cluster("spec.nodeName")
                    .of("v1/Node")
                    .whose("spec.a", "b"),
                json!({"to": "named", "path": "spec.nodeName", "namespaced": false, "kind": "v1/Node",
                       "whose": {"path": "spec.a", "value": "b"}}),
            ),
            (
                Mapping::named("spec.claim").of("v1/Claim").missing(),
                json!({"to": "named", "path": "spec.claim", "namespaced": true, "kind": "v1/Claim", "missing": true}),
            ),
            (
                Mapping::selecting("v1/Service", "spec.selector").whose("spec.type", "ClusterIP"),
                json!({"to": "selecting", "kind": "v1/Service", "path": "spec.selector",
                       "whose": {"path": "spec.type", "value": "ClusterIP"}}),
            ),
            (
                Mapping::all_in_namespace("v1/Pod"),
                json!({"to": "inNamespace", "kind": "v1/Pod"}),
            ),
            (
                Mapping::all_of("v1/Node"),
                json!({"to": "all", "kind": "v1/Node"}),
            ),
            (Mapping::namespace(), json!({"to": "namespace"})),
            (Mapping::key("all"), json!({"to": "constant", "key": "all"})),
            (Mapping::reference(), json!({"to": "reference"})),
            (Mapping::dependents(), json!({"to": "dependents"})),
            (
                Mapping::owner_references(Owners::Missing),
                json!({"to": "ownerReferences", "which": "missing"}),
            ),
            (Mapping::route(), json!({"to": "route"})),
        ] {
            assert_eq!(serde_json::to_value(mapping.0).unwrap(), expected);
        }
    }

    #[test]
    fn conditions_and_options_are_serialized() {
        let mapping = Mapping::itself()
            .on([DeltaType::Added, DeltaType::Deleted])
            .orphans()
            .deleting()
            .having("status.phase", "Failed")
            .having_any(&["spec.nodeName", "status.podIP"])
            .unless("status.reason")
            .unless_having("spec.restartPolicy", "Never")
            .while_any(&["v1/ResourceQuota"])
            .queue("slow")
            .after(Duration::from_millis(1500));
        assert_eq!(
            serde_json::to_value(mapping.0).unwrap(),
            json!({"to": "itself", "on": ["added", "deleted"], "orphans": true, "deleting": true,
                   "having": {"path": "status.phase", "value": "Failed"},
                   "havingAny": ["spec.nodeName", "status.podIP"],
                   "unless": [{"path": "status.reason"}, {"path": "spec.restartPolicy", "value": "Never"}],
                   "whileAny": ["v1/ResourceQuota"], "queue": "slow", "delayMs": 1500}),
        );
    }

    #[test]
    #[should_panic(expected = "`ReplicaSet` is not a kind")]
    fn a_misspelt_kind_fails_the_first_test_that_describes() {
        let _ = Mapping::controller("ReplicaSet");
    }

    #[test]
    #[should_panic(expected = "`whose` narrows `Mapping::selecting`")]
    fn whose_applies_only_to_mappings_to_objects_of_a_kind() {
        let _ = Mapping::itself().whose("spec.type", "ClusterIP");
    }
}
