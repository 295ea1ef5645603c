//! End-to-end tests against a real API server. They are in one binary, so that their dependencies are
//! linked once.

mod bad_input;
mod book;
mod conformance;
mod connections;
mod controller_runtime;
mod coordinated_election;
mod crd;
mod deploy;
mod deployments;
mod dev;
mod examples;
mod faults;
mod garbage;
mod greeters;
mod hostile;
mod javascript;
mod kinds;
mod kube_rs;
mod kubebuilder;
mod leader_migration;
mod leaders;
mod messages;
mod packages;
mod plugins;
mod reloads;
mod replicasets;
mod tools;
mod tutorials;
mod versions;
