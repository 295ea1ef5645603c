//! End-to-end tests against a real API server. They are in one binary, so that their dependencies are
//! linked once.

mod bad_input;
mod book;
mod cloud_aws;
mod conformance;
mod connections;
mod controller_runtime;
mod coordinated_election;
mod crd;
mod dashboard;
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
mod monitoring;
mod packages;
mod plan;
mod plugins;
mod recordings;
mod reloads;
mod replicasets;
mod tools;
mod traces;
mod tutorials;
mod versions;
