//! What a plugin reads: the cache and, over it, what the plugin wrote and the reflector has not yet seen, as if they were
//! one, restricted to what the plugin may see.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use flyball_types::{Columns, FieldPath, Mask};

use crate::core::State;
use crate::indexer::selector_at;
use crate::{Informer, LabelSet, ListQuery, Object, Overlay, Uid};

/// Bytes of a typical value of a row.
const TYPICAL_VALUE: usize = 24;

/// What a plugin may see of an informer.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The fields. They must be among those of the informer's handle.
    pub mask: Arc<Mask>,
    /// The namespaces; all, if none. (The watch's own namespace is the informer's scope.)
    pub namespaces: Option<BTreeSet<String>>,
}

/// A read that can't be answered. No retry can help.
#[derive(Debug, thiserror::Error)]
pub enum ListerError {
    /// Fields that the plugin did not declare.
    #[error("the fields {0} are not among those that the plugin declared for this kind")]
    FieldsNotDeclared(String),
}

/// Reads for one plugin. Cheap to clone.
#[derive(Clone)]
pub struct Lister {
    informer: Informer,
    overlay: Overlay,
    view: Arc<View>,
}

impl Lister {
    /// Reads this informer through this view, with the plugin's own writes.
    pub fn new(informer: Informer, overlay: Overlay, view: View) -> Self {
        Self {
            informer,
            overlay,
            view: Arc::new(view),
        }
    }

    /// The informer that it reads.
    pub fn informer(&self) -> &Informer {
        &self.informer
    }

    /// What it shows.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The object of this name; the namespace is empty for a cluster-scoped one.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let is_it = |object: &Object| object.name() == name && object.namespace() == namespace;
        let find = |state: &State| {
            state
                .indexer
                .get(namespace, name)
                .cloned()
                .into_iter()
                .collect()
        };
        self.read(find, is_it).pop()
    }

    /// The object of this UID.
    pub fn by_uid(&self, uid: &Uid) -> Option<Arc<Object>> {
        let find = |state: &State| state.indexer.by_uid(uid).cloned().into_iter().collect();
        self.read(find, |object| object.uid == *uid).pop()
    }

    /// All objects that match, in order of namespace and name.
    pub fn list(&self, query: &ListQuery) -> Vec<Arc<Object>> {
        let mut found = self.find(query);
        found.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        found
    }

    /// How many objects match.
    pub fn count(&self, query: &ListQuery) -> usize {
        self.find(query).len()
    }

    fn find(&self, query: &ListQuery) -> Vec<Arc<Object>> {
        self.read(
            |state| state.indexer.candidates(query),
            |object| query.matches(object),
        )
    }

    /// Whether some object may name this UID as an owner. Much cheaper than a list, for where the answer is mostly no.
    pub fn may_own(&self, uid: &Uid) -> bool {
        let may_own = |state: &State| state.indexer.may_own(uid);
        self.overlay.with(self.informer.core(), |own, state| {
            own.written(state).next().is_some() || may_own(state)
        })
    }

    /// The objects of a namespace whose label selector at `path` matches these labels, in order of name. The path must be
    /// among the interest's `selectors`.
    pub fn selecting(
        &self,
        path: &FieldPath,
        namespace: &str,
        labels: &LabelSet,
    ) -> Vec<Arc<Object>> {
        let find = |state: &State| state.indexer.selecting(path, namespace, labels);
        let mut found = self.read_tested(find, |object| {
            object.namespace() == namespace
                && selector_at(object, path).is_some_and(|selector| selector.matches(labels))
        });
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// Whether the plugin may see an object that some delta of the informer holds.
    pub fn shows(&self, object: &Object) -> bool {
        self.view
            .namespaces
            .as_ref()
            .is_none_or(|namespaces| namespaces.contains(object.namespace()))
    }

    /// What `find` finds in the cache and `matches`, with the overlay laid over it.
    fn read(
        &self,
        find: impl FnOnce(&State) -> Vec<Arc<Object>>,
        matches: impl Fn(&Object) -> bool,
    ) -> Vec<Arc<Object>> {
        let mut found = self.read_tested(find, &matches);
        found.retain(|object| matches(object));
        found
    }

    /// As `read`, where `find` finds only what matches.
    fn read_tested(
        &self,
        find: impl FnOnce(&State) -> Vec<Arc<Object>>,
        matches: impl Fn(&Object) -> bool,
    ) -> Vec<Arc<Object>> {
        let mut found = self.overlay.with(self.informer.core(), |own, state| {
            let mut found = find(state);
            let written: Vec<&Arc<Object>> = own.written(state).collect();
            // A name that was written anew belongs to the new object, though the end of the old one was not yet seen.
            let names: HashSet<(&str, &str)> = written
                .iter()
                .map(|object| (object.namespace(), object.name()))
                .collect();
            found.retain(|object| {
                !own.hides(object, state) && !names.contains(&(object.namespace(), object.name()))
            });
            found.extend(
                written
                    .into_iter()
                    .filter(|object| matches(object))
                    .cloned(),
            );
            found
        });
        found.retain(|object| self.shows(object));
        found
    }
}

