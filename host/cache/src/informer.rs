//! The handle of an informer, created by `factory.rs`. It gives access to a reflector's cache and its deltas, and adds
//! its fields to those that the cache keeps.

use std::sync::Arc;
use std::time::Duration;

use flyball_types::{FieldPath, Kind, Mask};
use tokio::time::timeout;

use crate::change::{ByDelta, Select};
use crate::core::{Core, Indexes};
use crate::registrations::Registration;
use crate::stream::Requests;
use crate::{ApiResource, ApiResponse, Delta, Deltas, Scope, Source, SourceError};

/// How long to wait for a reflector to see a change that the server acknowledged.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// The kind and scope that a handle watches, and the fields and indexes that it needs.
#[derive(Clone, Debug)]
pub struct Interest {
    pub resource: Arc<ApiResource>,
    pub scope: Scope,
    /// Whether metadata is enough.
    pub metadata_only: bool,
    /// The fields to keep. The paths of `indexes`, `selectors` and the scope's field selector are added to them.
    pub mask: Mask,
    /// The paths whose values are indexed.
    pub indexes: Vec<FieldPath>,
    /// The paths of label selectors that are indexed by the labels they match: see
    /// [`Lister::selecting`](crate::Lister::selecting).
    pub selectors: Vec<FieldPath>,
}

/// A handle of an informer. The informer stops when the last of its handles, clones included, is dropped.
#[derive(Clone)]
pub struct Informer {
    pub(crate) handle: Arc<Handle>,
}

/// The part of a handle that its clones share.
pub(crate) struct Handle {
    pub(crate) core: Arc<Core>,
    pub(crate) mask: Arc<Mask>,
    pub(crate) indexes: Arc<Indexes>,
    pub(crate) source: Arc<dyn Source>,
    /// Unregisters the handle when it is dropped.
    pub(crate) _registration: Registration,
}

/// The status of an informer.
#[derive(Clone, Debug)]
pub struct InformerStatus {
    pub kind: Kind,
    /// The kind's name in URLs.
    pub plural: String,
    pub scope: Scope,
    /// Whether the informer holds metadata only.
    pub metadata_only: bool,
    pub objects: usize,
    /// Approximate memory use of the objects and their indexes in bytes.
    pub bytes: usize,
    /// The resource version up to which the cache is complete.
    pub position: u64,
    pub handles: usize,
    /// The deltas that wait for the subscriber that is furthest behind.
    pub queued: usize,
    /// The number of lists since the start.
    pub lists: u64,
    /// The number of watch events since the start.
    pub events: u64,
    /// Why the reflector can't list or watch; `None` if it can.
    pub problem: Option<String>,
    /// The fields that the cache keeps.
    pub mask: Mask,
}

impl Informer {
    pub fn resource(&self) -> &Arc<ApiResource> {
        &self.core().resource
    }

    pub fn scope(&self) -> &Scope {
        &self.core().scope
    }

    /// The fields of this handle's interest, with the paths of its indexes, selectors and scope.
    pub fn mask(&self) -> &Arc<Mask> {
        &self.handle.mask
    }

    /// Whether the cache holds a complete list with all fields and indexes of this handle.
    pub fn is_synced(&self) -> bool {
        self.core().holds(&self.handle.mask) && self.core().has_built(&self.handle.indexes)
    }

    /// Whether the API server does not serve the kind, as after its CustomResourceDefinition was deleted.
    pub fn is_kind_missing(&self) -> bool {
        self.core().is_kind_missing()
    }

    /// Waits until [`Informer::is_synced`]. Waits forever if the factory is shut down before.
    pub async fn synced(&self) {
        let mut lists = self.core().lists();
        while !self.is_synced() {
            // Can't fail: this handle keeps the sender alive.
            let _ = lists.changed().await;
        }
    }

    /// The resource version up to which the cache is complete; 0 before the first list.
    pub fn position(&self) -> u64 {
        self.core().position()
    }

