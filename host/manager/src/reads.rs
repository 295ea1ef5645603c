//! What a plugin reads: what its watches ask of the informers, and cached reads through them.

pub(crate) mod cached;
pub(crate) mod interest;
