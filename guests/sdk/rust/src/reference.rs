//! References to objects, as events and errors name them.

/// A reference to an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectReference {
    /// As in `v1/Pod`.
    pub kind: String,
    /// Empty if it is cluster-scoped.
    pub namespace: String,
    pub name: String,
    /// Empty if unknown.
    pub uid: String,
    /// As the object was read; empty if unknown. Only events have it.
    pub resource_version: String,
}
