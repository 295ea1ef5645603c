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
pub(crate) mod rights;
pub(crate) mod service_account;
pub(crate) mod user_agent;

use self::rights::HostRight;

/// The rights that the host needs beside listing and watching what plugins watch.
pub fn host_rights() -> impl Iterator<Item = HostRight> {
    [
        lease::RIGHTS.as_slice(),
        events::RIGHTS.as_slice(),
        service_account::RIGHTS.as_slice(),
        review::RIGHTS.as_slice(),
    ]
    .concat()
    .into_iter()
}
