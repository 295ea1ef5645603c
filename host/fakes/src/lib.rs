//! An API server in memory, for the unit tests of the host's crates: a server that answers requests, and the source of
//! a cache.

pub mod server;
pub mod source;
