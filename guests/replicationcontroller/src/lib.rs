//! replicationcontroller-controller: as many pods as a ReplicationController asks for.
//!
//! What it does is in [`flyball_replicas`], which also serves ReplicaSets;
//! [`flyball_replicas::flavor`] says what differs. Only here it is exported: a component can hold
//! the exports of one controller.

pub use flyball_replicas::ReplicationControllers;

flyball_sdk::export!(ReplicationControllers);
