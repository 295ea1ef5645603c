//! What differs between the kinds that ask for so many pods: ReplicaSets and, with an older API,
//! ReplicationControllers. The rest of this crate serves both.

use std::marker::PhantomData;

use flyball_sdk::View;
use serde::{Deserialize, Deserializer};

/// One kind, and what depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flavor {
    /// The kind, as in `apps/v1/ReplicaSet`.
    pub kind: &'static str,
    /// The controller's name.
    pub name: &'static str,
    /// Its queue, as metrics call it.
    pub queue: &'static str,
    /// What `source.component` of its events says.
    pub event_source: &'static str,
    /// The histogram of how old deleted pods are, in multiples of the youngest's age; none if that
    /// is not told. A metric belongs to one plugin, so that two can't count into it.
    pub age_ratio: Option<&'static str>,
    /// Whether its status has `terminatingReplicas`.
    pub counts_terminating: bool,
    /// Whether the pods of all sets of one owner are spread together, when some must go.
    pub has_siblings: bool,
}

/// Stands for a kind in types.
pub trait Flavored {
    /// The kind.
    const FLAVOR: Flavor;
}

/// ReplicaSets, the sets of a Deployment among them.
pub struct ReplicaSet;

impl Flavored for ReplicaSet {
    const FLAVOR: Flavor = Flavor {
        kind: "apps/v1/ReplicaSet",
        name: "replicaset-controller",
        queue: "replicaset",
        event_source: "replicaset-controller",
        age_ratio: Some("replicaset_controller_sorting_deletion_age_ratio"),
        counts_terminating: true,
        has_siblings: true,
    };
}

/// ReplicationControllers. Their selector is a plain map of labels.
pub struct ReplicationController;

impl Flavored for ReplicationController {
    const FLAVOR: Flavor = Flavor {
        kind: "v1/ReplicationController",
        name: "replicationcontroller-controller",
        queue: "replicationmanager",
        event_source: "replication-controller",
        age_ratio: None,
        counts_terminating: false,
        // kube-controller-manager looks for siblings by an index that holds no
        // ReplicationControllers.
        has_siblings: false,
    };
}

/// The view `V` of objects of the flavor's kind, whatever kind `V` was declared for.
pub struct Of<F, V> {
    /// What was read.
    pub view: V,
    flavor: PhantomData<F>,
}

impl<F: Flavored, V: View> View for Of<F, V> {
    const KIND: &'static str = F::FLAVOR.kind;
    const FIELDS: &'static [&'static str] = V::FIELDS;
    const COLUMNS: &'static [&'static str] = V::COLUMNS;
}

impl<'de, F, V: Deserialize<'de>> Deserialize<'de> for Of<F, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        V::deserialize(deserializer).map(|view| Self {
            view,
            flavor: PhantomData,
        })
    }
}
