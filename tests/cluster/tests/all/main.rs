//! Whole behaviours against a real API server, in one binary, so that what they share is linked
//! once.

mod bad_input;
mod deployments;
mod faults;
mod garbage;
mod hostile;
mod leaders;
mod plugins;
mod reloads;
mod replicasets;
mod tools;
