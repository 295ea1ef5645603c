//! Lists of the cache: narrowed, then read page by page.

use std::fmt::Display;
use std::marker::PhantomData;

use crate::error::Error;
use crate::imports::{Imports, Question};
use crate::view::View;

/// A list of the cache, as views. The narrowing functions join with «and».
#[must_use = "a list reads nothing until it is asked to"]
pub struct List<'a, T> {
    imports: &'a dyn Imports,
    question: Question,
    view: PhantomData<T>,
}

impl<'a, T: View> List<'a, T> {
    pub(crate) fn new(imports: &'a dyn Imports) -> Self {
        let owned = |paths: &[&str]| paths.iter().map(|&path| path.to_owned()).collect();
        let kind = T::KIND.into();
        let question = match T::COLUMNS {
            [] => Question {
                kind,
                fields: owned(T::FIELDS),
                ..Question::default()
            },
            columns => Question {
                kind,
                columns: owned(columns),
                ..Question::default()
            },
        };
        Self {
            imports,
            question,
            view: PhantomData,
        }
    }

    /// Only those of this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.question.namespace = Some(namespace.into());
        self
    }

    /// Only those whose labels match: a [`LabelSelector`](crate::LabelSelector), or a text such as `app=web,!canary`.
    pub fn selector(mut self, selector: &(impl Display + ?Sized)) -> Self {
        self.question.label_selector = Some(selector.to_string());
        self
    }

    /// Only those of which a declared index holds this value.
    pub fn index(mut self, name: &str, value: &str) -> Self {
        self.question.index = Some((name.into(), value.into()));
        self
    }

    /// Only the one that has this UID.
    pub fn uid(mut self, uid: &str) -> Self {
        self.question.uid = Some(uid.into());
        self
    }

    /// Only those that name this UID as an owner.
    pub fn owner(mut self, uid: &str) -> Self {
        self.question.owner = Some(uid.into());
        self
    }

    /// Only those that name this UID as their controller.
    pub fn controller(mut self, uid: &str) -> Self {
        self.question.controller = Some(uid.into());
        self
    }

    /// Only those that name no controller.
    pub fn orphans(mut self) -> Self {
        self.question.orphans = true;
        self
    }

    /// All of them, in order of namespace and name.
    ///
    /// # Errors
    /// The plugin may not read them, or one is not as the view wants it.
    pub fn all(self) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        self.each(|object| {
            all.push(object);
            Ok(())
        })?;
        Ok(all)
    }

    /// Hands out one after the other, with no more than a page of them in memory.
    ///
    /// # Errors
    /// As [`all`](Self::all), and what `visit` answers, which ends the list.
    pub fn each(self, mut visit: impl FnMut(T) -> Result<(), Error>) -> Result<(), Error> {
        let pages = self.imports.open(&self.question);
        loop {
            let page = pages.page(0)?;
            let objects: Vec<T> = flyball_types::read(&page)
                .map_err(|error| Error::Malformed(format!("a list of {}", T::KIND), error))?;
            if objects.is_empty() {
                return Ok(());
            }
            objects.into_iter().try_for_each(&mut visit)?;
        }
    }

    /// How many there are; none of them crosses the boundary.
    ///
    /// # Errors
    /// The plugin may not read them.
    pub fn count(self) -> Result<u32, Error> {
        Ok(self.imports.open(&self.question).count()?)
    }
}
