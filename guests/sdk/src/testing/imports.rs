//! The fake cluster as the world's imports.

use std::time::Duration;

use flyball_types::description::{Permission, Watch};
use flyball_types::{
    ApiError, Catalogue, Columns, EventOptions, FieldPath, FieldSelector, LabelSelector, Mask,
    Projection, Query,
};
use serde_json::{Value, json};

use crate::controller::Key;
use crate::imports::{Cursor, Imports, MetricOperation, ObjectReference, Page, Read};
use crate::log::Level;
use crate::meta::Meta;
use crate::time::Time;
use crate::write::{Action, Batch, Propagation, Write};

use super::store::{DeleteOptions, Id, text};
use super::{Cluster, Enqueued, Event, Signed, State, Written, kind_of};

impl Imports for Cluster {
    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Option<Vec<u8>>, ApiError> {
        let state = self.state.borrow();
        let watches = state.watches(kind)?;
        let found = state
            .store
            .get(&Id::new(kind, namespace, name))
            .filter(|object| in_scope(&watches, object));
        found
            .map(|object| state.project(kind, object, fields))
            .transpose()
    }

    fn lister_list(
        &self,
        query: Query,
        projection: Projection,
        limit: u32,
    ) -> Result<Page, ApiError> {
        let state = self.state.borrow();
        if let Some(lister) = &state.lister {
            return Ok(lister(&query, &projection));
        }
        let objects = state.run(&query, &projection)?;
        Box::new(Rest(objects)).next(limit)
    }

    fn lister_count(&self, query: Query) -> Result<u32, ApiError> {
        let objects = self.state.borrow().run(&query, &Projection::All)?;
        Ok(objects.len() as u32)
    }

    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool {
        self.state.borrow().deleted.contains(object)
    }

    fn reader_run(&self, reads: Vec<Read>) -> Vec<Result<Vec<u8>, ApiError>> {
        let state = &mut *self.state.borrow_mut();
        reads.iter().map(|read| state.read(read)).collect()
    }

    fn discovery_kinds(&self) -> Result<Catalogue, ApiError> {
        let state = &mut *self.state.borrow_mut();
        if state
            .description
            .as_ref()
            .is_some_and(|description| !description.imports.contains("discovery"))
        {
            return Err(ApiError::denied("the plugin does not ask for `discovery`"));
        }
        state.fail_if_due("discover", "")?;
        Ok(state.catalogue.clone())
    }

    /// Rounds run to their end, as if concurrently; so does all, if the batch has neither slow start nor stop on error.
    fn writer_run(&self, batch: Batch) -> Vec<Result<Vec<u8>, ApiError>> {
        let state = &mut *self.state.borrow_mut();
        let initial = if batch.stop_on_error {
            Some(1)
        } else {
            batch.slow_start
        };
        // The end of the round that is running: 1, 3, 7, … writes with a slow start of 1.
        let mut end = initial.map_or(usize::MAX, |initial| initial.max(1) as usize);
        let mut results: Vec<Result<_, ApiError>> = Vec::new();
        let mut failed = false;
        for write in batch.writes {
            if results.len() == end {
                failed = results.iter().any(Result::is_err);
                end = if batch.stop_on_error {
                    end + 1
                } else {
                    2 * end + initial.map_or(0, |one| one.max(1) as usize)
                };
            }
            results.push(if failed {
                Err(ApiError::skipped())
            } else {
                state.write(write)
            });
        }
        results
    }

    fn events_emit(
        &self,
        about: &ObjectReference,
        event_type: &str,
        reason: &str,
        message: &str,
        options: &EventOptions,
    ) {
        let event = Event {
            about: about.clone(),
            event_type: event_type.into(),
            reason: reason.into(),
            message: message.into(),
            options: options.clone(),
        };
        self.state.borrow_mut().events.push(event);
    }

    fn queue_add(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.queue_add_after(queue, key, 0)
    }

