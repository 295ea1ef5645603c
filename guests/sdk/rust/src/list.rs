//! Cached lists.

use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use flyball_types::{Projection, Query};

use crate::error::Error;
use crate::host::kind_of_release;
use crate::imports::{Imports, Page};
use crate::malformed::{self, Misfit};
use crate::view::View;

/// Number of objects in a page of a list that is read to its end: few enough that a long list needs little memory
/// besides its objects, and enough that the calls of the host cost little.
const PAGE: u32 = 1000;

/// The most objects that are skipped at once: they cross into the sandbox, but are not parsed.
const SKIPPED_AT_ONCE: u32 = 10_000;

/// A cached list of objects as views. An object must satisfy all conditions.
#[must_use = "a list reads nothing until `all`, `first`, `each`, `find_map` or `count` is called"]
pub struct List<'a, T> {
    imports: &'a dyn Imports,
    query: Query,
    skipped: u32,
    view: PhantomData<T>,
}

impl<'a, T: View> List<'a, T> {
    pub(crate) fn new(imports: &'a dyn Imports) -> Self {
        let query = Query {
            kind: kind_of_release::<T>(imports).into(),
            ..Query::default()
        };
        Self {
            imports,
            query,
            skipped: 0,
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

    /// Leaves out the first objects, in the order of [`all`](Self::all). Together with [`first`](Self::first), it
    /// divides a long list between several reconciles.
    pub fn skip(mut self, count: u32) -> Self {
        self.skipped = count;
        self
    }

    /// Returns the first objects, at most this many.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn first(self, most: u32) -> Result<Vec<T>, Error> {
        let mut first = Vec::new();
        self.find_map(most, |object| {
            first.push(object);
            (first.len() >= most as usize).then_some(())
        })?;
        Ok(first)
    }

    /// Calls `visit` for each object, with at most one page of objects in memory.
    ///
    /// # Errors
    /// As [`all`](Self::all), or an error of `visit`, which ends the iteration.
    pub fn each(self, mut visit: impl FnMut(T) -> Result<(), Error>) -> Result<(), Error> {
        let visit = |object| visit(object).map(ControlFlow::<()>::Continue);
        self.pages(PAGE, visit).map(drop)
    }

    /// Calls `visit` for each object until it returns a value, and returns that. Reads `page` objects at a time, so
    /// that the memory does not grow with the list.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn find_map<R>(
        self,
        page: u32,
        mut visit: impl FnMut(T) -> Option<R>,
    ) -> Result<Option<R>, Error> {
        self.pages(page, |object| {
            Ok(visit(object).map_or(ControlFlow::Continue(()), ControlFlow::Break))
        })
    }

    /// Visits objects, in pages of at most `limit` (0: as large as the host allows), until `visit` breaks.
    fn pages<R>(
        self,
        limit: u32,
        mut visit: impl FnMut(T) -> Result<ControlFlow<R>, Error>,
    ) -> Result<Option<R>, Error> {
        let Some(mut page) = self.first_page(limit)? else {
            return Ok(None);
        };
        loop {
            let objects: Vec<T> = match flyball_types::read(&page.items) {
                Ok(objects) => objects,
                Err(error) => {
                    let misfit = malformed::misfit::<T>;
                    let again = (!T::COLUMNS.is_empty()).then_some((self.query, T::READS));
                    return Err(find(
                        self.imports,
                        kind_of_release::<T>(self.imports),
                        &page.items,
                        again,
                        misfit,
                        error,
                    ));
                }
            };
            for object in objects {
                if let ControlFlow::Break(found) = visit(object)? {
                    return Ok(Some(found));
                }
            }
            match page.rest {
                Some(rest) => page = rest.next(limit)?,
                None => return Ok(None),
            }
        }
    }

    /// Returns the first page after the skipped objects; `None` if no objects follow them.
    fn first_page(&self, limit: u32) -> Result<Option<Page>, Error> {
        let step = |left: u32| {
            if left > 0 {
                left.min(SKIPPED_AT_ONCE)
            } else {
                limit
            }
        };
        let mut left = self.skipped;
        let query = self.query.clone();
        let mut page = self
            .imports
            .lister_list(query, projection::<T>(), step(left))?;
        while left > 0 {
            left -= step(left);
            match page.rest {
                Some(rest) => page = rest.next(step(left))?,
                None => return Ok(None),
            }
        }
        Ok(Some(page))
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
    match (T::COLUMNS, T::READS) {
        ([], []) => Projection::All,
        ([], fields) => Projection::Fields(owned(fields)),
        (columns, _) => Projection::Columns(owned(columns)),
    }
}

fn owned(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|&path| path.to_owned()).collect()
}
