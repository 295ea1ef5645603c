//! `lister`: reads from the host's cache. They never wait.

use wasmtime::component::Resource;

use super::{State, owned, trap};
use crate::bindings::flyball::controller::lister::{self, Error, Host, HostQuery};
use crate::imports::{Listing, Query};

/// A query that a guest holds.
#[allow(
    unreachable_pub,
    reason = "the bindings name it in public, in a private module"
)]
pub struct OpenQuery {
    question: Query,
    /// The snapshot that pages come from, since the first one.
    listing: Option<Box<dyn Listing>>,
    /// Bytes that its question holds.
    staged: usize,
    /// Its call is over.
    ended: bool,
}

impl OpenQuery {
    /// Empties it, because its call is over.
    pub(super) fn end(&mut self) {
        *self = Self {
            question: Query::default(),
            listing: None,
            staged: 0,
            ended: true,
        };
    }
}

impl Host for State {
    fn get(
        &mut self,
        kind: String,
        namespace: String,
        name: String,
        fields: Vec<String>,
    ) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        Ok(
            match self.imports()?.get(&kind, &namespace, &name, &fields) {
                Ok(None) => Ok(None),
                Ok(Some(object)) => self.answer(Ok(owned(object))).map(Some),
                Err(error) => Err(error.into()),
            },
        )
    }

    fn gone(&mut self, object: lister::ObjectReference) -> wasmtime::Result<bool> {
        Ok(self.imports()?.gone(&object.into()))
    }
}

impl HostQuery for State {
    fn new(&mut self, kind: String) -> wasmtime::Result<Resource<OpenQuery>> {
        let staged = kind.len();
        self.stage(staged)?;
        let question = Query {
            kind,
            ..Query::default()
        };
        let query = OpenQuery {
            question,
            listing: None,
            staged,
            ended: false,
        };
        self.handles
            .push(query)
            .map_err(|error| self.handle_error(error))
    }

    fn namespace(&mut self, query: Resource<OpenQuery>, namespace: String) -> wasmtime::Result<()> {
        self.narrow(query, namespace.len(), |question| {
            question.namespace = namespace
        })
    }

    fn label_selector(
        &mut self,
        query: Resource<OpenQuery>,
        selector: String,
    ) -> wasmtime::Result<()> {
        self.narrow(query, selector.len(), |question| {
            // Two selectors join as in the API: by a comma.
            if !question.label_selector.is_empty() && !selector.is_empty() {
                question.label_selector.push(',');
            }
            question.label_selector.push_str(&selector);
        })
    }

    fn index(
        &mut self,
        query: Resource<OpenQuery>,
        name: String,
        value: String,
    ) -> wasmtime::Result<()> {
        let entry = size_of::<(String, String)>();
        self.narrow(query, entry + name.len() + value.len(), |question| {
            question.indexes.push((name, value))
        })
    }

    fn uid(&mut self, query: Resource<OpenQuery>, uid: String) -> wasmtime::Result<()> {
        self.narrow(query, uid.len(), |question| question.uid = Some(uid))
    }

    fn owner(&mut self, query: Resource<OpenQuery>, uid: String) -> wasmtime::Result<()> {
        self.narrow(query, uid.len(), |question| question.owner = Some(uid))
    }

    fn controller(&mut self, query: Resource<OpenQuery>, uid: String) -> wasmtime::Result<()> {
        self.narrow(query, uid.len(), |question| question.controller = Some(uid))
    }

    fn orphans(&mut self, query: Resource<OpenQuery>) -> wasmtime::Result<()> {
        self.narrow(query, 0, |question| question.orphans = true)
    }

    fn fields(&mut self, query: Resource<OpenQuery>, paths: Vec<String>) -> wasmtime::Result<()> {
        self.narrow(query, bytes(&paths), |question| question.fields = paths)
    }

    fn columns(&mut self, query: Resource<OpenQuery>, paths: Vec<String>) -> wasmtime::Result<()> {
        self.narrow(query, bytes(&paths), |question| question.columns = paths)
    }

    fn page(
        &mut self,
        query: Resource<OpenQuery>,
        limit: u32,
    ) -> wasmtime::Result<Result<Vec<u8>, Error>> {
        let imports = self.imports()?.clone();
        let query = self.query(&query)?;
        if query.listing.is_none() {
            match imports.list(&query.question) {
                Ok(listing) => query.listing = Some(listing),
                Err(error) => return Ok(Err(error.into())),
            }
        }
        let page = query
            .listing
            .as_mut()
            .map_or_else(|| Ok(Vec::new()), |listing| listing.page(limit));
        Ok(self.answer(page))
    }

    fn count(&mut self, query: Resource<OpenQuery>) -> wasmtime::Result<Result<u32, Error>> {
        let imports = self.imports()?.clone();
        let query = self.query(&query)?;
        Ok(imports.count(&query.question).map_err(Error::from))
    }

    fn drop(&mut self, query: Resource<OpenQuery>) -> wasmtime::Result<()> {
        let query = self.handles.delete(query)?;
        self.unstage(query.staged);
        Ok(())
    }
}

/// Bytes that paths take.
fn bytes(paths: &[String]) -> usize {
    paths
        .iter()
        .map(|path| size_of::<String>() + path.len())
        .sum()
}

impl State {
    fn query(&mut self, query: &Resource<OpenQuery>) -> wasmtime::Result<&mut OpenQuery> {
        let query = self.handles.get_mut(query)?;
        if query.ended {
            return Err(trap("it used a query of an earlier call".into()));
        }
        Ok(query)
    }

    /// Changes the question of a query, which then holds so many bytes more.
    fn narrow(
        &mut self,
        query: Resource<OpenQuery>,
        bytes: usize,
        change: impl FnOnce(&mut Query),
    ) -> wasmtime::Result<()> {
        self.stage(bytes)?;
        let query = self.query(&query)?;
        query.staged += bytes;
        change(&mut query.question);
        Ok(())
    }
}
