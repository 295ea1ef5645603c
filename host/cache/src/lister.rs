//! The lister: a plugin's reads of one informer. It merges the cache with the plugin's overlay (`overlay.rs`), and
//! restricts both to the fields and namespaces that the plugin may see.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeSet, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use flyball_types::{Columns, FieldPath, Mask, RowError};
use foldhash::fast::RandomState;

use crate::core::CoreState;
use crate::indexer::selector_at;
use crate::overlay::Entries;
use crate::{Informer, LabelSet, ListQuery, Object, Overlay, Uid};

/// The number of objects that a long query visits between two checks of whether it may go on. For each of its fields,
/// each KiB of an object counts as another object.
const ASKED_EACH: usize = 256;
/// The typical size of a value in a row, in bytes.
const TYPICAL_VALUE: usize = 24;

/// The part of an informer that a plugin may see.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The visible fields. The masks of the plugin's handles of the informer must cover them.
    pub mask: Arc<Mask>,
    /// The visible namespaces of the informer's scope; `None` for all.
    pub namespaces: Option<BTreeSet<String>>,
}

/// A read that is not possible. A retry can't help.
#[derive(Debug, thiserror::Error)]
pub enum ListerError {
    /// The view does not show these fields.
    #[error("can't read the fields {0}: the plugin did not declare them for this kind")]
    FieldsNotDeclared(String),
}

/// A plugin's reads of one informer. Cheap to clone.
#[derive(Clone)]
pub struct Lister {
    informer: Informer,
    overlay: Overlay,
    view: Arc<View>,
}

impl Lister {
    /// `overlay` holds the plugin's own writes.
    pub fn new(informer: Informer, overlay: Overlay, view: View) -> Self {
        Self {
            informer,
            overlay,
            view: Arc::new(view),
        }
    }

    /// A lister of the same objects that also shows the fields of another one, which is of another handle of the same
    /// reflector; `None` if both masks together are too complex.
    pub fn with_fields_of(&self, other: &Self) -> Option<Self> {
        let mask = self.view.mask.union(&other.view.mask).ok()?;
        let view = View {
            mask: Arc::new(mask),
            namespaces: self.view.namespaces.clone(),
        };
        Some(Self {
            view: Arc::new(view),
            ..self.clone()
        })
    }

    pub fn informer(&self) -> &Informer {
        &self.informer
    }

    pub fn view(&self) -> &View {
        &self.view
    }

