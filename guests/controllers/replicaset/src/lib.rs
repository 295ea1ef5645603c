//! replicaset-controller: keeps the desired number of pods of each ReplicaSet.
//!
//! [`flyball_replicas`] implements it, together with replicationcontroller-controller. This crate
//! only exports it: a component exports only one controller.
//!
//! Upstream: pkg/controller/replicaset/replica_set.go: NewReplicaSetController, DefaultReplicaSetControllerFeatures.

pub use flyball_replicas::ReplicaSets;

flyball_sdk::export!(ReplicaSets);
