//! A controller without its type, so that one test can run the controllers of several crates.

use super::Cluster;
use crate::controller::Controller;
use crate::describe::Description;
use crate::error::Error;
use crate::host::Host;
use crate::malformed_events;
use crate::reconcile::{Outcome, Request};
use crate::route::{Delta, RoutedKey};

/// The functions of a controller. [`export!`](crate::export) defines one as `EXPORTED` in the controller's crate.
#[derive(Clone, Copy, Debug)]
pub struct Exported {
    describe: fn() -> Description,
    describe_configured: fn(&Host) -> Description,
    reconcile: fn(&Host, &Request) -> Result<Outcome, Error>,
    route: fn(&Host, &[Delta]) -> Result<Vec<RoutedKey>, Error>,
}

impl Exported {
    /// Returns the functions of a controller.
    pub const fn of<C: Controller>() -> Self {
        Self {
            describe: C::describe,
            describe_configured: C::describe_configured,
            reconcile: C::reconcile,
            route: C::route,
        }
    }

    /// Returns the description for the cluster's configuration.
    pub fn describe(&self, cluster: &Cluster) -> Description {
        (self.describe_configured)(&cluster.host())
    }

    /// Reconciles a request, under the description for the cluster's configuration.
    ///
    /// # Errors
    /// The error of the controller.
    pub fn reconcile(&self, cluster: &Cluster, request: &Request) -> Result<Outcome, Error> {
        self.reconcile_with(&self.restricted(cluster), request)
    }

    /// Routes deltas, under the description for the cluster's configuration.
    ///
    /// # Errors
    /// The error of the controller.
    pub fn route(&self, cluster: &Cluster, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        self.route_with(&self.restricted(cluster), deltas)
    }

    /// Returns the description for the configuration of a host.
    pub(super) fn describe_with(&self, host: &Host) -> Description {
        (self.describe_configured)(host)
    }

    /// Reconciles a request with a host.
    pub(super) fn reconcile_with(&self, host: &Host, request: &Request) -> Result<Outcome, Error> {
        (self.reconcile)(host, request).inspect_err(|error| self.report(host, error))
    }

    /// Routes deltas with a host.
    pub(super) fn route_with(
        &self,
        host: &Host,
        deltas: &[Delta],
    ) -> Result<Vec<RoutedKey>, Error> {
        (self.route)(host, deltas).inspect_err(|error| self.report(host, error))
    }

    /// Returns a host that is restricted to the description.
    fn restricted<'c>(&self, cluster: &'c Cluster) -> Host<'c> {
        cluster.restrict(self.describe(cluster));
        Host::new(cluster)
    }

    /// Emits events about malformed objects, if the controller asks for them.
    fn report(&self, host: &Host, error: &Error) {
        malformed_events::emit(host, error, self.describe);
    }
}
