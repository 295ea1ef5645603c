//! replicaset-controller: as many pods as a ReplicaSet asks for.
//!
//! What it does is in [`flyball_replicas`], which also serves ReplicationControllers. Only here it
//! is exported: a component can hold the exports of one controller.

pub use flyball_replicas::ReplicaSets;

flyball_sdk::export!(ReplicaSets);
