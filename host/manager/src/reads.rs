//! What a plugin reads: the interests of its watches in the shared informers, and cached reads through them.

pub(crate) mod cached;
pub(crate) mod interest;
pub(crate) mod lookup;
