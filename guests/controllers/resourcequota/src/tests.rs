//! Tests of whole reconciles and of changes, with an in-memory API server.

mod describe;
mod objects;
mod pods;
mod reconcile;
mod resize;
mod resource_claims;
mod scopes;
mod services;
mod volume_claims;
mod wake;
mod world;
