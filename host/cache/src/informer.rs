//! One informer: a reflector's cache, shared by handles. A handle reads it, subscribes to its changes, and widens what it
//! holds by what the handle's owner needs. Made by `factory.rs`.

use std::sync::Arc;
use std::time::Duration;

use flyball_types::{FieldPath, Kind, Mask};
use tokio::time::timeout;

use crate::core::Core;
use crate::factory::Registration;
use crate::stream::Requests;
use crate::{Answer, ApiResource, Delta, Deltas, Scope, Source, SourceError};

/// How long a reflector may take to see a change that the server acknowledged.
const CATCH_UP: Duration = Duration::from_secs(10);

/// What somebody wants to watch, and of it to read.
#[derive(Clone, Debug)]
pub struct Interest {
    /// The kind.
    pub resource: Arc<ApiResource>,
    /// Which of its objects.
    pub scope: Scope,
    /// Whether metadata alone will do.
    pub metadata_only: bool,
    /// The fields wanted. Those of `indexes`, `selectors` and of the scope's field selector join by themselves.
    pub mask: Mask,
    /// Paths that objects are to be found by.
    pub indexes: Vec<FieldPath>,
    /// Paths of label selectors that are to be found by the labels they match.
    pub selectors: Vec<FieldPath>,
}

/// A handle of an informer. Clones share it; the informer stops when the last handle of all is dropped.
#[derive(Clone)]
pub struct Informer {
    pub(crate) handle: Arc<Handle>,
}

/// What the clones of a handle share.
pub(crate) struct Handle {
    pub(crate) core: Arc<Core>,
    pub(crate) mask: Arc<Mask>,
    pub(crate) source: Arc<dyn Source>,
    /// Ends the handle's part in the informer when it is dropped.
    pub(crate) _registration: Registration,
}

/// How an informer is.
#[derive(Clone, Debug)]
pub struct InformerStatus {
    /// The kind.
    pub kind: Kind,
    /// Which of its objects.
    pub scope: Scope,
    /// Whether it holds metadata alone.
    pub metadata_only: bool,
    /// Whether its cache holds a whole list.
    pub synced: bool,
    /// How many objects it holds.
    pub objects: usize,
    /// About how many bytes they take.
    pub bytes: usize,
    /// How far it has seen.
    pub position: u64,
    /// How many handles it has.
    pub handles: usize,
    /// How many times it has listed.
    pub lists: u64,
    /// How many events of the watch it has applied.
    pub events: u64,
    /// Why it can't list or watch now.
    pub problem: Option<String>,
    /// The fields that it keeps.
    pub mask: Mask,
}

impl Informer {
    /// The kind.
    pub fn resource(&self) -> &Arc<ApiResource> {
        &self.core().resource
    }

    /// Which of its objects.
    pub fn scope(&self) -> &Scope {
        &self.core().scope
    }

    /// The fields that this handle wanted, with those that joined by themselves.
    pub fn mask(&self) -> &Arc<Mask> {
        &self.handle.mask
    }

    /// Whether the cache holds a whole list with all fields and indexes of this handle.
    pub fn is_synced(&self) -> bool {
        self.core().holds(&self.handle.mask)
    }

    /// Waits until [`Informer::is_synced`]. Never, if the factory is shut down before.
    pub async fn synced(&self) {
        let mut lists = self.core().lists();
        while !self.is_synced() {
            // The sender lives in what this handle holds.
            let _ = lists.changed().await;
        }
    }

    /// The resource version up to which the cache has seen everything; 0 before the first list.
    pub fn position(&self) -> u64 {
        self.core().position()
    }

    /// Waits until the cache has seen everything up to this resource version. Events carry it there at once; where none
    /// come, it asks the server for a bookmark after a second. Ends early where the server's versions go back.
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

    /// Whether what is listed and watched comes in protobuf, so that answers to writes may.
    pub fn reads_protobuf(&self) -> bool {
        self.core().reads_protobuf()
    }

    /// Waits until the cache has seen what this answer tells, and says whether it has. For an answer in protobuf that can't
    /// be read: the reflector finds that out when the change comes to it, and reads JSON from then on.
    pub async fn catches_up(&self, answer: &Answer) -> bool {
        let Some(version) = answer
            .head()
            .ok()
            .and_then(|head| head.resource_version.parse().ok())
        else {
            return false;
        };
        timeout(CATCH_UP, self.wait_until(version)).await.is_ok() && self.position() >= version
    }

    /// The resource version of a consistent read that is made now: all that was written before is not newer.
    ///
    /// # Errors
    /// The server gave no answer, or refused.
    pub async fn fresh_position(&self) -> Result<u64, SourceError> {
        Requests::new(Arc::clone(&self.handle.source), Arc::clone(self.core()))
            .fresh_position()
            .await
    }

    /// All objects as additions, once [`Informer::is_synced`], then each change, with no gap.
    pub fn subscribe(&self) -> Deltas {
        self.subscribe_to(|_| true)
    }

    /// The same, of those additions and changes alone that are wanted: for others the watcher is not woken. It is asked
    /// under the cache's lock, for each change by itself, so it must be quick.
    pub fn subscribe_to(&self, wants: impl Fn(&Delta) -> bool + Send + Sync + 'static) -> Deltas {
        self.core().subscribe(&self.handle.mask, Arc::new(wants))
    }

    /// How the informer is.
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
            scope: core.scope.clone(),
            metadata_only: core.is_metadata_only(),
            synced: state.is_listed(),
            objects: state.indexer.len(),
            bytes: state.indexer.bytes(),
            position: state.position,
            handles,
            lists,
            events: core.events(),
            problem: core.problem(),
            mask,
        }
    }
}