    /// Waits until the cache is complete up to this resource version.
    ///
    /// If no event arrives within a second, the reflector requests a bookmark. Returns early if the server's versions
    /// go back.
    pub async fn wait_until(&self, resource_version: u64) {
        let core = self.core();
        let mut positions = core.positions();
        let resets = positions.borrow().resets;
        core.awaited.send_if_modified(|awaited| {
            let is_later = resource_version > *awaited;
            *awaited = resource_version.max(*awaited);
            is_later
        });
        let _ = positions
            .wait_for(|own| own.version >= resource_version || own.resets != resets)
            .await;
    }

    /// Whether lists and watches are in protobuf, so that responses to writes may be too.
    pub fn reads_protobuf(&self) -> bool {
        self.core().reads_protobuf()
    }

    /// Waits until the cache has the change of this response. Returns false after a timeout.
    ///
    /// For a response in protobuf that can't be decoded: the reflector receives the same change, can't decode it
    /// either, and requests JSON from then on.
    pub async fn catches_up(&self, response: &ApiResponse) -> bool {
        let Some(version) = response
            .object_version()
            .ok()
            .and_then(|object| object.resource_version.parse().ok())
        else {
            return false;
        };
        timeout(CATCH_UP_TIMEOUT, self.wait_until(version))
            .await
            .is_ok()
            && self.position() >= version
    }

    /// The resource version of a consistent read. No earlier write has a newer version.
    ///
    /// # Errors
    /// The server is unreachable or refused the request.
    pub async fn fresh_position(&self) -> Result<u64, SourceError> {
        Requests::new(Arc::clone(&self.handle.source), Arc::clone(self.core()))
            .fresh_position()
            .await
    }

    /// The version of an object in a consistent read; that of the read if there is no such object. A cache that has reached
    /// it has all earlier changes of the object. It is mostly reached without a bookmark, unlike
    /// [`Informer::fresh_position`].
    ///
    /// # Errors
    /// The server is unreachable or refused the request.
    pub async fn fresh_version_of(&self, namespace: &str, name: &str) -> Result<u64, SourceError> {
        Requests::new(Arc::clone(&self.handle.source), Arc::clone(self.core()))
            .fresh_version_of(namespace, name)
            .await
    }

    /// Subscribes to the cache: all objects as additions, once [`Informer::is_synced`], then each change, without a
    /// gap.
    pub fn subscribe(&self) -> Deltas {
        self.subscribe_to(|_| true)
    }

    /// Like [`Informer::subscribe`], for the deltas that a predicate selects. Other deltas don't wake the subscriber.
    ///
    /// The predicate is called for each delta under the cache's lock, so it must return quickly.
    pub fn subscribe_to(
        &self,
        predicate: impl Fn(&Delta) -> bool + Send + Sync + 'static,
    ) -> Deltas {
        self.subscribe_with(ByDelta(predicate), None)
    }

    /// Like [`Informer::subscribe_to`], for a choice by the values of the objects, which the cache finds for all
    /// subscribers at once. The snapshot may have objects that it does not select.
    ///
    /// `at_most` bounds the memory of deltas that the subscriber has not taken, in bytes, as [`Deltas::keep_at_most`]
    /// does; none for no bound.
    pub fn subscribe_with(&self, select: impl Select, at_most: Option<usize>) -> Deltas {
        let core = self.core();
        let deltas = core.subscribe(&self.handle.mask, Arc::new(select));
        if let Some(bytes) = at_most {
            deltas.keep_at_most(bytes);
        }
        deltas
    }

    pub fn status(&self) -> InformerStatus {
        InformerStatus::of(self.core())
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }
}

impl InformerStatus {
    pub(crate) fn of(core: &Core) -> Self {
        let (handles, lists, mask) = (
            core.handles(),
            *core.lists().borrow(),
            (*core.held_mask()).clone(),
        );
        let state = core.state();
        Self {
            kind: core.resource.kind.clone(),
            plural: core.resource.plural.clone(),
            scope: core.scope.clone(),
            metadata_only: core.is_metadata_only(),
            objects: state.indexer.len(),
            bytes: state.indexer.bytes(),
            position: state.position,
            queued: state.queued(),
            handles,
            lists,
            events: core.events(),
            problem: core.problem(),
            mask,
        }
    }
}
