//! replicationcontroller-controller: keeps the desired number of pods of each
//! ReplicationController.
//!
//! [`flyball_replicas`] implements it, together with replicaset-controller;
//! [`flyball_replicas::flavor`] contains the differences. This crate only exports it: a component
//! exports only one controller.
//!
//! Upstream: pkg/controller/replication/replication_controller.go: NewReplicationManager.

pub use flyball_replicas::ReplicationControllers;

flyball_sdk::export!(ReplicationControllers);