    fn queue_add_after(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError> {
        let delay = Duration::from_millis(delay_ms.into());
        self.state.borrow_mut().enqueued.push(Enqueued {
            queue: queue.into(),
            key: key.into(),
            delay,
        });
        Ok(())
    }

    fn queue_forget(&self, _: &str, _: &str) -> Result<(), ApiError> {
        Ok(())
    }

    fn queue_requeues(&self, _: &str, _: &str) -> Result<u32, ApiError> {
        Ok(0)
    }

    fn clock_now(&self) -> Time {
        self.state.borrow().store.now
    }

    /// The same bytes in each run (xorshift).
    fn random_bytes(&self, count: u32) -> Vec<u8> {
        let state = &mut *self.state.borrow_mut();
        let mut next = || {
            for shift in [13, -7, 17_i32] {
                let shifted = if shift > 0 {
                    state.random << shift
                } else {
                    state.random >> -shift
                };
                state.random ^= shifted;
            }
            (state.random >> 32) as u8
        };
        (0..count).map(|_| next()).collect()
    }

    fn log_write(&self, level: Level, message: &str, _: &[(String, String)]) {
        self.state.borrow_mut().logs.push((level, message.into()));
    }

    fn log_enabled(&self, _: Level) -> bool {
        true
    }

    fn metrics(&self, operation: MetricOperation, name: &str, labels: &[&str], value: f64) {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.state
            .borrow_mut()
            .metrics
            .push((operation, name.into(), labels, value));
    }

    fn config_get(&self, key: &str) -> Option<String> {
        let state = self.state.borrow();
        let default = || state.description.as_ref()?.config.get(key)?.default.clone();
        state.config.get(key).cloned().or_else(default)
    }

    fn memo_get(&self, key: &str) -> Option<(Vec<u8>, u32)> {
        self.state.borrow().memo.get(key).cloned()
    }

    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: &[u8],
        _: &str,
        _: u32,
    ) -> Result<u32, ApiError> {
        let memo = &mut self.state.borrow_mut().memo;
        let version = memo.get(key).map_or(0, |(_, version)| *version);
        if version != expected {
            return Err(ApiError::conflict("the entry has changed"));
        }
        memo.insert(key.into(), (value.to_vec(), version + 1));
        Ok(version + 1)
    }

    fn memo_remove(&self, key: &str) {
        self.state.borrow_mut().memo.remove(key);
    }

    fn signer_sign_jwt(&self, key: &str, claims: &[u8]) -> Result<String, ApiError> {
        let state = &mut *self.state.borrow_mut();
        state.admit_key(key)?;
        let claims = serde_json::from_slice(claims)
            .map(Value::Object)
            .map_err(invalid)?;
        let token = format!("toy.{key}.{}", state.signed.len());
        state.signed.push(Signed {
            key: key.into(),
            claims,
            token: token.clone(),
        });
        Ok(token)
    }

    fn signer_verify_jwt(&self, key: &str, token: &str) -> Result<Vec<u8>, ApiError> {
        let state = self.state.borrow();
        state.admit_key(key)?;
        let known = state
            .signed
            .iter()
            .find(|signed| signed.key == key && signed.token == token);
        let other =
            || ApiError::unauthorized(format!("the token was not signed by the key `{key}`"));
        known
            .map(|signed| signed.claims.to_string().into_bytes())
            .ok_or_else(other)
    }
}

/// Signing.
impl State {
    /// Whether the plugin asks for the signer, and the key is there.
    fn admit_key(&self, key: &str) -> Result<(), ApiError> {
        if self
            .description
            .as_ref()
            .is_some_and(|description| !description.imports.contains("signer"))
        {
            return Err(ApiError::denied(
                "the plugin does not ask for the import `signer`",
            ));
        }
        let missing = || ApiError::not_found(format!("the host holds no key named `{key}`"));
        self.keys
            .iter()
            .any(|known| known == key)
            .then_some(())
            .ok_or_else(missing)
    }
}

