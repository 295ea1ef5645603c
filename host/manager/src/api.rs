//! How the host talks to the API server: requests with credentials, the fence before every write, the lease that elects the
//! active process, events and access reviews.

pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod credentials;
pub(crate) mod events;
#[cfg(test)]
pub(crate) mod fake_server;
pub(crate) mod fence;
pub(crate) mod incidents;
pub(crate) mod lease;
pub(crate) mod review;
pub(crate) mod service_account;
pub(crate) mod user_agent;
