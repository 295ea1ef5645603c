//! A compiled component, ready to be made a [`crate::Plugin`].

use std::sync::Arc;

/// A checked and compiled component. Clones share the code.
#[derive(Clone)]
pub struct Component {
    pub(crate) code: wasmtime::component::Component,
    digest: Arc<str>,
    size: usize,
}

impl Component {
    pub(crate) fn new(code: wasmtime::component::Component, digest: &str, size: usize) -> Self {
        Self { code, digest: digest.into(), size }
    }

    /// The SHA-256 of the component's bytes, in hex: what a grant binds to.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The bytes of the component before it was compiled.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Component").field("digest", &self.digest).field("size", &self.size).finish()
    }
}
