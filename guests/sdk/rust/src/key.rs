//! Keys of the workqueues.

use std::fmt;

use flyball_types::Reference;

/// A key that names an object: `namespace/name`, or `name` if it is cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Empty if the object is cluster-scoped.
    pub namespace: String,
    /// The object's name; or the whole key if it does not name an object.
    pub name: String,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Parses a key. Every text is valid: without a slash it is only a name.
    pub fn parse(text: &str) -> Self {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        Self::new(namespace, name)
    }
}

impl From<&Reference> for Key {
    fn from(reference: &Reference) -> Self {
        Self::parse(&reference.to_string())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}", self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}
