//! What one plugin wrote and the server acknowledged, until the reflector has seen it: so the plugin's next read sees its
//! writes, without waiting. The writer fills it, listers read it.

use crate::{DecodeError, Informer, Uid};

/// The readers' end of a plugin's overlay. Cheap to clone.
#[derive(Clone)]
pub struct Overlay {}

/// The writer's end.
pub struct OverlayWriter {}

impl OverlayWriter {
    /// An empty overlay for one plugin.
    pub fn new() -> Self {
        todo!()
    }

    /// The end that listers read.
    pub fn reader(&self) -> Overlay {
        todo!()
    }

    /// The server acknowledged a create, an update or a patch with this object, whole. To be called for each informer of
    /// the plugin that watches the object's kind, before the plugin is told; a version that the reflector has passed is
    /// left out. Only for answers that are the object itself, not those of `scale`, `eviction`, `binding` or `token`.
    ///
    /// # Errors
    /// The answer is not an object of the API.
    pub fn written(&self, informer: &Informer, answer: &[u8]) -> Result<(), DecodeError> {
        todo!()
    }

    /// The server acknowledged a delete with this answer: a Status, or the object as it was or is now. Of a graceful
    /// delete the object stays, with its deletion timestamp; else it is hidden until the reflector sees it go.
    ///
    /// # Errors
    /// The answer is neither.
    pub fn deleted(&self, informer: &Informer, namespace: &str, name: &str, answer: &[u8]) -> Result<(), DecodeError> {
        todo!()
    }

    /// Drops what the reflector has passed, and answers how many entries are left. Reads never need this; it frees memory.
    pub fn tidy(&self) -> usize {
        todo!()
    }
}
