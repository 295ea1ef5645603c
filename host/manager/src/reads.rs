//! What a plugin reads: the interests of its watches in the shared informers, and cached reads through them.

pub(crate) mod cached;
#[cfg(test)]
pub(crate) mod fake_source;
pub(crate) mod interest;
pub(crate) mod live;
pub(crate) mod lookup;
mod raw_path;
