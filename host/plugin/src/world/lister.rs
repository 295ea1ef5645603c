//! `lister`: cached reads. They never wait.

use flyball_types::{ApiError, Projection, Query};
use wasmtime::component::Resource;

use super::arguments::{self, Checked};
use super::{InstanceState, owned, trap};
use crate::bindings::flyball::controller::lister::{self, Error, Host, HostCursor};
use crate::handles::OpenCursor;
use crate::imports::Page;

impl Host for InstanceState {
    fn get(
        &mut self,
        kind: String,
        namespace: String,
        name: String,
        fields: Vec<String>,
    ) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        let checked = arguments::name("the kind", &kind).and_then(|()| arguments::paths(&fields));
        let imports = match self.imports(checked)? {
            Ok(imports) => imports,
            Err(error) => return Ok(Err(error.into())),
        };
        // References in objects may hold names of any length, but no object has a name that is too long.
        if arguments::reference("", &namespace, &name, "").is_err() {
            return Ok(Ok(None));
        }
        Ok(
            match imports.lister_get(&kind, &namespace, &name, &fields) {
                Ok(None) => Ok(None),
                Ok(Some(object)) => self.check_size(owned(object)).map(Some),
                Err(error) => Err(error.into()),
            },
        )
    }

    fn list(
        &mut self,
        query: lister::Query,
        projection: lister::Projection,
        limit: u32,
    ) -> wasmtime::Result<Result<lister::Page, Error>> {
        let checked = checked(&query).and_then(|()| match &projection {
            lister::Projection::All => Ok(()),
            lister::Projection::Fields(paths) | lister::Projection::Columns(paths) => {
                arguments::paths(paths)
            }
        });
        let allowance = self.allowance();
        let page = self.imports(checked)?.and_then(|imports| {
            let (query, projection) = (parse(query)?, parse_projection(projection)?);
            imports.lister_list(&query, &projection, limit, &allowance)
        });
        match page {
            Ok(page) => self.page(page),
            Err(error) => Ok(Err(error.into())),
        }
    }

    fn next(
        &mut self,
        cursor: Resource<OpenCursor>,
        limit: u32,
    ) -> wasmtime::Result<Result<lister::Page, Error>> {
        self.received();
        let OpenCursor { rest, staged } = self.handles.delete(cursor)?;
        self.unstage(staged);
        let rest = rest.ok_or_else(|| trap("it used a cursor of an earlier call".into()))?;
        match rest.next(limit, &self.allowance()) {
            Ok(page) => self.page(page),
            Err(error) => Ok(Err(error.into())),
        }
    }

    fn count(&mut self, query: lister::Query) -> wasmtime::Result<Result<u32, Error>> {
        let allowance = self.allowance();
        let imports = self.imports(checked(&query))?;
        let count = imports.and_then(|imports| imports.lister_count(&parse(query)?, &allowance));
        Ok(count.map_err(Error::from))
    }

    fn deletion_observed(&mut self, object: lister::ObjectReference) -> wasmtime::Result<bool> {
        let checked =
            arguments::reference(&object.kind, &object.namespace, &object.name, &object.uid);
        let imports = self.imports(checked)?;
        Ok(imports.is_ok_and(|imports| imports.lister_deletion_observed(&object.into())))
    }
}

impl HostCursor for InstanceState {
    fn drop(&mut self, cursor: Resource<OpenCursor>) -> wasmtime::Result<()> {
        let cursor = self.handles.delete(cursor)?;
        self.unstage(cursor.staged);
        Ok(())
    }
}

impl InstanceState {
    /// Converts a page for the guest. Creates a handle only if more pages follow, which is rare.
    fn page(&mut self, page: Page) -> wasmtime::Result<Result<lister::Page, Error>> {
        let Page { items, rest } = page;
        let items = match self.check_size(items) {
            Ok(items) => items,
            Err(error) => return Ok(Err(error)),
        };
        let rest = match rest {
            None => None,
            Some(rest) => {
                let staged = rest.size();
                self.stage(staged)?;
                let cursor = OpenCursor {
                    rest: Some(rest),
                    staged,
                };
                let handle = self.handles.push(cursor);
                Some(handle.map_err(|error| self.handle_error(error))?)
            }
        };
        Ok(Ok(lister::Page { items, rest }))
    }
}

fn checked(query: &lister::Query) -> Checked {
    let lister::Query {
        kind,
        namespace,
        conditions,
    } = query;
    arguments::reference(kind, namespace, "", "")?;
    let lengths = conditions
        .iter()
        .map(|condition| condition.name.len() + condition.value.len());
    arguments::conditions(lengths)
}

fn parse(query: lister::Query) -> Result<Query, ApiError> {
    let lister::Query {
        kind,
        namespace,
        conditions,
    } = query;
    let conditions = conditions
        .into_iter()
        .map(|condition| (condition.name, condition.value));
    Query::parse(kind, namespace, conditions)
}

fn parse_projection(projection: lister::Projection) -> Result<Projection, ApiError> {
    let non_empty = |paths: Vec<String>| {
        if paths.is_empty() {
            let message = "the projection of a query has no path: add at least one, or use `all`";
            return Err(ApiError::invalid(message));
        }
        Ok(paths)
    };
    Ok(match projection {
        lister::Projection::All => Projection::All,
        lister::Projection::Fields(paths) => Projection::Fields(non_empty(paths)?),
        lister::Projection::Columns(paths) => Projection::Columns(non_empty(paths)?),
    })
}
