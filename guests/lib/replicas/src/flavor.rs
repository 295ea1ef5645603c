//! The differences between ReplicaSets and ReplicationControllers. The rest of this crate serves
//! both.
//!
//! Upstream: pkg/controller/replication/conversion.go: convertRCtoRS, convertRStoRC.
//! Upstream: pkg/controller/replication/replication_controller.go: NewReplicationManager.

use std::marker::PhantomData;

use flyball_sdk::View;
use serde::{Deserialize, Deserializer};

/// The constants of a kind and its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flavor {
    /// The kind, as in `apps/v1/ReplicaSet`.
    pub kind: &'static str,
    /// The controller's name.
    pub name: &'static str,
    /// The name of the queue in metrics.
    pub queue: &'static str,
    /// `source.component` of its events.
    pub event_source: &'static str,
    /// The histogram of the ages of deleted pods, relative to the youngest pod; none if not
    /// reported. A metric belongs to one plugin, so only one of them can have it.
    pub age_ratio: Option<&'static str>,
    /// Whether the kind's status has `terminatingReplicas`, behind a feature gate.
    pub counts_terminating: bool,
    /// Whether pods of all sets of the same owner are considered when pods are deleted.
    pub has_siblings: bool,
}

/// A kind as a type.
pub trait Flavored {
    /// The kind.
    const FLAVOR: Flavor;
}

/// ReplicaSets, with or without a Deployment.
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
        // kube-controller-manager's index for siblings contains no ReplicationControllers.
        has_siblings: false,
    };
}

/// A view `V` with the flavor's kind instead of its own.
pub struct Of<F, V> {
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
