//! Reads of the fake cluster: cached reads, limited to what the plugin declares, and live reads.

use flyball_types::description::Watch;
use flyball_types::{
    ApiError, Columns, FieldPath, FieldSelector, LabelSelector, Mask, Projection, Query,
};
use serde_json::{Value, json};

use crate::imports::{Cursor, Page, Read};
use crate::key::Key;
use crate::meta::Meta;

use super::store::{Id, text};
use super::{ClusterState, kind_of};

impl ClusterState {
    pub(super) fn read(&mut self, read: &Read) -> Result<Vec<u8>, ApiError> {
        match read {
            Read::Get {
                kind,
                namespace,
                name,
                fields,
            } => self.live_get(kind, namespace, name, fields),
            Read::List {
                kind,
                namespace,
                parameters,
                fields,
            } => self.live_list(kind, namespace, parameters, fields),
            Read::Raw { path } => self.live_raw(path),
        }
    }

    fn live_raw(&mut self, path: &str) -> Result<Vec<u8>, ApiError> {
        self.live_reads.push(format!("raw {path}"));
        if self
            .description
            .as_ref()
            .is_some_and(|description| !description.imports.contains("raw"))
        {
            return Err(ApiError::denied(
                "the plugin does not ask to use `raw`: add `import(\"raw\")` to its description",
            ));
        }
        self.admit_rate()?;
        self.fail_if_due("raw", path)?;
        let missing = || {
            let message = "the server could not find the requested resource";
            ApiError::of_server(404, "NotFound", message)
        };
        let answer = self.raw.get(path).ok_or_else(missing)?;
        Ok(answer.to_string().into_bytes())
    }

    fn live_get(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Vec<u8>, ApiError> {
        let id = Id::new(kind, namespace, name);
        self.live_reads
            .push(format!("get {kind} {}", Key::new(namespace, name)));
        self.admit("get", kind, "", namespace)?;
        let found = self
            .live
            .get(&id)
            .map_or_else(|| self.store.get(&id), Option::as_ref);
        let missing = || ApiError::of_server(404, "NotFound", format!("{kind} {name:?} not found"));
        reduced(found.ok_or_else(missing)?, fields)
    }

    fn live_list(
        &mut self,
        kind: &str,
        namespace: &str,
        parameters: &[(String, String)],
        fields: &[String],
    ) -> Result<Vec<u8>, ApiError> {
        self.live_reads.push(format!("list {kind} {namespace}"));
        self.admit("list", kind, "", namespace)?;
        let parameter = |name: &str| {
            parameters
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.as_str())
                .unwrap_or_default()
        };
        let labels: LabelSelector = parameter("labelSelector").parse().map_err(invalid)?;
        let selector: FieldSelector = parameter("fieldSelector").parse().map_err(invalid)?;
        let mut items = Vec::new();
        for object in self.live_of_kind(kind) {
            let field = |path: &FieldPath| path.lookup(object).first().copied().unwrap_or_default();
            if (namespace.is_empty() || text(object, "/metadata/namespace") == namespace)
                && labels.matches(&meta(object).labels)
                && selector.matches(field)
            {
                items.push(
                    serde_json::from_slice::<Value>(&reduced(object, fields)?).map_err(invalid)?,
                );
            }
        }
        // The token is an offset into the list, so it is only valid if nothing changes
        // between two pages.
        let before = parameter("continue").parse().unwrap_or(0);
        let limit = parameter("limit")
            .parse()
            .ok()
            .filter(|limit| *limit > 0)
            .unwrap_or(usize::MAX);
        let after = items.len().saturating_sub(before).saturating_sub(limit);
        let token = if after > 0 {
            (before + limit).to_string()
        } else {
            String::new()
        };
        let page: Vec<Value> = items.into_iter().skip(before).take(limit).collect();
        let mut list =
            json!({"metadata": {"resourceVersion": "1", "continue": token}, "items": page});
        let selects = ["labelSelector", "fieldSelector"].map(|name| !parameter(name).is_empty());
        if after > 0 && selects == [false; 2] {
            list["metadata"]["remainingItemCount"] = after.into();
        }
        Ok(list.to_string().into_bytes())
    }

