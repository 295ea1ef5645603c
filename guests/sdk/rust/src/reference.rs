//! References to objects, as events and errors name them.

/// A reference to an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectReference {
    /// The kind, as in `v1/Pod`.
    pub kind: String,
    /// Empty if the object is cluster-scoped.
    pub namespace: String,
    pub name: String,
    /// Empty if unknown.
    pub uid: String,
    /// The resource version of the object that was read; empty if unknown. Only events use it.
    pub resource_version: String,
}
