//! Whole reconciles against an API server in memory, with the ReplicaSets' own controller faked.

mod corners;
mod rollouts;
mod world;
