//! A compiled component, which a [`crate::Plugin`] is created from.

use std::sync::Arc;

use crate::pages::Pages;

/// A checked and compiled component. Clones share the code.
#[derive(Clone)]
pub struct Component {
    pub(crate) code: wasmtime::component::Component,
    /// None unless the code is mapped from a file.
    pub(crate) pages: Option<Arc<Pages>>,
    digest: Arc<str>,
    size: usize,
}

/// Compiled code, and its pages if it was mapped from a file.
pub(crate) struct Code {
    pub(crate) code: wasmtime::component::Component,
    pub(crate) pages: Option<Arc<Pages>>,
}

impl From<wasmtime::component::Component> for Code {
    fn from(code: wasmtime::component::Component) -> Self {
        Self { code, pages: None }
    }
}

impl Component {
    pub(crate) fn new(code: impl Into<Code>, digest: &str, size: usize) -> Self {
        let Code { code, pages } = code.into();
        Self {
            code,
            pages,
            digest: digest.into(),
            size,
        }
    }

    /// The SHA-256 of the component's bytes, in hex. Grants are bound to it.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The size of the component before it was compiled, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Component")
            .field("digest", &self.digest)
            .field("size", &self.size)
            .finish()
    }
}
