//! The API server as the host talks to it: requests under an identity, the fence before all writes, the lease that elects
//! the process that acts, events and access reviews.

pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod denial;
pub(crate) mod events;
pub(crate) mod fence;
pub(crate) mod identity;
pub(crate) mod lease;
pub(crate) mod review;
