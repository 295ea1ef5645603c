//! namespace-controller: empties namespaces that are being deleted, and then lets them go.
//!
//! A namespace that is deleted stays until its finalizer `kubernetes` is taken away, which is done here. [`kinds`] finds out
//! what may lie in it; [`content`] deletes that, pods first, and counts what remains; [`conditions`] tells so in the
//! namespace's status; [`update`] writes to the namespace.
//!
//! Nothing is remembered from one reconcile to the next: each reads the namespace, the kinds and what remains anew from the
//! API server, because what a cache does not know yet would be left behind without its namespace.

pub mod conditions;
pub mod content;
pub mod failure;
pub mod kinds;
pub mod update;
pub mod views;

#[cfg(test)]
mod tests;

use std::time::Duration;

use flyball_sdk::controller::{Delta, RoutedKey};
use flyball_sdk::debug;
use flyball_sdk::describe::{Queue, queue};
use flyball_sdk::prelude::*;

use content::Content;
use kinds::Kinds;
use views::{Namespace, Presence};

/// The key of the configuration for how long a namespace is left alone after each change.
pub const GRACE_PERIOD: &str = "deletion-grace-period";
/// Its default.
const DEFAULT_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// The controller of namespaces. The keys are their names.
pub struct NamespaceController;

export!(NamespaceController);

impl Controller for NamespaceController {
    fn describe() -> Description {
        describe("namespace-controller", env!("CARGO_PKG_VERSION"))
            .watch(watch::<Presence>().enqueue(Mapping::route().on([DeltaType::Added, DeltaType::Modified])))
            // A namespace that can't be emptied is tried again every minute at least.
            .queue_with(Queue { max_delay_ms: 60_000, ..queue("namespace") })
            .import("discovery")
            .allow("*", ["delete", "deletecollection", "list"])
            .allow(Namespace::KIND, ["get"])
            .allow_on(Namespace::KIND, "finalize", ["update"])
            .allow_on(Namespace::KIND, "status", ["update"])
            .config(
                GRACE_PERIOD,
                Some("5s"),
                "how long after a change a namespace that is being deleted is left alone: meanwhile every API server learns \
                 that nothing may be made in it any more, and every member of etcd what was made last",
            )
            .concurrency(10)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        grace_period(host)?;
        let name = &request.key.name;
        let is_going = host
            .get::<Presence>("", name)?
            .is_some_and(|namespace| namespace.meta.is_deleting());
        if !is_going {
            return Ok(Outcome::Done);
        }
        match host.reader().get("", name)? {
            Some(namespace) => empty(host, namespace),
            None => Ok(Outcome::Done),
        }
    }

    /// Namespaces that are being deleted, a while after each change.
    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        // A period that makes no sense is told of by the reconcile.
        let delay = grace_period(host).unwrap_or(DEFAULT_GRACE_PERIOD);
        let mut routed = Vec::new();
        for delta in deltas {
            if let Some(namespace) = delta.after::<Presence>()?
                && namespace.meta.is_deleting()
            {
                routed.push(RoutedKey {
                    delay,
                    ..RoutedKey::now(namespace.meta.key())
                });
            }
        }
        Ok(routed)
    }
}

fn grace_period(host: &Host) -> Result<Duration, Error> {
    let Some(text) = host.config(GRACE_PERIOD) else {
        return Ok(DEFAULT_GRACE_PERIOD);
    };
    let wrong = || {
        Error::terminal(format!(
            "the setting {GRACE_PERIOD} makes no sense: `{text}`"
        ))
    };
    flyball_sdk::duration::parse(&text).ok_or_else(wrong)
}

/// Empties a namespace as far as can be, if it is being deleted, and lets it go once it is empty.
fn empty(host: &Host, namespace: Namespace) -> Result<Outcome, Error> {
    let Some(namespace) = update::apply(host, namespace, update::mark_terminating)? else {
        return Ok(Outcome::Done);
    };
    if !namespace.meta.is_deleting() || namespace.finalizers.is_empty() {
        return Ok(Outcome::Done);
    }
    let kinds = kinds::deletable(host.kinds());
    let content = content::delete(host, &namespace, &kinds.deletable);
    let namespace = update::tell(host, namespace, &conditions::of(&kinds, &content));
    if let Some(failure) = failure(&kinds, &content) {
        return Err(failure);
    }
    if content.wait_seconds > 0 {
        debug!(
            host,
            "content remains, for {} s as far as can be told", content.wait_seconds
        );
        return Ok(Outcome::RequeueAfter(Duration::from_secs(
            content.wait_seconds / 2 + 1,
        )));
    }
    update::apply(host, namespace, update::finalize)?;
    Ok(Outcome::Done)
}

/// Why the namespace may hold more than is known, or holds what could not be deleted: it is not let go then.
fn failure(kinds: &Kinds, content: &Content) -> Option<Error> {
    let found_out = kinds
        .undiscovered
        .iter()
        .chain(&kinds.unreadable)
        .chain(&content.failures);
    Error::join(found_out.map(Error::failed))
}
