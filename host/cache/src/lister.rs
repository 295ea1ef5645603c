//! What a plugin reads: the cache and, over it, what the plugin wrote and the reflector has not yet seen, as if they were
//! one, restricted to what the plugin may see.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_types::{FieldPath, Labels, Mask};

use crate::{Informer, ListQuery, Object, Overlay, Uid};

/// What a plugin may see of an informer.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The fields. They must be among those of the informer's handle.
    pub mask: Mask,
    /// The namespaces; all, if none. (The watch's own namespace is the informer's scope.)
    pub namespaces: Option<BTreeSet<String>>,
}

/// A read that can't be answered. No retry can help.
#[derive(Debug, thiserror::Error)]
pub enum ListerError {
    /// Fields that the plugin did not declare.
    #[error("the fields {0} are not among those declared")]
    FieldsNotDeclared(String),
}

/// Reads for one plugin. Cheap to clone.
#[derive(Clone)]
pub struct Lister {}

impl Lister {
    /// Reads this informer through this view, with the plugin's own writes.
    pub fn new(informer: Informer, overlay: Overlay, view: View) -> Self {
        todo!()
    }

    /// The informer that it reads.
    pub fn informer(&self) -> &Informer {
        todo!()
    }

    /// The object of this name; the namespace is empty for a cluster-scoped one.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        todo!()
    }

    /// The object of this UID.
    pub fn by_uid(&self, uid: &Uid) -> Option<Arc<Object>> {
        todo!()
    }

    /// All objects that match, in order of namespace and name.
    pub fn list(&self, query: &ListQuery) -> Vec<Arc<Object>> {
        todo!()
    }

    /// How many objects match.
    pub fn count(&self, query: &ListQuery) -> usize {
        todo!()
    }

    /// The objects of a namespace whose label selector at `path` matches these labels, in order of name. The path must be
    /// among the interest's `selectors`.
    pub fn selecting(&self, path: &FieldPath, namespace: &str, labels: &impl Labels) -> Vec<Arc<Object>> {
        todo!()
    }

    /// Whether the plugin may see an object that some delta of the informer holds.
    pub fn shows(&self, object: &Object) -> bool {
        todo!()
    }

    /// Appends an object's JSON, reduced to `fields` (all that the view shows, if none).
    ///
    /// # Errors
    /// Fields that the view does not show.
    pub fn project(&self, object: &Object, fields: Option<&Mask>, out: &mut Vec<u8>) -> Result<(), ListerError> {
        todo!()
    }
}