    /// The plugin's watches of a kind; a watch of everything if there is no plugin.
    pub(super) fn watches(&self, kind: &str) -> Result<Vec<Watch>, ApiError> {
        let Some(description) = &self.description else {
            let kind = Some(kind_of(kind));
            return Ok(vec![Watch {
                kind,
                fields: vec![".".into()],
                ..Watch::default()
            }]);
        };
        let own = |watch: &&Watch| match (&watch.kind, &watch.discovered) {
            (Some(own), _) => own.to_string() == kind,
            (None, Some(discovered)) => {
                kind == "*" || !discovered.except.iter().any(|own| own.to_string() == kind)
            }
            (None, None) => false,
        };
        let watches: Vec<Watch> = description.watches.iter().filter(own).cloned().collect();
        if watches.is_empty() {
            return Err(ApiError::denied(format!(
                "{kind} is not among the plugin's watches"
            )));
        }
        Ok(watches)
    }

    /// Reduces an object to `fields` and the plugin's declared fields. A field that it did not declare
    /// is `Denied`.
    pub(super) fn project<T: AsRef<str>>(
        &self,
        kind: &str,
        object: &Value,
        fields: &[T],
    ) -> Result<Vec<u8>, ApiError> {
        let declared = self.declared(kind)?;
        let wanted = mask(fields)?;
        if !fields.is_empty() && !declared.covers(&wanted) {
            return Err(ApiError::denied(format!(
                "the plugin does not declare all of these fields of {kind}"
            )));
        }
        prune(
            object,
            if fields.is_empty() {
                &declared
            } else {
                &wanted
            },
        )
    }

    /// Returns an object's row. A column that the plugin did not declare is `Denied`.
    fn row(&self, kind: &str, object: &Value, columns: &[String]) -> Result<Vec<u8>, ApiError> {
        let columns = Columns::parse(columns).map_err(invalid)?;
        if !self.declared(kind)?.covers(columns.mask()) {
            return Err(ApiError::denied(format!(
                "the plugin does not declare all of these columns of {kind}"
            )));
        }
        let mut row = Vec::new();
        columns
            .row(&prune(object, columns.mask())?, &mut row, usize::MAX)
            .map_err(invalid)?;
        Ok(row)
    }

    /// The plugin's declared fields of a kind.
    fn declared(&self, kind: &str) -> Result<Mask, ApiError> {
        let mut declared = Mask::default();
        for watch in self.watches(kind)? {
            if watch.metadata_only && watch.discovered.is_none() {
                declared = declared.union(Mask::metadata()).map_err(invalid)?;
            }
            let fields = Mask::parse(&watch.fields).map_err(invalid)?;
            declared = declared.union(&fields).map_err(invalid)?;
        }
        Ok(declared)
    }

    /// Returns the objects or rows that match a query.
    pub(super) fn run(
        &self,
        query: &Query,
        projection: &Projection,
    ) -> Result<Vec<Vec<u8>>, ApiError> {
        let watches = self.watches(&query.kind)?;
        let selector: LabelSelector = query.labels.parse().map_err(invalid)?;
        let index =
            |(name, value): &(String, String)| Ok((self.index(&query.kind, name)?, value.clone()));
        let indexes: Vec<(FieldPath, String)> = query
            .indexes
            .iter()
            .map(index)
            .collect::<Result<_, ApiError>>()?;
        let matches = |object: &&Value| {
            let meta = meta(object);
            (query.namespace.is_empty() || query.namespace == meta.namespace)
                && selector.matches(&meta.labels)
                && query.uid.as_ref().is_none_or(|uid| *uid == meta.uid)
                && query
                    .owner
                    .as_ref()
                    .is_none_or(|uid| meta.owner_references.iter().any(|own| own.uid == *uid))
                && query
                    .controller
                    .as_ref()
                    .is_none_or(|uid| meta.is_controlled_by(uid))
                && (!query.orphans || meta.controller().is_none())
                && indexes
                    .iter()
                    .all(|(path, value)| path.lookup(object).contains(&value.as_str()))
                && in_scope(&watches, object)
        };
        let names_kinds = query.kind == "*";
        let kinds = if names_kinds {
            self.store.kinds()
        } else {
            vec![query.kind.clone()]
        };
        let kinds = kinds.iter().filter(|kind| self.watches(kind).is_ok());
        let found = kinds
            .flat_map(|kind| self.store.of_kind(kind))
            .filter(matches);
        found
            .map(|object| {
                let projected = match projection {
                    Projection::Columns(columns) => return self.row(&query.kind, object, columns),
                    Projection::Fields(fields) => self.project(&query.kind, object, fields)?,
                    Projection::All => self.project::<String>(&query.kind, object, &[])?,
                };
                if !names_kinds {
                    return Ok(projected);
                }
                let mut named: Value = serde_json::from_slice(&projected).map_err(invalid)?;
                for field in ["apiVersion", "kind"] {
                    named[field] = object[field].clone();
                }
                Ok(named.to_string().into_bytes())
            })
            .collect()
    }