/// Projection.
impl Lister {
    /// Reduces objects to `fields`, or to all that the view shows.
    ///
    /// # Errors
    /// Fields that the view does not show.
    pub fn projection(&self, fields: Option<&Arc<Mask>>) -> Result<Projection, ListerError> {
        if let Some(fields) = fields {
            self.check(fields)?;
        }
        Ok(Projection {
            form: Form::Object {
                mask: Arc::clone(fields.unwrap_or(&self.view.mask)),
                last: None,
            },
        })
    }

    /// Reduces objects to rows of these columns.
    ///
    /// # Errors
    /// Fields that the view does not show.
    pub fn rows(&self, columns: Arc<Columns>) -> Result<Projection, ListerError> {
        self.check(columns.mask())?;
        Ok(Projection {
            form: Form::Row(columns),
        })
    }

    /// Whether the view shows all of these fields.
    fn check(&self, fields: &Mask) -> Result<(), ListerError> {
        if self.view.mask.covers(fields) {
            return Ok(());
        }
        let shows = |path: &FieldPath| self.view.mask.covers(&[path.clone()].iter().collect());
        let missing = fields
            .paths()
            .into_iter()
            .filter(|path| !shows(path))
            .map(|path| path.to_string());
        Err(ListerError::FieldsNotDeclared(
            missing.collect::<Vec<_>>().join(", "),
        ))
    }

    /// Appends an object's JSON, reduced to `fields` (all that the view shows, if none). Of many objects, a
    /// [`Lister::projection`] is cheaper.
    ///
    /// # Errors
    /// Fields that the view does not show.
    pub fn project(
        &self,
        object: &Object,
        fields: Option<&Arc<Mask>>,
        out: &mut Vec<u8>,
    ) -> Result<(), ListerError> {
        self.projection(fields)?.append(object, out);
        Ok(())
    }
}

/// Reduces objects of the cache to some of their fields. Where these are all that the cache holds, bytes are copied as they
/// are.
pub struct Projection {
    form: Form,
}

enum Form {
    /// Objects with these fields.
    Object {
        mask: Arc<Mask>,
        /// The mask of the last object, and whether all that it holds is wanted.
        last: Option<(Arc<Mask>, bool)>,
    },
    /// Rows of these columns.
    Row(Arc<Columns>),
}

impl Projection {
    /// About how many bytes that takes.
    pub fn expected(&self, object: &Object) -> usize {
        match &self.form {
            Form::Object { .. } => object.json().len(),
            Form::Row(columns) => columns.count() * TYPICAL_VALUE,
        }
    }

    /// Appends what is wanted of an object.
    pub fn append(&mut self, object: &Object, out: &mut Vec<u8>) {
        match &mut self.form {
            Form::Row(columns) => object.append_row(columns, out),
            Form::Object { mask, last } => match wants_all(mask, last, object) {
                true => out.extend_from_slice(object.json()),
                false => mask
                    .prune(object.json(), out)
                    .expect("what pruning made can be pruned again"),
            },
        }
    }

    /// What is wanted of an object; without a copy, if it is all.
    pub fn bytes(&mut self, object: &Arc<Object>) -> Bytes {
        if let Form::Object { mask, last } = &mut self.form
            && wants_all(mask, last, object)
        {
            return object.bytes();
        }
        let mut out = Vec::new();
        self.append(object, &mut out);
        out.into()
    }
}

/// Whether a mask holds all that the cache holds of an object. Objects of one mask mostly follow one another.
fn wants_all(mask: &Mask, last: &mut Option<(Arc<Mask>, bool)>, object: &Object) -> bool {
    match last {
        Some((of, wants_all)) if Arc::ptr_eq(of, &object.mask) => *wants_all,
        _ => {
            let wants_all = mask.covers(&object.mask);
            *last = Some((Arc::clone(&object.mask), wants_all));
            wants_all
        }
    }
}
