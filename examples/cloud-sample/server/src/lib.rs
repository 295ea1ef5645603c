//! The sample cloud: instances, networks with routes, and load balancers. `../README.md` documents its API.
//!
//! A request passes [`server`], which applies the [`faults`] that were asked for, and reaches [`api`], which maps paths to
//! operations of the [`state`]. The state is written to a file after each change, so that it survives a restart.

pub mod api;
pub mod faults;
pub mod server;
pub mod state;

pub use server::Server;
