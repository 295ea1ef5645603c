//! A plugin's reads: the interests of its watches in the shared informers, and cached reads through them.

pub mod cached;
pub mod discovery;
pub mod interest;
pub mod live;
pub mod lookup;
mod raw_path;
