//! Cached lists.

use std::fmt::Display;
use std::marker::PhantomData;

use flyball_types::{Projection, Query};

use crate::error::Error;
use crate::imports::{Imports, Page};
use crate::malformed::{self, Misfit};
use crate::view::View;

/// A cached list of objects as views. An object must satisfy all conditions.
#[must_use = "a list reads nothing until `all`, `each` or `count` is called"]
pub struct List<'a, T> {
    imports: &'a dyn Imports,
    query: Query,
    view: PhantomData<T>,
}

impl<'a, T: View> List<'a, T> {
    pub(crate) fn new(imports: &'a dyn Imports) -> Self {
        let query = Query {
            kind: T::KIND.into(),
            ..Query::default()
        };
        Self {
            imports,
            query,
            view: PhantomData,
        }
    }

    /// Only objects of this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.query.namespace = namespace.into();
        self
    }

    /// Only objects whose labels match: a [`LabelSelector`](crate::LabelSelector), or a text such as `app=web,!canary`.
    pub fn labels(mut self, selector: &(impl Display + ?Sized)) -> Self {
        self.query.add_labels(&selector.to_string());
        self
    }

    /// Only objects with this value in a declared index.
    pub fn index(mut self, name: &str, value: &str) -> Self {
        self.query.indexes.push((name.into(), value.into()));
        self
    }

    /// Only the object with this UID.
    pub fn uid(mut self, uid: &str) -> Self {
        self.query.uid = Some(uid.into());
        self
    }

    /// Only objects that have an owner with this UID.
    pub fn owner(mut self, uid: &str) -> Self {
        self.query.owner = Some(uid.into());
        self
    }

    /// Only objects whose controller has this UID.
    pub fn controller(mut self, uid: &str) -> Self {
        self.query.controller = Some(uid.into());
        self
    }

    /// Only objects without a controller.
    pub fn orphans(mut self) -> Self {
        self.query.orphans = true;
        self
    }

    /// Returns all objects, ordered by namespace and name.
    ///
    /// # Errors
    /// The plugin may not read them, or an object does not fit the view.
    pub fn all(self) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        self.each(|object| {
            all.push(object);
            Ok(())
        })?;
        Ok(all)
    }

    /// Calls `visit` for each object, with at most one page of objects in memory.
    ///
    /// # Errors
    /// As [`all`](Self::all), or an error of `visit`, which ends the iteration.
    pub fn each(self, mut visit: impl FnMut(T) -> Result<(), Error>) -> Result<(), Error> {
        let query = self.query.clone();
        let mut page = self.imports.lister_list(query, projection::<T>(), 0)?;
        loop {
            let objects: Vec<T> = match flyball_types::read(&page.items) {
                Ok(objects) => objects,
                Err(error) => {
                    let misfit = malformed::misfit::<T>;
                    let again = (!T::COLUMNS.is_empty()).then_some((self.query, T::FIELDS));
                    return Err(find(
                        self.imports,
                        T::KIND,
                        &page.items,
                        again,
                        misfit,
                        error,
                    ));
                }
            };
            objects.into_iter().try_for_each(&mut visit)?;
            match page.rest {
                Some(rest) => page = rest.next(0)?,
                None => return Ok(()),
            }
        }
    }

    /// Returns the number of objects. No object crosses into the sandbox.
    ///
    /// # Errors
    /// The plugin may not read them.
    pub fn count(self) -> Result<u32, Error> {
        Ok(self.imports.lister_count(self.query)?)
    }
}

/// Finds the object that does not fit. A row does not name its object, so the objects are listed `again`.
#[cold]
fn find(
    imports: &dyn Imports,
    kind: &str,
    items: &[u8],
    again: Option<(Query, &[&str])>,
    misfit: Misfit,
    error: serde_json::Error,
) -> Error {
    let Some((query, fields)) = again else {
        return malformed::list(kind, items, misfit, error);
    };
    let mut page = imports.lister_list(query, Projection::Fields(owned(fields)), 0);
    while let Ok(Page { items, rest }) = page {
        if let Some(error) = malformed::first_of(kind, &items, misfit) {
            return error;
        }
        match rest {
            Some(rest) => page = rest.next(0),
            None => break,
        }
    }
    malformed::of_list(kind, error)
}

/// The fields that a view reads of each object.
fn projection<T: View>() -> Projection {
    match (T::COLUMNS, T::FIELDS) {
        ([], []) => Projection::All,
        ([], fields) => Projection::Fields(owned(fields)),
        (columns, _) => Projection::Columns(owned(columns)),
    }
}

fn owned(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|&path| path.to_owned()).collect()
}
