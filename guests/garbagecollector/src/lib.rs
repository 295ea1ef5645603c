//! garbage-collector-controller: deletes objects whose owners are gone, lets owners that are deleted in the foreground wait
//! for their dependents, and takes dependents away from owners that leave them behind.
//!
//! The graph of owners is the host's: its caches hold the metadata of every kind that can be deleted, as kinds come and go,
//! and find an object's dependents by their owners' UIDs. Keys name objects of whatever kind. [`node`] reads the graph,
//! [`owners`] finds out what has become of an object's owners, [`collect`] decides on an object, [`orphan`] takes dependents
//! away from theirs, and [`write`] changes one object.
//!
//! An owner that the caches hold exists; when it goes, its dependents are told. One that they don't hold, and that nobody saw
//! go, may never have existed, lie elsewhere or be too new: the API server is asked before anything is deleted for its sake.

pub mod collect;
pub mod node;
pub mod orphan;
pub mod owners;
pub mod write;

#[cfg(test)]
mod tests;

use std::time::Duration;

use flyball_sdk::View;
use flyball_sdk::describe::{Discovered, MetricType, Owners, watch_discovered};
use flyball_sdk::prelude::*;

use node::Node;

/// Objects that may have to go, owners in doubt, and owners that wait for their dependents.
pub const TO_DELETE: &str = "garbage_collector_attempt_to_delete";
/// Owners that leave their dependents behind.
pub const TO_ORPHAN: &str = "garbage_collector_attempt_to_orphan";
/// The finalizer of an owner that waits for its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner that leaves its dependents behind.
pub const ORPHAN: &str = "orphan";

/// The key of the configuration for how often the API server is asked what it serves.
const SYNC_PERIOD: &str = "sync-period";
const SYNC_ERRORS: &str = "garbagecollector_controller_resources_sync_error_total";

/// The collector of garbage. The keys are references to objects.
pub struct GarbageCollector;

export!(GarbageCollector);

impl Controller for GarbageCollector {
    fn describe() -> Description {
        use DeltaType::{Added, Deleted, Modified};
        let in_foreground = |mapping: Mapping| {
            mapping
                .having("metadata.finalizers", FOREGROUND)
                .on([Added, Modified])
        };
        let kinds = Discovered::every(Duration::from_secs(30))
            .verbs(&["delete"])
            // Events expire, and own nothing.
            .except(&["v1/Event", "events.k8s.io/v1/Event"])
            .period_config(SYNC_PERIOD)
            .error_counter(SYNC_ERRORS);
        let graph = watch_discovered(kinds)
            .fields(Node::FIELDS)
            .when_at(&[
                "metadata.ownerReferences",
                "metadata.finalizers",
                "metadata.deletionTimestamp",
            ])
            .enqueue(Mapping::dependents().on([Deleted]))
            .enqueue(Mapping::owner_references(Owners::Missing).on([Added, Modified]))
            .enqueue(Mapping::owner_references(Owners::Deleting).on([Modified, Deleted]))
            .enqueue(in_foreground(Mapping::dependents()))
            .enqueue(in_foreground(Mapping::reference()))
            .enqueue(
                Mapping::reference()
                    .having("metadata.finalizers", ORPHAN)
                    .on([Added, Modified])
                    .queue(TO_ORPHAN),
            );
        describe("garbage-collector-controller", env!("CARGO_PKG_VERSION"))
            .watch(graph)
            .queue(TO_DELETE)
            .queue(TO_ORPHAN)
            .allow("*", ["delete", "get", "patch"])
            .import("discovery")
            .config(SYNC_PERIOD, Some("30s"), "how often the API server is asked which kinds it serves")
            .metric(
                MetricType::Counter,
                SYNC_ERRORS,
                &[],
                "Number of garbage collector resources sync errors: the server did not say what it serves, or a kind could \
                 not be listed in time",
            )
            .concurrency(20)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let object = request.reference()?;
        match request.queue.as_str() {
            TO_ORPHAN => orphan::orphan(host, &object),
            _ => collect::collect(host, &object),
        }
    }
}
