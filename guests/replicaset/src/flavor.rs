//! What differs between the kinds that ask for so many pods: ReplicaSets and, with an older API, ReplicationControllers.
//! The rest of this crate serves both; a guest for the latter is a [`Flavored`] of its own and three lines.

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
    /// Whether its status has `terminatingReplicas`.
    pub counts_terminating: bool,
}

/// Stands for a kind in types.
pub trait Flavored {
    /// The kind.
    const FLAVOR: Flavor;
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
}

impl<'de, F, V: Deserialize<'de>> Deserialize<'de> for Of<F, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        V::deserialize(deserializer).map(|view| Self { view, flavor: PhantomData })
    }
}
