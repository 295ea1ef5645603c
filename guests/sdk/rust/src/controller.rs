//! The trait that a controller implements.

use crate::describe::Description;
use crate::error::Error;
use crate::host::Host;
use crate::reconcile::{Outcome, Request};
use crate::route::{Delta, RoutedKey};

/// A controller. [`export!`](crate::export) makes a guest of it.
///
/// Its functions must not depend on state between calls: the host runs many instances at once, and creates and drops
/// them at any time.
pub trait Controller {
    /// Describes the controller's watches and needs. Called once, when the plugin is loaded.
    fn describe() -> Description;

    /// Returns the description under the operator's configuration. Needed if the description depends on the
    /// configuration, for example the delay of a mapping. Only the configuration (without declared defaults) and the
    /// log of `host` are available.
    fn describe_configured(host: &Host) -> Description {
        let _ = host;
        Self::describe()
    }

    /// Brings the cluster to the state that the key's object asks for.
    ///
    /// # Errors
    /// The host retries errors with backoff, except [`Error::Terminal`], which it reports and does not retry until
    /// something changes.
    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error>;

    /// Turns changes into keys, for watches that [map to `route`](crate::describe::Mapping::route). Needed if no
    /// declared mapping can express the rule.
    ///
    /// # Errors
    /// The host retries the batch with backoff, one delta at a time.
    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        let _ = (host, deltas);
        Ok(Vec::new())
    }
}
