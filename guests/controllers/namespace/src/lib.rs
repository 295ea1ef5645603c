//! namespace-controller: deletes the content of namespaces that are being deleted, and then removes
//! their finalizer.
//!
//! A deleted namespace exists until this controller removes the finalizer `kubernetes`. [`kinds`] discovers the kinds
//! that it may contain. [`content`] deletes their objects, pods first, and counts the remaining ones. [`conditions`]
//! reports it in the namespace's status. [`update`] writes to the namespace.
//!
//! Each reconcile reads the namespace, the kinds and the content live. An object that a cache has
//! not seen yet would otherwise outlive its namespace.
//!
//! Upstream: pkg/controller/namespace/namespace_controller.go: NewNamespaceController, enqueueNamespace,
//! syncNamespaceFromKey, nsControllerRateLimiter.
//! Upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go: Delete.

pub mod conditions;
pub mod content;
pub mod kinds;
pub mod update;
pub mod views;

#[cfg(test)]
mod tests;

use std::time::Duration;

use flyball_sdk::debug;
use flyball_sdk::describe::{Queue, queue};
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

use content::Content;
use kinds::Kinds;
use views::{Namespace, Presence};

/// Configuration key: how long to wait after each change before a namespace is emptied.
pub const GRACE_PERIOD: &str = "deletion-grace-period";
const DEFAULT_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// The controller. Keys are names of namespaces.
pub struct NamespaceController;

export!(NamespaceController);

impl Controller for NamespaceController {
    fn describe() -> Description {
        describe("namespace-controller", env!("CARGO_PKG_VERSION"))
            .watch(
                watch::<Presence>()
                    .enqueue(Mapping::route().on([DeltaType::Added, DeltaType::Modified])),
            )
            // A namespace that can't be emptied is retried at least once a minute.
            .queue_with(Queue {
                max_delay_ms: 60_000,
                ..queue("namespace")
            })
            .import("discovery")
            .permission("*", ["delete", "deletecollection", "list"])
            .permission(Namespace::KIND, ["get"])
            .permission_on(Namespace::KIND, "finalize", ["update"])
            .permission_on(Namespace::KIND, "status", ["update"])
            .config(
                GRACE_PERIOD,
                Some("5s"),
                "How long to wait after a change of a namespace that is being deleted before it is \
                 emptied. Meanwhile every API server learns that it must refuse new objects, and \
                 every member of etcd learns which objects were created last.",
            )
            .concurrency(10)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        grace_period(host)?;
        let name = &request.key.name;
        let is_deleting = host
            .get::<Presence>("", name)?
            .is_some_and(|namespace| namespace.meta.is_deleting());
        if !is_deleting {
            return Ok(Outcome::Done);
        }
        match host.live().get("", name)? {
            Some(namespace) => empty(host, namespace),
            None => Ok(Outcome::Done),
        }
    }

    /// Enqueues namespaces that are being deleted, with a delay after each change.
    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        // `reconcile` reports an invalid period.
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
    host.config_duration(GRACE_PERIOD, DEFAULT_GRACE_PERIOD)
}

/// Deletes the content of a namespace that is being deleted, and removes the finalizer once the
/// namespace is empty.
fn empty(host: &Host, namespace: Namespace) -> Result<Outcome, Error> {
    let Some(namespace) = update::apply(host, namespace, update::mark_terminating)? else {
        return Ok(Outcome::Done);
    };
    if !namespace.meta.is_deleting() || namespace.finalizers.is_empty() {
        return Ok(Outcome::Done);
    }
    let kinds = kinds::deletable(host.kinds());
    let content = content::delete(host, &namespace, &kinds.deletable);
    let namespace = update::set_conditions(host, namespace, &conditions::of(&kinds, &content));
    if let Some(failure) = failure(&kinds, &content) {
        return Err(failure);
    }
    if content.wait_seconds > 0 {
        debug!(
            host,
            "content remains, for an estimated {} s", content.wait_seconds
        );
        return Ok(Outcome::RequeueAfter(Duration::from_secs(
            content.wait_seconds / 2 + 1,
        )));
    }
    update::apply(host, namespace, update::finalize)?;
    Ok(Outcome::Done)
}

/// Joins all errors of discovery, listing and deletion. With any of them the finalizer is kept.
fn failure(kinds: &Kinds, content: &Content) -> Option<Error> {
    let failures = kinds
        .undiscovered
        .iter()
        .chain(&kinds.unparsable)
        .chain(&content.failures);
    Error::join(failures.map(Error::failed))
}
