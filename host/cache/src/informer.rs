//! One informer: a reflector's cache, shared by handles. A handle reads it, subscribes to its changes, and widens what it
//! holds by what the handle's owner needs. Made by `factory.rs`.

use std::sync::Arc;

use flyball_types::{FieldPath, Kind, Mask};

use crate::{ApiResource, Deltas, Overlay, Scope, SourceError};

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
pub struct Informer {}

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
        todo!()
    }

    /// Which of its objects.
    pub fn scope(&self) -> &Scope {
        todo!()
    }

    /// The fields that this handle wanted, with those that joined by themselves.
    pub fn mask(&self) -> &Mask {
        todo!()
    }

    /// Whether the cache holds a whole list with all fields and indexes of this handle.
    pub fn is_synced(&self) -> bool {
        todo!()
    }

    /// Waits until [`Informer::is_synced`]. Never, if the factory is shut down before.
    pub async fn synced(&self) {
        todo!()
    }

    /// The resource version up to which the cache has seen everything; 0 before the first list.
    pub fn position(&self) -> u64 {
        todo!()
    }

    /// Waits until the cache has seen everything up to this resource version. Events carry it there at once; where none
    /// come, it asks the server for a bookmark after a second.
    pub async fn wait_until(&self, resource_version: u64) {
        todo!()
    }

    /// The resource version of a consistent read that is made now: all that was written before is not newer.
    ///
    /// # Errors
    /// The server gave no answer, or refused.
    pub async fn fresh_position(&self) -> Result<u64, SourceError> {
        todo!()
    }

    /// All objects as additions, once [`Informer::is_synced`], then each change, with no gap.
    pub fn subscribe(&self) -> Deltas {
        todo!()
    }

    /// How the informer is.
    pub fn status(&self) -> InformerStatus {
        todo!()
    }
}
