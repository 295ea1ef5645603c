//! garbage-collector-controller: deletes objects whose owners were deleted, keeps owners that are
//! deleted in the foreground until their dependents are deleted, and orphans the dependents of
//! owners that request it.
//!
//! The host has the ownership graph: it caches the metadata of every kind that can be deleted, and
//! finds an object's dependents by the UIDs of their owners. Keys are references to objects of any
//! kind. [`node`] reads the graph, [`owners`] determines which owners of an object still exist,
//! [`collect`] decides about an object, [`orphan`] removes owner references, and [`write`] changes
//! one object.
//!
//! A cached owner exists, and its deletion enqueues its dependents. An owner that is not cached,
//! and whose deletion was not observed, may never have existed, may be in another namespace, or may
//! be too new. Such an owner is read live before anything is deleted.
//!
//! Upstream: pkg/controller/garbagecollector/garbagecollector.go: NewGarbageCollector, GetDeletableResources.
//! Upstream: pkg/controller/garbagecollector/graph_builder.go: processGraphChanges, processTransitions,
//! DefaultIgnoredResources.

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

/// The queue of objects that may have to be deleted, and of owners that wait for their dependents.
pub const TO_DELETE: &str = "garbage_collector_attempt_to_delete";
/// The queue of owners whose dependents must be orphaned.
pub const TO_ORPHAN: &str = "garbage_collector_attempt_to_orphan";
/// The finalizer of an owner that is deleted after its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents are orphaned.
pub const ORPHAN: &str = "orphan";

/// The most dependents of an owner that one reconcile enqueues or orphans. An owner may have hundreds of thousands, and
/// a call has limits of CPU time and memory.
pub const PORTION: u32 = 5000;

/// Configuration key: the period of discovery.
const SYNC_PERIOD: &str = "sync-period";
const SYNC_ERRORS: &str = "garbagecollector_controller_resources_sync_error_total";

/// The garbage collector. Keys are references to objects.
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
            // Events expire and own nothing.
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
            .permission("*", ["delete", "get", "patch"])
            .import("discovery")
            .config(
                SYNC_PERIOD,
                Some("30s"),
                "The period at which the kinds that the API server serves are discovered.",
            )
            .metric(
                MetricType::Counter,
                SYNC_ERRORS,
                &[],
                "Number of garbage collector resources sync errors: discovery failed, or a kind could \
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