    fn index(&self, kind: &str, name: &str) -> Result<FieldPath, ApiError> {
        let all = self
            .description
            .iter()
            .flat_map(|description| &description.indexes);
        let index = { all }.find(|index| index.name == name && index.kind.to_string() == kind);
        let missing =
            || ApiError::invalid(format!("the plugin declares no index `{name}` over {kind}"));
        index.ok_or_else(missing)?.path.parse().map_err(invalid)
    }

    fn live_of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let cached = self
            .store
            .of_kind(kind)
            .filter(|object| !self.live.contains_key(&Id::of_object(object)));
        let live = self
            .live
            .iter()
            .filter(move |(id, _)| id.kind == kind)
            .filter_map(|(_, object)| object.as_ref());
        cached.chain(live)
    }
}

/// The remaining objects of a query's result, from when the query was run.
pub(super) struct Rest(pub(super) Vec<Vec<u8>>);

impl Cursor for Rest {
    /// Pages have at most three objects, so that longer lists in tests span several pages.
    fn next(self: Box<Self>, limit: u32) -> Result<Page, ApiError> {
        let mut objects = self.0;
        let limit = if limit == 0 { 3 } else { limit as usize };
        let rest = objects.split_off(limit.min(objects.len()));
        Ok(Page {
            items: [b"[".as_slice(), &objects.join(b",".as_slice()), b"]"].concat(),
            rest: (!rest.is_empty()).then(|| Box::new(Self(rest)) as Box<dyn Cursor>),
        })
    }
}

/// Whether the object is in the scope of one of the watches.
pub(super) fn in_scope(watches: &[Watch], object: &Value) -> bool {
    watches.iter().any(|watch| {
        let labels: LabelSelector = watch
            .label_selector
            .parse()
            .unwrap_or_else(|error| panic!("{error}"));
        let fields: FieldSelector = watch
            .field_selector
            .parse()
            .unwrap_or_else(|error| panic!("{error}"));
        let field = |path: &FieldPath| path.lookup(object).first().copied().unwrap_or_default();
        (watch.namespace.is_empty() || watch.namespace == text(object, "/metadata/namespace"))
            && labels.matches(&meta(object).labels)
            && fields.matches(field)
    })
}

pub(super) fn mask(fields: &[impl AsRef<str>]) -> Result<Mask, ApiError> {
    Mask::parse(fields).map_err(invalid)
}

/// Returns an object with these fields; the whole object if there are none.
fn reduced(object: &Value, fields: &[String]) -> Result<Vec<u8>, ApiError> {
    match fields {
        [] => Ok(object.to_string().into_bytes()),
        fields => prune(object, &mask(fields)?),
    }
}

pub(super) fn prune(object: &Value, mask: &Mask) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::new();
    mask.prune(object.to_string().as_bytes(), &mut out)
        .map_err(invalid)?;
    Ok(out)
}

pub(super) fn meta(object: &Value) -> Meta {
    serde_json::from_value(object["metadata"].clone()).expect("the metadata is valid")
}

pub(super) fn invalid(error: impl std::fmt::Display) -> ApiError {
    ApiError::invalid(error.to_string())
}
