//! A compiled component, ready to be made a [`crate::Plugin`].

/// A checked and compiled component. Clones share the code.
#[derive(Clone)]
pub struct Component {
    digest: String,
    size: usize,
}

impl Component {
    /// The SHA-256 of the component's bytes, in hex: what a grant binds to.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The bytes of the component before it was compiled.
    pub fn size(&self) -> usize {
        self.size
    }
}
