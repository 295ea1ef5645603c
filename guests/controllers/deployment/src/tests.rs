//! Whole reconciles against an in-memory API server, with a faked ReplicaSet controller.

mod corners;
mod large;
mod rollouts;
mod world;