    /// The object of this name. The namespace of a cluster-scoped object is empty.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let is_it = |object: &Object| object.name() == name && object.namespace() == namespace;
        let find = |state: &CoreState| {
            state
                .indexer
                .get(namespace, name)
                .cloned()
                .into_iter()
                .collect()
        };
        self.read(find, is_it).pop()
    }

    pub fn by_uid(&self, uid: &Uid) -> Option<Arc<Object>> {
        let find = |state: &CoreState| state.indexer.by_uid(uid).cloned().into_iter().collect();
        self.read(find, |object| object.uid == *uid).pop()
    }

    /// The objects that match, sorted by namespace and name.
    pub fn list(&self, query: &ListQuery) -> Vec<Arc<Object>> {
        let Ok(found) = self.list_while(query, || Ok::<(), Infallible>(()));
        found
    }

    /// Like [`Lister::list`], but fails with the error of `may_go_on`, which is called every few hundred objects.
    pub fn list_while<E>(
        &self,
        query: &ListQuery,
        may_go_on: impl Fn() -> Result<(), E>,
    ) -> Result<Vec<Arc<Object>>, E> {
        self.find_while(query, may_go_on).map(sorted)
    }

    /// The number of objects that match.
    pub fn count(&self, query: &ListQuery) -> usize {
        let Ok(count) = self.count_while(query, || Ok::<(), Infallible>(()));
        count
    }

    /// The number of objects that match. Fails as [`Lister::list_while`] does.
    pub fn count_while<E>(
        &self,
        query: &ListQuery,
        may_go_on: impl Fn() -> Result<(), E>,
    ) -> Result<usize, E> {
        if *query == ListQuery::default()
            && let Some(count) = self.count_all()
        {
            return Ok(count);
        }
        Ok(self.find_while(query, may_go_on)?.len())
    }

    /// The number of all objects, without visiting them. `None` if the view hides some, or the cache lacks effects of
    /// the plugin's writes.
    fn count_all(&self) -> Option<usize> {
        let count = |own: &Entries, state: &CoreState| {
            let shows_all = self.view.namespaces.is_none() && !own.any_ahead(state);
            shows_all.then(|| state.indexer.len())
        };
        self.overlay.with(self.informer.core(), count)
    }

    /// Like [`Lister::list_while`], but in no particular order.
    pub fn find_while<E>(
        &self,
        query: &ListQuery,
        may_go_on: impl Fn() -> Result<(), E>,
    ) -> Result<Vec<Arc<Object>>, E> {
        let (work, is_over) = (Cell::new(0_usize), OnceCell::new());
        let matches = |object: &Object| {
            work.set(work.get() + 1 + query.fields.len() * (object.json().len() >> 10));
            if work.get() >= ASKED_EACH {
                work.set(0);
                if let Err(error) = may_go_on() {
                    let _ = is_over.set(error);
                }
            }
            is_over.get().is_none() && query.matches(object)
        };
        let found = self.read(|state| state.indexer.candidates(query), matches);
        is_over.into_inner().map_or(Ok(found), Err)
    }

    /// Whether an object may name this UID as an owner. May be true if none does, but is never false if one does. Much
    /// cheaper than a list.
    pub fn may_have_dependents(&self, uid: &Uid) -> bool {
        self.overlay.with(self.informer.core(), |own, state| {
            own.written(state).next().is_some() || state.indexer.may_have_dependents(uid)
        })
    }

    /// Whether the view may show an object in a namespace, or in any if it is empty. May be true if there is none, but is
    /// never false if there is one. Much cheaper than a list.
    pub fn may_have_any(&self, namespace: &str) -> bool {
        let has_any_in = |own: &Entries, state: &CoreState, namespace: &str| {
            let is_in =
                |object: &Arc<Object>| namespace.is_empty() || object.namespace() == namespace;
            state.indexer.has_any_in(namespace) || own.written(state).any(is_in)
        };
        let find = |own: &Entries, state: &CoreState| match &self.view.namespaces {
            None => has_any_in(own, state, namespace),
            Some(shown) if namespace.is_empty() => {
                shown.iter().any(|one| has_any_in(own, state, one.as_str()))
            }
            Some(shown) => shown.contains(namespace) && has_any_in(own, state, namespace),
        };
        self.overlay.with(self.informer.core(), find)
    }

    /// The objects of a namespace whose label selector at `path` matches these labels, sorted by name. The path must be
    /// among [`Interest::selectors`](crate::Interest::selectors).
    pub fn selecting(
        &self,
        path: &FieldPath,
        namespace: &str,
        labels: &LabelSet,
    ) -> Vec<Arc<Object>> {
        let find = |state: &CoreState| state.indexer.selecting(path, namespace, labels);
        let mut found = self.read_matching(find, |object| {
            object.namespace() == namespace
                && selector_at(object, path)
                    .is_some_and(|selector| labels.match_selector(&selector))
        });
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// Whether the view shows an object of one of the informer's deltas.
    pub fn shows(&self, object: &Object) -> bool {
        self.view
            .namespaces
            .as_ref()
            .is_none_or(|namespaces| namespaces.contains(object.namespace()))
    }

    /// The objects that match, from the cache and the overlay. `find` returns candidates from the cache.
    fn read(
        &self,
        find: impl FnOnce(&CoreState) -> Vec<Arc<Object>>,
        matches: impl Fn(&Object) -> bool,
    ) -> Vec<Arc<Object>> {
        let mut found = self.read_matching(find, &matches);
        found.retain(|object| matches(object));
        found
    }

    /// Like `read`, for a `find` whose results all match.
    fn read_matching(
        &self,
        find: impl FnOnce(&CoreState) -> Vec<Arc<Object>>,
        matches: impl Fn(&Object) -> bool,
    ) -> Vec<Arc<Object>> {
        let mut found = self.overlay.with(self.informer.core(), |own, state| {
            let mut found = find(state);
            let written: Vec<&Arc<Object>> = own.written(state).collect();
            // A name that the plugin has written belongs to the new object, even if the cache still has an old one.
            let names: HashSet<(&str, &str), RandomState> = written
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
    /// Reduces objects to `fields`, or to all fields that the view shows.
    ///
    /// # Errors
    /// The view does not show all of these fields.
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
    /// The view does not show all of these columns.
    pub fn rows(&self, columns: Arc<Columns>) -> Result<Projection, ListerError> {
        self.check(columns.mask())?;
        Ok(Projection {
            form: Form::Row(columns),
        })
    }

    /// Fails if the view does not show all of these fields.
    fn check(&self, fields: &Mask) -> Result<(), ListerError> {
        if self.view.mask.covers(fields) {
            return Ok(());
        }
        let shows =
            |path: &FieldPath| Mask::of([path]).is_ok_and(|mask| self.view.mask.covers(&mask));
        let missing = fields
            .paths()
            .into_iter()
            .filter(|path| !shows(path))
            .map(|path| path.to_string());
        Err(ListerError::FieldsNotDeclared(
            missing.collect::<Vec<_>>().join(", "),
        ))
    }

    /// Appends an object's JSON, reduced to `fields`, or to all fields that the view shows. For many objects, a
    /// [`Lister::projection`] is cheaper.
    ///
    /// # Errors
    /// The view does not show all of these fields.
    pub fn project(
        &self,
        object: &Object,
        fields: Option<&Arc<Mask>>,
        out: &mut Vec<u8>,
    ) -> Result<(), ListerError> {
        self.projection(fields)?
            .append(object, out, usize::MAX)
            .expect("an object has no bound here");
        Ok(())
    }
}

/// Reduces objects of the cache to some of their fields. If these are all that the cache holds, the bytes are not
/// parsed.
pub struct Projection {
    form: Form,
}

enum Form {
    /// JSON objects with these fields.
    Object {
        mask: Arc<Mask>,
        /// The mask of the last object, and whether `mask` covers it.
        last: Option<(Arc<Mask>, bool)>,
    },
    /// JSON arrays of these columns.
    Row(Arc<Columns>),
}

impl Projection {
    /// The approximate size of an object's projection in bytes.
    pub fn expected(&self, object: &Object) -> usize {
        match &self.form {
            Form::Object { .. } => object.json().len(),
            Form::Row(columns) => columns.count() * TYPICAL_VALUE,
        }
    }

    /// Estimates the bytes that it holds.
    pub fn size(&self) -> usize {
        match &self.form {
            Form::Object { mask, .. } => mask.size(),
            Form::Row(columns) => columns.size(),
        }
    }

    /// Appends an object's projection.
    ///
    /// # Errors
    /// A row has more than `at_most` bytes. Nothing is appended then.
    pub fn append(
        &mut self,
        object: &Object,
        out: &mut Vec<u8>,
        at_most: usize,
    ) -> Result<(), RowError> {
        match &mut self.form {
            Form::Row(columns) => return object.append_row(columns, out, at_most),
            Form::Object { mask, last } => match covers_object(mask, last, object) {
                true => out.extend_from_slice(object.json()),
                false => mask
                    .reduce(object.json(), out)
                    .expect("the cache holds JSON"),
            },
        }
        Ok(())
    }

    /// An object's projection, without a copy if it is the whole object.
    pub fn bytes(&mut self, object: &Arc<Object>) -> Bytes {
        if let Form::Object { mask, last } = &mut self.form
            && covers_object(mask, last, object)
        {
            return object.bytes();
        }
        let mut out = Vec::new();
        self.append(object, &mut out, usize::MAX)
            .expect("a row has no bound here");
        out.into()
    }
}

/// Sorts objects by namespace and name. An object is compared many times, so its names are looked up once.
fn sorted(found: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
    let mut order: Vec<(&str, &str, usize)> = (found.iter().enumerate())
        .map(|(at, object)| (object.namespace(), object.name(), at))
        .collect();
    order.sort_unstable();
    let in_order = |&(_, _, at): &(_, _, usize)| Arc::clone(&found[at]);
    order.iter().map(in_order).collect()
}

/// Whether a mask covers all fields that the cache holds of an object. Remembers the last result, since consecutive
/// objects mostly have the same mask.
fn covers_object(mask: &Mask, last: &mut Option<(Arc<Mask>, bool)>, object: &Object) -> bool {
    match last {
        Some((of, covers_object)) if Arc::ptr_eq(of, &object.mask) => *covers_object,
        _ => {
            let covers_object = mask.covers(&object.mask);
            *last = Some((Arc::clone(&object.mask), covers_object));
            covers_object
        }
    }
}