/// Reads.
impl State {
    fn read(&mut self, read: &Read) -> Result<Vec<u8>, ApiError> {
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
            Read::Raw { path } => {
                let missing = || {
                    let message = "the server could not find the requested resource";
                    ApiError::of_server(404, "NotFound", message)
                };
                let answer = self.raw.get(path).ok_or_else(missing)?;
                Ok(answer.to_string().into_bytes())
            }
        }
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
        self.admit("get", kind, "")?;
        let found = self
            .live
            .get(&id)
            .map_or_else(|| self.store.get(&id), Option::as_ref);
        let missing = || ApiError::of_server(404, "NotFound", format!("{kind} {name:?} not found"));
        prune(found.ok_or_else(missing)?, &mask(fields)?)
    }

    fn live_list(
        &mut self,
        kind: &str,
        namespace: &str,
        parameters: &[(String, String)],
        fields: &[String],
    ) -> Result<Vec<u8>, ApiError> {
        self.live_reads.push(format!("list {kind} {namespace}"));
        self.admit("list", kind, "")?;
        let parameter = |name: &str| {
            parameters
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.as_str())
                .unwrap_or_default()
        };
        let labels: LabelSelector = parameter("labelSelector").parse().map_err(invalid)?;
        let selector: FieldSelector = parameter("fieldSelector").parse().map_err(invalid)?;
        let mask = mask(fields)?;
        let mut items = Vec::new();
        for object in self.live_of_kind(kind) {
            let field = |path: &FieldPath| path.lookup(object).first().copied().unwrap_or_default();
            if (namespace.is_empty() || text(object, "/metadata/namespace") == namespace)
                && labels.matches(&meta(object).labels)
                && selector.matches(field)
            {
                items.push(
                    serde_json::from_slice::<Value>(&prune(object, &mask)?).map_err(invalid)?,
                );
            }
        }
        // A token says how many objects came before, in a list that is not kept: nothing may change between two pages.
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
        let list = json!({"metadata": {"resourceVersion": "1", "continue": token}, "items": page});
        Ok(list.to_string().into_bytes())
    }

    /// The plugin's watches of a kind; all that there is, if there is no plugin.
    fn watches(&self, kind: &str) -> Result<Vec<Watch>, ApiError> {
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

    /// What the plugin declared of an object, narrowed to fields. A field that it did not declare is `Denied`.
    fn project<T: AsRef<str>>(
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

    /// The row of an object. A column that the plugin did not declare is `Denied`.
    fn row(&self, kind: &str, object: &Value, columns: &[String]) -> Result<Vec<u8>, ApiError> {
        let columns = Columns::parse(columns).map_err(invalid)?;
        if !self.declared(kind)?.covers(columns.mask()) {
            return Err(ApiError::denied(format!(
                "the plugin does not declare all of these columns of {kind}"
            )));
        }
        let mut row = Vec::new();
        columns
            .row(&prune(object, columns.mask())?, &mut row)
            .map_err(invalid)?;
        Ok(row)
    }

    /// The fields of a kind that the plugin declared.
    fn declared(&self, kind: &str) -> Result<Mask, ApiError> {
        let mut declared = Mask::default();
        for watch in self.watches(kind)? {
            let metadata_only = watch.metadata_only && watch.discovered.is_none();
            declared.unite(&if metadata_only {
                Mask::metadata().clone()
            } else {
                Mask::default()
            });
            declared.unite(&Mask::parse(&watch.fields).map_err(invalid)?);
        }
        Ok(declared)
    }

    /// The objects or rows that a query matches.
    fn run(&self, query: &Query, projection: &Projection) -> Result<Vec<Vec<u8>>, ApiError> {
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

/// Writes.
impl State {
    fn write(&mut self, write: Write) -> Result<Vec<u8>, ApiError> {
        let Write {
            target,
            action,
            options,
            returns,
        } = write;
        let (verb, bytes) = match &action {
            Action::Create(object) => ("create", object.as_slice()),
            Action::Update(_, body) | Action::UpdateStatus { status: body, .. } => {
                ("update", body.as_slice())
            }
            Action::Patch(_, patch) => ("patch", patch.as_slice()),
            Action::Delete => ("delete", b"null".as_slice()),
            Action::DeleteCollection(..) => ("deletecollection", b"null".as_slice()),
        };
        let mut body: Value = serde_json::from_slice(bytes).map_err(invalid)?;
        if let Action::UpdateStatus { metadata, .. } = &action {
            body = json!({"status": body});
            if !metadata.is_empty() {
                body["metadata"] = serde_json::from_slice(metadata).map_err(invalid)?;
            }
        }
        let options = Value::Object(options);
        let mut id = Id::new(&target.kind, &target.namespace, &target.name);
        let subresource = subresource(&action, target.subresource)?;
        let result = self
            .admit(verb, &target.kind, &subresource)
            .and_then(|()| self.admit_base(&action, &target.kind))
            .and_then(|()| self.apply(&id, &subresource, &action, &body, &options));
        if let (Ok(object), true) = (&result, id.name.is_empty()) {
            id.name = text(object, "/metadata/name").into();
        }
        if id.name.is_empty() {
            id.name = text(&body, "/metadata/name").into();
        }
        self.writes.push(Written {
            verb: verb.into(),
            kind: id.kind,
            namespace: id.namespace,
            name: id.name,
            subresource,
            body,
            options,
            error: result.as_ref().err().cloned(),
        });
        let object = result?;
        if returns.is_empty() {
            Ok(Vec::new())
        } else {
            prune(&object, &mask(&returns)?)
        }
    }

    fn apply(
        &mut self,
        id: &Id,
        subresource: &str,
        action: &Action,
        body: &Value,
        options: &Value,
    ) -> Result<Value, ApiError> {
        match action {
            Action::Create(_) if subresource == "eviction" => {
                self.store.delete(id, &DeleteOptions::default())
            }
            Action::Create(_) if !subresource.is_empty() => Ok(body.clone()),
            Action::Create(_) => self.store.create(&id.kind, &id.namespace, body.clone()),
            Action::Update(version, _) => self.store.update(id, subresource, version, body),
            Action::UpdateStatus {
                resource_version, ..
            } => self.store.update_status(id, resource_version, body),
            Action::Patch(patch_type, _) => self.store.patch(id, subresource, *patch_type, body),
            Action::Delete => self.store.delete(id, &delete_options(options)),
            Action::DeleteCollection(labels, fields) => {
                let labels: LabelSelector = labels.parse().map_err(invalid)?;
                let selector: FieldSelector = fields.parse().map_err(invalid)?;
                let matches = |object: &&Value| {
                    let field =
                        |path: &FieldPath| path.lookup(object).first().copied().unwrap_or_default();
                    text(object, "/metadata/namespace") == id.namespace
                        && labels.matches(&meta(object).labels)
                        && selector.matches(field)
                };
                let ids: Vec<Id> = self
                    .store
                    .of_kind(&id.kind)
                    .filter(matches)
                    .map(Id::of_object)
                    .collect();
                let options = delete_options(options);
                ids.iter()
                    .try_for_each(|id| self.store.delete(id, &options).map(drop))?;
                Ok(json!({}))
            }
        }
    }

    /// Whether the whole object of an update can be had: from the cache, where the plugin declares enough of it, else by a
    /// `get`, which it must ask for.
    fn admit_base(&self, action: &Action, kind: &str) -> Result<(), ApiError> {
        let is_status = matches!(action, Action::UpdateStatus { .. });
        let (Action::Update(..) | Action::UpdateStatus { .. }, Some(description)) =
            (action, &self.description)
        else {
            return Ok(());
        };
        let is_enough = |watch: &Watch| {
            let mask = Mask::parse(&watch.fields).unwrap_or_default();
            watch
                .kind
                .as_ref()
                .is_some_and(|own| own.to_string() == kind)
                && (mask.is_whole() || is_status && mask.covers(Mask::metadata()))
        };
        let may_get = |permission: &Permission| {
            permission.kind.matches(&kind_of(kind))
                && permission.subresource.is_empty()
                && permission.verbs.contains("get")
        };
        if description.watches.iter().any(is_enough) || description.permissions.iter().any(may_get)
        {
            return Ok(());
        }
        Err(ApiError::denied(format!(
            "the plugin neither keeps all of {kind} that an update needs nor asks to get it"
        )))
    }

    /// Whether the plugin asks for this verb, and no failure is to be injected.
    fn admit(&mut self, verb: &str, kind: &str, subresource: &str) -> Result<(), ApiError> {
        let whole = if subresource.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}/{subresource}")
        };
        if let Some(description) = &self.description {
            let allowed = description.permissions.iter().any(|permission| {
                permission.kind.matches(&kind_of(kind))
                    && permission.subresource == subresource
                    && permission.verbs.contains(verb)
            });
            if !allowed {
                return Err(ApiError::denied(format!(
                    "the plugin does not ask to {verb} {whole}"
                )));
            }
        }
        self.fail_if_due(verb, &whole)
    }

    /// Whether no failure is to be injected.
    fn fail_if_due(&mut self, verb: &str, whole: &str) -> Result<(), ApiError> {
        let mut due = None;
        for (at, fault) in self
            .faults
            .iter_mut()
            .enumerate()
            .filter(|(_, fault)| fault.verb == verb && fault.kind == whole)
        {
            match fault.skip {
                0 => due = due.or(Some(at)),
                _ => fault.skip -= 1,
            }
        }
        due.map_or(Ok(()), |at| Err(self.faults.remove(at).error))
    }
}

/// The objects that matched and are not yet returned, as they were when the query was run.
struct Rest(Vec<Vec<u8>>);

impl Cursor for Rest {
    /// Pages of three at most, so that every list of a test that is longer crosses a page's end.
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

/// The subresource of a write.
fn subresource(action: &Action, target: String) -> Result<String, ApiError> {
    match action {
        Action::Update(..) if target == "status" => Err(ApiError::invalid(
            "`update` does not write a status: use `update-status`",
        )),
        Action::UpdateStatus { .. } if !target.is_empty() => Err(ApiError::invalid(format!(
            "`update-status` takes no subresource, and has `{target}`"
        ))),
        Action::UpdateStatus { .. } => Ok("status".into()),
        _ => Ok(target),
    }
}

/// Whether one of the watches sees the object.
fn in_scope(watches: &[Watch], object: &Value) -> bool {
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

fn delete_options(options: &Value) -> DeleteOptions {
    let precondition = |name| options["preconditions"][name].as_str().map(str::to_owned);
    DeleteOptions {
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
        grace_seconds: options["gracePeriodSeconds"].as_i64(),
        propagation: match options["propagationPolicy"].as_str() {
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            _ => None,
        },
    }
}

fn mask(fields: &[impl AsRef<str>]) -> Result<Mask, ApiError> {
    Mask::parse(fields).map_err(invalid)
}

fn prune(object: &Value, mask: &Mask) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::new();
    mask.prune(object.to_string().as_bytes(), &mut out)
        .map_err(invalid)?;
    Ok(out)
}

fn meta(object: &Value) -> Meta {
    serde_json::from_value(object["metadata"].clone()).expect("metadata is as the API has it")
}

fn invalid(error: impl std::fmt::Display) -> ApiError {
    ApiError::invalid(error.to_string())
}
