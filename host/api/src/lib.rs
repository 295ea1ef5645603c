//! The host's communication with the API server: requests with credentials, the fence before every write, the lease
//! that elects the active process, events and access reviews.

pub mod client;
pub mod cluster;
pub mod credentials;
pub mod events;
pub mod fence;
pub mod incidents;
pub mod lease;
pub mod review;
pub mod rights;
pub mod secret;
pub mod service_account;
pub mod user_agent;
pub mod warnings;

use self::rights::HostRight;

/// The host's rights other than listing and watching the kinds that plugins watch.
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
