//! Helpers of the tests of the host's crates: an API server in memory, which is a server that answers requests and the
//! source of a cache; a registry of packages; a collector of traces; guests, among them a cloud; and the memory of the process.

pub mod cloud;
pub mod collector;
pub mod guest;
pub mod memory;
pub mod registry;
pub mod server;
pub mod source;
