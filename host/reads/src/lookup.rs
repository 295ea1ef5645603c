//! The lookups that mappings do in a plugin's caches, as a trait, so that the router can be tested without caches.

use std::sync::Arc;

use flyball_cache::{Object, Uid};
use flyball_types::{FieldPath, Kind, Reference};

/// Looks up objects that the plugin sees.
pub trait Lookup {
    /// Whether the cache holds this object under this UID; none if the plugin does not watch the kind.
    fn has(&self, kind: &Kind, namespace: &str, name: &str, uid: &Uid) -> Option<bool>;
    /// Returns the object of this name, if the cache holds it.
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>>;
    /// Whether there may be objects of a kind in this namespace; in any if it is empty. False means that there are none.
    fn has_any(&self, kind: &Kind, namespace: &str) -> bool;
    /// Returns the objects of a kind whose selector at `path` matches this object's labels, in its namespace.
    fn selecting(&self, kind: &Kind, path: &FieldPath, object: &Object) -> Vec<Arc<Object>>;
    /// Returns the keys of the objects of a kind in this namespace; in all namespaces if it is empty.
    fn keys(&self, kind: &Kind, namespace: &str) -> Vec<String>;
    /// Returns the object of this UID, of any kind that the plugin watches.
    fn by_uid(&self, uid: &Uid) -> Option<(Kind, Arc<Object>)>;
    /// Returns references to the objects, of all kinds that the plugin watches, that name this UID as an owner.
    fn dependents(&self, uid: &Uid) -> Vec<Reference>;
    /// Remembers that the deletion of this object, which has dependents, was observed.
    fn note_deletion(&self, object: Reference);
    /// Whether objects of a kind are namespaced; none if the host does not know that the server serves the kind.
    fn is_namespaced(&self, kind: &Kind) -> Option<bool>;
}

/// Returns the reference to a cached object.
pub fn reference(kind: &Kind, object: &Object) -> Reference {
    Reference {
        kind: kind.clone(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        uid: object.uid().to_string(),
    }
}
